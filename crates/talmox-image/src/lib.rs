//! Talos images: what they are made of, where they are, and which one a machine installs.
//!
//! A [`Schematic`] says what the Image Factory puts into an image; its id is the hash of its canonical bytes and is
//! computed here, offline ([`Schematic::id`]). A [`Factory`] knows the address of everything made from a schematic.
//! [`install`] chooses the install image of a machine by the provider it runs on. With feature `client`, the `client`
//! module registers schematics and looks at what a factory offers.

pub mod canonical;
#[cfg(feature = "client")]
pub mod client;
mod extensions;
mod factory;
pub mod install;
mod parse;
mod schematic;
mod suggest;

pub use extensions::{Remark, check_extensions};
pub use factory::{
    Arch, Artifact, Compression, DiskFormat, Factory, ImageFile, InvalidName, OFFICIAL, PLATFORMS, Platform,
};
pub use parse::{Fault, InvalidSchematic};
pub use schematic::{Bootloader, EnrollKeys, MetaValue, Overlay, Schematic, SecureBoot};
pub use suggest::closest;
