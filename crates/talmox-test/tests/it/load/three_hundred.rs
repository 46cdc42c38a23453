//! Three hundred VMs, against the least time they can take.

use talmox_exec::Limits;

use crate::load::bed::{Bed, NodeSpec, description};

const VMS: usize = 300;
/// How many times the lower bound a run may take.
const MOST: f64 = 1.15;
/// The same if only starts take turns. A turn is kept from the call that begins a start until its end was seen, which are
/// two round trips more than the start takes; and the first start is a second after the first clone.
const MOST_OF_STARTS: f64 = 1.35;

#[tokio::test(start_paused = true)]
async fn first_run_is_near_the_lower_bound() {
    let bed = Bed::new(1);
    let nodes: Vec<NodeSpec> = (0..VMS).map(|_| NodeSpec { storage: "pool", from_template: true }).collect();
    let took = bed.run(&description(&nodes), Limits::default()).await;
    assert!(took.tasks.iter().all(|task| task.status == "OK"));
    let ratio = took.bound.ratio(took.time);
    let of_starts = took.time.as_secs_f64() / took.bound.least_of_starts().as_secs_f64();
    println!(
        "{VMS} VMs on 3 hosts: {:.2} s simulated, {} requests, {} tasks; at least {:.2} s ({}): {ratio:.2} times, and \
         {of_starts:.2} times what starts take",
        took.time.as_secs_f64(),
        took.requests,
        took.tasks.len(),
        took.bound.least().as_secs_f64(),
        took.bound
    );
    assert!(ratio <= MOST, "{ratio:.2} times the lower bound");
    assert!(of_starts <= MOST_OF_STARTS, "{of_starts:.2} times what starts take");
}
