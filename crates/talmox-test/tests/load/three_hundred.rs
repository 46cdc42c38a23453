//! Three hundred VMs, against the least time they can take.

use talmox_exec::Limits;

use crate::bed::{Bed, NodeSpec, description};

const VMS: usize = 300;
/// How many times the lower bound a run may take. What is beyond it are looks: four requests under way to a host are as
/// many as its three API workers bear, and every VM is read before and after each change.
const MOST: f64 = 1.5;

#[tokio::test(start_paused = true)]
async fn first_run_is_near_the_lower_bound() {
    let bed = Bed::new(1);
    let nodes: Vec<NodeSpec> = (0..VMS).map(|_| NodeSpec { storage: "pool", from_template: true }).collect();
    let took = bed.run(&description(&nodes), Limits::default()).await;
    assert!(took.tasks.iter().all(|task| task.status == "OK"));
    let ratio = took.bound.ratio(took.time);
    println!(
        "{VMS} VMs on 3 hosts: {:.2} s simulated, {} requests, {} tasks; at least {:.2} s ({}): {ratio:.2} times",
        took.time.as_secs_f64(),
        took.requests,
        took.tasks.len(),
        took.bound.least().as_secs_f64(),
        took.bound
    );
    assert!(ratio <= MOST, "{ratio:.2} times the lower bound");
}
