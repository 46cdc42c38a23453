//! Numbered keys of a VM's configuration: `scsi0`, `net3`, `hostpci0`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::property::PropertyError;

macro_rules! slot_kinds {
    ($($(#[$doc:meta])* $kind:ident => $prefix:literal, $count:literal;)+) => {
        /// What a numbered key holds. The order is the one Proxmox looks for a boot disk in, then by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SlotKind { $($(#[$doc])* $kind),+ }

        impl SlotKind {
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The key without its number.
            pub const fn prefix(self) -> &'static str {
                match self { $(Self::$kind => $prefix),+ }
            }

            /// How many keys of this kind a VM can have.
            pub const fn count(self) -> u16 {
                match self { $(Self::$kind => $count),+ }
            }
        }
    };
}

slot_kinds! {
    Ide => "ide", 4;
    Scsi => "scsi", 31;
    Virtio => "virtio", 16;
    Sata => "sata", 6;
    Audio => "audio", 1;
    EfiDisk => "efidisk", 1;
    HostPci => "hostpci", 16;
    IpConfig => "ipconfig", 32;
    Net => "net", 32;
    Numa => "numa", 8;
    Parallel => "parallel", 3;
    Rng => "rng", 1;
    Serial => "serial", 4;
    TpmState => "tpmstate", 1;
    /// A volume that belongs to the VM and is not attached.
    Unused => "unused", 256;
    Usb => "usb", 14;
    VirtioFs => "virtiofs", 10;
}

/// A numbered key. Ordered by kind and number, so `scsi2` is before `scsi10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slot {
    kind: SlotKind,
    index: u8,
}

impl Slot {
    pub const EFI_DISK: Self = Self { kind: SlotKind::EfiDisk, index: 0 };
    pub const TPM_STATE: Self = Self { kind: SlotKind::TpmState, index: 0 };

    /// The key of a kind and a number, if Proxmox has that many.
    pub const fn new(kind: SlotKind, index: u8) -> Option<Self> {
        if (index as u16) < kind.count() { Some(Self { kind, index }) } else { None }
    }

    pub fn parse(text: &str) -> Result<Self, PropertyError> {
        Self::find(text).ok_or_else(|| {
            PropertyError::new("a numbered key", text, "a kind and a number, like scsi0, net1 or hostpci0")
        })
    }

    fn find(text: &str) -> Option<Self> {
        let prefix = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &text[prefix.len()..];
        let kind = SlotKind::ALL.iter().find(|kind| kind.prefix() == prefix)?;
        let canonical = number == "0" || !number.starts_with('0');
        number.parse().ok().filter(|_| canonical).and_then(|index| Self::new(*kind, index))
    }

    pub const fn kind(self) -> SlotKind {
        self.kind
    }

    pub const fn index(self) -> u8 {
        self.index
    }

    /// Whether this key holds a drive: a disk or CD on a bus, not the EFI or TPM state.
    pub const fn is_drive(self) -> bool {
        matches!(self.kind, SlotKind::Ide | SlotKind::Scsi | SlotKind::Virtio | SlotKind::Sata)
    }

    /// Whether this key names a volume: a drive, the EFI or TPM state, or an unused disk.
    pub const fn holds_volume(self) -> bool {
        self.is_drive() || matches!(self.kind, SlotKind::EfiDisk | SlotKind::TpmState | SlotKind::Unused)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.index)
    }
}

impl std::str::FromStr for Slot {
    type Err = PropertyError;
    fn from_str(text: &str) -> Result<Self, PropertyError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Slot {
    type Error = PropertyError;
    fn try_from(text: String) -> Result<Self, PropertyError> {
        Self::parse(&text)
    }
}

impl From<Slot> for String {
    fn from(slot: Slot) -> Self {
        slot.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_bounds() {
        for good in
            ["scsi0", "scsi30", "virtio15", "net31", "efidisk0", "hostpci15", "unused12", "ide2", "virtiofs0"]
        {
            assert_eq!(Slot::parse(good).unwrap().to_string(), good);
        }
        for bad in ["scsi", "scsi31", "scsi00", "scsi-1", "scsihw", "smbios1", "ide4", "scsi300", "", "0"] {
            assert!(Slot::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_sort_as_numbers() {
        assert!(Slot::parse("scsi2").unwrap() < Slot::parse("scsi10").unwrap());
    }
}
