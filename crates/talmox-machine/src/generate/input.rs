//! What a machine config is made of.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::Contract;

use crate::scalar::{Url, is_url};
use crate::secrets::Bundle;

/// What a machine is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    ControlPlane,
    Worker,
}

/// What `talosctl gen config` takes, by argument or flag.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    pub contract: Contract,
    pub cluster_name: String,
    /// `https://HOST[:PORT]`.
    pub endpoint: String,
    /// The version of Kubernetes, with or without a leading `v`.
    pub kubernetes: String,
    pub secrets: &'a Bundle,
    pub options: Options,
}

/// The rest of it, with the defaults `talosctl` has; an install disk has none here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub debug: bool,
    pub additional_sans: Vec<String>,
    pub allow_scheduling_on_control_planes: bool,
    pub dns_domain: String,
    pub pod_subnets: Vec<String>,
    pub service_subnets: Vec<String>,
    pub install_disk: Option<String>,
    pub install_image: Option<String>,
    pub extra_kernel_args: Vec<String>,
    pub local_api_server_port: Option<u16>,
    pub sysctls: BTreeMap<String, String>,
    /// Manifests of a network plugin that takes the place of Flannel.
    pub cni_urls: Vec<String>,
    pub registry_mirrors: BTreeMap<String, Vec<String>>,
    /// Certificates (PEM) that registries are trusted by.
    pub registry_certificates: BTreeMap<String, String>,
    /// Registries whose certificates are not checked.
    pub insecure_registries: BTreeSet<String>,
    pub discovery: bool,
    pub kubespan: Option<bool>,
    /// Nothing is off.
    pub kubeprism_port: Option<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            debug: false,
            additional_sans: Vec::new(),
            allow_scheduling_on_control_planes: false,
            dns_domain: "cluster.local".to_owned(),
            pod_subnets: vec!["10.244.0.0/16".to_owned()],
            service_subnets: vec!["10.96.0.0/12".to_owned()],
            install_disk: None,
            install_image: None,
            extra_kernel_args: Vec::new(),
            local_api_server_port: None,
            sysctls: BTreeMap::new(),
            cni_urls: Vec::new(),
            registry_mirrors: BTreeMap::new(),
            registry_certificates: BTreeMap::new(),
            insecure_registries: BTreeSet::new(),
            discovery: true,
            kubespan: None,
            kubeprism_port: Some(7445),
        }
    }
}

/// Inputs no config can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("configs are made for the contracts of Talos 1.8 and later, not {0}")]
    Contract(String),
    #[error("the endpoint is https://HOST or https://HOST:PORT, not `{0}`")]
    Endpoint(String),
    #[error("the version of Kubernetes is missing")]
    Kubernetes,
    #[error("`{0}` is not a URL")]
    Url(String),
    #[error("`{0}` is not an address with its prefix length")]
    Subnet(String),
    /// Documents that do not go together.
    #[error("{0}")]
    Documents(String),
}

impl Input<'_> {
    pub(super) fn check(&self) -> Result<(), InputError> {
        if !self.since(crate::schema::OLDEST_MINOR) {
            return Err(InputError::Contract(self.contract.to_string()));
        }
        if !is_endpoint(&self.endpoint) {
            return Err(InputError::Endpoint(self.endpoint.clone()));
        }
        if self.kubernetes_version().is_empty() {
            return Err(InputError::Kubernetes);
        }
        let options = &self.options;
        let mut urls = options.cni_urls.iter().chain(options.registry_mirrors.values().flatten());
        if let Some(url) = urls.find(|url| !is_url(url)) {
            return Err(InputError::Url(url.clone()));
        }
        let mut subnets = options.pod_subnets.iter().chain(&options.service_subnets);
        match subnets.find(|subnet| crate::scalar::prefix(subnet).is_none()) {
            Some(subnet) => Err(InputError::Subnet(subnet.clone())),
            None => Ok(()),
        }
    }

    /// The version without a leading `v`.
    pub(super) fn kubernetes_version(&self) -> &str {
        self.kubernetes.strip_prefix('v').unwrap_or(&self.kubernetes)
    }

    /// Host name or address of the endpoint.
    pub(super) fn endpoint_host(&self) -> String {
        Url::parse(&self.endpoint).host_name().to_owned()
    }

    pub(super) fn image(&self, name: &str) -> String {
        format!("{name}:v{}", self.kubernetes_version())
    }
}

fn is_endpoint(text: &str) -> bool {
    let url = Url::parse(text);
    let port_holds = url.port().is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    is_url(text) && url.scheme == "https" && !url.host_name().is_empty() && port_holds
}
