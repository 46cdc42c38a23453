//! The cluster as it is, for people and programs that look: one line for each node.

mod parts;

use std::collections::BTreeSet;

use serde::Serialize;
use talmox_pve::property::VolumeId;
use talmox_types::desired::{Desired, Node, Role};
use talmox_types::{ClusterName, ClusterUid, HostName, NodeName, PoolName, VmId};

use crate::doubles::who_stays;
use crate::identity::{addresses, macs};
use crate::planner::{assign, config_source, seed_files};
use crate::{
    Change, Class, Effect, Guest, Identities, Nonce, Observed, Owned, Plan, Planned, Power, Request, Seen,
    Step, Upkeep, Waiting, identify, plan,
};
use parts::Parts;

/// A cluster, node by node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    pub cluster: ClusterName,
    pub uid: Option<ClusterUid>,
    /// In the order of the description.
    pub nodes: Vec<NodeView>,
    /// VMs of ours that the description does not name.
    pub undeclared: Vec<NodeView>,
    /// Configuration drives of this cluster, which hold its keys: there is none unless nodes are being configured, or a run was
    /// interrupted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveView>,
}

/// A configuration drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriveView {
    pub host: HostName,
    pub volume: VolumeId,
    /// The VM that has it; none: it was left behind.
    pub vmid: Option<VmId>,
}

/// A node and its VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeView {
    pub node: NodeName,
    /// None for a node that is not described.
    pub role: Option<Role>,
    pub state: NodeState,
    pub vmid: Option<VmId>,
    pub host: Option<HostName>,
    pub power: Option<Power>,
    /// Known before the VM is there; none only for a member of a pool without a free address.
    pub addresses: Vec<String>,
    pub mac: Option<String>,
    /// What Proxmox is doing to it.
    pub lock: Option<String>,
    /// Tasks that run on it, as `qmstart UPID:…`. Not part of what a plan is made from: whoever asks for them adds them.
    pub tasks: Vec<String>,
    /// What QEMU says of a VM that is on and does not run: `paused`, `io-error`. Added by whoever asks, as tasks are.
    pub halted: Option<String>,
    /// Names of its snapshots, the oldest first. Of more than the last only whoever asks knows.
    pub snapshots: Vec<String>,
    pub pool: Option<PoolName>,
    pub ha: Option<String>,
    /// What an apply would change.
    pub drift: Vec<Change>,
    /// Whether it runs and should not, or the other way round.
    pub power_differs: bool,
    /// Keys that wait for a restart.
    pub pending: Vec<String>,
    /// What else there is to say, refusals first.
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Its VM is there and ours.
    Present,
    /// Its VM is there and ours, and its making was interrupted.
    Unfinished,
    Missing,
    /// A VM that may be it has lost its mark.
    Lost,
    /// It has more than one VM.
    Double,
    /// It may be on a host that does not answer, be in the making, or be where the credentials cannot see.
    Unknown,
}

/// What there is of a cluster.
pub fn view(desired: &Desired, observed: &Observed) -> View {
    let identities = identify(desired, observed);
    let nonce = Nonce::new(0);
    let parts = Parts::of(plan(desired, observed, &Request::default(), &nonce));
    let lost: BTreeSet<&NodeName> = identities.iter().filter_map(|(_, class)| lost_node(class)).collect();
    // A VM that is in no list is missing only if the credentials would see it.
    let is_blind = !observed.rights.unseen_vms().is_empty();
    let given = assign(desired, observed, &identities);
    let nodes = desired.nodes.iter().map(|node| {
        let stays = who_stays(&identities, observed, &node.name, &nonce);
        let owned = stays.or_else(|| identities.of_node(&node.name).next());
        let plan = parts.of_node(&node.name);
        let mut view = of_vm(observed, plan, &node.name, owned);
        view.role = Some(node.role);
        view.state = state(&identities, lost.contains(&node.name), plan, node);
        if view.state == NodeState::Missing && is_blind {
            view.state = NodeState::Unknown;
        }
        let pair = given.get(&node.name);
        view.addresses = pair.iter().flat_map(|pair| pair.iter()).map(|ip| ip.to_string()).collect();
        view.mac = node.vm.nics.first().map(|nic| nic.mac.to_string());
        view
    });
    let declared: BTreeSet<&NodeName> = desired.nodes.iter().map(|node| &node.name).collect();
    let undeclared = identities.ours().filter(|owned| !declared.contains(&owned.mark.node));
    View {
        cluster: desired.name.clone(),
        uid: desired.uid.clone(),
        nodes: nodes.collect(),
        undeclared: undeclared
            .map(|owned| {
                let node = &owned.mark.node;
                of_vm(observed, parts.of_node(node), node, Some(owned))
            })
            .collect(),
        drives: seed_files(desired, observed)
            .into_iter()
            .map(|file| DriveView { host: file.host, volume: file.volume, vmid: file.holder })
            .collect(),
    }
}

fn lost_node(class: &Class) -> Option<&NodeName> {
    match class {
        Class::Lost { node, .. } => Some(node),
        Class::Ours(_) | Class::Copy { .. } | Class::InFlight { .. } | Class::Foreign => None,
    }
}

fn state(identities: &Identities, is_lost: bool, plan: &Plan, node: &Node) -> NodeState {
    let owned: Vec<&Owned> = identities.of_node(&node.name).collect();
    match owned.as_slice() {
        [one] if one.finished => NodeState::Present,
        [_] => NodeState::Unfinished,
        [_, ..] => NodeState::Double,
        [] if is_lost => NodeState::Lost,
        [] if may_be_somewhere(plan, &node.name) => NodeState::Unknown,
        [] => NodeState::Missing,
    }
}

fn may_be_somewhere(plan: &Plan, node: &NodeName) -> bool {
    let down = plan.waiting.iter().any(|waiting| match waiting {
        Waiting::HostDown { nodes, .. } => nodes.contains(node),
        Waiting::InFlight { .. }
        | Waiting::Locked { .. }
        | Waiting::Reboot { .. }
        | Waiting::Trial { .. }
        | Waiting::Workers { .. }
        | Waiting::Answer { .. }
        | Waiting::Bootstrap { .. } => false,
    });
    down || plan.later.iter().any(|intent| intent.node.as_ref() == Some(node))
}

fn of_vm(observed: &Observed, plan: &Plan, node: &NodeName, owned: Option<&Owned>) -> NodeView {
    let guest = owned.and_then(|owned| observed.guests.get(&owned.mark.vmid));
    let config = guest.and_then(Guest::seen).map(|seen| &seen.next);
    let refusals = plan.refusals.iter().filter(|refusal| refusal.node.as_ref() == Some(node));
    let notes = plan.notes.iter().filter(|note| note.node.as_ref() == Some(node));
    NodeView {
        node: node.clone(),
        role: None,
        state: owned.map_or(NodeState::Missing, |owned| {
            if owned.finished { NodeState::Present } else { NodeState::Unfinished }
        }),
        vmid: guest.map(|guest| guest.vmid),
        host: guest.map(|guest| guest.host.clone()),
        power: guest.map(|guest| guest.power),
        addresses: config
            .map(|config| addresses(config).iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        mac: config.and_then(|config| macs(config).first().map(ToString::to_string)),
        lock: guest.and_then(|guest| guest.lock.clone()),
        tasks: Vec::new(),
        halted: None,
        snapshots: guest
            .and_then(Guest::seen)
            .and_then(|seen| seen.live.get("parent"))
            .map(|last| vec![last.to_owned()])
            .unwrap_or_default(),
        pool: guest.and_then(|guest| guest.pool.clone()),
        ha: guest.and_then(|guest| guest.ha.clone()),
        drift: drift(plan, node),
        power_differs: power_differs(plan, node),
        pending: pending(plan, node),
        notes: refusals
            .map(|refusal| refusal.problem.clone())
            .chain(notes.map(|note| note.text.clone()))
            .chain(guest.and_then(unreadable))
            .chain(power(plan, node))
            .chain(if owned.is_none() { whereabouts(plan, node) } else { Vec::new() })
            .chain(config.and_then(config_source).map(|_| SOURCE_LEFT.to_owned()))
            .collect(),
    }
}

/// Said of a VM whose machine may not have its configuration yet. The address itself is a secret.
const SOURCE_LEFT: &str = "smbios1 says where its machine fetches its configuration";

/// What an apply would do to its power alone.
fn power(plan: &Plan, node: &NodeName) -> Option<String> {
    let steps = plan.steps.iter().filter(|planned| planned.node.as_ref() == Some(node));
    let mut words = steps.filter_map(|planned| match (&planned.step, planned.effect) {
        (Step::StartVm { .. }, Effect::Start) => Some("stopped, described as running"),
        (Step::StopVm { .. }, Effect::Stop) => Some("running, described as stopped"),
        _ => None,
    });
    words.next_back().map(str::to_owned)
}

/// Why nobody can tell where a node is.
fn whereabouts(plan: &Plan, node: &NodeName) -> Vec<String> {
    let later = plan.later.iter().any(|intent| intent.node.as_ref() == Some(node));
    let told = plan.waiting.iter().filter_map(|waiting| match waiting {
        Waiting::HostDown { host, nodes, reason } if nodes.contains(node) => {
            Some(format!("it may be on {host}: {reason}"))
        }
        Waiting::InFlight { vmid, host, lock } if later => {
            Some(format!("VM {vmid} on {host} is being made ({lock}) and may be it"))
        }
        Waiting::HostDown { .. }
        | Waiting::InFlight { .. }
        | Waiting::Locked { .. }
        | Waiting::Reboot { .. }
        | Waiting::Trial { .. }
        | Waiting::Workers { .. }
        | Waiting::Answer { .. }
        | Waiting::Bootstrap { .. } => None,
    });
    told.collect()
}

fn unreadable(guest: &Guest) -> Option<String> {
    match &guest.config {
        Seen::Unreadable(reason) => Some(reason.clone()),
        Seen::NotAsked | Seen::Read(_) => None,
    }
}

/// What an apply would change on a VM that is there.
fn drift(plan: &Plan, node: &NodeName) -> Vec<Change> {
    let is_new = plan
        .steps
        .iter()
        .any(|step| step.node.as_ref() == Some(node) && matches!(step.step, Step::CloneVm { .. }));
    let steps = plan.steps.iter().filter(|step| step.node.as_ref() == Some(node) && !is_new);
    steps.flat_map(|step| step.changes.iter().cloned()).collect()
}

fn power_differs(plan: &Plan, node: &NodeName) -> bool {
    let power = |step: &Planned| matches!(step.step, Step::StartVm { .. } | Step::StopVm { .. });
    let is_new = |step: &Planned| step.effect == Effect::Create;
    let mut steps = plan.steps.iter().filter(|step| step.node.as_ref() == Some(node));
    steps.any(|step| power(step) && !is_new(step))
}

fn pending(plan: &Plan, node: &NodeName) -> Vec<String> {
    let keys = plan.waiting.iter().filter_map(|waiting| match waiting {
        Waiting::Reboot { node: waits, keys, .. } if waits == node => Some(keys.clone()),
        Waiting::Reboot { .. }
        | Waiting::Trial { .. }
        | Waiting::Workers { .. }
        | Waiting::InFlight { .. }
        | Waiting::Locked { .. }
        | Waiting::HostDown { .. }
        | Waiting::Answer { .. }
        | Waiting::Bootstrap { .. } => None,
    });
    let steps = plan.steps.iter().filter(|planned| planned.node.as_ref() == Some(node));
    let carried = steps.filter_map(|planned| {
        let Step::Upkeep(Upkeep::UpgradeNode { carries, .. }) = &planned.step else { return None };
        carries.as_ref()
    });
    keys.flatten().chain(carried.flat_map(|carries| carries.keys.iter().cloned())).collect()
}
