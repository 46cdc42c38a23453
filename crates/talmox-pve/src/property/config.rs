//! A VM's whole configuration.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::property::{
    Agent, Boot, CpuModel, Disk, EfiDisk, HostPci, IpConfig, Machine, Memory, NetDevice, PropertyError, Slot,
    SlotKind, Smbios, Startup, Tags, TpmState, UnusedDisk,
};

/// Keys and their texts as Proxmox keeps them, with getters for what they mean.
///
/// A getter gives `None` for a key that is not set, and an error for a text it cannot read: a VM of somebody else may
/// hold what this crate does not understand, and only its reader can tell whether that matters.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VmConfig(BTreeMap<String, String>);

/// What Proxmox itself shows instead of a password.
const MASK: &str = "**********";

/// Keys that can hold secrets: a password, and the URL a machine configuration is fetched from.
const SECRET_KEYS: [&str; 2] = ["cipassword", "smbios1"];

impl fmt::Debug for VmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            self.iter().map(|(key, value)| (key, if SECRET_KEYS.contains(&key) { MASK } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $key:literal;)+) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> Result<Option<$kind>, PropertyError> {
            self.get($key).map(<$kind>::parse).transpose()
        }
    )+};
}

macro_rules! slots {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $belongs:expr;)+) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> Result<BTreeMap<Slot, $kind>, PropertyError> {
            let belongs: fn(Slot) -> bool = $belongs;
            self.slots().filter(|(slot, _)| belongs(*slot)).map(|(slot, text)| Ok((slot, <$kind>::parse(text)?))).collect()
        }
    )+};
}

impl VmConfig {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Sets a key and gives its text before.
    pub fn set(&mut self, key: impl Into<String>, value: &(impl fmt::Display + ?Sized)) -> Option<String> {
        self.0.insert(key.into(), value.to_string())
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// Keys and texts, sorted by key as Proxmox sorts: `scsi10` comes before `scsi2`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The numbered keys and their texts.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, &str)> {
        self.iter().filter_map(|(key, value)| Some((Slot::parse(key).ok()?, value)))
    }

    getters! {
        agent: Agent = "agent";
        boot: Boot = "boot";
        cpu: CpuModel = "cpu";
        efi_disk: EfiDisk = "efidisk0";
        machine: Machine = "machine";
        memory: Memory = "memory";
        smbios: Smbios = "smbios1";
        startup: Startup = "startup";
        tags: Tags = "tags";
        tpm_state: TpmState = "tpmstate0";
    }

    slots! {
        /// Disks and CDs on every bus, the cloud-init drive included.
        disks: Disk = Slot::is_drive;
        host_devices: HostPci = |slot| slot.kind() == SlotKind::HostPci;
        ip_configs: IpConfig = |slot| slot.kind() == SlotKind::IpConfig;
        net_devices: NetDevice = |slot| slot.kind() == SlotKind::Net;
        unused_disks: UnusedDisk = |slot| slot.kind() == SlotKind::Unused;
    }

    /// A whole number, like `cores` or `balloon`.
    pub fn number(&self, key: &str) -> Result<Option<u64>, PropertyError> {
        let number =
            |text: &str| text.parse().map_err(|_| PropertyError::new("a number", text, format!("in {key}")));
        self.get(key).map(number).transpose()
    }

    /// A switch of its own, like `numa` or `onboot`: nothing but `1` is on.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key) == Some("1")
    }

    pub fn name(&self) -> Option<&str> {
        self.get("name")
    }

    pub fn description(&self) -> Option<&str> {
        self.get("description")
    }

    /// What Proxmox is doing to this VM, if anything: `clone`, `create`, `migrate`.
    pub fn lock(&self) -> Option<&str> {
        self.get("lock")
    }

    /// The checksum a change names so that nobody else's is overwritten.
    pub fn digest(&self) -> Option<&str> {
        self.get("digest")
    }

    pub fn is_template(&self) -> bool {
        self.flag("template")
    }

    /// `key: value` lines sorted by key, as `qm config` prints them: without the digest, the description encoded, the
    /// password masked.
    pub fn to_qm_config_text(&self) -> String {
        let mut text = String::new();
        for (key, value) in self.iter().filter(|(key, _)| *key != "digest") {
            let value = match key {
                "description" => encode_text(value),
                "cipassword" => MASK.to_owned(),
                _ => value.to_owned(),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key}: {value}");
        }
        text
    }
}

/// Percent-encodes what must not stand in a line: control characters, everything beyond ASCII, `:` and `%`.
fn encode_text(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b':' && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for VmConfig {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(values: I) -> Self {
        Self(values.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> VmConfig {
        [
            ("scsi10", "local:vm-1-disk-2,size=1G"),
            ("scsi2", "local:vm-1-disk-1,size=1G"),
            ("agent", "enabled=1"),
            ("digest", "abc"),
            ("scsihw", "virtio-scsi-pci"),
            ("numa", "1"),
            ("cores", "4"),
            ("description", "50%: ä\nb"),
        ]
        .into_iter()
        .collect()
    }

    #[test]
    fn prints_like_qm_config() {
        let text = sample().to_qm_config_text();
        assert_eq!(
            text,
            "agent: enabled=1\ncores: 4\ndescription: 50%25%3A %C3%A4%0Ab\nnuma: 1\n\
             scsi10: local:vm-1-disk-2,size=1G\nscsi2: local:vm-1-disk-1,size=1G\nscsihw: virtio-scsi-pci\n"
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        let config: VmConfig =
            [("cipassword", "hunter2"), ("smbios1", "serial=hunter2")].into_iter().collect();
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(config.to_qm_config_text().starts_with("cipassword: **********\n"));
    }

    #[test]
    fn getters_read_what_is_meant() {
        let config = sample();
        assert_eq!(config.agent().unwrap(), Some(Agent::new(true)));
        assert_eq!(config.memory().unwrap(), None);
        assert_eq!(config.number("cores").unwrap(), Some(4));
        assert!(config.flag("numa"));
        let disks = config.disks().unwrap();
        assert_eq!(disks.keys().map(ToString::to_string).collect::<Vec<_>>(), ["scsi2", "scsi10"]);
        assert_eq!(config.digest(), Some("abc"));
    }
}
