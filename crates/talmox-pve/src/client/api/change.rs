//! Changes of a VM's configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::client::{Params, scalar};
use crate::property::{Disk, DriveSource, NetDevice, PropertyError, Slot, SlotKind, VmConfig};

/// A change that must not be made as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("{slot} must name its MAC address: Proxmox gives the device a new one otherwise")]
    NoMacAddress { slot: Slot },
    #[error("{slot} would get a new disk: add disks to free slots, and repeat the volume to change one")]
    NewDisk { slot: Slot },
    #[error("{slot} holds {held} already")]
    SlotTaken { slot: Slot, held: String },
    #[error(transparent)]
    Property(#[from] PropertyError),
}

/// Keys to set and to delete, and the state they were decided on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChange {
    set: VmConfig,
    delete: BTreeSet<String>,
    revert: BTreeSet<String>,
    force: bool,
    digest: Option<String>,
}

impl ConfigChange {
    pub fn new() -> Self {
        Self::default()
    }

    /// Only if the configuration still is the one with this digest.
    #[must_use]
    pub fn if_digest(mut self, digest: &str) -> Self {
        self.digest = Some(digest.to_owned());
        self
    }

    /// Sets a key. A network device must repeat its MAC address and a drive its volume.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self, ChangeError> {
        if let Ok(slot) = Slot::parse(key) {
            check_slot(slot, value)?;
        }
        self.set.set(key, value);
        Ok(self)
    }

    /// Gives a drive other options on the volume it has.
    pub fn change_disk(self, slot: Slot, wanted: &Disk, live: &Disk) -> Result<Self, ChangeError> {
        self.set(&slot.to_string(), &wanted.on_volume_of(live).to_string())
    }

    /// Changes a network device that keeps its MAC address unless another is wanted.
    pub fn change_net(self, slot: Slot, wanted: &NetDevice, live: &NetDevice) -> Result<Self, ChangeError> {
        self.set(&slot.to_string(), &wanted.with_mac_of(live).to_string())
    }

    /// Puts a disk, made anew or not, into a slot that is free in the live configuration.
    pub fn add_disk(mut self, slot: Slot, disk: &Disk, live: &VmConfig) -> Result<Self, ChangeError> {
        if let Some(held) = live.get(&slot.to_string()) {
            return Err(ChangeError::SlotTaken { slot, held: held.to_owned() });
        }
        self.set.set(slot, disk);
        Ok(self)
    }

    /// Deletes a key. A drive is detached and its volume kept as an unused disk; an unused disk's volume is destroyed.
    #[must_use]
    pub fn delete(mut self, key: &str) -> Self {
        self.delete.insert(key.to_owned());
        self
    }

    /// Takes back what is pending for a key.
    #[must_use]
    pub fn revert(mut self, key: &str) -> Self {
        self.revert.insert(key.to_owned());
        self
    }

    /// Destroys the volumes of deleted drives instead of keeping them.
    #[must_use]
    pub fn destroying_volumes(mut self) -> Self {
        self.force = true;
        self
    }

    pub fn is_empty(&self) -> bool {
        self.set.iter().next().is_none() && self.delete.is_empty() && self.revert.is_empty()
    }

    pub(super) fn params(&self) -> Params {
        let Self { set, delete, revert, force, digest } = self;
        let list = |keys: &BTreeSet<String>| {
            (!keys.is_empty()).then(|| keys.iter().map(String::as_str).collect::<Vec<_>>().join(","))
        };
        let extras = Params::new()
            .with_some("delete", list(delete))
            .with_some("revert", list(revert))
            .with_some("force", force.then_some(1))
            .with_some("digest", digest.as_ref());
        set.iter().chain(extras.iter()).collect()
    }
}

/// Whether a value can be set without losing what the slot holds.
fn check_slot(slot: Slot, value: &str) -> Result<(), ChangeError> {
    if slot.kind() == SlotKind::Net && NetDevice::parse(value)?.mac.is_none() {
        return Err(ChangeError::NoMacAddress { slot });
    }
    if slot.is_drive() && matches!(Disk::parse(value)?.source, DriveSource::Allocate { .. }) {
        return Err(ChangeError::NewDisk { slot });
    }
    Ok(())
}

/// A key of `/pending`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPending")]
pub struct PendingItem {
    pub key: String,
    /// What holds now.
    pub value: Option<String>,
    /// What shall hold after the next restart, if it differs.
    pub pending: Option<String>,
    /// Whether the key shall go.
    pub delete: bool,
}

#[derive(Deserialize)]
struct RawPending(BTreeMap<String, Value>);

impl From<RawPending> for PendingItem {
    fn from(RawPending(fields): RawPending) -> Self {
        let text = |key: &str| fields.get(key).and_then(|value| scalar::text(value).ok().flatten());
        Self {
            key: text("key").unwrap_or_default(),
            value: text("value"),
            pending: text("pending"),
            // 1 deletes, 2 deletes by force.
            delete: text("delete").is_some_and(|delete| !delete.is_empty() && delete != "0"),
        }
    }
}

impl PendingItem {
    /// Whether something waits for a restart.
    pub fn is_pending(&self) -> bool {
        self.delete || self.pending.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_without_address_is_refused() {
        let error = ConfigChange::new().set("net0", "virtio,bridge=vmbr0").unwrap_err();
        assert!(matches!(error, ChangeError::NoMacAddress { .. }), "{error}");
        let change = ConfigChange::new()
            .set("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0")
            .unwrap()
            .delete("ide2")
            .delete("ide0")
            .if_digest("abc");
        assert_eq!(
            change.params().encode(),
            "net0=virtio%3DBC%3A24%3A11%3A00%3A00%3A01%2Cbridge%3Dvmbr0&delete=ide0%2Cide2&digest=abc"
        );
    }

    #[test]
    fn a_disk_is_never_replaced_by_accident() {
        let slot = Slot::parse("scsi0").unwrap();
        let live = Disk::parse("local-zfs:vm-100-disk-0,size=32G").unwrap();
        let wanted = Disk::parse("local-zfs:32,ssd=1").unwrap();
        let error = ConfigChange::new().set("scsi0", &wanted.to_string()).unwrap_err();
        assert_eq!(error, ChangeError::NewDisk { slot });
        let change = ConfigChange::new().change_disk(slot, &wanted, &live).unwrap();
        assert_eq!(change.params().encode(), "scsi0=local-zfs%3Avm-100-disk-0%2Csize%3D32G%2Cssd%3D1");
        let taken: VmConfig = [("scsi0", live.to_string())].into_iter().collect();
        assert!(matches!(
            ConfigChange::new().add_disk(slot, &wanted, &taken),
            Err(ChangeError::SlotTaken { .. })
        ));
        assert!(ConfigChange::new().add_disk(slot, &wanted, &VmConfig::default()).is_ok());
    }

    #[test]
    fn a_nic_keeps_its_address() {
        let slot = Slot::parse("net0").unwrap();
        let live = NetDevice::parse("virtio=BC:24:11:00:00:01,bridge=vmbr0").unwrap();
        let wanted = NetDevice::parse("virtio,bridge=vmbr1").unwrap();
        let change = ConfigChange::new().change_net(slot, &wanted, &live).unwrap();
        assert_eq!(change.params().encode(), "net0=virtio%3DBC%3A24%3A11%3A00%3A00%3A01%2Cbridge%3Dvmbr1");
    }

    #[test]
    fn pending_values_are_texts() {
        let item: PendingItem = serde_json::from_str(r#"{"key":"cores","value":2,"pending":"4"}"#).unwrap();
        assert_eq!((item.value.as_deref(), item.pending.as_deref()), (Some("2"), Some("4")));
        let gone: PendingItem = serde_json::from_str(r#"{"key":"net1","value":"x","delete":2}"#).unwrap();
        assert!(gone.is_pending());
    }
}
