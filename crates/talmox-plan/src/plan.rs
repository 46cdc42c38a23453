//! A plan: data that can be shown, compared, saved and carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use talmox_pve::property::{Discard, Disk, DiskSize, Slot, VolumeId};
use talmox_types::desired::{FactorySchematic, Image};
use talmox_types::{
    ClusterName, ClusterUid, FamilyPair, HostName, Mark, NodeName, PoolName, StorageId, TemplateMark, VmId,
};

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
        let Mark { uid, cluster: _, node, vmid, incarnation, bootstrap: _, lease: _, others: _ } = &self.mark;
        *uid == found.uid && *node == found.node && *vmid == found.vmid && *incarnation == found.incarnation
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

/// What a file is to Proxmox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    Iso,
    /// A disk image new disks are made from.
    Import,
}

impl FileKind {
    /// Proxmox's word, which is also the folder such files lie in.
    pub fn word(self) -> &'static str {
        match self {
            Self::Iso => "iso",
            Self::Import => "import",
        }
    }
}

/// What can be done. Every step looks before it acts, is done when its result is seen, and may run twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// Makes the cluster's pool, with a comment that says whose it is.
    CreatePool {
        pool: PoolName,
        comment: String,
    },
    /// Copies a template to a VM that carries the mark and does not run. The id is the one to try first: if
    /// somebody else has it by then, the next free one is taken, and what follows is planned anew.
    CloneVm {
        host: HostName,
        mark: Mark,
        template: TemplateSource,
        clone: CloneKind,
        pool: Option<PoolName>,
    },
    /// Makes a VM that carries the mark and does not run: with an empty disk and an ISO to boot from, or with a disk
    /// that is a copy of an image. The id is the one to try first, as with a clone.
    CreateVm {
        host: HostName,
        mark: Mark,
        /// What Proxmox is sent beside name, mark and pool.
        set: BTreeMap<String, String>,
        pool: Option<PoolName>,
    },
    /// Tells the Image Factory of a schematic, so that it serves images of it.
    RegisterSchematic {
        schematic: FactorySchematic,
    },
    /// Brings an image onto a storage of a host. A file of that name is taken as it is.
    FetchImage {
        host: HostName,
        storage: StorageId,
        content: FileKind,
        image: Image,
    },
    /// Makes the VM a template becomes: stopped, with the mark, its disk a copy of the image. The id is the one to try
    /// first.
    BuildTemplate {
        host: HostName,
        mark: TemplateMark,
        name: String,
        /// The file its disk is copied from.
        image: VolumeId,
        /// Where its disk goes.
        storage: StorageId,
        /// What Proxmox is sent beside name, description and pool.
        set: BTreeMap<String, String>,
        /// What its description says above the mark.
        notes: Option<String>,
        pool: Option<PoolName>,
    },
    /// Turns a built VM into a template.
    ConvertTemplate {
        template: ExpectedTemplate,
    },
    /// Changes options of a template in place, and its mark with them.
    ConfigureTemplate {
        template: ExpectedTemplate,
        set: BTreeMap<String, String>,
        delete: BTreeSet<String>,
        /// The mark it has afterwards.
        mark: TemplateMark,
    },
    /// Removes a template, or a build nobody finished, with its volumes.
    RemoveTemplate {
        template: ExpectedTemplate,
    },
    /// Removes a file of ours from a storage.
    RemoveImage {
        host: HostName,
        volume: VolumeId,
    },
    /// Changes the configuration. Disks are not made or removed by this, except a cloud-init drive and, on a VM that
    /// has just been cloned, the EFI disk and TPM state its template lacks.
    ConfigureVm {
        vm: Expected,
        set: BTreeMap<String, String>,
        delete: BTreeSet<String>,
        /// Options of disks, on whatever volume hangs there: a clone's volume has no name before it is made.
        drives: BTreeMap<Slot, DriveOptions>,
        /// Whether the second witness is written: serial and family of `smbios1`, from the mark; the rest of it stays.
        witness: bool,
        /// The state this was decided on; none for a VM that the same plan makes.
        digest: Option<String>,
    },
    /// Puts a new disk into a free slot. `value` is what Proxmox is sent: `local-zfs:50,discard=on`.
    AddDisk {
        vm: Expected,
        slot: Slot,
        storage: StorageId,
        size: DiskSize,
        value: String,
    },
    GrowDisk {
        vm: Expected,
        slot: Slot,
        to: DiskSize,
    },
    /// Puts a VM into the cluster's pool.
    JoinPool {
        vm: Expected,
        pool: PoolName,
    },
    StartVm {
        vm: Expected,
    },
    /// Asks the guest to shut down, and pulls the plug if it has not after so many seconds.
    StopVm {
        vm: Expected,
        timeout: u32,
    },
    /// Shuts down and starts, through Proxmox, so that what is pending takes effect.
    RebootVm {
        vm: Expected,
        timeout: u32,
    },
    /// Moves a VM to another host, running if it runs.
    MoveVm {
        vm: Expected,
        to: HostName,
        /// Whether disks go along that only the old host has.
        local_disks: bool,
    },
    /// Removes a stopped VM with its volumes. Slots in `detach` hold volumes of others, which are let go first.
    RemoveVm {
        vm: Expected,
        detach: BTreeSet<Slot>,
        /// Where else the VM is named and will not be any more: `backup job nightly`.
        purges: Vec<String>,
    },
    /// Puts a VM under HA.
    AddHa {
        vm: Expected,
        /// Whether HA shall keep it running, or stopped.
        started: bool,
        /// The group of Proxmox 8 that says where it may run.
        group: Option<String>,
        comment: String,
    },
    /// Makes a group of Proxmox 8, or changes which hosts are in it.
    SetHaGroup {
        group: String,
        hosts: BTreeSet<HostName>,
        comment: String,
    },
    /// Makes a rule of Proxmox 9, or changes whom it is about.
    SetHaRule {
        rule: HaRule,
    },
    DeleteHaRule {
        rule: HaRule,
    },
    /// Removes the cluster's pool if it is still ours and empty.
    DeletePool {
        pool: PoolName,
        comment: String,
    },
    /// Sends a drive with the node's configuration to a storage, and puts it into the VM before its first start. It holds
    /// secrets: its name cannot be guessed, and nothing is sent where it could not be removed again.
    AttachSeed {
        vm: Expected,
        address: FamilyPair<IpAddr>,
        storage: StorageId,
    },
    /// Takes that drive out of a machine that has its configuration, and removes it from the storage.
    EjectSeed {
        vm: Expected,
        volume: VolumeId,
        /// Where the machine says what it read from it.
        address: FamilyPair<IpAddr>,
    },
    /// Removes a drive that a run left behind and no VM has.
    RemoveSeed {
        host: HostName,
        volume: VolumeId,
    },
    /// Writes into a VM, before it is started, where its machine fetches its configuration: the serial number, which Talos
    /// reads. The address holds a secret that is made when this is carried out, and is in no plan.
    PublishConfig {
        vm: Expected,
        address: FamilyPair<IpAddr>,
    },
    /// Takes that out again, once the machine has its configuration.
    WithdrawConfig {
        vm: Expected,
        /// Where the machine says what it fetched.
        address: FamilyPair<IpAddr>,
    },
    /// Waits until the node answers and gives it its configuration, if its SMBIOS uuid is the VM's; is done when the
    /// configuration was read back. A node that has one already is left as it is.
    ConfigureNode {
        vm: Expected,
        /// Where it is asked, and what it is configured for.
        address: FamilyPair<IpAddr>,
    },
    /// Makes the first member of etcd, once in the life of a cluster. The intent is in the VM's mark before the call, and
    /// every control plane has said immediately before that it has no data.
    Bootstrap {
        /// With the intent in its mark.
        vm: Expected,
        address: IpAddr,
        /// Everybody who has to be asked before, this node included.
        control_planes: BTreeMap<NodeName, IpAddr>,
    },
    /// Writes into the mark that the bootstrap was seen to work, for a run that could not.
    RecordBootstrap {
        vm: Expected,
    },
    /// Applies the manifests of the description, as soon as Kubernetes answers.
    ApplyManifests {
        manifests: Vec<String>,
    },
    /// Runs a program of the user's once the cluster is bootstrapped.
    PostBootstrap {
        command: Vec<String>,
    },
    /// Waits until every check of the cluster's health is met. Writes nothing.
    AwaitHealth,
}

impl Step {
    /// The VM the step acts on, if it is there already or made by this plan.
    pub fn vm(&self) -> Option<&Expected> {
        match self {
            Self::ConfigureVm { vm, .. }
            | Self::AddDisk { vm, .. }
            | Self::GrowDisk { vm, .. }
            | Self::JoinPool { vm, .. }
            | Self::StartVm { vm }
            | Self::StopVm { vm, .. }
            | Self::RebootVm { vm, .. }
            | Self::MoveVm { vm, .. }
            | Self::AddHa { vm, .. }
            | Self::AttachSeed { vm, .. }
            | Self::EjectSeed { vm, .. }
            | Self::PublishConfig { vm, .. }
            | Self::WithdrawConfig { vm, .. }
            | Self::ConfigureNode { vm, .. }
            | Self::Bootstrap { vm, .. }
            | Self::RecordBootstrap { vm }
            | Self::RemoveVm { vm, .. } => Some(vm),
            Self::CreatePool { .. }
            | Self::CloneVm { .. }
            | Self::CreateVm { .. }
            | Self::RegisterSchematic { .. }
            | Self::FetchImage { .. }
            | Self::BuildTemplate { .. }
            | Self::ConvertTemplate { .. }
            | Self::ConfigureTemplate { .. }
            | Self::RemoveTemplate { .. }
            | Self::RemoveImage { .. }
            | Self::SetHaGroup { .. }
            | Self::SetHaRule { .. }
            | Self::DeleteHaRule { .. }
            | Self::DeletePool { .. }
            | Self::RemoveSeed { .. }
            | Self::ApplyManifests { .. }
            | Self::PostBootstrap { .. }
            | Self::AwaitHealth => None,
        }
    }

    /// Whether the step is about what runs inside the machines, and not about VMs.
    pub fn is_inside(&self) -> bool {
        matches!(
            self,
            Self::AttachSeed { .. }
                | Self::EjectSeed { .. }
                | Self::PublishConfig { .. }
                | Self::WithdrawConfig { .. }
                | Self::ConfigureNode { .. }
                | Self::Bootstrap { .. }
                | Self::RecordBootstrap { .. }
                | Self::ApplyManifests { .. }
                | Self::PostBootstrap { .. }
                | Self::AwaitHealth
        )
    }

    /// The mark of the node's VM this step makes.
    pub fn makes(&self) -> Option<&Mark> {
        if let Self::CloneVm { mark, .. } | Self::CreateVm { mark, .. } = self { Some(mark) } else { None }
    }

    /// The template the step acts on, if it is there already or made by this plan.
    pub fn template(&self) -> Option<&ExpectedTemplate> {
        if let Self::ConvertTemplate { template }
        | Self::ConfigureTemplate { template, .. }
        | Self::RemoveTemplate { template } = self
        {
            Some(template)
        } else {
            None
        }
    }

    /// A short word for ids, progress and programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::CreatePool { .. } => "create-pool",
            Self::CloneVm { .. } => "clone",
            Self::CreateVm { .. } => "create",
            Self::RegisterSchematic { .. } => "register-schematic",
            Self::FetchImage { .. } => "fetch-image",
            Self::BuildTemplate { .. } => "build-template",
            Self::ConvertTemplate { .. } => "convert-template",
            Self::ConfigureTemplate { .. } => "configure-template",
            Self::RemoveTemplate { .. } => "remove-template",
            Self::RemoveImage { .. } => "remove-image",
            Self::ConfigureVm { .. } => "configure",
            Self::AddDisk { .. } => "add-disk",
            Self::GrowDisk { .. } => "grow-disk",
            Self::JoinPool { .. } => "join-pool",
            Self::StartVm { .. } => "start",
            Self::StopVm { .. } => "stop",
            Self::RebootVm { .. } => "reboot",
            Self::MoveVm { .. } => "move",
            Self::AddHa { .. } => "add-ha",
            Self::SetHaGroup { .. } => "set-ha-group",
            Self::SetHaRule { .. } => "set-ha-rule",
            Self::DeleteHaRule { .. } => "delete-ha-rule",
            Self::RemoveVm { .. } => "remove",
            Self::DeletePool { .. } => "delete-pool",
            Self::AttachSeed { .. } => "attach-seed",
            Self::EjectSeed { .. } => "eject-seed",
            Self::RemoveSeed { .. } => "remove-seed",
            Self::PublishConfig { .. } => "publish-config",
            Self::WithdrawConfig { .. } => "withdraw-config",
            Self::ConfigureNode { .. } => "configure-node",
            Self::Bootstrap { .. } => "bootstrap",
            Self::RecordBootstrap { .. } => "record-bootstrap",
            Self::ApplyManifests { .. } => "apply-manifests",
            Self::PostBootstrap { .. } => "post-bootstrap",
            Self::AwaitHealth => "await-health",
        }
    }
}

/// A rule of HA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaRule {
    pub id: String,
    pub scope: HaScope,
    pub vms: BTreeSet<VmId>,
    /// Says whose it is.
    pub comment: String,
}

/// What a rule of HA says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HaScope {
    /// No two of them on one host.
    Apart,
    /// They run on these hosts if they can.
    Hosts { hosts: BTreeSet<HostName> },
}

/// What of a disk the description decides; its other options stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent option of a Proxmox disk")]
pub struct DriveOptions {
    pub discard: bool,
    pub ssd: bool,
    pub backup: bool,
    pub replicate: bool,
}

impl DriveOptions {
    /// Those a disk has.
    pub fn of(disk: &Disk) -> Self {
        Self {
            discard: disk.discard == Some(Discard::On),
            ssd: disk.ssd.unwrap_or(false),
            backup: disk.backup.unwrap_or(true),
            replicate: disk.replicate.unwrap_or(true),
        }
    }

    /// A disk with these options and everything else as it is.
    #[must_use]
    pub fn on(self, live: &Disk) -> Disk {
        let Self { discard, ssd, backup, replicate } = self;
        Disk {
            discard: discard.then_some(Discard::On),
            ssd: ssd.then_some(true),
            backup: (!backup).then_some(false),
            replicate: (!replicate).then_some(false),
            ..live.clone()
        }
    }
}

/// What a VM is cloned from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateSource {
    pub vmid: VmId,
    pub host: HostName,
    pub name: String,
}

/// Whether a clone stands on the template's disks or has its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CloneKind {
    Linked,
    Full { storage: StorageId },
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
    /// Whether a machine that may run is down or still for a while, or gone for good.
    pub fn interrupts(self) -> bool {
        matches!(self, Self::Move | Self::Reboot | Self::Stop | Self::Replace | Self::Destroy)
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
    /// A machine that runs does not answer, so what is inside it is not known.
    Answer { node: NodeName, vmid: VmId, address: IpAddr, reason: String },
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
