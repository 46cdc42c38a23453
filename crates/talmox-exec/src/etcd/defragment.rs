//! Giving back what the database does not use: one member after the other, the leader last.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::{Either, select};
use talmox_types::NodeName;
use tokio::time::Instant;

use super::{Etcd, look};
use crate::gate::ask::others_are_well;
use crate::lease::{self, Held, Lease, Need};
use crate::{Reach, StepError, Writer};

/// How long a member may take to be healthy again.
const LIMIT: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_secs(1);

/// A member that was defragmented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defragmented {
    pub node: NodeName,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// Why the next member was not defragmented. Those before it are.
#[derive(Debug, thiserror::Error)]
pub enum DefragmentError {
    #[error("{0}; while a member is defragmented, all others must be well")]
    NotHealthy(String),
    #[error("nobody else may work on the cluster while its members are defragmented")]
    NotAlone { source: StepError },
    #[error("{node} could not be defragmented")]
    Call { node: NodeName, source: talmox_talos::Error },
    #[error("{node} is not healthy {} s after it was defragmented; the others were left alone", LIMIT.as_secs())]
    NotBack { node: NodeName },
}

/// Defragments every member. While one is busy it answers nobody, so the others must be well before each, and it itself before
/// the next; and nobody else takes one down meanwhile. `done` is told of each.
pub async fn defragment(
    writer: Writer<'_>,
    reach: &Reach<'_>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    done: &mut (dyn FnMut(&Defragmented) + Send),
) -> Result<(), DefragmentError> {
    // An etcd that ran out of space takes no lease.
    let lease = lease::take(writer, reach, Need::WithoutKubernetes).await;
    let Some(lease) = lease.map_err(|source| DefragmentError::NotAlone { source })? else {
        return each(reach, control_planes, None, done).await;
    };
    let end = {
        let work = std::pin::pin!(each(reach, control_planes, Some(&lease), done));
        let kept = std::pin::pin!(lease.keep());
        match select(work, kept).await {
            Either::Left((end, _)) => end,
            Either::Right((never, _)) => match never {},
        }
    };
    lease.release().await;
    end
}

async fn each(
    reach: &Reach<'_>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    lease: Option<&Lease<'_>>,
    done: &mut (dyn FnMut(&Defragmented) + Send),
) -> Result<(), DefragmentError> {
    let mut left: Vec<&NodeName> = control_planes.keys().collect();
    while !left.is_empty() {
        let etcd = look(reach, control_planes).await;
        // Who leads may have changed since.
        let next = left.iter().position(|node| Some(*node) != etcd.leader()).unwrap_or(0);
        let node = left.remove(next);
        if let Some(lease) = lease {
            is_alone(lease).await?;
        }
        others_are_well(reach, control_planes, node).await.map_err(DefragmentError::NotHealthy)?;
        let one = one(reach, node, control_planes, &etcd).await?;
        done(&one);
    }
    Ok(())
}

/// Whether nobody has taken the lease since.
async fn is_alone(lease: &Lease<'_>) -> Result<(), DefragmentError> {
    match lease.confirm().await {
        Held::Ours => Ok(()),
        Held::Theirs { holder, seconds } => {
            Err(DefragmentError::NotAlone { source: StepError::Leased { holder, seconds } })
        }
        Held::Unknown { reason } => {
            let doing = "renew the lease".to_owned();
            Err(DefragmentError::NotAlone { source: StepError::HandOver { doing, reason } })
        }
    }
}

async fn one(
    reach: &Reach<'_>,
    node: &NodeName,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    before: &Etcd,
) -> Result<Defragmented, DefragmentError> {
    let size = |etcd: &Etcd| match etcd.nodes.get(node) {
        Some(Ok(health)) => health.database_bytes,
        Some(Err(_)) | None => 0,
    };
    let lost = || DefragmentError::NotHealthy(format!("{node} cannot be reached"));
    let client = control_planes.get(node).and_then(|address| reach.secure(*address)).ok_or_else(lost)?;
    client.etcd_defragment().await.map_err(|source| DefragmentError::Call { node: node.clone(), source })?;
    let begun = Instant::now();
    loop {
        let after = look(reach, control_planes).await;
        if after.is_healthy(node) {
            let (bytes_before, bytes_after) = (size(before), size(&after));
            return Ok(Defragmented { node: node.clone(), bytes_before, bytes_after });
        }
        if begun.elapsed() > LIMIT {
            return Err(DefragmentError::NotBack { node: node.clone() });
        }
        reach.pace.sleep(PAUSE).await;
    }
}
