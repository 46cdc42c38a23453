//! The VM of a node, however it is made.

use std::future::Future;

use talmox_plan::Expected;
use talmox_pve::client::{Client, Error, Upid};
use talmox_types::desired::{Desired, VmIdRange};
use talmox_types::{HostName, Mark, VmId};

use super::making::{Order, Verdict};
use crate::find::Found;
use crate::work::{Result, Work};

/// A way to make a VM that carries a mark.
pub(super) trait Recipe: Send + Sync {
    /// What is being done, after `could not`.
    fn doing(&self, mark: &Mark) -> String;

    /// Who is asked to make it.
    fn asked(&self) -> &HostName;

    /// The template that is copied, if one is.
    fn source(&self) -> Option<VmId>;

    /// Whether it is work for a host.
    fn is_work(&self) -> bool {
        true
    }

    fn send(
        &self,
        client: &Client,
        mark: &Mark,
    ) -> impl Future<Output = std::result::Result<Upid, Error>> + Send;
}

/// The VM of a node.
pub(super) struct NodeVm<'a, R> {
    mark: Mark,
    /// What it is called in Proxmox.
    name: String,
    recipe: &'a R,
}

impl<'a, R: Recipe> NodeVm<'a, R> {
    pub(super) fn new(mark: Mark, recipe: &'a R) -> Self {
        Self { name: mark.vm_name(), mark, recipe }
    }
}

impl<R: Recipe> Order for NodeVm<'_, R> {
    fn vmid(&self) -> VmId {
        self.mark.vmid
    }

    fn on(&self, vmid: VmId) -> Self {
        Self::new(Mark { vmid, ..self.mark.clone() }, self.recipe)
    }

    fn whose(&self) -> String {
        if self.mark.shelf { format!("the shelf of {}", self.mark.node) } else { self.mark.node.to_string() }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn only_on(&self) -> Option<&HostName> {
        None
    }

    fn range(&self, desired: &Desired) -> (VmIdRange, &'static str) {
        (desired.proxmox.vmid_range, "widen proxmox_vmid_range, or give the node a vm_id")
    }

    fn is_id_declared(&self, desired: &Desired) -> bool {
        let declared = desired.nodes.iter().find(|node| node.name == self.mark.node);
        !self.mark.shelf && declared.is_some_and(|node| node.vm.id.is_some())
    }

    fn doing(&self) -> String {
        self.recipe.doing(&self.mark)
    }

    fn asked(&self) -> &HostName {
        self.recipe.asked()
    }

    fn source(&self) -> Option<VmId> {
        self.recipe.source()
    }

    fn is_work(&self) -> bool {
        self.recipe.is_work()
    }

    fn send(&self, client: &Client) -> impl Future<Output = std::result::Result<Upid, Error>> + Send {
        self.recipe.send(client, &self.mark)
    }

    fn judge(&self, found: &Found) -> Verdict {
        match found.mark() {
            _ if found.config.is_template() => Verdict::Foreign,
            Some(seen) if seen == self.mark => Verdict::This,
            Some(seen) if is_of_node(&seen, &self.mark, found.vmid) => Verdict::Same,
            _ => Verdict::Foreign,
        }
    }

    fn maker(&self, found: &Found) -> Option<String> {
        found.mark().map(|mark| mark.incarnation)
    }

    /// One that runs is somebody's already.
    async fn is_used(&self, client: &Client, found: &Found) -> std::result::Result<bool, Error> {
        found.is_running(client).await
    }

    async fn again(&self, work: &Work<'_>, found: &Found) -> Result<Option<Found>> {
        let Some(mark) = found.mark() else { return Ok(None) };
        work.find(&Expected { host: found.host.clone(), mark }).await
    }
}

/// Whether a mark found on a VM makes it the VM of the same node, whoever made it.
fn is_of_node(seen: &Mark, mark: &Mark, on: VmId) -> bool {
    seen.uid == mark.uid && seen.node == mark.node && seen.vmid == on && seen.shelf == mark.shelf
}
