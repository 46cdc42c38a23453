//! VMs: making, copying, moving and removing them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use talmox_types::{HostName, PoolName, StorageId, VmId};

use crate::client::encode::{Segment, path};
use crate::client::{Client, ConfigChange, Error, Params, PendingItem, Upid, scalar};
use crate::property::{DiskSize, Slot, VmConfig};

/// A VM to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateVm {
    pub vmid: VmId,
    pub config: VmConfig,
    pub pool: Option<PoolName>,
    /// Where disks go that name no storage.
    pub storage: Option<StorageId>,
}

/// A copy to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneVm {
    pub newid: VmId,
    pub name: Option<String>,
    pub description: Option<String>,
    pub pool: Option<PoolName>,
    /// The host the copy shall live on, if another; everything must then be on shared storage.
    pub target: Option<HostName>,
    pub kind: CloneKind,
}

/// A state of a VM that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Snapshot {
    pub name: String,
    /// Unix seconds; none for `current`.
    #[serde(default, deserialize_with = "scalar::optional")]
    pub snaptime: Option<u64>,
}

/// Whether the copy stands on the template's disks or has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneKind {
    Linked,
    Full { storage: Option<StorageId>, format: Option<String> },
}

/// Where a disk shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveDisk {
    ToStorage {
        storage: StorageId,
        format: Option<String>,
        /// Whether the old volume goes; else it stays as an unused disk.
        delete: bool,
    },
    /// To another VM, whose it is from then on.
    ToVm { vmid: VmId, slot: Slot },
}

/// A VM to be moved to another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    pub target: HostName,
    pub online: bool,
    pub with_local_disks: bool,
    pub target_storage: Option<StorageId>,
}

/// What stands against a migration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MigratePreconditions {
    #[serde(default, deserialize_with = "scalar::flag")]
    pub running: bool,
    #[serde(default)]
    pub allowed_nodes: Vec<HostName>,
    #[serde(default)]
    pub not_allowed_nodes: Value,
    #[serde(default)]
    pub local_disks: Vec<Value>,
    #[serde(default)]
    pub local_resources: Vec<String>,
}

/// Whether a VM can be cloned or snapshotted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Feature {
    #[serde(rename = "hasFeature", default, deserialize_with = "scalar::flag")]
    pub has_feature: bool,
    #[serde(default)]
    pub nodes: Vec<HostName>,
}

impl Client {
    /// Makes a VM. That the id is taken is refused at once; everything else may fail in the task.
    pub async fn create_vm(&self, node: &HostName, vm: &CreateVm) -> Result<Upid, Error> {
        let extras = Params::new()
            .with("vmid", vm.vmid)
            .with_some("pool", vm.pool.as_ref())
            .with_some("storage", vm.storage.as_ref());
        let params = extras.iter().chain(vm.config.iter()).collect();
        self.post(&path(&[&"nodes", node, &"qemu"]), params).await
    }

    pub async fn clone_vm(&self, node: &HostName, source: VmId, clone: &CloneVm) -> Result<Upid, Error> {
        let params = Params::new()
            .with("newid", clone.newid)
            .with_some("name", clone.name.as_ref())
            .with_some("description", clone.description.as_ref())
            .with_some("pool", clone.pool.as_ref())
            .with_some("target", clone.target.as_ref());
        let params = match &clone.kind {
            CloneKind::Linked => params.with_flag("full", false),
            CloneKind::Full { storage, format } => params
                .with_flag("full", true)
                .with_some("storage", storage.as_ref())
                .with_some("format", format.as_ref()),
        };
        self.post(&vm_path(node, source, &[&"clone"]), params).await
    }

    /// The configuration as it shall be: what is pending is in it.
    pub async fn vm_config(&self, node: &HostName, vmid: VmId) -> Result<VmConfig, Error> {
        self.read_config(node, vmid, Params::new()).await
    }

    /// The configuration the VM runs with.
    pub async fn running_config(&self, node: &HostName, vmid: VmId) -> Result<VmConfig, Error> {
        self.read_config(node, vmid, Params::new().with_flag("current", true)).await
    }

    async fn read_config(&self, node: &HostName, vmid: VmId, params: Params) -> Result<VmConfig, Error> {
        let values: BTreeMap<String, Value> = self.get(&vm_path(node, vmid, &[&"config"]), params).await?;
        let text = |(key, value): (String, Value)| Some((key, scalar::text(&value).ok().flatten()?));
        Ok(values.into_iter().filter_map(text).collect())
    }

    /// Every key with what waits for the next restart.
    pub async fn pending(&self, node: &HostName, vmid: VmId) -> Result<Vec<PendingItem>, Error> {
        self.get(&vm_path(node, vmid, &[&"pending"]), Params::new()).await
    }

    /// Changes the configuration and waits for it. Not for disks: after 30 s Proxmox gives up waiting and works on.
    ///
    /// Keys are taken one after the other. A refusal leaves those before it changed.
    pub async fn change_config(
        &self,
        node: &HostName,
        vmid: VmId,
        change: &ConfigChange,
    ) -> Result<(), Error> {
        self.put(&vm_path(node, vmid, &[&"config"]), change.params()).await
    }

    /// Changes the configuration in a task: for everything that makes, imports or removes disks.
    pub async fn change_config_in_task(
        &self,
        node: &HostName,
        vmid: VmId,
        change: &ConfigChange,
    ) -> Result<Option<Upid>, Error> {
        self.post(&vm_path(node, vmid, &[&"config"]), change.params()).await
    }

    /// Makes a disk this large. To its own size is no change; a smaller one makes the task fail.
    pub async fn resize_disk(
        &self,
        node: &HostName,
        vmid: VmId,
        disk: Slot,
        size: DiskSize,
        digest: Option<&str>,
    ) -> Result<Option<Upid>, Error> {
        let params = Params::new().with("disk", disk).with("size", size).with_some("digest", digest);
        self.put(&vm_path(node, vmid, &[&"resize"]), params).await
    }

    /// Turns a stopped VM into a template.
    pub async fn make_template(&self, node: &HostName, vmid: VmId) -> Result<Option<Upid>, Error> {
        self.post(&vm_path(node, vmid, &[&"template"]), Params::new()).await
    }

    /// Turns one disk of a template into a base image: what is left to do where the worker of
    /// [`make_template`](Self::make_template) died half-way.
    pub async fn make_base(&self, node: &HostName, vmid: VmId, disk: Slot) -> Result<Option<Upid>, Error> {
        self.post(&vm_path(node, vmid, &[&"template"]), Params::new().with("disk", disk)).await
    }

    pub async fn move_disk(
        &self,
        node: &HostName,
        vmid: VmId,
        disk: Slot,
        target: &MoveDisk,
        digest: Option<&str>,
    ) -> Result<Upid, Error> {
        let params = Params::new().with("disk", disk).with_some("digest", digest);
        let params = match target {
            MoveDisk::ToStorage { storage, format, delete } => params
                .with("storage", storage)
                .with_some("format", format.as_ref())
                .with_flag("delete", *delete),
            MoveDisk::ToVm { vmid, slot } => params.with("target-vmid", vmid).with("target-disk", slot),
        };
        self.post(&vm_path(node, vmid, &[&"move_disk"]), params).await
    }

    pub async fn migrate_preconditions(
        &self,
        node: &HostName,
        vmid: VmId,
    ) -> Result<MigratePreconditions, Error> {
        self.get(&vm_path(node, vmid, &[&"migrate"]), Params::new()).await
    }

    pub async fn migrate_vm(
        &self,
        node: &HostName,
        vmid: VmId,
        migration: &Migration,
    ) -> Result<Upid, Error> {
        let params = Params::new()
            .with("target", &migration.target)
            .with_flag("online", migration.online)
            .with_flag("with-local-disks", migration.with_local_disks)
            .with_some("targetstorage", migration.target_storage.as_ref());
        self.post(&vm_path(node, vmid, &[&"migrate"]), params).await
    }

    /// Its snapshots; the last entry is called `current` and is the VM itself.
    pub async fn snapshots(&self, node: &HostName, vmid: VmId) -> Result<Vec<Snapshot>, Error> {
        self.get(&vm_path(node, vmid, &[&"snapshot"]), Params::new()).await
    }

    /// Removes a VM, its disks and unused disks, and with `purge` its HA, backup and replication entries.
    pub async fn delete_vm(&self, node: &HostName, vmid: VmId, purge: bool) -> Result<Upid, Error> {
        self.delete(&vm_path(node, vmid, &[]), Params::new().with_flag("purge", purge)).await
    }

    /// Whether a VM can be cloned (linked) or copied (full).
    pub async fn vm_feature(&self, node: &HostName, vmid: VmId, feature: &str) -> Result<Feature, Error> {
        self.get(&vm_path(node, vmid, &[&"feature"]), Params::new().with("feature", feature)).await
    }

    /// Writes the cloud-init drive anew, now instead of at the next start.
    pub async fn regenerate_cloud_init(&self, node: &HostName, vmid: VmId) -> Result<(), Error> {
        self.put(&vm_path(node, vmid, &[&"cloudinit"]), Params::new()).await
    }

    /// The cloud-init keys, with what the drive does not hold yet.
    pub async fn cloud_init_pending(&self, node: &HostName, vmid: VmId) -> Result<Vec<PendingItem>, Error> {
        self.get(&vm_path(node, vmid, &[&"cloudinit"]), Params::new()).await
    }

    /// What the cloud-init drive holds: `user`, `network` or `meta`.
    pub async fn dump_cloud_init(&self, node: &HostName, vmid: VmId, kind: &str) -> Result<String, Error> {
        self.get(&vm_path(node, vmid, &[&"cloudinit", &"dump"]), Params::new().with("type", kind)).await
    }
}

/// A path below a VM.
pub(super) fn vm_path(node: &HostName, vmid: VmId, rest: &[Segment<'_>]) -> String {
    path(&[&[&"nodes" as Segment<'_>, node, &"qemu", &vmid], rest].concat())
}
