//! Network devices.

use talmox_types::{BridgeName, MacAddress};

use crate::property::macros::{property_struct, words};
use crate::property::{Decimal, Grammar, ItemSet, ModelKeys};

words! {
    /// The card the guest sees.
    NicModel {
        E1000 => "e1000",
        E100082540em => "e1000-82540em",
        E100082544gc => "e1000-82544gc",
        E100082545em => "e1000-82545em",
        E1000e => "e1000e",
        I82551 => "i82551",
        I82557b => "i82557b",
        I82559er => "i82559er",
        Ne2kIsa => "ne2k_isa",
        Ne2kPci => "ne2k_pci",
        Pcnet => "pcnet",
        Rtl8139 => "rtl8139",
        Virtio => "virtio",
        Vmxnet3 => "vmxnet3",
    }
}

property_struct! {
    /// A network device: `net0`.
    NetDevice: Grammar::new("a network device").default_key("model").model_keys(ModelKeys {
        models: NicModel::WORDS,
        model: "model",
        value: "macaddr",
    });
    required {
        model: NicModel => "model";
    }
    optional {
        /// Left out of a change, Proxmox would make a new one up.
        mac: MacAddress => "macaddr";
        bridge: BridgeName => "bridge";
        firewall: bool => "firewall" = false;
        host_tunnel: bool => "host-tunnel" = false;
        link_down: bool => "link_down" = false;
        mtu: u32 => "mtu";
        queues: u16 => "queues" = 0;
        /// In megabytes per second.
        rate: Decimal => "rate";
        /// The VLAN.
        tag: u16 => "tag";
        trunks: ItemSet => "trunks";
    }
}

impl NetDevice {
    /// This device with the address of the live one where it declares none.
    #[must_use]
    pub fn with_mac_of(&self, live: &Self) -> Self {
        Self { mac: self.mac.or(live.mac), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployed_nic_prints_as_proxmox_prints_it() {
        let text = "virtio=BC:24:11:62:36:54,bridge=vmbr0,queues=4,tag=7";
        for same in [
            text,
            "tag=7,queues=4,bridge=vmbr0,virtio=bc:24:11:62:36:54",
            "model=virtio,macaddr=bc:24:11:62:36:54,bridge=vmbr0,tag=7,queues=4,firewall=off",
            "virtio,macaddr=BC:24:11:62:36:54,bridge=vmbr0,tag=7,queues=4,link_down=0",
        ] {
            assert_eq!(NetDevice::parse(same).unwrap(), NetDevice::parse(text).unwrap(), "{same}");
        }
        assert_eq!(NetDevice::parse(text).unwrap().to_string(), text);
        assert_eq!(NetDevice::parse("bridge=vmbr0,model=e1000").unwrap().to_string(), "e1000,bridge=vmbr0");
    }

    #[test]
    fn a_change_repeats_the_address() {
        let live = NetDevice::parse("virtio=BC:24:11:62:36:54,bridge=vmbr0").unwrap();
        let wanted = NetDevice::parse("virtio,bridge=vmbr1").unwrap();
        assert_eq!(wanted.with_mac_of(&live).to_string(), "virtio=BC:24:11:62:36:54,bridge=vmbr1");
    }

    #[test]
    fn what_proxmox_refuses_is_refused() {
        for (bad, problem) in [
            ("foo,bridge=vmbr0", "model: `foo` is none of e1000"),
            (
                "virtio=01:00:00:00:00:01,bridge=vmbr0",
                "macaddr: `01:00:00:00:00:01` is not a unicast MAC address",
            ),
            ("virtio=zz:zz,bridge=vmbr0", "macaddr: `zz:zz` is not"),
            ("virtio,model=e1000", "model is given twice"),
            ("bridge=vmbr0", "model is missing"),
        ] {
            let error = NetDevice::parse(bad).unwrap_err();
            assert!(error.problem.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn trunks_are_a_set_and_rates_numbers() {
        let one = NetDevice::parse("virtio,trunks=5;10-20,rate=12.50").unwrap();
        assert_eq!(one, NetDevice::parse("virtio,trunks=10-20;5,rate=12.5").unwrap());
    }
}
