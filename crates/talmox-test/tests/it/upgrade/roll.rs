//! Upgrades where nothing goes wrong.

use talmox_plan::{Request, UpkeepRequest};

use crate::upgrade::cluster::{
    NEW, behind, is_upgraded, living, machine, request, told, versions, watched, with_talos,
};

/// In which order nodes restarted.
fn restarts(lines: &[String]) -> Vec<&str> {
    let done = lines.iter().filter_map(|line| line.strip_suffix("/upgrade-node done"));
    done.collect()
}

#[tokio::test(start_paused = true)]
async fn three_and_three_roll_one_by_one() {
    let bed = behind(1, (3, 3)).await;
    let before = bed.told.lines().len();
    watched(&bed, &request(), 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    let lines = bed.told.lines().split_off(before);
    assert_eq!(restarts(&lines), ["cp-2", "cp-3", "cp-1", "worker-1", "worker-2", "worker-3"]);
    // Each is back before the next is drained.
    let steps: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_suffix(" done").or_else(|| line.strip_suffix(" begins")))
        .filter(|id| id.ends_with("/drain") || id.ends_with("/return"))
        .collect();
    for (node, next) in [("cp-2", "cp-3"), ("cp-3", "cp-1"), ("cp-1", "worker-1"), ("worker-1", "worker-2")] {
        let back = steps.iter().rposition(|id| *id == format!("{node}/return")).unwrap();
        let drained = steps.iter().position(|id| *id == format!("{next}/drain")).unwrap();
        assert!(back < drained, "{next} was drained before {node} was back: {steps:#?}");
    }
    is_upgraded(&bed).await;
    assert_eq!(bed.accepted("LifecycleService/Upgrade"), 6, "each node installs once");
    assert_eq!(bed.accepted("MachineService/Reboot"), 6);
    let wrote = bed.converge(&request(), 3).await.unwrap().wrote;
    assert_eq!(wrote, 0, "a second run writes nothing");
}

#[tokio::test(start_paused = true)]
async fn other_extensions_roll_too() {
    let mut bed = living(2, (1, 1), "").await;
    bed.desired = with_talos(
        crate::upgrade::cluster::OLD,
        (1, 1),
        "schematic: {extensions: [siderolabs/qemu-guest-agent, siderolabs/iscsi-tools]}\n",
    );
    watched(&bed, &request(), 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
    let observed = bed.look(&request()).await;
    let seen = observed.talos.values().next().unwrap().configured().unwrap();
    assert!(seen.extensions.iter().any(|name| name.ends_with("iscsi-tools")), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_staged_upgrade_interrupts_nobody_until_it_is_asked_for() {
    let bed = behind(3, (3, 1)).await;
    let staged = Request { upkeep: UpkeepRequest { stage: true, ..request().upkeep }, ..request() };
    watched(&bed, &staged, 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    assert_eq!((bed.accepted("LifecycleService/Upgrade"), bed.accepted("MachineService/Reboot")), (4, 0));
    let plan = bed.plan(&staged).await;
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    assert!(plan.notes.iter().any(|note| note.text.contains("waits for a restart")), "{:#?}", plan.notes);
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
    assert_eq!(bed.accepted("LifecycleService/Upgrade"), 4, "what was installed is not installed again");
    assert_eq!(bed.accepted("MachineService/Reboot"), 4);
}

#[tokio::test(start_paused = true)]
async fn before_1_13_talos_does_it_by_itself() {
    let old = "talos_version: 1.12.6\nkubernetes_version: 1.35.4\ntalos_contract: \"1.12\"\n";
    let mut bed = crate::upgrade::bed::Bed::new(4, crate::upgrade::bed::described(3, 1, old));
    bed.converge(&crate::upgrade::bed::healthy(), 1).await.unwrap();
    let new = old.replace("1.12.6", NEW);
    bed.desired = crate::upgrade::bed::described(3, 1, &new);
    watched(&bed, &request(), 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
    assert_eq!(bed.accepted("MachineService/Upgrade"), 4);
    assert_eq!(bed.accepted("LifecycleService/Upgrade"), 0);
}

#[tokio::test(start_paused = true)]
async fn one_node_is_upgraded_if_one_is_asked_for() {
    let bed = behind(5, (1, 2)).await;
    let one = Request { targets: ["worker-2".parse().unwrap()].into(), ..request() };
    watched(&bed, &one, 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    let has = versions(&bed.look(&request()).await);
    assert_eq!(
        (has["cp-1"].as_str(), has["worker-1"].as_str(), has["worker-2"].as_str()),
        ("v1.13.6", "v1.13.6", "v1.13.9")
    );
    assert_eq!(machine(&bed, "worker-2").0, 2002);
}
