//! PCI devices of the host, given to the guest.

use std::fmt;

use talmox_types::{MappingName, PciAddress};

use crate::property::macros::property_struct;
use crate::property::{Grammar, PropertyValue};

/// Devices by address, one or several functions that go together. Only `root@pam` may set these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevices(pub Vec<PciAddress>);

impl PropertyValue for HostDevices {
    fn read(text: &str) -> Result<Self, String> {
        let address = |part| PciAddress::parse(part).map_err(|error| error.to_string());
        text.split(';').map(address).collect::<Result<_, _>>().map(Self)
    }

    fn print(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
    }
}

impl fmt::Display for HostDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print())
    }
}

property_struct! {
    /// A passed-through device: `hostpci0`, by address or by mapping.
    HostPci: Grammar::new("a PCI device").default_key("host").leading(&["mapping"]);
    required {}
    optional {
        host: HostDevices => "host";
        mapping: MappingName => "mapping";
        pcie: bool => "pcie" = false;
        rombar: bool => "rombar" = true;
        x_vga: bool => "x-vga" = false;
        legacy_igd: bool => "legacy-igd" = false;
        mdev: String => "mdev";
        romfile: String => "romfile";
        driver: String => "driver" = "vfio".to_owned();
    }
}

impl HostPci {
    /// A device by its mapping, which any token with `Mapping.Use` may set.
    pub fn mapped(mapping: MappingName) -> Self {
        Self { mapping: Some(mapping), ..Self::default() }
    }

    /// A device by its address on the host.
    pub fn at(address: PciAddress) -> Self {
        Self { host: Some(HostDevices(vec![address])), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_defaults_compare_by_meaning() {
        let short = HostPci::parse("01:00.0,pcie=1").unwrap();
        assert_eq!(short, HostPci::parse("pcie=on,host=0000:01:00.0,rombar=1,x-vga=0").unwrap());
        assert_eq!(short.to_string(), "0000:01:00.0,pcie=1");
        assert_eq!(HostPci::parse("mapping=gpu,pcie=1").unwrap().to_string(), "mapping=gpu,pcie=1");
        assert_ne!(short, HostPci::parse("01:00.1,pcie=1").unwrap());
        assert!(HostPci::parse("1:0").is_err());
    }
}
