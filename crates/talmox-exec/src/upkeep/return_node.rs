//! Waiting until a node is well again, and letting pods back.

use std::net::IpAddr;
use std::time::Duration;

use talmox_types::NodeName;
use talmox_types::sabotage::{Defect, sabotaged};
use tokio::time::Instant;

use super::kubernetes::Servers;
use super::well::{Patient, until_well};
use crate::work::{End, Result, Work};
use crate::{Event, StepError};

/// How long a node may take to be well again after whatever was done to it.
const LIMIT: Duration = Duration::from_mins(15);
const PAUSE: Duration = Duration::from_secs(3);
/// How long a node that is well may wait for Kubernetes to let pods back.
const OPEN_LIMIT: Duration = Duration::from_mins(3);

pub(super) async fn run(work: &Work<'_>, node: &NodeName, address: IpAddr) -> Result {
    let servers = Servers::of(work).await?;
    until_well(&Patient { work, node, address, servers: &servers }, LIMIT).await?;
    if sabotaged(Defect::UncordonForgotten) {
        return Ok(End::Unchanged);
    }
    let begun = Instant::now();
    loop {
        let reason = match open(&servers, node).await {
            Ok(end) => return Ok(end),
            Err(reason) => reason,
        };
        if begun.elapsed() > OPEN_LIMIT {
            let doing = format!("let pods back onto {node}");
            return Err(StepError::HandOver { doing, reason });
        }
        let (step, elapsed, limit) = (work.planned, begun.elapsed(), OPEN_LIMIT);
        work.event(Event::Waiting { step, name: "Kubernetes", detail: &reason, elapsed, limit });
        work.run.pace().sleep(PAUSE).await;
    }
}

/// Lets pods back if it was us who kept them off; what somebody else cordoned stays so.
async fn open(servers: &Servers, node: &NodeName) -> std::result::Result<End, String> {
    let (client, seen) = servers.node(node.as_str()).await?;
    if seen.is_none_or(|seen| seen.cordoned_for().is_none()) {
        return Ok(End::Unchanged);
    }
    client.uncordon(node.as_str()).await.map_err(|error| error.to_string())?;
    Ok(End::Changed)
}
