//! The values of a VM's configuration.
//!
//! Proxmox keeps structured values as *property strings*: `local-zfs:vm-2001-disk-1,discard=on,size=256G`. One value may
//! stand without its key, options come in any order, booleans have eight spellings, and some keys have aliases. The types
//! here parse all of that, print the one form Proxmox itself prints (default value bare and first, other keys sorted,
//! booleans `0`/`1`), and are equal when they mean the same: defaults are applied before comparing, so `1` equals
//! `enabled=1,type=virtio` for an [`Agent`]. Options this crate does not know survive in `other`.

mod agent;
mod boot;
mod config;
mod cpu;
mod disk;
mod error;
mod grammar;
mod hostpci;
mod ipconfig;
mod machine;
mod macros;
mod net;
mod size;
mod slot;
mod smbios;
mod startup;
mod tags;
mod value;
mod volume;

pub use agent::{Agent, AgentType};
pub use boot::Boot;
pub use config::VmConfig;
pub use cpu::CpuModel;
pub use disk::{Discard, Disk, EfiDisk, EfiType, Media, TpmState, TpmVersion, UnusedDisk};
pub use error::PropertyError;
pub use grammar::{Grammar, ModelKeys, PropertyString};
pub use hostpci::{HostDevices, HostPci};
pub use ipconfig::{IpConfig, Ipv4Setting, Ipv6Setting};
pub use machine::{Machine, Memory};
pub use net::{NetDevice, NicModel};
pub use size::DiskSize;
pub use slot::{Slot, SlotKind};
pub use smbios::Smbios;
pub use startup::Startup;
pub use tags::Tags;
pub use value::{Decimal, ItemSet, PropertyValue};
pub use volume::{DriveSource, VolumeId};
