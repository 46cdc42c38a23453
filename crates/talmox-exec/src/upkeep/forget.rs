//! Removing what is left of a node that is gone: a member of etcd that will not come back, and its object in Kubernetes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_talos::Member;
use talmox_types::NodeName;

use super::members;
use crate::gate::peers;
use crate::machine::{Probe, looking, probe};
use crate::work::{End, Result, Work};
use crate::{Reach, StepError};

pub(super) async fn run(
    work: &Work<'_>,
    node: &NodeName,
    address: Option<IpAddr>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result {
    let reach = work.reach()?;
    is_silent(reach, node, address).await?;
    let member = remove_member(reach, node, address, control_planes).await?;
    let object = delete_object(reach, node, control_planes).await?;
    Ok(if member || object { End::Changed } else { End::Unchanged })
}

/// A node that still answers with the cluster's certificates is not gone, whatever anybody says.
async fn is_silent(reach: &Reach<'_>, node: &NodeName, address: Option<IpAddr>) -> Result<()> {
    let Some(address) = address else { return Ok(()) };
    match probe(reach, address, None).await {
        Probe::Configured(_) => Err(StepError::HandOver {
            doing: format!("forget {node}"),
            reason: format!("it still answers at {address}, so it is not gone"),
        }),
        Probe::Unreachable { .. } | Probe::Maintenance { .. } | Probe::Stranger { .. } => Ok(()),
    }
}

/// Numbers of members are read anew: one of before may belong to nobody, or to somebody else.
async fn remove_member(
    reach: &Reach<'_>,
    node: &NodeName,
    address: Option<IpAddr>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result<bool> {
    let answer = members::ask(reach, control_planes).await?;
    let found = members::of_node(&answer.members, node, address);
    for member in &found {
        is_dead(reach, node, member).await?;
        match answer.client.etcd_remove(member.id).await {
            Ok(()) => {}
            Err(error) if error.kind() == talmox_talos::Kind::NotFound => {}
            Err(error) => {
                let doing = format!("remove {node} (member {}) from etcd", member.id);
                return Err(StepError::machine(doing)(error));
            }
        }
    }
    if found.is_empty() {
        return Ok(false);
    }
    let left = members::ask(reach, control_planes).await?.members;
    if members::of_node(&left, node, address).is_empty() {
        return Ok(true);
    }
    Err(StepError::Changed { what: format!("the list of etcd's members, which has {node} again,") })
}

/// A member that answers as itself where the others have it is not gone either: of a node that is not described nobody else knows
/// where it was.
async fn is_dead(reach: &Reach<'_>, node: &NodeName, member: &Member) -> Result<()> {
    for address in peers(member) {
        let Some(client) = reach.secure(address) else { continue };
        let health = client.with_deadlines(looking()).etcd_health().await;
        if health.is_ok_and(|health| health.id == member.id) {
            return Err(StepError::HandOver {
                doing: format!("forget {node}"),
                reason: format!("its member of etcd still answers at {address}, so it is not gone"),
            });
        }
    }
    Ok(())
}

/// Only the object that was read is deleted: a node of the same name may have joined since.
async fn delete_object(
    reach: &Reach<'_>,
    node: &NodeName,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result<bool> {
    let mut last = None;
    for client in reach.kubernetes_at(control_planes.values().copied()) {
        let seen = match client.node(node.as_str()).await {
            Ok(seen) => seen,
            Err(error) if error.kind() == talmox_k8s::Kind::NotFound => return Ok(false),
            Err(error) => {
                last = Some(error);
                continue;
            }
        };
        match client.delete_node(node.as_str(), Some(&seen.metadata.uid)).await {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == talmox_k8s::Kind::NotFound => return Ok(true),
            Err(error) if error.kind() == talmox_k8s::Kind::Conflict => {
                return Err(StepError::Changed { what: format!("the node {node} of Kubernetes") });
            }
            Err(error) => last = Some(error),
        }
    }
    let reason = last.map_or_else(|| "Kubernetes cannot be reached".to_owned(), |error| error.to_string());
    Err(StepError::HandOver { doing: format!("remove {node} from Kubernetes"), reason })
}
