//! Which privileges a step uses, as Proxmox asks for them when the step's calls are made.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, DriveSource, NetDevice, Slot};
use talmox_types::desired::{Desired, Image};
use talmox_types::{HostName, PoolName, StorageId, VmId};

use super::table::{PROCESSORS, TEMPLATES_POOL, bridge_path};
use crate::{CloneKind, Intent, Observed, Step, Upkeep, seed_storage};

/// Where a privilege is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// A VM, and the pool that vouches for it: the one it is in, or is put into by the same plan.
    Vm(VmId, Option<PoolName>),
    /// A template that talmox did not make.
    Template(VmId),
    /// Anything else, by its path.
    Path(String),
}

/// A privilege that a step uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Any one of these would do; the first is the one to name.
    pub privileges: &'static [&'static str],
    pub at: At,
}

impl Use {
    /// The path a person grants it on.
    pub fn path(&self, desired: &Desired) -> String {
        match &self.at {
            At::Vm(_, Some(pool)) => format!("/pool/{pool}"),
            At::Vm(vmid, None) if desired.proxmox.pool.is_some() => format!("/vms/{vmid}"),
            At::Vm(_, None) => "/vms".to_owned(),
            At::Template(vmid) => format!("/vms/{vmid}"),
            At::Path(path) => path.clone(),
        }
    }

    /// Whether the credentials have it.
    pub fn is_held(&self, observed: &Observed) -> bool {
        let rights = &observed.rights;
        let at = |path: &str| self.privileges.iter().any(|privilege| rights.holds(path, privilege));
        match &self.at {
            At::Vm(vmid, pool) => {
                at(&format!("/vms/{vmid}")) || pool.as_ref().is_some_and(|pool| at(&format!("/pool/{pool}")))
            }
            At::Template(vmid) => at(&format!("/vms/{vmid}")),
            At::Path(path) if self.privileges == FETCH => rights.fetches_on(path),
            At::Path(path) => at(path),
        }
    }
}

const ALLOCATE: &[&str] = &["VM.Allocate"];
const POWER: &[&str] = &["VM.PowerMgmt"];
const OPTIONS: &[&str] = &["VM.Config.Options"];
const HARDWARE: &[&str] = &["VM.Config.HWType"];
const DISK: &[&str] = &["VM.Config.Disk"];
const CDROM: &[&str] = &["VM.Config.CDROM"];
const SPACE: &[&str] = &["Datastore.AllocateSpace"];
const READ: &[&str] = &["Datastore.Audit", "Datastore.AllocateSpace"];
const PUT: &[&str] = &["Datastore.AllocateTemplate"];
const DELETE: &[&str] = &["Datastore.Allocate"];
const NETWORK: &[&str] = &["SDN.Use"];
const POOL: &[&str] = &["Pool.Allocate"];
const FETCH: &[&str] = &["Sys.AccessNetwork"];
const HA: &[&str] = &["Sys.Console"];

/// What a step uses. What only looks is not among it: a plan cannot be made without that.
pub fn uses(step: &Step, desired: &Desired, observed: &Observed) -> BTreeSet<Use> {
    let mut all = Uses { desired, observed, all: BTreeSet::new() };
    all.of_step(step);
    all.all
}

/// What a step that is only announced uses beside its own word: it cannot be planned yet, so what it is done to is the VM
/// of its node. A VM that is yet to be made uses everything its description needs, which the table tells.
pub fn uses_later(intent: &Intent, vmid: VmId, desired: &Desired, observed: &Observed) -> BTreeSet<Use> {
    let mut all = Uses { desired, observed, all: BTreeSet::new() };
    let seed = seed_storage(desired);
    match intent.step.as_str() {
        "create-pool" => {
            if let Some(pool) = desired.proxmox.pool.as_ref().filter(|_| observed.pool.is_none()) {
                all.path(POOL, format!("/pool/{pool}"));
            }
        }
        "start" | "stop" | "reboot" => all.vm(POWER, vmid),
        "remove" | "remove-shelf" => all.vm(ALLOCATE, vmid),
        "move" | "move-shelf" => all.vm(&["VM.Migrate"], vmid),
        "move-disk" => all.vm(DISK, vmid),
        "configure-node" | "bootstrap" | "record-bootstrap" | "record-configured" | "note-away"
        | "retire" => {
            all.vm(OPTIONS, vmid);
        }
        "attach-seed" => {
            for privileges in [PUT, DELETE, READ] {
                all.storage(privileges, seed);
            }
            all.vm(CDROM, vmid);
        }
        "eject-seed" => {
            all.vm(CDROM, vmid);
            all.storage(DELETE, seed);
        }
        "publish-config" | "withdraw-config" => all.vm(HARDWARE, vmid),
        "add-ha" | "set-ha-group" | "set-ha-rule" | "delete-ha-rule" => all.path(HA, "/".to_owned()),
        _ => {}
    }
    all.all
}

struct Uses<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    all: BTreeSet<Use>,
}

impl Uses<'_> {
    fn add(&mut self, privileges: &'static [&'static str], at: At) {
        self.all.insert(Use { privileges, at });
    }

    fn path(&mut self, privileges: &'static [&'static str], path: String) {
        self.add(privileges, At::Path(path));
    }

    fn storage(&mut self, privileges: &'static [&'static str], storage: &StorageId) {
        self.path(privileges, format!("/storage/{storage}"));
    }

    /// A VM of the cluster. One that is in no pool yet is put into the cluster's before anything else is done to it.
    fn own(&self, vmid: VmId) -> At {
        let pool = self.observed.guests.get(&vmid).and_then(|guest| guest.pool.clone());
        At::Vm(vmid, pool.or_else(|| self.desired.proxmox.pool.clone()))
    }

    fn vm(&mut self, privileges: &'static [&'static str], vmid: VmId) {
        let at = self.own(vmid);
        self.add(privileges, at);
    }

    /// A template of ours, or a VM that becomes one.
    fn template(&self, vmid: VmId) -> At {
        let pool = self.observed.guests.get(&vmid).and_then(|guest| guest.pool.clone());
        let new = || self.desired.proxmox.pool.as_ref().and_then(|_| PoolName::parse(TEMPLATES_POOL).ok());
        At::Vm(vmid, pool.or_else(new))
    }

    fn of_step(&mut self, step: &Step) {
        match step {
            Step::CreatePool { pool, .. } | Step::DeletePool { pool, .. } => {
                self.path(POOL, format!("/pool/{pool}"));
            }
            Step::CloneVm { mark, template, clone, pool, .. } => {
                self.add(ALLOCATE, At::Vm(mark.vmid, pool.clone()));
                self.clone_of(template.vmid, clone);
            }
            Step::CreateVm { mark, set, pool, .. } => {
                let at = At::Vm(mark.vmid, pool.clone());
                self.add(ALLOCATE, at.clone());
                self.create(set, &at);
            }
            Step::FetchImage { host, storage, image, .. } => self.fetch(host, storage, image),
            Step::BuildTemplate { mark, set, pool, storage, .. } => {
                let at = At::Vm(mark.vmid, pool.clone());
                self.add(ALLOCATE, at.clone());
                self.add(OPTIONS, at.clone());
                self.storage(SPACE, storage);
                self.create(set, &at);
            }
            Step::ConvertTemplate { template } | Step::RemoveTemplate { template } => {
                let at = self.template(template.vmid());
                self.add(ALLOCATE, at);
            }
            Step::ConfigureTemplate { template, set, delete, .. } => {
                let at = self.template(template.vmid());
                self.add(OPTIONS, at.clone());
                self.change(set, delete, &at);
            }
            Step::RemoveImage { volume, .. } | Step::RemoveSeed { volume, .. } => {
                self.storage(DELETE, volume.storage());
            }
            Step::ConfigureVm { vm, set, delete, drives, witness, .. } => {
                let at = self.own(vm.vmid());
                self.change(set, delete, &at);
                if *witness {
                    self.add(HARDWARE, at.clone());
                }
                if !drives.is_empty() {
                    self.add(DISK, at);
                }
            }
            Step::AddDisk { vm, storage, .. } => {
                self.vm(DISK, vm.vmid());
                self.storage(SPACE, storage);
            }
            Step::GrowDisk { vm, slot, .. } => {
                self.vm(DISK, vm.vmid());
                if let Some(storage) = self.disk_at(vm.vmid(), *slot) {
                    self.storage(SPACE, &storage);
                }
            }
            Step::JoinPool { vm, pool } => {
                self.path(POOL, format!("/pool/{pool}"));
                self.add(ALLOCATE, At::Template(vm.vmid()));
            }
            Step::StartVm { vm } | Step::StopVm { vm, .. } | Step::RebootVm { vm, .. } => {
                self.vm(POWER, vm.vmid());
            }
            Step::MoveVm { vm, .. } => self.vm(&["VM.Migrate"], vm.vmid()),
            Step::RemoveVm { vm, detach, .. } => {
                self.vm(ALLOCATE, vm.vmid());
                if !detach.is_empty() {
                    self.vm(DISK, vm.vmid());
                }
            }
            Step::AddHa { .. }
            | Step::SetHaGroup { .. }
            | Step::SetHaRule { .. }
            | Step::DeleteHaRule { .. } => self.path(HA, "/".to_owned()),
            Step::AttachSeed { vm, storage, .. } => {
                self.storage(PUT, storage);
                self.storage(DELETE, storage);
                self.storage(READ, storage);
                self.vm(CDROM, vm.vmid());
            }
            Step::EjectSeed { vm, volume, .. } => {
                self.vm(CDROM, vm.vmid());
                self.storage(DELETE, volume.storage());
            }
            // The serial number among the SMBIOS values.
            Step::PublishConfig { vm, .. } | Step::WithdrawConfig { vm, .. } => self.vm(HARDWARE, vm.vmid()),
            // They write the mark.
            Step::ConfigureNode { vm, .. }
            | Step::Bootstrap { vm, .. }
            | Step::RecordBootstrap { vm }
            | Step::RecordConfigured { vm } => self.vm(OPTIONS, vm.vmid()),
            Step::RegisterSchematic { .. }
            | Step::ApplyManifests { .. }
            | Step::PostBootstrap { .. }
            | Step::AwaitHealth => {}
            Step::Upkeep(upkeep) => self.of_upkeep(upkeep),
        }
    }

    fn of_upkeep(&mut self, upkeep: &Upkeep) {
        match upkeep {
            Upkeep::UpgradeNode { vm, carries, .. } => {
                if carries.is_some() {
                    self.vm(POWER, vm.vmid());
                }
            }
            Upkeep::NoteAway { vm, .. } | Upkeep::RetireNode { vm, .. } | Upkeep::RecoverEtcd { vm, .. } => {
                self.vm(OPTIONS, vm.vmid());
            }
            Upkeep::MakeShelf { mark, pool, .. } => {
                let at = At::Vm(mark.vmid, pool.clone());
                for privileges in [ALLOCATE, OPTIONS, HARDWARE, &["VM.Config.Memory"]] {
                    self.add(privileges, at.clone());
                }
            }
            Upkeep::MoveDisk { from, to, .. } => {
                self.vm(DISK, from.vmid());
                self.vm(DISK, to.vmid());
            }
            Upkeep::MoveShelf { vm, .. } => self.vm(&["VM.Migrate"], vm.vmid()),
            Upkeep::RemoveShelf { vm } => self.vm(ALLOCATE, vm.vmid()),
            Upkeep::SnapshotEtcd { .. }
            | Upkeep::DrainNode { .. }
            | Upkeep::ReturnNode { .. }
            | Upkeep::ChangeNode { .. }
            | Upkeep::UpgradeKubernetes { .. }
            | Upkeep::ForgetNode { .. }
            | Upkeep::RotateAuthority { .. }
            | Upkeep::SettleAuthority { .. } => {}
        }
    }

    /// A clone takes the template's devices along: their bridges and mappings are used, whatever replaces them later.
    fn clone_of(&mut self, template: VmId, clone: &CloneKind) {
        let guest = self.observed.guests.get(&template);
        let mut declared = self.desired.nodes.iter().filter_map(|node| node.vm.template.as_ref());
        let is_declared =
            guest.is_some_and(|guest| declared.any(|wanted| crate::is_template_in_use(wanted, guest)));
        let at = if is_declared { At::Template(template) } else { self.template(template) };
        self.add(&["VM.Clone"], at);
        let config = guest.and_then(|guest| guest.seen()).map(|seen| seen.next.clone()).unwrap_or_default();
        if let CloneKind::Full { storage } = clone {
            self.storage(SPACE, storage);
        } else {
            for disk in config.disks().unwrap_or_default().values().filter(|disk| !disk.is_cdrom()) {
                if let DriveSource::Volume(volume) = &disk.source {
                    self.storage(SPACE, volume.storage());
                }
            }
        }
        let kept: BTreeMap<String, String> =
            config.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        for (key, value) in &kept {
            self.network(key, value);
            self.mapping(key, value);
        }
    }

    /// A VM that is made: its disks ask only for their storages.
    fn create(&mut self, set: &BTreeMap<String, String>, at: &At) {
        for (key, value) in set {
            match key.parse::<Slot>() {
                Ok(slot) if slot.is_drive() => self.drive_storages(value),
                Ok(_) | Err(_) => self.option(key, Some(value), at),
            }
        }
    }

    fn change(&mut self, set: &BTreeMap<String, String>, delete: &BTreeSet<String>, at: &At) {
        for (key, value) in set {
            match key.parse::<Slot>() {
                Ok(slot) if slot.is_drive() => {
                    self.drive(value, at);
                    self.drive_storages(value);
                }
                Ok(_) | Err(_) => self.option(key, Some(value), at),
            }
        }
        for key in delete {
            match key.parse::<Slot>() {
                Ok(slot) if slot.is_drive() => {
                    let At::Vm(vmid, _) = at else { continue };
                    let held = self.config_value(*vmid, key).unwrap_or_default();
                    self.drive(&held, at);
                }
                Ok(_) | Err(_) => self.option(key, None, at),
            }
        }
    }

    /// A drive's kind decides who may touch it.
    fn drive(&mut self, value: &str, at: &At) {
        let Ok(disk) = Disk::parse(value) else { return self.add(DISK, at.clone()) };
        if disk.is_cloud_init() {
            self.add(&["VM.Config.Cloudinit"], at.clone());
        }
        let is_cd = disk.is_cdrom() || disk.is_cloud_init();
        self.add(if is_cd { CDROM } else { DISK }, at.clone());
    }

    fn drive_storages(&mut self, value: &str) {
        let first = value.split(',').next().unwrap_or_default();
        if let Some((storage, rest)) = first.split_once(':')
            && let Ok(storage) = StorageId::parse(storage)
        {
            // A size: a disk that is made. What is there already, and a cloud-init drive, ask for nothing.
            let is_new = rest.chars().all(|c| c.is_ascii_digit() || c == '.');
            if is_new {
                self.storage(SPACE, &storage);
            } else if rest.starts_with("iso/") {
                self.storage(READ, &storage);
            }
        }
        let source = value.split(',').find_map(|option| option.strip_prefix("import-from="));
        if let Some((storage, _)) = source.and_then(|source| source.split_once(':'))
            && let Ok(storage) = StorageId::parse(storage)
        {
            self.storage(READ, &storage);
        }
    }

    fn option(&mut self, key: &str, value: Option<&str>, at: &At) {
        let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let privileges: &'static [&'static str] = match family {
            family if PROCESSORS.contains(&family) => &["VM.Config.CPU"],
            "memory" | "balloon" | "shares" => &["VM.Config.Memory"],
            "net" => &["VM.Config.Network"],
            "boot" => DISK,
            "ipconfig" | "nameserver" | "searchdomain" | "ciuser" | "cipassword" | "citype" | "ciupgrade"
            | "sshkeys" => &["VM.Config.Network", "VM.Config.Cloudinit"],
            "acpi" | "audio" | "hotplug" | "kvm" | "machine" | "rng" | "scsihw" | "smbios" | "tablet"
            | "vga" | "watchdog" | "serial" | "hostpci" | "usb" => HARDWARE,
            _ => OPTIONS,
        };
        // A raw device is for root alone, who has every privilege.
        self.add(privileges, at.clone());
        if family == "startup" {
            self.path(&["Sys.Modify"], "/".to_owned());
        }
        let At::Vm(vmid, _) = at else { return };
        let held = self.config_value(*vmid, key);
        for value in value.map(str::to_owned).into_iter().chain(held) {
            self.network(key, &value);
            self.mapping(key, &value);
        }
    }

    fn config_value(&self, vmid: VmId, key: &str) -> Option<String> {
        let seen = self.observed.guests.get(&vmid)?.seen()?;
        seen.next.get(key).map(str::to_owned)
    }

    fn network(&mut self, key: &str, value: &str) {
        if !key.starts_with("net") {
            return;
        }
        let Ok(device) = NetDevice::parse(value) else { return };
        if let Some(bridge) = device.bridge {
            let path = bridge_path(&self.observed.zones, bridge.as_str(), device.tag);
            self.path(NETWORK, path);
        }
    }

    fn mapping(&mut self, key: &str, value: &str) {
        if !key.starts_with("hostpci") {
            return;
        }
        let name = value.split(',').find_map(|option| option.strip_prefix("mapping="));
        if let Some(name) = name {
            self.path(&["Mapping.Use"], format!("/mapping/pci/{name}"));
        }
    }

    fn fetch(&mut self, host: &HostName, storage: &StorageId, image: &Image) {
        self.storage(PUT, storage);
        // What is compressed in a way the host cannot unpack is fetched here and sent there.
        if image.compression.is_none() {
            self.path(FETCH, format!("/nodes/{host}"));
        }
    }

    fn disk_at(&self, vmid: VmId, slot: Slot) -> Option<StorageId> {
        let value = self.config_value(vmid, &slot.to_string())?;
        match Disk::parse(&value).ok()?.source {
            DriveSource::Volume(volume) => Some(volume.storage().clone()),
            DriveSource::Allocate { .. }
            | DriveSource::CloudInit { .. }
            | DriveSource::Path(_)
            | DriveSource::Empty
            | DriveSource::HostCdrom => None,
        }
    }
}
