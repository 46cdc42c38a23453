//! Talos and Kubernetes as a whole.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Contract, Version};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Talos {
    pub version: Version,
    /// The layout of machine configuration, pinned with the cluster.
    pub contract: Contract,
    pub schematic: Schematic,
    pub factory_url: String,
    /// Install images by provider name.
    pub install_images: BTreeMap<String, String>,
    pub config_delivery: ConfigDelivery,
    pub secrets_file: Option<String>,
    pub etcd_backup: Option<EtcdBackup>,
    pub extension_services: Vec<ExtensionService>,
}

/// What the Image Factory puts into the image; the order of lists counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Schematic {
    pub extensions: Vec<String>,
    pub kernel_args: Vec<String>,
    /// META values by key.
    pub meta: BTreeMap<u8, String>,
    pub overlay: Option<(String, String)>,
    pub bootloader: Option<String>,
}

/// How machine configuration reaches a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigDelivery {
    Maintenance,
    Cidata,
    Url,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EtcdBackup {
    pub dir: String,
    /// Encrypt to these age recipients.
    pub age: Vec<String>,
    /// How many snapshots stay.
    pub keep: u32,
}

/// Configuration of a system extension's service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtensionService {
    pub name: String,
    pub config_files: Vec<MachineFile>,
    pub environment: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineFile {
    pub mount_path: String,
    pub content: String,
}

/// A patch to machine configuration: YAML text, or the path of a file that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Patch {
    Inline(String),
    File(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch of the cluster")]
pub struct Kubernetes {
    pub version: Version,
    pub cni: Cni,
    pub kube_proxy: bool,
    pub allow_scheduling_on_control_planes: bool,
    /// Files or URLs, applied as soon as the API answers.
    pub bootstrap_manifests: Vec<String>,
    /// A program and its arguments, run once the cluster is bootstrapped.
    pub post_bootstrap: Vec<String>,
    /// Mirror URLs by registry.
    pub registry_mirrors: BTreeMap<String, Vec<String>>,
    pub kubespan: bool,
    pub dns_domain: String,
    pub discovery: bool,
    pub kubeprism: bool,
    pub provider_id: ProviderId,
    /// The region label of every node; the zone is its host.
    pub region: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cni {
    Flannel,
    None,
    /// Manifests Talos fetches by itself.
    Urls(Vec<String>),
    /// A manifest file of the user's.
    Manifest(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderId {
    None,
    Proxmox,
    Uuid,
}
