//! The machine type and its memory.

use crate::property::Grammar;
use crate::property::macros::property_struct;

property_struct! {
    /// `machine`: the chipset, possibly pinned to a version.
    Machine: Grammar::new("a machine type").default_key("type");
    required {}
    optional {
        machine_type: String => "type" = "pc".to_owned();
        viommu: String => "viommu";
        aw_bits: u16 => "aw-bits";
        enable_s3: bool => "enable-s3";
        enable_s4: bool => "enable-s4";
    }
}

impl Machine {
    /// A chipset as Proxmox defaults it otherwise, like `q35`.
    pub fn named(machine_type: &str) -> Self {
        Self { machine_type: Some(machine_type.to_owned()), ..Self::default() }
    }
}

property_struct! {
    /// `memory` in MiB; Proxmox gives it as a text.
    Memory: Grammar::new("an amount of memory").default_key("current");
    required {
        mib: u64 => "current";
    }
    optional {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_and_keyed_are_the_same() {
        assert_eq!(Machine::parse("type=q35").unwrap(), Machine::named("q35"));
        assert_eq!(Machine::parse("viommu=virtio,type=q35").unwrap().to_string(), "q35,viommu=virtio");
        assert_eq!(Memory::parse("current=8192").unwrap(), Memory::new(8192));
        assert_eq!(Memory::new(8192).to_string(), "8192");
        assert!(Memory::parse("8G").is_err());
    }
}
