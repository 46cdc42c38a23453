//! Which VMID a new VM gets.

use std::collections::BTreeSet;
use std::iter::Chain;
use std::ops::{Range, RangeInclusive};

use talmox_types::VmId;
use talmox_types::desired::{Desired, VmIdRange};

use crate::Observed;

/// Ids that are spoken for.
pub(super) struct Ids {
    in_use: BTreeSet<VmId>,
    /// Ids nodes declare, which nobody else gets.
    declared: BTreeSet<VmId>,
    /// What has not been tried yet: above the highest in use within the range, then from its start. Ids are only ever
    /// taken, so none that was passed over has to be tried again.
    untried: Chain<RangeInclusive<u32>, Range<u32>>,
}

impl Ids {
    pub(super) fn new(desired: &Desired, observed: &Observed) -> Self {
        Self::within(desired.proxmox.vmid_range, desired, observed)
    }

    /// Ids for templates, which have a range of their own.
    pub(super) fn for_templates(desired: &Desired, observed: &Observed) -> Self {
        Self::within(desired.proxmox.template_vmid_range, desired, observed)
    }

    fn within(range: VmIdRange, desired: &Desired, observed: &Observed) -> Self {
        let in_use: BTreeSet<VmId> = observed.guests.keys().copied().collect();
        let (start, end) = (range.start.get(), range.end.get());
        let highest = in_use.iter().rfind(|id| range.contains(**id)).map(|id| id.get());
        let first = highest.map_or(start, |id| id + 1);
        Self {
            in_use,
            declared: desired.nodes.iter().filter_map(|node| node.vm.id).collect(),
            untried: (first..=end).chain(start..first.min(end + 1)),
        }
    }

    /// The next above the highest in use within the range, wrapping once.
    pub(super) fn next(&mut self) -> Option<VmId> {
        let Self { in_use, declared, untried } = self;
        let id = untried
            .filter_map(|id| VmId::try_from(id).ok())
            .find(|id| !in_use.contains(id) && !declared.contains(id))?;
        in_use.insert(id);
        Some(id)
    }

    pub(super) fn is_free(&self, id: VmId) -> bool {
        !self.in_use.contains(&id)
    }
}
