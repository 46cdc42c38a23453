//! Names, ids and addresses: checked once where they enter, trusted after; and [`desired`], the model they make up.
//!
//! Nothing here does I/O or knows of files, HTTP or Kubernetes. A value of one of these types is valid by
//! construction, so no later code checks it again, and none converts silently into another.

mod checksum;
mod cidr;
pub mod desired;
mod id;
mod invalid;
mod label;
mod mac;
mod mark;
mod name;
mod pair;
mod pci;
mod ratio;
mod rotation;
pub mod sabotage;
mod secret_ref;
pub mod shell;
pub mod support;
mod taint;
mod template_mark;
mod url;
mod version;
mod visible;
pub mod ways;

pub use checksum::{Checksum, ChecksumAlgorithm};
pub use cidr::{AddressRange, Cidr};
pub use id::{ClusterUid, Fingerprint, SchematicId, VmId};
pub use invalid::Invalid;
pub use label::{is_label_key, is_label_value};
pub use mac::MacAddress;
pub use mark::{AwayWord, BootstrapWord, Drained, LeaseWord, Mark, shelf_name, split_serial};
pub use name::{
    BridgeName, ClusterName, HostName, MappingName, NodeName, NodePoolName, PoolName, StorageId, Tag,
};
pub use pair::{FamilyPair, HasFamily};
pub use pci::PciAddress;
pub use ratio::Ratio;
pub use rotation::{Phase, Phases, Realm};
pub use secret_ref::SecretRef;
pub use taint::{Taint, TaintEffect};
pub use template_mark::{Digest16, TemplateMark};
pub use url::{Url, is_dns_name, is_host};
pub use version::{Contract, Version};
pub use visible::{excerpt, is_hidden, visible, visible_json, visible_lines, visible_with_colors};
