//! Making a VM from a template.

use talmox_plan::{CloneKind, TemplateSource};
use talmox_pve::client::{self, Client, CloneVm, Error, Upid};
use talmox_types::{HostName, Mark, PoolName, VmId};

use super::node::Recipe;

/// A copy of a template.
pub(super) struct Copy<'a> {
    pub(super) host: &'a HostName,
    pub(super) template: &'a TemplateSource,
    pub(super) clone: &'a CloneKind,
    pub(super) pool: Option<&'a PoolName>,
}

impl Recipe for Copy<'_> {
    fn doing(&self, mark: &Mark) -> String {
        let TemplateSource { name, vmid, .. } = self.template;
        format!("clone template {name} ({vmid}) to {} ({}) on {}", mark.node, mark.vmid, self.host)
    }

    fn asked(&self) -> &HostName {
        &self.template.host
    }

    fn source(&self) -> Option<VmId> {
        Some(self.template.vmid)
    }

    fn is_work(&self) -> bool {
        *self.clone != CloneKind::Linked
    }

    async fn send(&self, client: &Client, mark: &Mark) -> Result<Upid, Error> {
        let Self { host, template, clone, pool } = self;
        let request = CloneVm {
            newid: mark.vmid,
            name: Some(mark.node.to_string()),
            description: Some(mark.to_string()),
            pool: pool.cloned(),
            target: Some((*host).clone()).filter(|host| *host != template.host),
            kind: match clone {
                CloneKind::Linked => client::CloneKind::Linked,
                CloneKind::Full { storage } => {
                    client::CloneKind::Full { storage: Some(storage.clone()), format: None }
                }
            },
        };
        client.clone_vm(&template.host, template.vmid, &request).await
    }
}
