//! Talos upgraded on three control planes and three workers, and something goes wrong: what people see at every turn, what is
//! left, and that the next plain run finishes.

use insta::assert_snapshot;
use talmox_plan::Request;
use talmox_sim_talos::{CallFault, Trouble};
use talmox_test::bed::{Bed, STUBBORN, described, healthy, unwell, versions};
use talmox_types::desired::Desired;

use super::played::{apply, planned, status};

const OLD: &str = "1.13.6";
const NEW: &str = "1.13.9";
/// The second that is upgraded, because `cp-1` leads etcd: one has been before it, four nodes wait behind it.
const CP_3: &str = "10.0.7.13";
const CP_3_NAME: &str = "cp-3";

fn with_talos(version: &str, more: &str) -> Desired {
    let lines =
        format!("talos_version: {version}\nkubernetes_version: 1.36.3\ntalos_contract: \"1.13\"\n{more}");
    described(3, 3, &lines)
}

/// A cluster that lives with the old Talos, and shall have the new one.
async fn behind(seed: u64) -> Bed {
    let mut bed = Bed::new(seed, with_talos(OLD, ""));
    bed.converge(&healthy(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed.desired = with_talos(NEW, "");
    bed
}

/// What people ask for: `talmox apply`, nothing more.
fn plain() -> Request {
    Request { allow_reboot: false, ..healthy() }
}

/// Talos of each node in the order of their names.
async fn talos(bed: &Bed) -> Vec<String> {
    let versions = versions(&bed.look(&plain()).await);
    versions.into_values().map(|version| version.trim_start_matches('v').to_owned()).collect()
}

/// Members that are well, of how many.
async fn members(bed: &Bed) -> (usize, usize) {
    let etcd = bed.etcd().await;
    let well = etcd.nodes.values().filter(|one| one.is_ok()).count();
    (well, etcd.nodes.len())
}

/// The next plain run finishes: all have the new Talos, nobody is cordoned, etcd is whole, and nothing is left to do.
async fn is_finished_by(bed: &Bed, number: u32) -> String {
    let screen = apply(bed, &plain(), number).await.got_there();
    bed.is_upgraded(&plain()).await;
    assert_eq!(members(bed).await, (3, 3));
    screen
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_in_the_middle() {
    let bed = behind(11).await;
    let dying = bed.machine(CP_3);
    bed.lab.nodes(|nodes| nodes.faults.trouble(dying, Trouble::DiesInUpgrade));
    assert_snapshot!("dies_apply", apply(&bed, &plain(), 2).await.stopped_short());
    assert_snapshot!("dies_status", status(&bed).await);
    // It does not answer; nobody followed, and etcd goes on with two.
    assert_eq!(talos(&bed).await, [OLD, NEW, OLD, OLD, OLD]);
    assert_eq!(members(&bed).await, (2, 3));
    assert_snapshot!("dies_again", is_finished_by(&bed, 3).await);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_does_not_boot() {
    let bed = behind(12).await;
    let broken = bed.machine(CP_3);
    bed.lab.nodes(|nodes| nodes.faults.trouble(broken, Trouble::BootFails(NEW.to_owned())));
    assert_snapshot!("does_not_boot_apply", apply(&bed, &plain(), 2).await.stopped_short());
    assert_snapshot!("does_not_boot_status", status(&bed).await);
    assert_eq!(talos(&bed).await, [OLD, NEW, OLD, OLD, OLD, OLD]);
    assert_eq!(unwell(&bed.look(&plain()).await), Vec::<String>::new(), "it takes pods again");
    assert_eq!(members(&bed).await, (3, 3));
    bed.lab.nodes(|nodes| nodes.faults.mend(broken));
    assert_snapshot!("does_not_boot_again", is_finished_by(&bed, 3).await);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_never_yields() {
    let more = "bootstrap_manifests: [stubborn.yaml]\n";
    let mut bed = Bed::new(20, with_talos(OLD, more));
    bed.handed.manifests.insert("stubborn.yaml".to_owned(), STUBBORN.to_owned());
    bed.converge(&healthy(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed.desired = with_talos(NEW, more);
    assert_snapshot!("never_yields_apply", apply(&bed, &plain(), 2).await.stopped_short());
    assert_snapshot!("never_yields_status", status(&bed).await);
    let left = talos(&bed).await;
    assert_eq!(left[..3], [NEW, NEW, NEW], "control planes hold none of its pods");
    assert!(left[3..].contains(&OLD.to_owned()), "{left:?}");
    assert_eq!(unwell(&bed.look(&plain()).await), Vec::<String>::new(), "nobody is left cordoned");
    assert_eq!(members(&bed).await, (3, 3));
    // Whoever owns it lets one go.
    let wider = STUBBORN.replace("minAvailable: 2", "minAvailable: 1");
    let wider = talmox_k8s::Manifest::read_all(&wider).unwrap();
    let how = talmox_k8s::Apply { force: true, ..talmox_k8s::Apply::default() };
    bed.kubernetes_at("10.0.7.11").apply(&wider, how).await.unwrap();
    assert_snapshot!("never_yields_again", is_finished_by(&bed, 3).await);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply() {
    for (seed, path) in [
        (16, "/machine.ImageService/Pull"),
        (17, "/machine.LifecycleService/Upgrade"),
        (18, "/machine.MachineService/Reboot"),
    ] {
        let bed = behind(seed).await;
        bed.lab.nodes(|nodes| nodes.faults.call(path, 1, 1, CallFault::LoseReply));
        // Whoever looks hears of it by nothing but the time it took.
        let call = path.rsplit('/').next().unwrap_or_default().to_lowercase();
        assert_snapshot!(format!("lost_reply_of_{call}"), is_finished_by(&bed, 2).await);
        let asked = bed.lab.calls().asking("CALL", "MachineService/Reboot").count();
        assert_eq!(asked, 6, "{path}: nobody restarts twice");
        let status = status(&bed).await;
        assert!(status.contains("healthy · Talos 1.13.9") && !status.contains("cordoned"), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn memory_and_talos_with_one_restart() {
    let mut bed = Bed::new(21, with_talos(OLD, ""));
    bed.converge(&healthy(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed.desired = with_talos(NEW, "proxmox_vm_worker_defaults: {memory: 20480}\n");
    assert_snapshot!("with_memory", is_finished_by(&bed, 2).await);
    let restarts = |part| bed.lab.calls().asking("POST", part).count();
    assert_eq!((bed.accepted("MachineService/Reboot"), restarts("/status/reboot")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn one_node_alone() {
    let bed = behind(22).await;
    let request = Request { targets: [CP_3_NAME.parse().unwrap()].into(), ..plain() };
    assert_snapshot!("one_alone", planned(&bed, &request).await);
}

#[tokio::test(start_paused = true)]
async fn not_before_the_window_opens() {
    let bed = behind(23).await;
    let mut tonight = plain();
    tonight.upkeep.window.not_before = Some("2099-01-01T22:00:00Z".parse().unwrap());
    let screen = apply(&bed, &tonight, 2).await.screen;
    // What is not done needs no snapshot of etcd, and each would push an older one out.
    assert!(!screen.contains("took a snapshot"), "{screen}");
    assert_snapshot!("not_now", screen);
    assert!(is_finished_by(&bed, 3).await.contains("took a snapshot"));
}
