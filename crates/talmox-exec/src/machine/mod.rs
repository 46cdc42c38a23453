//! Looking at the machines themselves: is it the node's VM, has it a configuration, how does it do.
//!
//! ```text
//!  certificates of our authority ─▶ uuid the VM's? ─▶ version, stage, configuration, services, etcd
//!      │ another authority's
//!      ▼
//!  maintenance mode ─▶ uuid
//! ```
//!
//! Machines are asked side by side, each call with a deadline: etcd calls before the bootstrap hang for ever. One that
//! does not answer is part of the picture.

mod begun;
mod config;
mod etcd;
pub(crate) mod images;
pub(crate) mod kubernetes;
mod leaving;
mod live_part;
mod pods;
mod probe;
mod rotation;
mod secrets;
mod words;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{join, join4};
use talmox_plan::{
    Goal, Guest, Observed, Power, Request, SeenEtcd, SeenMachine, SeenNode, SeenService, SeenStage,
    assigned_addresses, identify,
};
use talmox_pve::client::Client as Proxmox;
use talmox_talos::{Client, Deadlines, MachineState, ServiceState, Stage, kinds};
use talmox_types::desired::{Desired, Node, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{FamilyPair, NodeName, Phases};

use crate::observe::rewound;
use crate::{ObserveError, Reach, Whereabouts, observe_for};

pub use begun::{Begun, answering, etcd_begun};
use config::Compared;
pub use config::{Held, held};
pub(crate) use config::{compare_texts, differences};
pub(crate) use etcd::{has_data, seen_etcd};
pub(crate) use live_part::live_part;
pub(crate) use pods::absent as absent_pods;
pub(crate) use probe::{Probe, elsewhere, probe, probe_also};
pub(crate) use rotation::{phases_at, phases_of_newcomer};
pub(crate) use secrets::{without_secrets, without_secrets_of};
pub(crate) use words::last_words;

/// How many machines are asked at once.
const AT_ONCE: usize = 48;
/// How long a machine may take for an answer while others wait for the picture.
const QUICK: Duration = Duration::from_secs(5);

/// Deadlines of calls that only look.
pub(crate) fn looking() -> Deadlines {
    let quick = if sabotaged(Defect::DeadlineMissing) { Duration::from_hours(1000) } else { QUICK };
    Deadlines { quick, ..Deadlines::default() }
}

/// Looks at Proxmox, and at the machines too if the request goes that far and they can be reached.
pub async fn observe_whole(
    client: &Proxmox,
    desired: &Desired,
    request: &Request,
    reach: Option<&Reach<'_>>,
) -> Result<Observed, ObserveError> {
    let mut observed = observe_for(client, desired, request).await?;
    if let Some(reach) = reach.filter(|_| request.looks_inside()) {
        observe_machines(reach, desired, &mut observed, Compare::Configs).await;
        observed.leaving = leaving::look(reach, desired, &observed, request).await;
    }
    // A run that ends at VMs starts them too.
    if matches!(request.goal, Goal::Converge | Goal::Hosts) {
        observed.rewound = rewound::look(client, desired, &observed).await;
    }
    Ok(observed)
}

/// Whether configurations are held against what is described, which takes most of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Configs,
    Nothing,
}

/// Asks every machine of the cluster whose VM runs, and Kubernetes if etcd is there.
pub async fn observe_machines(
    reach: &Reach<'_>,
    desired: &Desired,
    observed: &mut Observed,
    compare: Compare,
) {
    let places = places(desired, observed);
    let others = |at: &Whereabouts| {
        let guest = at.vmid.and_then(|vmid| observed.guests.get(&vmid));
        guest.map(|guest| elsewhere(guest, at.address)).unwrap_or_default()
    };
    let asked: Vec<Asked<'_>> =
        places.iter().map(|(node, at)| asked(reach, node, (at, others(at)), compare)).collect();
    let seen: BTreeMap<NodeName, SeenMachine> =
        futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    observed.talos = seen;
    observed.rotating = reach.machines.rotating();
    observed.kubernetes = kubernetes::look(reach, desired, observed).await;
}

type Asked<'a> = Pin<Box<dyn Future<Output = (NodeName, SeenMachine)> + Send + 'a>>;

fn asked<'a>(
    reach: &'a Reach<'a>,
    node: &'a Node,
    (at, others): (&'a Whereabouts, Vec<IpAddr>),
    compare: Compare,
) -> Asked<'a> {
    Box::pin(async move { (node.name.clone(), look(reach, node, (at, &others), compare).await) })
}

/// Declared nodes whose VM is ours and runs, and where they are.
pub(crate) fn places<'d>(desired: &'d Desired, observed: &Observed) -> Vec<(&'d Node, Whereabouts)> {
    let identities = identify(desired, observed);
    let addresses = assigned_addresses(desired, observed);
    let running = |guest: &&Guest| guest.power == Power::Running;
    let guests: BTreeMap<&NodeName, &Guest> = identities
        .ours()
        .filter_map(|owned| {
            let guest = observed.guests.get(&owned.mark.vmid).filter(running)?;
            Some((&owned.mark.node, guest))
        })
        .collect();
    let place = |node: &'d Node| {
        let (guest, address) = (guests.get(&node.name)?, addresses.get(&node.name)?);
        Some((node, whereabouts(guest, *address)))
    };
    desired.nodes.iter().filter_map(place).collect()
}

fn whereabouts(guest: &Guest, address: FamilyPair<IpAddr>) -> Whereabouts {
    let uuid = guest.seen().and_then(|seen| seen.live.smbios().ok().flatten()?.uuid);
    Whereabouts {
        address,
        vmid: Some(guest.vmid),
        host: Some(guest.host.clone()),
        uuid,
        phases: Phases::default(),
    }
}

async fn look(
    reach: &Reach<'_>,
    node: &Node,
    (at, others): (&Whereabouts, &[IpAddr]),
    compare: Compare,
) -> SeenMachine {
    let address = at.address.primary();
    match probe_also(reach, address, others, at.uuid.as_deref()).await {
        Probe::Unreachable { reason } => SeenMachine::Unreachable { address, reason },
        Probe::Maintenance { uuid, version, fingerprint, client: _ } => {
            let fingerprint = fingerprint.map(|shown| shown.to_string());
            SeenMachine::Maintenance { address, uuid, version, fingerprint }
        }
        Probe::Stranger { why } => SeenMachine::Foreign { address, why },
        Probe::Configured(client) => match inside(reach, node, at, &client, compare).await {
            Ok(seen) => SeenMachine::Configured(Box::new(seen)),
            Err(error) => SeenMachine::Unreachable { address, reason: error.to_string() },
        },
    }
}

async fn inside(
    reach: &Reach<'_>,
    node: &Node,
    at: &Whereabouts,
    client: &Client,
    compare: Compare,
) -> Result<SeenNode, talmox_talos::Error> {
    let etcd = async {
        match node.role {
            Role::Controller => Some(seen_etcd(client).await),
            Role::Worker => None,
        }
    };
    let config = async {
        match compare {
            Compare::Configs => config::against(reach, &node.name, at, client).await,
            Compare::Nothing => {
                Compared { phases: rotation::phases(reach, client).await, ..Compared::default() }
            }
        }
    };
    let (version, services, etcd, config) = join4(client.version(), client.services(), etcd, config).await;
    let version = version?;
    let Compared { changes, images, phases, refuses, on_trial } = config;
    let (config, incomparable) = match changes {
        Some(Ok(changes)) => (Some(changes), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    let absent_pods = match &etcd {
        Some(SeenEtcd::Member { .. }) => pods::absent(client).await.ok(),
        // Without etcd there are none, and that says enough.
        Some(SeenEtcd::Empty | SeenEtcd::Unknown { .. }) => None,
        None => Some(Vec::new()),
    };
    // Last, because it counts only if the pods were there before: that they are pending makes a machine not ready.
    let (state, (schematic, extensions)) = join(client.machine_state(), extensions(client)).await;
    let state = state?.unwrap_or(NOTHING_KNOWN);
    Ok(SeenNode {
        address: client.node(),
        version: version.tag,
        schematic,
        extensions,
        stage: stage(state.stage),
        ready: state.ready,
        unmet: state.unmet.into_iter().map(|unmet| format!("{}: {}", unmet.name, unmet.reason)).collect(),
        config,
        incomparable,
        refuses,
        on_trial,
        images,
        phases,
        etcd,
        absent_pods,
        services: services?.into_iter().map(service).collect(),
    })
}

const NOTHING_KNOWN: MachineState = MachineState { stage: Stage::Unknown, ready: false, unmet: Vec::new() };

fn service(state: ServiceState) -> (String, SeenService) {
    let ServiceState { id, state, healthy, message } = state;
    (id, SeenService { state, healthy, message })
}

/// The schematic of the image and the extensions in it, if the machine tells.
async fn extensions(client: &Client) -> (Option<String>, Vec<String>) {
    let listed = client.list::<kinds::ExtensionStatus>().await.unwrap_or_default();
    let mut schematic = None;
    let mut names = Vec::new();
    for extension in listed.into_iter().filter_map(|resource| resource.spec.metadata) {
        // The Image Factory puts the schematic among the extensions, under this name.
        if extension.name == "schematic" {
            schematic = Some(extension.version);
        } else {
            names.push(extension.name);
        }
    }
    names.sort();
    (schematic, names)
}

pub(crate) fn stage(stage: Stage) -> SeenStage {
    match stage {
        Stage::Unknown => SeenStage::Unknown,
        Stage::Booting => SeenStage::Booting,
        Stage::Installing => SeenStage::Installing,
        Stage::Maintenance => SeenStage::Maintenance,
        Stage::Running => SeenStage::Running,
        Stage::Rebooting => SeenStage::Rebooting,
        Stage::ShuttingDown => SeenStage::ShuttingDown,
        Stage::Resetting => SeenStage::Resetting,
        Stage::Upgrading => SeenStage::Upgrading,
    }
}
