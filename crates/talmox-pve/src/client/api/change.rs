//! Changes of a VM's configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::client::{Params, scalar};
use crate::property::{NetDevice, PropertyError, Slot, SlotKind, VmConfig};

/// A change that must not be made as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("{slot} must name its MAC address: Proxmox gives the device a new one otherwise")]
    NoMacAddress { slot: Slot },
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

    /// Sets a key. A network device must repeat its MAC address.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self, ChangeError> {
        if let Ok(slot) = Slot::parse(key)
            && slot.kind() == SlotKind::Net
            && NetDevice::parse(value)?.mac.is_none()
        {
            return Err(ChangeError::NoMacAddress { slot });
        }
        self.set.set(key, value);
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
    fn pending_values_are_texts() {
        let item: PendingItem = serde_json::from_str(r#"{"key":"cores","value":2,"pending":"4"}"#).unwrap();
        assert_eq!((item.value.as_deref(), item.pending.as_deref()), (Some("2"), Some("4")));
        let gone: PendingItem = serde_json::from_str(r#"{"key":"net1","value":"x","delete":2}"#).unwrap();
        assert!(gone.is_pending());
    }
}
