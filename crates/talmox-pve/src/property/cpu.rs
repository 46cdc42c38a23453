//! The CPU the guest sees.

use crate::property::macros::property_struct;
use crate::property::{Grammar, ItemSet};

property_struct! {
    /// `cpu`: model and flags. Proxmox keeps this text as it was given.
    CpuModel: Grammar::new("a CPU model").default_key("cputype");
    required {}
    optional {
        model: String => "cputype" = "kvm64".to_owned();
        /// `+aes`, `-pcid`; their order means nothing.
        flags: ItemSet => "flags";
        hidden: bool => "hidden" = false;
        hv_vendor_id: String => "hv-vendor-id";
        phys_bits: String => "phys-bits";
        guest_phys_bits: u16 => "guest-phys-bits";
        level: u32 => "level";
        reported_model: String => "reported-model" = "kvm64".to_owned();
    }
}

impl CpuModel {
    /// A model without flags, like `host`.
    pub fn named(model: &str) -> Self {
        Self { model: Some(model.to_owned()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_a_set() {
        let one = CpuModel::parse("host,flags=+pcid;+aes,hidden=0").unwrap();
        assert_eq!(one, CpuModel::parse("flags=+aes;+pcid,cputype=host").unwrap());
        assert_eq!(CpuModel::parse("cputype=x86-64-v2-AES").unwrap(), CpuModel::named("x86-64-v2-AES"));
        assert_eq!(CpuModel::named("host").to_string(), "host");
        assert_ne!(CpuModel::named("host"), CpuModel::parse("host,hidden=1").unwrap());
    }
}
