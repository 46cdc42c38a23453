//! What comes and goes while nodes join is not taken for the end.

use std::time::Duration;

use talmox_plan::Until;
use talmox_sim_talos::Timing;

use crate::bringup::bed::{Bed, described, healthy, until};

/// Looks every other second, as somebody might who types `plan` just then: once there is nothing to do, there is nothing to do
/// ever after. With what was recorded of genuine machines, a control plane that joins is ready for half a minute before its
/// static pods are there and pending.
#[tokio::test(start_paused = true)]
async fn a_plan_that_is_empty_stays_empty_while_control_planes_join() {
    let bed = Bed::new(61, described(3, 0, ""));
    bed.lab.nodes(|nodes| nodes.timing = Timing::recorded());
    bed.converge(&until(Until::Bootstrapped), 1).await.unwrap();
    let mut emptied = None;
    for second in (0..600).step_by(2) {
        let plan = bed.plan(&healthy()).await;
        let empty = plan.is_empty() && plan.waiting.is_empty();
        match emptied {
            None if empty => emptied = Some(second),
            Some(since) => assert!(empty, "empty after {since} s, and after {second} s it is not: {plan:#?}"),
            None => {}
        }
        if emptied.is_some_and(|since| second > since + 60) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(emptied.is_some(), "it never gets there");
    bed.is_healthy().await;
}
