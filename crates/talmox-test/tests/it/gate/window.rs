//! A maintenance window that ends while somebody is waited for.

use std::time::Duration;

use futures_util::future::join;
use talmox_plan::{Request, Window};
use talmox_sim_talos::{CallFault, Code, Faults};

use crate::gate::bed::{Bed, described, healthy};

/// Seconds until the window ends, and until the member that nobody can do without is well again.
const CLOSES: u64 = 120;
const WELL_AGAIN: u64 = 300;

/// What is asked for while the window is open for so long.
fn tonight(bed: &Bed, seconds: u64) -> Request {
    let end = bed.now() + seconds;
    let (days, of_day) = (end / 86_400, end % 86_400);
    // The lab's clock is in January 2026.
    let day = days - 20_454 + 1;
    let text = format!("2026-01-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day % 3600 / 60, of_day % 60);
    let mut request = healthy();
    request.upkeep.window = Window { not_before: None, not_after: Some(text.parse().unwrap()) };
    request
}

fn restarts(bed: &Bed) -> usize {
    bed.lab.calls().asking("POST", "/status/reboot").count() + bed.accepted("/Reboot")
}

/// `cp-3` does not say how its etcd is.
fn unwell(bed: &Bed) {
    let address = "10.0.7.13".parse().unwrap();
    let answer = CallFault::answer(Code::Unavailable, "etcd is busy");
    bed.lab.nodes(|nodes| nodes.faults.call_to(address, "*EtcdStatus", 1, u64::MAX, answer));
}

async fn well_again(bed: &Bed) {
    tokio::time::sleep(Duration::from_secs(WELL_AGAIN)).await;
    bed.lab.nodes(|nodes| nodes.faults = Faults::default());
}

/// Nobody was taken down; what is left is done another time.
async fn is_left(bed: &Bed, request: &Request) {
    let begun = tokio::time::Instant::now();
    let work = async { (bed.converge(request, 2).await, begun.elapsed()) };
    let ((end, took), ()) = join(work, well_again(bed)).await;
    assert!(took < Duration::from_secs(WELL_AGAIN), "nobody is waited for beyond the window: {took:?}");
    let summary = end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert!(!summary.left.is_empty(), "what is left is said");
    assert_eq!(restarts(bed), 0, "{}", bed.told.lines().join("\n"));
    assert_eq!(bed.cordoned().await, Vec::<String>::new(), "and is open to pods");
    let told = bed.told.lines();
    assert!(told.iter().any(|line| line.contains("nothing is interrupted now")), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_window_that_ends_while_members_are_waited_for_leaves_the_node_up() {
    let mut bed = Bed::new(81, described(3, 1, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(3, 1, "proxmox_vm_controller_defaults: {memory: 6144}");
    unwell(&bed);
    is_left(&bed, &tonight(&bed, CLOSES)).await;
    bed.converge(&healthy(), 3).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(restarts(&bed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_its_pods_gets_them_back_when_the_window_ends_before_its_restart() {
    for with_config in [false, true] {
        let mut bed = Bed::new(82, described(3, 1, ""));
        bed.converge(&healthy(), 1).await.unwrap();
        bed.settles().await;
        if with_config {
            let text = "machine: {env: {GRPC_GO_LOG_SEVERITY_LEVEL: info}}".to_owned();
            bed.handed.patches = vec![talmox_render::PatchText { name: "patch.yaml".to_owned(), text }];
        } else {
            bed.desired = described(3, 1, "proxmox_vm_controller_defaults: {memory: 6144}");
        }
        let request = tonight(&bed, CLOSES);
        let after_the_drain = async {
            while !bed.told.lines().iter().any(|line| line.ends_with("/drain done")) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            unwell(&bed);
        };
        join(is_left(&bed, &request), after_the_drain).await;
        bed.converge(&healthy(), 3).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(restarts(&bed) >= 3);
    }
}
