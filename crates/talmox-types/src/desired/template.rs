//! Templates that are built from images, and kept as described.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Checksum, PoolName, SchematicId, StorageId, Tag, Version};

/// A template as it shall be on every host that needs one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Template {
    /// The VM's name, the same wherever it is.
    pub name: String,
    pub image: Image,
    /// Storages its image may lie on, in order of preference; empty: any that takes such files.
    pub image_storages: Vec<StorageId>,
    /// Storages its disk may be on, in order of preference; empty: any that takes disks.
    pub disk_storages: Vec<StorageId>,
    /// Options in Proxmox's words and spelling; drives, name, tags and description are not among them.
    pub options: BTreeMap<String, String>,
    /// Options of the disk: `iothread=1`.
    pub disk_options: String,
    /// Whether it has an EFI disk, which its firmware then is.
    pub efi: bool,
    /// `v2.0`, if it has a TPM.
    pub tpm: Option<String>,
    pub tags: Vec<Tag>,
    /// What its description says above the mark.
    pub notes: Option<String>,
    pub pool: Option<PoolName>,
    /// Whose it is; none: the cluster's.
    pub owner: Option<String>,
}

/// The pool templates live in, apart from the clusters' VMs, unless somebody wants them elsewhere.
pub fn templates_pool() -> PoolName {
    PoolName::parse("talmox-templates").expect("letters and a dash are a pool's name")
}

/// How the name of every image of ours begins: a file has no other place for a mark.
pub const OUR_FILES: &str = "talmox-";

/// How the name of every configuration drive of ours begins; the cluster's uid and the VM's id follow.
pub const OUR_SEEDS: &str = "talmox-seed-";

/// An image, where it comes from and what it is called on a storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub url: String,
    /// The file's name on a storage. It begins with `talmox-`, which is how our files are known.
    pub file: String,
    /// Of the bytes as they come from the URL.
    pub checksum: Option<Checksum>,
    /// Set where the URL leads to a compressed image, which Proxmox cannot unpack by itself.
    pub compression: Option<Compression>,
    /// What the Image Factory must know before it serves the URL.
    pub schematic: Option<FactorySchematic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    Xz,
    Gz,
    Zst,
}

/// A schematic as it is registered with an Image Factory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactorySchematic {
    /// Where the factory is.
    pub factory: String,
    pub id: SchematicId,
    /// Its canonical text, whose hash the id is.
    pub body: String,
    /// Extensions it names must exist for this version.
    pub talos: Version,
    pub extensions: Vec<String>,
}
