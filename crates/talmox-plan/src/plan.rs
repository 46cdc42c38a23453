//! A plan: data that can be shown, compared, saved and carried out.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use talmox_pve::property::{DiskSize, Slot, VolumeId};
use talmox_types::{ClusterName, ClusterUid, HostName, Mark, NodeName, TemplateMark, VmId};

use crate::Step;

/// What to do so that what is there becomes what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub cluster: ClusterName,
    pub uid: Option<ClusterUid>,
    /// What can be done now: a graph, listed so that each step comes after those it needs.
    pub steps: Vec<Planned>,
    /// What will follow once those are done.
    pub later: Vec<Intent>,
    /// What is waited for, and by whom.
    pub waiting: Vec<Waiting>,
    /// What cannot be done, why, and what the choices are. A plan with refusals is shown and not carried out.
    pub refusals: Vec<Refusal>,
    /// What people should know beside that.
    pub notes: Vec<Note>,
}

/// A step, why it is taken, and what it does to what runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub id: StepId,
    /// Steps that must have been done before.
    pub needs: Vec<StepId>,
    /// The node this is about; none for what belongs to the cluster as a whole.
    pub node: Option<NodeName>,
    pub step: Step,
    pub reason: String,
    pub effect: Effect,
    /// Old and new, key by key.
    pub changes: Vec<Change>,
    /// Volumes that are gone after it.
    pub destroys: Vec<Volume>,
}

/// The name of a step within its plan: `cp-1/clone`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(String);

impl StepId {
    /// The step of this kind for a node, or for the whole cluster.
    pub fn new(node: Option<&NodeName>, kind: &str) -> Self {
        Self(node.map_or_else(|| kind.to_owned(), |node| format!("{node}/{kind}")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A VM of ours a step acts on. Before a step changes or destroys anything, the VM must still carry this mark
/// ([`Expected::is`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    pub host: HostName,
    pub mark: Mark,
}

impl Expected {
    pub fn vmid(&self) -> VmId {
        self.mark.vmid
    }

    /// Whether a mark that was found is the expected one. The cluster's name is not compared: it proves nothing, and
    /// may be what is being changed. Nor are the words that come and go while somebody works.
    pub fn is(&self, found: &Mark) -> bool {
        let Mark {
            uid,
            cluster: _,
            node,
            vmid,
            incarnation,
            bootstrap: _,
            lease: _,
            away: _,
            configured: _,
            shelf,
            others: _,
        } = &self.mark;
        *uid == found.uid
            && *node == found.node
            && *vmid == found.vmid
            && *incarnation == found.incarnation
            && *shelf == found.shelf
    }
}

/// A template of ours a step acts on, or the VM that is to become one. Before anything is changed it must still carry
/// this mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedTemplate {
    /// What it is called, for people; it proves nothing.
    pub name: String,
    pub host: HostName,
    pub mark: TemplateMark,
}

impl ExpectedTemplate {
    pub fn vmid(&self) -> VmId {
        self.mark.vmid
    }
}

/// What a step does to what is there, from harmless to final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: something is only waited for.
    Wait,
    /// Something new; nothing that is there is touched.
    Create,
    /// Nothing that runs notices.
    ChangeLive,
    /// Pods leave a machine, which goes on running.
    Drain,
    /// A stopped machine starts.
    Start,
    /// Written now, in effect only after a restart.
    ChangePending,
    /// A machine goes to another host; while it runs, it is still for a moment.
    Move,
    /// A running machine is down for a while.
    Reboot,
    /// A running machine stops.
    Stop,
    /// A machine and its disks go, and another takes its place.
    Replace,
    /// A machine and its disks go.
    Destroy,
}

impl Effect {
    /// Whether a machine that may run is about to be down or still for a while, or gone for good.
    pub fn interrupts(self) -> bool {
        matches!(self, Self::Drain | Self::Move | Self::Reboot | Self::Stop | Self::Replace | Self::Destroy)
    }
}

/// A value that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Proxmox's own name: `memory`, `net0`, `scsi0`.
    pub key: String,
    pub old: Option<String>,
    pub new: Option<String>,
    pub applies: Applies,
    /// The field of the description that wants it: `vm_memory`.
    pub field: Option<String>,
    /// Of a value with options, those that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub: Vec<SubChange>,
}

/// An option within a value that changes: the queues of `net0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubChange {
    pub option: String,
    /// None: not set.
    pub old: Option<String>,
    pub new: Option<String>,
    pub field: Option<String>,
}

impl fmt::Display for SubChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        write!(f, "{} {} → {}", self.option, word(&self.old), word(&self.new))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applies {
    Now,
    AfterReboot,
    /// It is written down already, and in effect after a restart.
    Written,
    /// Something else is in force on trial, which ends by itself.
    OnTrial,
}

/// A volume and where it hangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub slot: Slot,
    pub volume: VolumeId,
    pub size: Option<DiskSize>,
}

/// Something that will follow: approval covers it too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub node: Option<NodeName>,
    /// [`Step::word`] of what will follow.
    pub step: String,
    pub effect: Effect,
    pub reason: String,
}

/// What is being waited for. The next look may find it gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Waiting {
    /// A VM is being made on an id we want; nobody can tell yet whose it is.
    InFlight { vmid: VmId, host: HostName, lock: String },
    /// Proxmox is busy with a VM of ours.
    Locked { node: NodeName, vmid: VmId, host: HostName, lock: String },
    /// A host does not answer, so what runs on it is not known.
    HostDown { host: HostName, nodes: Vec<NodeName>, reason: String },
    /// Values take effect at a restart nobody has allowed.
    Reboot { node: NodeName, vmid: VmId, keys: Vec<String> },
    /// Somebody tries another configuration: the machine goes back to the described one by itself.
    Trial {
        node: NodeName,
        keys: Vec<String>,
        /// Seconds since 1970.
        since: Option<u64>,
    },
    /// A machine that runs does not answer, so what is inside it is not known.
    Answer { node: NodeName, vmid: VmId, address: IpAddr, reason: String },
    /// As many workers are away as may be, so no other one goes down.
    Workers {
        /// Those, each with why.
        away: BTreeMap<NodeName, String>,
        /// Workers that would have gone down.
        held: Vec<NodeName>,
        at_most: usize,
    },
    /// The bootstrap waits until every control plane has answered and said that it has no data.
    Bootstrap { node: NodeName, missing: Vec<NodeName> },
}

/// What cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub node: Option<NodeName>,
    pub problem: String,
    /// What can be done instead: commands, or changes of the description.
    pub choices: Vec<String>,
}

/// What people should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub node: Option<NodeName>,
    pub kind: NoteKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// A VM of ours that the description does not name: shown, untouched.
    Undeclared,
    /// A VM that carries our mark and is not ours: shown, untouched.
    Copy,
    /// Something on a VM of ours that is not from us: left alone.
    Foreign,
    /// Something wanted that the credentials do not allow: left out.
    LeftOut,
    /// A difference that the description, or whoever asked, wants left alone.
    Ignored,
    /// What is inside a machine is not as described, and is left as it is.
    Inside,
    /// How exactly, of a machine that nobody asked for: one note of the kind before names them all.
    Beyond,
    /// Where something goes and why.
    Placement,
    /// Worth a thought.
    Warning,
}

impl Plan {
    /// Whether nothing is to be done now or later.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.later.is_empty()
    }
}
