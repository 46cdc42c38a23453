//! Upgrades in which something goes wrong: the run says what, nobody follows, and the next run goes on. What people see of it is with
//! the command line (`commands/whole_runs`).

use std::time::Duration;

use futures_util::future::join;
use talmox_sim_talos::{CallFault, Trouble};

use crate::upgrade::bed::{Bed, STUBBORN};
use crate::upgrade::cluster::{
    NEW, OLD, behind, is_upgraded, living, machine, request, told, unwell, versions, watched, with_talos,
};

/// Versions by node, in the order of their names.
async fn runs(bed: &Bed) -> Vec<String> {
    let versions = versions(&bed.look(&request()).await);
    versions.into_values().map(|version| version.trim_start_matches('v').to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_in_the_middle_keeps_the_others_up() {
    let bed = behind(11, (3, 3)).await;
    bed.lab.nodes(|nodes| nodes.faults.trouble(machine(&bed, "cp-3"), Trouble::DiesInUpgrade));
    let error = watched(&bed, &request(), 2).await.unwrap_err();
    assert!(error.contains("cp-3: its VM went off in the middle of the upgrade"), "{error}\n{}", told(&bed));
    let left = runs(&bed).await;
    // `cp-1` leads etcd, and its turn would have come next.
    assert_eq!(left, [OLD, NEW, OLD, OLD, OLD], "nobody followed");
    // The next run starts its VM and goes on.
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_does_not_boot_is_fallen_back_from() {
    let bed = behind(12, (3, 3)).await;
    let broken = machine(&bed, "cp-3");
    bed.lab.nodes(|nodes| nodes.faults.trouble(broken, Trouble::BootFails(NEW.to_owned())));
    let error = watched(&bed, &request(), 2).await.unwrap_err();
    assert!(
        error.contains(&format!("cp-3: Talos {NEW} did not come up; it came back with {OLD}")),
        "{error}"
    );
    assert_eq!(runs(&bed).await, [OLD, NEW, OLD, OLD, OLD, OLD]);
    assert_eq!(unwell(&bed.look(&request()).await), Vec::<String>::new(), "it takes pods again");
    bed.lab.nodes(|nodes| nodes.faults.mend(broken));
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
}

/// Lets the new Talos of a node answer, and fail before it proved itself.
async fn answers_and_falls_back(bed: &Bed, node: &str) {
    let answers = format!("{node}/upgrade-node waits for it to be well");
    while !bed.told.lines().iter().any(|line| line.starts_with(&answers)) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let id = machine(bed, node);
    bed.lab.nodes(|nodes| {
        nodes.faults.trouble(id, Trouble::BootFails(NEW.to_owned()));
        nodes.reset(id);
    });
}

#[tokio::test(start_paused = true)]
async fn a_new_talos_that_answers_and_then_falls_back_is_no_upgrade() {
    let bed = behind(23, (3, 1)).await;
    let request = request();
    let (end, ()) = join(watched(&bed, &request, 2), answers_and_falls_back(&bed, "cp-2")).await;
    let error = end.unwrap_err();
    assert!(
        error.contains(&format!("cp-2: Talos {NEW} did not come up; it came back with {OLD}")),
        "{error}\n{}",
        told(&bed)
    );
    assert_eq!(runs(&bed).await, [OLD, OLD, OLD, OLD], "nobody followed");
    assert_eq!(bed.lab.calls().asking("CALL", "MachineService/Rollback").count(), 0);
    assert_eq!(unwell(&bed.look(&request).await), Vec::<String>::new(), "it takes pods again");
    bed.lab.nodes(|nodes| nodes.faults.mend(machine(&bed, "cp-2")));
    watched(&bed, &request, 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn other_extensions_that_do_not_boot_are_fallen_back_from_too() {
    let mut bed = living(22, (1, 1), "").await;
    let more = "schematic: {extensions: [siderolabs/qemu-guest-agent, siderolabs/iscsi-tools]}\n";
    bed.desired = with_talos(OLD, (1, 1), more);
    let schematic = talmox_image::Schematic::from(&bed.desired.talos.schematic).id().to_string();
    bed.lab.nodes(|nodes| nodes.faults.trouble(machine(&bed, "cp-1"), Trouble::BootFails(schematic)));
    let error = watched(&bed, &request(), 2).await.unwrap_err();
    assert!(error.contains("it came back with the image before"), "{error}\n{}", told(&bed));
    assert_eq!(bed.lab.calls().asking("CALL", "MachineService/Rollback").count(), 0);
    assert_eq!(unwell(&bed.look(&request()).await), Vec::<String>::new(), "it takes pods again");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_sick_with_the_new_talos_is_taken_back() {
    let bed = behind(13, (3, 1)).await;
    let sick = machine(&bed, "cp-3");
    bed.lab.nodes(|nodes| nodes.faults.trouble(sick, Trouble::Sick(NEW.to_owned())));
    let error = watched(&bed, &request(), 2).await.unwrap_err();
    assert!(error.contains(&format!("it was taken back to {OLD}")), "{error}\n{}", told(&bed));
    assert_eq!(runs(&bed).await, [OLD, NEW, OLD, OLD], "{error}\n{}", told(&bed));
    assert_eq!(unwell(&bed.look(&request()).await), Vec::<String>::new(), "it takes pods again");
    bed.lab.nodes(|nodes| nodes.faults.mend(sick));
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn an_installer_that_fails_changes_nothing() {
    let bed = behind(14, (1, 1)).await;
    let machine = machine(&bed, "cp-1");
    bed.lab.nodes(|nodes| nodes.faults.trouble(machine, Trouble::InstallerFails(3)));
    let error = watched(&bed, &request(), 2).await.unwrap_err();
    assert!(error.contains("was not installed: the installer ended with 3"), "{error}");
    assert_eq!(bed.accepted("MachineService/Reboot"), 0);
    assert_eq!(unwell(&bed.look(&request()).await), Vec::<String>::new());
    bed.lab.nodes(|nodes| nodes.faults.mend(machine));
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_nobody_has_is_said_before_anything_changes() {
    let bed = behind(15, (1, 0)).await;
    let plan = bed.plan(&request()).await;
    let image = plan.steps.iter().find_map(|step| {
        let talmox_plan::Step::Upkeep(talmox_plan::Upkeep::UpgradeNode { installer, .. }) = &step.step else {
            return None;
        };
        Some(installer.clone())
    });
    bed.lab.nodes(|nodes| nodes.missing_images.insert(image.unwrap()));
    let error = watched(&bed, &request(), 2).await.unwrap_err();
    assert!(error.contains("was not installed") && error.contains("not found"), "{error}");
    assert_eq!(unwell(&bed.look(&request()).await), Vec::<String>::new());
    assert_eq!(runs(&bed).await, [OLD]);
}

#[tokio::test(start_paused = true)]
async fn lost_replies_are_looked_into() {
    for (seed, path) in [
        (16, "/machine.ImageService/Pull"),
        (17, "/machine.LifecycleService/Upgrade"),
        (18, "/machine.MachineService/Reboot"),
    ] {
        let bed = behind(seed, (3, 3)).await;
        bed.lab.nodes(|nodes| nodes.faults.call(path, 1, 1, CallFault::LoseReply));
        watched(&bed, &request(), 2).await.unwrap_or_else(|error| panic!("{path}: {error}\n{}", told(&bed)));
        is_upgraded(&bed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_older_way_is_not_asked_again() {
    let old = "talos_version: 1.12.6\nkubernetes_version: 1.35.4\ntalos_contract: \"1.12\"\n";
    let mut bed = Bed::new(19, crate::upgrade::bed::described(1, 1, old));
    bed.converge(&crate::upgrade::bed::healthy(), 1).await.unwrap();
    bed.desired = crate::upgrade::bed::described(1, 1, &old.replace("1.12.6", NEW));
    bed.lab.nodes(|nodes| nodes.faults.call("/machine.MachineService/Upgrade", 1, 1, CallFault::LoseReply));
    watched(&bed, &request(), 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
    assert_eq!(bed.lab.calls().asking("CALL", "MachineService/Upgrade").count(), 2, "one for each node");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_never_yields_is_named_and_nobody_is_left_cordoned() {
    let more = "bootstrap_manifests: [stubborn.yaml]\n";
    let mut bed = Bed::new(20, with_talos(OLD, (3, 3), more));
    bed.handed.manifests.insert("stubborn.yaml".to_owned(), STUBBORN.to_owned());
    bed.converge(&crate::upgrade::bed::healthy(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed.desired = with_talos(NEW, (3, 3), more);
    let error = watched(&bed, &request(), 2).await.unwrap_err();
    assert!(error.contains("was not drained") && error.contains("stubborn"), "{error}\n{}", told(&bed));
    let observed = bed.look(&request()).await;
    assert_eq!(unwell(&observed), Vec::<String>::new());
    let left: Vec<String> = runs(&bed).await;
    assert_eq!(left[..3], [NEW, NEW, NEW], "control planes hold none of its pods");
    assert!(left[3..].contains(&OLD.to_owned()), "{left:?}");
}
