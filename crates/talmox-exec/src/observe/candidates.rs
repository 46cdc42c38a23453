//! Who looks like ours, told from lists alone.
//!
//! The mark is in the configuration, which costs a request for each VM. Whatever this misses is found when a node turns
//! out to have no VM: then everything is read.

use std::collections::BTreeSet;

use talmox_plan::{Guest, GuestKind, is_template_in_use, wanted_templates};
use talmox_types::desired::{Desired, TemplateRef, VmIdRange};
use talmox_types::{ClusterUid, Mark, NodeName, PoolName, Tag, VmId};

/// What makes a guest worth reading.
pub(crate) struct Wanted<'a> {
    names: BTreeSet<&'a str>,
    ids: BTreeSet<VmId>,
    tag_sets: BTreeSet<&'a [Tag]>,
    templates: Vec<&'a TemplateRef>,
    /// Names of the templates talmox builds, and where it builds them.
    managed: BTreeSet<String>,
    template_range: VmIdRange,
    pool: Option<&'a PoolName>,
    range: VmIdRange,
}

impl<'a> Wanted<'a> {
    pub(crate) fn of(desired: &'a Desired) -> Self {
        let vms = || desired.nodes.iter().map(|node| &node.vm);
        let mut templates: Vec<&TemplateRef> = Vec::new();
        for template in vms().filter_map(|vm| vm.template.as_ref()) {
            if !templates.contains(&template) {
                templates.push(template);
            }
        }
        Self {
            names: desired.nodes.iter().map(|node| node.name.as_str()).collect(),
            ids: vms().filter_map(|vm| vm.id).collect(),
            tag_sets: vms()
                .map(|vm| vm.tags.as_slice())
                .filter(|tags| !tags.is_empty())
                .collect::<BTreeSet<_>>(),
            templates,
            managed: wanted_templates(desired).into_iter().map(|template| template.name).collect(),
            template_range: desired.proxmox.template_vmid_range,
            pool: desired.proxmox.pool.as_ref(),
            range: desired.proxmox.vmid_range,
        }
    }

    /// Whether the guest may be ours, or is a template in use. A container is neither.
    pub(crate) fn covers(&self, guest: &Guest) -> bool {
        let wanted = || {
            self.may_be_ours(guest) || self.is_template_in_use(guest) || self.may_be_managed_template(guest)
        };
        guest.kind == GuestKind::Vm && wanted()
    }

    /// One that is being made has no name yet, and one that was never finished is no template yet.
    fn may_be_managed_template(&self, guest: &Guest) -> bool {
        match guest.name.as_ref().filter(|_| !is_being_made(guest)) {
            Some(name) => self.managed.contains(name),
            None => !self.managed.is_empty() && self.template_range.contains(guest.vmid),
        }
    }

    fn may_be_ours(&self, guest: &Guest) -> bool {
        let in_range = self.range.contains(guest.vmid);
        let being_made = is_being_made(guest);
        let in_our_pool = guest.pool.is_some() && guest.pool.as_ref() == self.pool;
        // A copy made by hand keeps its tags and leaves the pool.
        let looks_copied = || {
            guest.pool.is_none()
                && self.tag_sets.iter().any(|tags| tags.iter().all(|tag| has_tag(guest, tag)))
        };
        in_our_pool
            || guest.name.as_deref().is_some_and(|name| self.names.contains(name))
            || self.ids.contains(&guest.vmid)
            || (in_range && (being_made || self.pool.is_none()))
            || looks_copied()
    }

    pub(crate) fn is_template_in_use(&self, guest: &Guest) -> bool {
        self.templates.iter().any(|template| is_template_in_use(template, guest))
    }
}

/// Nobody can tell yet what it will be.
fn is_being_made(guest: &Guest) -> bool {
    matches!(guest.lock.as_deref(), Some("create" | "clone")) || guest.name.is_none()
}

/// Proxmox compares tags without regard to case.
fn has_tag(guest: &Guest, tag: &Tag) -> bool {
    guest.tags.iter().any(|own| own.eq_ignore_ascii_case(tag.as_str()))
}

/// The node this is the VM of: our mark for it, on its own id.
pub(crate) fn node_of(guest: &Guest, uid: &ClusterUid) -> Option<NodeName> {
    let mark = guest.seen()?.live.description().and_then(Mark::of_description)?;
    (!guest.template && !mark.shelf && mark.uid == *uid && mark.vmid == guest.vmid).then_some(mark.node)
}
