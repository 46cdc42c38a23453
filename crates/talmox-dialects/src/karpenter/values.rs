//! Values only these manifests have.

use talmox_config::read::{At, Int, Reading, Shape, Text, Value, choices, harmless, read_checked};
use talmox_config::{Code, Problem};
use talmox_types::{Cidr, Invalid, PoolName};
use talmox_yaml::Node;

choices! {
    Machine { "q35" => Q35, "pc" => Pc }
    Bios { "seabios" => SeaBios, "ovmf" => Ovmf }
    TpmVersion { "v2.0" => V20, "v1.2" => V12 }
    AgentType { "virtio" => Virtio, "isa" => Isa }
    CpuType {
        "x86-64-v2-AES" => V2Aes, "x86-64-v2" => V2, "x86-64-v3" => V3, "x86-64-v4" => V4,
        "host" => Host, "kvm64" => Kvm64
    }
    VgaType { "std" => Std, "serial0" => Serial0, "none" => None, "vmware" => Vmware }
    NicModel {
        "virtio" => Virtio, "e1000" => E1000, "e1000e" => E1000e, "rtl8139" => Rtl8139, "vmxnet3" => Vmxnet3
    }
    ChecksumType {
        "md5" => Md5, "sha1" => Sha1, "sha224" => Sha224, "sha256" => Sha256, "sha384" => Sha384, "sha512" => Sha512
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    #[default]
    Q35,
    Pc,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bios {
    #[default]
    SeaBios,
    Ovmf,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TpmVersion {
    #[default]
    V20,
    V12,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentType {
    #[default]
    Virtio,
    Isa,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuType {
    #[default]
    V2Aes,
    V2,
    V3,
    V4,
    Host,
    Kvm64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VgaType {
    #[default]
    Std,
    Serial0,
    None,
    Vmware,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicModel {
    #[default]
    Virtio,
    E1000,
    E1000e,
    Rtl8139,
    Vmxnet3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumType {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// Defines a text of a form: its name, what it is called, the rule in words, and the rule itself.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $valid:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(pub String);

        impl Value for $name {
            fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
                read_checked(node, $what, reading, |text| {
                    let valid: fn(&str) -> bool = $valid;
                    if valid(text) {
                        Ok(Self(text.to_owned()))
                    } else {
                        Err(Invalid { what: $what, value: text.to_owned(), rule: $rule })
                    }
                })
            }

            fn shape() -> Shape {
                Shape::Text { what: $what, pattern: None }
            }

            fn show(&self) -> String {
                self.0.clone()
            }
        }
    )+};
}

texts! {
    /// A CPU flag with its sign.
    CpuFlag, "a CPU flag", "+ to switch it on or - to switch it off, then its name: +pdpe1gb",
        |text| text.strip_prefix(['+', '-']).is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        });
    /// The number of a network device.
    NetName, "the name of a network device", "net0 to net5", |text| NetName::number(text).is_some();
    /// What an image is called.
    ImageName, "the name of an image", "1 to 64 letters, digits, `-`, `_` and `.`, like ubuntu-amd64.qcow2",
        |text| (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    /// The type of a mediated device.
    Mdev, "a mediated device type", "letters, digits, `-`, `_` and `.`",
        |text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    /// How an interface gets its IPv4 address.
    Address4, "an IPv4 address", "an address with the length of its prefix, 10.0.7.11/24, or dhcp",
        |text| text == "dhcp" || Cidr::parse(text).is_ok_and(|cidr| cidr.is_ipv4() && cidr.prefix() >= 8);
    /// How an interface gets its IPv6 address.
    Address6, "an IPv6 address", "an address with the length of its prefix, fd00:7::11/64, or auto, or dhcp",
        |text| ["auto", "dhcp"].contains(&text)
            || Cidr::parse(text).is_ok_and(|cidr| !cidr.is_ipv4() && cidr.prefix() >= 8);
}

impl NetName {
    pub(super) fn number(text: &str) -> Option<u8> {
        let digits = text.strip_prefix("net")?;
        let number: u8 = digits.parse().ok().filter(|number| *number < 6)?;
        (number.to_string() == digits).then_some(number)
    }
}

/// A resource pool, which may be two levels below another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePool(pub PoolName);

impl Value for ResourcePool {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        read_checked(
            node,
            "a Proxmox pool name",
            reading,
            harmless(|text| match PoolName::parse(text) {
                Ok(pool) if text.len() <= 64 => Ok(Self(pool)),
                _ => Err(Invalid {
                    what: "a Proxmox pool name",
                    value: text.to_owned(),
                    rule: "letters, digits, `-`, `_` and `.`, at most 64, at most two levels separated by `/` deep",
                }),
            }),
        )
    }

    fn shape() -> Shape {
        Shape::Text { what: "a Proxmox pool name", pattern: None }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// The largest packet of an interface: 1 takes the bridge's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu(pub u32);

impl Value for Mtu {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let number: u32 = Int::<1, 65_520>::read(node, reading)?.to();
        if number == 1 || number >= 576 {
            return Some(Self(number));
        }
        let location = reading.location(node);
        reading.report(
            Problem::error(Code::OutOfRange, format!("{number} is too small"))
                .at(location, "smaller than any network has it")
                .hint("from 576 to 65520, or 1 for that of the bridge"),
        );
        None
    }

    fn shape() -> Shape {
        Shape::Integer { min: 1, max: 65_520 }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Regions are several Proxmox clusters; a run is connected to one.
pub(super) fn one_region(region: Option<&At<Text>>, reading: &mut Reading<'_>) {
    if let Some(region) = region {
        let name = &region.value.0;
        reading.report(
            Problem::warning(Code::KeyNotOurs, format!("region {name} decides nothing here"))
                .at(region.location, "not compared with anything")
                .hint("a run works on the one Proxmox cluster it is connected to"),
        );
    }
}
