//! Taking a snapshot of etcd before what is risky.
//!
//! ```text
//!  a healthy member ── pieces ──▶ the place, under another name ── whole? ──▶ kept
//!                                                    └── no ──▶ nothing is left of it, and nothing risky begins
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_types::NodeName;

use crate::StepError;
use crate::etcd::{SnapshotError, choose, look, take};
use crate::work::{End, Result, Work};

/// One that this run has kept is good for so long: rounds that follow each other need no snapshot each.
const FRESH: Duration = Duration::from_mins(30);

pub(super) async fn run(work: &Work<'_>, control_planes: &BTreeMap<NodeName, IpAddr>) -> Result {
    let reach = work.reach()?;
    let now = reach.clock.now();
    let is_fresh = |taken: u64| now.saturating_sub(taken) < FRESH.as_secs();
    if reach.machines.last_snapshot().is_some_and(is_fresh) {
        return Ok(End::Unchanged);
    }
    let failed = |reason: String| StepError::Etcd { doing: "take a snapshot of etcd".to_owned(), reason };
    let etcd = look(reach, control_planes).await;
    let node = choose(&etcd, false).ok_or_else(|| {
        failed("no member is healthy; --no-snapshot does without, if there is another way back".to_owned())
    })?;
    let client = control_planes.get(node).and_then(|address| reach.secure(*address));
    let client = client.ok_or(StepError::NoReach { lacks: "the cluster's secrets are not at hand" })?;
    let unkept = |reason| StepError::Unkept { reason };
    let mut sink = reach.machines.snapshot_sink().map_err(unkept)?;
    match take(&client, &mut |piece| sink.write(piece)).await {
        Ok(_) => {}
        Err(SnapshotError::Place(reason)) => return Err(unkept(reason)),
        Err(error @ (SnapshotError::Call(_) | SnapshotError::Broken(_))) => return Err(failed(told(&error))),
    }
    sink.keep().map_err(unkept)?;
    Ok(End::Changed)
}

fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", told(source)),
        None => error.to_string(),
    }
}
