//! What people and tools reach a cluster with: client certificates, talosconfig, kubeconfig.

mod certificate;
mod file;
mod kubeconfig;
mod talosconfig;

pub use certificate::{ClientCertificate, ClientError, DEFAULT_LIFETIME, TalosRole};
pub use file::ClientFile;
pub use kubeconfig::{Conflict, Kubeconfig};
pub use talosconfig::{Context, Rename, ReplaceError, Talosconfig};
