//! Making a VM without a template: with an empty disk and an ISO, or with a disk that is a copy of an image.

use std::collections::BTreeMap;

use talmox_pve::client::{Client, CreateVm, Error, Upid};
use talmox_pve::property::VmConfig;
use talmox_types::{HostName, Mark, PoolName, VmId};

use super::node::Recipe;

/// A VM of its own.
pub(super) struct New<'a> {
    pub(super) host: &'a HostName,
    pub(super) set: &'a BTreeMap<String, String>,
    pub(super) pool: Option<&'a PoolName>,
}

impl Recipe for New<'_> {
    fn doing(&self, mark: &Mark) -> String {
        format!("make {} ({}) on {}", mark.vm_name(), mark.vmid, self.host)
    }

    fn asked(&self) -> &HostName {
        self.host
    }

    fn source(&self) -> Option<VmId> {
        None
    }

    async fn send(&self, client: &Client, mark: &Mark) -> Result<Upid, Error> {
        let config = config(self.set, &mark.vm_name(), &mark.to_string());
        let vm = CreateVm { vmid: mark.vmid, config, pool: self.pool.cloned(), storage: None };
        client.create_vm(self.host, &vm).await
    }
}

/// What a VM is made with: everything that is set, its name, and a description that ends with its mark.
pub(super) fn config(set: &BTreeMap<String, String>, name: &str, description: &str) -> VmConfig {
    let mut config: VmConfig = set.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    config.set("name", name);
    config.set("description", description);
    config
}
