//! The drive a machine reads its first configuration from.
//!
//! ```text
//! machine config ─┐
//! meta-data ──────┼─▶ Seed ─▶ image(): ISO 9660, label `cidata`, Rock Ridge and Joliet
//! network-config ─┘
//! ```
//!
//! Talos looks for a volume with that label and three names in lower case, which plain ISO 9660 has no way to write: Linux
//! takes them from Rock Ridge, others from Joliet. The machine config holds keys of the cluster's authorities, so the image
//! is a secret like it, and nothing here can be printed.

mod iso;
mod network;
mod seed;

pub use network::network_config;
pub use seed::{InvalidSeed, LABEL, META_DATA, NETWORK_CONFIG, Seed, USER_DATA, meta_data};
