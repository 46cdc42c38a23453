//! Clusters of all sorts come up, and a second run finds nothing to do.

use talmox_plan::Until;

use crate::bed::{Bed, described, healthy, until};

/// Brings a cluster up and runs again.
async fn comes_up(bed: &Bed) {
    let summary = bed.converge(&healthy(), 1).await;
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    println!("{summary:?} after {} s", bed.lab.transport().now() / 1000);
}

#[tokio::test(start_paused = true)]
async fn a_single_node() {
    let bed = Bed::new(1, described(1, 0, ""));
    comes_up(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn three_and_two() {
    let bed = Bed::new(2, described(3, 2, ""));
    comes_up(&bed).await;
    let plan = bed.plan(&until(Until::Healthy)).await;
    assert!(plan.is_empty(), "{plan:#?}");
}
