//! What can be done.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use talmox_pve::property::{Discard, Disk, DiskSize, Slot, VolumeId};
use talmox_types::desired::{FactorySchematic, Image};
use talmox_types::{FamilyPair, HostName, Mark, NodeName, PoolName, StorageId, TemplateMark, VmId};

use crate::{Expected, ExpectedTemplate, Upkeep};

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
    /// Waits until the node answers and gives it its configuration, if its SMBIOS uuid is the VM's; is done with what `proof`
    /// asks for. A node that has one already is left as it is.
    ConfigureNode {
        vm: Expected,
        /// Where it is asked, and what it is configured for.
        address: FamilyPair<IpAddr>,
        /// That a person approved to configure it once more. Without it a node that was configured before gets nothing in
        /// maintenance mode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reconfigure: Option<Reconfigure>,
        #[serde(default, skip_serializing_if = "Proof::is_certificate")]
        proof: Proof,
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
    /// Writes into the mark that the VM's machine was configured: it has answered with a certificate of the cluster, or
    /// Kubernetes has a Node of its name and SMBIOS uuid.
    RecordConfigured {
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
    /// What is done to a cluster that lives.
    Upkeep(Upkeep),
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
            | Self::RecordConfigured { vm }
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
            Self::Upkeep(upkeep) => upkeep.vm(),
        }
    }

    /// Whether the step is about what runs inside the machines, and not about VMs.
    pub fn is_inside(&self) -> bool {
        if let Self::Upkeep(upkeep) = self {
            return upkeep.is_inside();
        }
        matches!(
            self,
            Self::AttachSeed { .. }
                | Self::EjectSeed { .. }
                | Self::PublishConfig { .. }
                | Self::WithdrawConfig { .. }
                | Self::ConfigureNode { .. }
                | Self::Bootstrap { .. }
                | Self::RecordBootstrap { .. }
                | Self::RecordConfigured { .. }
                | Self::ApplyManifests { .. }
                | Self::PostBootstrap { .. }
                | Self::AwaitHealth
        )
    }

    /// The mark of the VM of a node, or of one that holds its disks, that this step makes.
    pub fn makes(&self) -> Option<&Mark> {
        if let Self::CloneVm { mark, .. }
        | Self::CreateVm { mark, .. }
        | Self::Upkeep(Upkeep::MakeShelf { mark, .. }) = self
        {
            Some(mark)
        } else {
            None
        }
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
            Self::RecordConfigured { .. } => "record-configured",
            Self::ApplyManifests { .. } => "apply-manifests",
            Self::PostBootstrap { .. } => "post-bootstrap",
            Self::AwaitHealth => "await-health",
            Self::Upkeep(upkeep) => upkeep.word(),
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

/// A person's approval to configure a machine in maintenance mode though its node was configured before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconfigure {
    /// Of the certificate the machine showed when the plan was made: another one gets nothing. None: the way to the machine
    /// has no certificates.
    pub fingerprint: Option<String>,
}

/// What shows that a machine has taken its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// It answers with a certificate of the cluster, and its configuration was read back.
    #[default]
    Certificate,
    /// It has left maintenance mode. A worker answers once a control plane has signed its certificate, and where it finds control
    /// planes by the cluster's virtual address alone there is none before etcd has a leader: a bootstrap that waited for the
    /// worker would never come. A later look confirms it.
    LeftMaintenance,
    /// As `Certificate`, of a worker that this run gave its configuration before the bootstrap. It may be installing itself, so it
    /// is not switched off and on where it does not answer.
    Awaited,
}

impl Proof {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_certificate(&self) -> bool {
        *self == Self::Certificate
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
