//! Which VMID a new VM gets.

use std::collections::BTreeSet;

use talmox_types::VmId;
use talmox_types::desired::{Desired, VmIdRange};

use crate::Observed;

/// Ids that are spoken for.
pub(super) struct Ids {
    range: VmIdRange,
    in_use: BTreeSet<VmId>,
    /// Ids nodes declare, which nobody else gets.
    declared: BTreeSet<VmId>,
}

impl Ids {
    pub(super) fn new(desired: &Desired, observed: &Observed) -> Self {
        Self {
            range: desired.proxmox.vmid_range,
            in_use: observed.guests.keys().copied().collect(),
            declared: desired.nodes.iter().filter_map(|node| node.vm.id).collect(),
        }
    }

    /// Ids for templates, which have a range of their own.
    pub(super) fn for_templates(desired: &Desired, observed: &Observed) -> Self {
        Self { range: desired.proxmox.template_vmid_range, ..Self::new(desired, observed) }
    }

    /// The next above the highest in use within the range, wrapping once.
    pub(super) fn next(&mut self) -> Option<VmId> {
        let (start, end) = (self.range.start.get(), self.range.end.get());
        let highest = self.in_use.iter().filter(|id| self.range.contains(**id)).max().map(|id| id.get());
        let first = highest.map_or(start, |id| id + 1);
        let candidates =
            (first..=end).chain(start..first.min(end + 1)).filter_map(|id| VmId::try_from(id).ok());
        let id =
            candidates.into_iter().find(|id| !self.in_use.contains(id) && !self.declared.contains(id))?;
        self.in_use.insert(id);
        Some(id)
    }

    pub(super) fn is_free(&self, id: VmId) -> bool {
        !self.in_use.contains(&id)
    }
}
