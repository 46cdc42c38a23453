//! The shape of the description files: every key, its names, its type and what it is for.
//!
//! These are the names users keep in git: keys are added, never renamed.

mod advanced;
mod cluster;
mod drift;
mod foreign;
mod node;
mod settings;
mod template;
mod urls;
mod values;

pub use advanced::Advanced;
pub use cluster::{
    Cluster, EtcdBackupBlock, OverlayBlock, PlacementBlock, RouteBlock, SchematicBlock, VmIdRangeBlock,
};
pub use drift::{Drift, drift_field};
pub(crate) use drift::{show_drift, unknown_field};
pub use foreign::CLUSTER_TEMPLATE_KEYS;
pub use node::{NodeBlock, PoolBlock};
pub use settings::{DiskBlock, NetworkBlock, PciBlock, Settings};
pub use template::TemplateBlock;
pub use urls::{ApiUrl, FileOrUrl, WebUrl};
pub use values::{
    Argv, Bootloader, CloudInit, CniBlock, ConfigFileBlock, ExtensionServiceBlock, Images, Meta, Mirrors,
    PoolChoice,
};

use crate::read::{Block, BlockInfo, Shape};

/// Whether a block belongs to a description; those of other tools' files do not.
pub(crate) fn is_of_description(info: &BlockInfo) -> bool {
    fn holds(shape: &Shape, name: &str) -> bool {
        match shape {
            Shape::Block(info) => is_or_holds(info, name),
            Shape::List(inner) | Shape::Map(inner) => holds(inner, name),
            Shape::Either(shapes) => shapes.iter().any(|shape| holds(shape, name)),
            Shape::Bool | Shape::Integer { .. } | Shape::Text { .. } | Shape::Choice(..) | Shape::Any => {
                false
            }
        }
    }
    fn is_or_holds(info: &BlockInfo, name: &str) -> bool {
        info.name == name || info.keys.iter().any(|key| holds(&key.shape, name))
    }
    is_or_holds(Cluster::info(), info.name)
}

/// Where a key that is unknown in one block is known: words for a hint.
pub(crate) fn homes_of(key: &str, block: &str) -> Option<String> {
    let homes: Vec<&str> = [
        ("cluster.yaml", "the top of cluster.yaml", Cluster::info()),
        ("proxmox_vm_defaults", "proxmox_vm_defaults (all nodes)", Settings::info()),
        ("nodes", "a node under nodes", NodeBlock::info()),
        ("node_pools", "a pool under node_pools", PoolBlock::info()),
    ]
    .into_iter()
    .filter(|(name, _, info)| *name != block && info.key(key).is_some())
    .map(|(_, words, _)| words)
    .collect();
    (!homes.is_empty()).then(|| homes.join(" or "))
}
