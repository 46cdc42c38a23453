//! What etcd says before a control plane goes down.

use std::time::Duration;

use talmox_plan::{Goal, Request, Step, Until};
use talmox_sim_talos::{Hardware, MachineId};
use talmox_test::{host, vmid};
use talmox_types::desired::Role;

use crate::gate::bed::{Bed, described, healthy, until};

const MORE_MEMORY: &str = "proxmox_vm_controller_defaults: {memory: 6144}";

/// Which VMs were restarted, in order.
fn restarts(bed: &Bed) -> Vec<String> {
    let calls = bed.lab.calls();
    let asked = calls.asking("POST", "/status/reboot");
    asked.map(|call| call.path.split('/').nth(4).unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn control_planes_restart_one_after_the_other_without_their_pods() {
    let mut bed = Bed::new(41, described(3, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(3, 1, MORE_MEMORY);
    let plan = bed.plan(&healthy()).await;
    let words: Vec<&str> = plan.steps.iter().map(|planned| planned.step.word()).collect();
    assert_eq!(words[..4], ["configure", "drain", "reboot", "return"], "{words:?}");
    bed.converge(&healthy(), 2)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    // Who led when it began goes last.
    assert_eq!(restarts(&bed), ["2001", "2002", "2000"]);
    let told = bed.told.lines();
    let at =
        |line: &str| told.iter().position(|told| told == line).unwrap_or_else(|| panic!("{line}: {told:#?}"));
    assert!(at("cp-1/drain done") < at("cp-1/reboot begins"));
    assert!(at("cp-1/reboot done") < at("cp-1/return done"));
    assert!(at("cp-2/return done") < at("cp-3/drain begins"));
    assert!(at("cp-3/return done") < at("cp-1/drain begins"));
    assert_eq!(bed.cordoned().await, Vec::<String>::new());
    bed.is_healthy().await;
    assert!(bed.plan(&healthy()).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_down_while_another_member_is_not_well() {
    let mut bed = Bed::new(42, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(3, 0, "proxmox_vm_controller_defaults: {memory: 6144}");
    // Its data is gone; the others still count it among them.
    bed.lab.nodes(|nodes| nodes.lose_etcd(MachineId(2002)));
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("not allowed to take cp-2 down: cp-3 is not well"), "{error}");
    assert_eq!(restarts(&bed), Vec::<String>::new());
    assert_eq!(bed.cordoned().await, Vec::<String>::new());
    let waited = bed.told.lines();
    let waits = |line: &&String| line.starts_with("cp-2/drain waits for etcd to do without cp-2: cp-3");
    assert!(waited.iter().filter(waits).count() > 10, "{waited:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_in_time_is_waited_for() {
    let mut bed = Bed::new(43, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(3, 0, MORE_MEMORY);
    // Somebody else restarts a member just before.
    let client = bed.lab.root();
    let host = talmox_test::host(1);
    client.stop_vm(&host, talmox_test::vmid(2002), false).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let task = client.start_vm(&host, talmox_test::vmid(2002)).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    bed.converge(&healthy(), 2)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(restarts(&bed).len(), 3);
    assert_eq!(bed.cordoned().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_only_control_plane_restarts_because_the_plan_says_so() {
    let mut bed = Bed::new(44, described(1, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(1, 0, MORE_MEMORY);
    let plan = bed.plan(&healthy()).await;
    assert!(plan.steps.iter().all(|planned| planned.step.word() != "drain"), "its pods have nowhere to go");
    bed.converge(&healthy(), 2).await.unwrap();
    assert_eq!(restarts(&bed), ["2000"]);
    bed.settles().await;
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn the_only_member_is_not_replaced() {
    let bed = Bed::new(45, described(1, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    let request = talmox_plan::Request { replace: ["cp-1".parse().unwrap()].into(), ..healthy() };
    let error = bed.converge(&request, 2).await.unwrap_err();
    assert!(error.contains("the cluster's data would go with it"), "{error}");
    assert!(bed.lab.calls().asking("DELETE", "/qemu/2000").next().is_none());
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn two_members_cannot_spare_one() {
    let mut bed = Bed::new(46, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    // The description knows two, etcd has three: two are well.
    bed.desired = described(3, 0, MORE_MEMORY);
    let client = bed.lab.root();
    client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2001), false).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    let mut request = healthy();
    request.targets = ["cp-1".parse().unwrap()].into();
    let error = bed.converge(&request, 2).await.unwrap_err();
    assert!(error.contains("cp-2 is not well: its VM does not run"), "{error}");
    assert_eq!(restarts(&bed), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn workers_restart_so_many_at_a_time() {
    let mut bed = Bed::new(47, described(1, 4, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(1, 4, "proxmox_vm_worker_defaults: {memory: 6144}");
    let mut request = healthy();
    request.upkeep.max_unavailable = std::num::NonZeroUsize::new(2);
    bed.converge(&request, 2)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    let (mut away, mut most) = (0_usize, 0);
    for line in bed.told.lines() {
        if line.ends_with("/drain begins") {
            away += 1;
        } else if line.ends_with("/return done") {
            away -= 1;
        }
        most = most.max(away);
    }
    assert_eq!(most, 2, "{:#?}", bed.told.lines());
    assert_eq!(restarts(&bed).len(), 4);
    assert!(bed.plan(&healthy()).await.steps.iter().all(|planned| planned.step == Step::AwaitHealth));
}

#[tokio::test(start_paused = true)]
async fn control_planes_that_are_described_as_workers_keep_their_votes() {
    let mut bed = Bed::new(48, described(3, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    // One is left, which is a valid number, and workers go two at a time.
    bed.desired = described(3, 1, "proxmox_vm_worker_defaults: {memory: 6144}");
    for node in &mut bed.desired.nodes[1..3] {
        node.role = talmox_types::desired::Role::Worker;
    }
    let mut request = healthy();
    request.upkeep.max_unavailable = std::num::NonZeroUsize::new(2);
    let error = bed.converge(&request, 2).await.unwrap_err();
    assert!(error.contains("its vote in etcd would be lost"), "{error}");
    assert_eq!(bed.accepted("/Reboot") + restarts(&bed).len(), 0);
    assert_eq!(bed.accepted("ApplyConfiguration"), 4, "nobody was given another role");
    assert!(bed.etcd().await.has_quorum());
}

/// Three control planes and a worker live, and two of them are described as workers now.
async fn demoted(seed: u64) -> Bed {
    let mut bed = Bed::new(seed, described(3, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    for node in &mut bed.desired.nodes[1..3] {
        node.role = Role::Worker;
    }
    bed
}

/// How many VMs were stopped or removed.
fn taken_down(bed: &Bed) -> usize {
    let calls = bed.lab.calls();
    let stops = ["/status/stop", "/status/shutdown", "/status/reboot"];
    let stopped: usize = stops.iter().map(|path| calls.asking("POST", path).count()).sum();
    stopped + calls.asking("DELETE", "/qemu/").count()
}

fn destroying(nodes: &[&str]) -> Request {
    let targets = nodes.iter().map(|node| node.parse().unwrap()).collect();
    Request { goal: Goal::Destroy, targets, ..Request::default() }
}

/// No plan of these looks inside, so the gate is all there is.
#[tokio::test(start_paused = true)]
async fn a_vote_that_the_description_calls_a_worker_is_not_destroyed() {
    let mut bed = demoted(49).await;
    let replace = ["cp-2", "cp-3"].map(|node| node.parse().unwrap()).into();
    let replace = Request { replace, ..until(Until::Vms) };
    for request in [destroying(&["cp-2", "cp-3"]), replace] {
        let begun = tokio::time::Instant::now();
        let stopped = bed.attempt(&request, 2).await.unwrap_err();
        assert!(stopped.words.contains("it is described as a worker"), "{}", stopped.words);
        assert!(stopped.hints.iter().any(|hint| hint.contains("controller: true")), "{:?}", stopped.hints);
        assert!(begun.elapsed() < Duration::from_mins(2), "{:?}", begun.elapsed());
        assert_eq!(taken_down(&bed), 0);
    }
    // The only one that is described as a control plane is not the only one.
    let stopped = bed.attempt(&destroying(&["cp-1"]), 2).await.unwrap_err();
    assert!(stopped.words.contains("others stay (cp-2, cp-3)"), "{}", stopped.words);
    assert_eq!(taken_down(&bed), 0);
    bed.desired = described(3, 1, "");
    bed.is_healthy().await;
}

/// Nor is one whose machine does not answer: the others list it.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_off_is_no_worker_either() {
    let bed = demoted(50).await;
    let client = bed.lab.root();
    let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2002), false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    let before = taken_down(&bed);
    let stopped = bed.attempt(&destroying(&["cp-3"]), 2).await.unwrap_err();
    assert!(stopped.words.contains("the members of etcd list it"), "{}", stopped.words);
    assert_eq!(taken_down(&bed), before);
}

/// A worker says itself that it is one: nobody has to wait for members that are away.
#[tokio::test(start_paused = true)]
async fn a_worker_goes_whatever_became_of_etcd() {
    let mut bed = Bed::new(51, described(3, 2, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    let client = bed.lab.root();
    for vmid in [2000, 2001, 2002] {
        let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(vmid), false).await.unwrap();
        bed.lab.done(&client, &task).await.unwrap();
    }
    bed.desired = described(3, 2, "proxmox_vm_worker_defaults: {memory: 6144}");
    let mut request = until(Until::Vms);
    request.targets = ["worker-1".parse().unwrap()].into();
    let begun = tokio::time::Instant::now();
    bed.converge(&request, 2).await.unwrap();
    assert_eq!(restarts(&bed), ["2003"]);
    bed.converge(&destroying(&["worker-1"]), 3).await.unwrap();
    assert!(begun.elapsed() < Duration::from_mins(5), "{:?}", begun.elapsed());
    // One that does not answer either is left to whoever watches, who lets everything pass here.
    let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2004), false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    let begun = tokio::time::Instant::now();
    bed.converge(&destroying(&["worker-2"]), 4).await.unwrap();
    assert!(begun.elapsed() < Duration::from_mins(2), "{:?}", begun.elapsed());
}

/// All control planes and none of the workers: no member stays that could miss another.
#[tokio::test(start_paused = true)]
async fn all_control_planes_may_be_destroyed_together() {
    let bed = Bed::new(52, described(3, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    let begun = tokio::time::Instant::now();
    bed.converge(&destroying(&["cp-1", "cp-2", "cp-3"]), 2).await.unwrap();
    assert!(begun.elapsed() < Duration::from_mins(5), "{:?}", begun.elapsed());
}

/// A machine that takes the address of a member over and knows the uuid of its VM looks like one without data. The mark knows better.
#[tokio::test(start_paused = true)]
async fn a_machine_in_the_place_of_a_member_does_not_speak_for_it() {
    let mut bed = Bed::new(49, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(3, 0, MORE_MEMORY);
    let plan = bed.plan(&healthy()).await;
    let config = bed.lab.root().vm_config(&host(1), vmid(2001)).await.unwrap();
    let uuid = config.smbios().unwrap().unwrap().uuid.unwrap().to_lowercase();
    let address = "10.0.7.12".parse().unwrap();
    bed.lab.nodes(|nodes| {
        for member in [2000, 2002] {
            nodes.power_off(MachineId(member));
        }
        nodes.power_on(Hardware { uuid, ..Hardware::stranger(MachineId(1), address) });
    });
    tokio::time::sleep(Duration::from_mins(1)).await;
    let error = bed.carry_out(&plan, &healthy(), 2).await.unwrap_err();
    assert!(error.contains("a machine in maintenance mode is at its address"), "{error}");
    assert_eq!(restarts(&bed), Vec::<String>::new());
}
