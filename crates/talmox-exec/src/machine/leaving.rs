//! Machines of nodes that the description does not name any more and that are to go: they take their leave if they can.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures_util::future::{join_all, join3};
use talmox_plan::{Guest, Observed, Power, Request, SeenMachine, SeenNode, addresses, identify};
use talmox_talos::Client;
use talmox_types::desired::Desired;
use talmox_types::{NodeName, Phases};

use super::kubernetes::control_planes;
use super::{NOTHING_KNOWN, Probe, probe, seen_etcd, service, stage};
use crate::Reach;

/// Looks at those whose VM runs. Their address is in no description: the VM's own settings have it, or Kubernetes does.
pub(super) async fn look(
    reach: &Reach<'_>,
    desired: &Desired,
    observed: &Observed,
    request: &Request,
) -> BTreeMap<NodeName, SeenMachine> {
    let identities = identify(desired, observed);
    let declared = |node: &NodeName| desired.nodes.iter().any(|declared| declared.name == *node);
    let goes = |node: &NodeName| (request.prune || request.remove.contains(node)) && request.covers(node);
    let leaving = identities.ours().filter(|owned| !declared(&owned.mark.node) && goes(&owned.mark.node));
    let guests = leaving.filter_map(|owned| {
        let guest = observed.guests.get(&owned.mark.vmid).filter(|guest| guest.power == Power::Running)?;
        Some((owned.mark.node.clone(), guest))
    });
    let asked = guests.map(|(node, guest)| async move {
        let seen = one(reach, desired, observed, &node, guest).await?;
        Some((node, seen))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn one(
    reach: &Reach<'_>,
    desired: &Desired,
    observed: &Observed,
    node: &NodeName,
    guest: &Guest,
) -> Option<SeenMachine> {
    let seen = guest.seen()?;
    let address = match addresses(&seen.live).first() {
        Some(address) => *address,
        None => known_to_kubernetes(reach, desired, observed, node).await?,
    };
    let uuid = seen.live.smbios().ok().flatten().and_then(|smbios| smbios.uuid);
    Some(match probe(reach, address, uuid.as_deref()).await {
        Probe::Unreachable { reason } => SeenMachine::Unreachable { address, reason },
        Probe::Maintenance { uuid, version, fingerprint, client: _ } => {
            let fingerprint = fingerprint.map(|shown| shown.to_string());
            SeenMachine::Maintenance { address, uuid, version, fingerprint }
        }
        Probe::Stranger { why } => SeenMachine::Foreign { address, why },
        Probe::Configured(client) => match inside(&client).await {
            Ok(seen) => SeenMachine::Configured(Box::new(seen)),
            Err(error) => SeenMachine::Unreachable { address, reason: error.to_string() },
        },
    })
}

async fn known_to_kubernetes(
    reach: &Reach<'_>,
    desired: &Desired,
    observed: &Observed,
    node: &NodeName,
) -> Option<IpAddr> {
    for client in reach.kubernetes_at(control_planes(desired, observed).into_iter()) {
        if let Ok(object) = client.node(node.as_str()).await {
            return object.addresses().next();
        }
    }
    None
}

async fn inside(client: &Client) -> Result<SeenNode, talmox_talos::Error> {
    let (version, state, services) = join3(client.version(), client.machine_state(), client.services()).await;
    let (version, state, services) = (version?, state?.unwrap_or(NOTHING_KNOWN), services?);
    // Nobody says any more what it was meant to be; only control planes have the service.
    let is_controller = services.iter().any(|service| service.id == "etcd");
    let etcd = if is_controller { Some(seen_etcd(client).await) } else { None };
    Ok(SeenNode {
        address: client.node(),
        version: version.tag,
        schematic: None,
        extensions: Vec::new(),
        stage: stage(state.stage),
        ready: state.ready,
        unmet: state.unmet.into_iter().map(|unmet| format!("{}: {}", unmet.name, unmet.reason)).collect(),
        config: None,
        incomparable: None,
        refuses: None,
        on_trial: None,
        images: BTreeMap::new(),
        phases: Phases::default(),
        etcd,
        absent_pods: None,
        services: services.into_iter().map(service).collect(),
    })
}
