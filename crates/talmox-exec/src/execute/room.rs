//! How much may be done at once, and where.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{CloneKind, Planned, Step, Upkeep};
use talmox_pve::property::{Disk, DriveSource, Slot};
use talmox_types::{HostName, StorageId, VmId};

use crate::Limits;
use crate::work::StoragePlace;

/// So many times as many steps may be about a host, storage or template as work may be done there: the others look meanwhile.
const LOOKING: usize = 3;

/// Something of which there is only so much.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Everywhere,
    Machines,
    Host(HostName),
    /// A storage of one host, or of all of them if they share it.
    Storage(StoragePlace),
    Template(VmId),
    /// A file on a storage: whoever brings it brings it alone.
    File(StorageId, Option<HostName>, String),
}

/// What a step takes up while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Claims(BTreeSet<Place>);

impl Claims {
    /// `shared` are the storages several hosts share; none if nobody knows.
    pub(super) fn of(planned: &Planned, shared: Option<&BTreeSet<StorageId>>) -> Self {
        // Machines are waited for, most of the time, and that costs a host nothing.
        if planned.step.is_inside() {
            return Self(BTreeSet::from([Place::Machines]));
        }
        let mut places = BTreeSet::from([Place::Everywhere]);
        let host = host_of(&planned.step);
        places.extend(host.cloned().map(Place::Host));
        if let Step::CloneVm { template, .. } = &planned.step {
            places.insert(Place::Template(template.vmid));
            places.insert(Place::Host(template.host.clone()));
        }
        if let Step::MoveVm { to, .. } = &planned.step {
            places.insert(Place::Host(to.clone()));
        }
        let local_to = |storage: &StorageId| {
            let is_local = shared.is_some_and(|shared| !shared.contains(storage));
            host.filter(|_| is_local).cloned()
        };
        if let Step::FetchImage { storage, image, .. } = &planned.step {
            places.insert(Place::File(storage.clone(), local_to(storage), image.file.clone()));
        }
        for storage in Self::storages_of(planned) {
            let host = local_to(&storage);
            places.insert(Place::Storage((storage, host)));
        }
        Self(places)
    }

    /// The storages among them, in order.
    pub(super) fn storages(&self) -> Vec<StoragePlace> {
        let storage = |place: &Place| match place {
            Place::Storage(storage) => Some(storage.clone()),
            Place::Everywhere | Place::Machines | Place::Host(_) | Place::Template(_) | Place::File(..) => {
                None
            }
        };
        self.0.iter().filter_map(storage).collect()
    }

    /// Storages on which the step makes or removes volumes, as far as it says so.
    pub(super) fn storages_of(planned: &Planned) -> BTreeSet<StorageId> {
        let gone = planned.destroys.iter().map(|volume| volume.volume.storage().clone());
        let mut storages: BTreeSet<StorageId> = gone.collect();
        match &planned.step {
            Step::CloneVm { clone: CloneKind::Full { storage }, .. }
            | Step::AddDisk { storage, .. }
            | Step::AttachSeed { storage, .. }
            | Step::Upkeep(Upkeep::MoveDisk { storage, .. })
            | Step::FetchImage { storage, .. } => {
                storages.insert(storage.clone());
            }
            Step::RemoveImage { volume, .. }
            | Step::EjectSeed { volume, .. }
            | Step::RemoveSeed { volume, .. } => {
                storages.insert(volume.storage().clone());
            }
            Step::ConfigureVm { set, .. } | Step::CreateVm { set, .. } | Step::BuildTemplate { set, .. } => {
                storages.extend(set.iter().filter_map(|(key, value)| allocated_on(key, value)));
            }
            Step::CloneVm { clone: CloneKind::Linked, .. }
            | Step::CreatePool { .. }
            | Step::RegisterSchematic { .. }
            | Step::ConvertTemplate { .. }
            | Step::ConfigureTemplate { .. }
            | Step::RemoveTemplate { .. }
            | Step::GrowDisk { .. }
            | Step::JoinPool { .. }
            | Step::StartVm { .. }
            | Step::StopVm { .. }
            | Step::RebootVm { .. }
            | Step::MoveVm { .. }
            | Step::AddHa { .. }
            | Step::SetHaGroup { .. }
            | Step::SetHaRule { .. }
            | Step::DeleteHaRule { .. }
            | Step::RemoveVm { .. }
            | Step::DeletePool { .. }
            | Step::PublishConfig { .. }
            | Step::WithdrawConfig { .. }
            | Step::ConfigureNode { .. }
            | Step::Bootstrap { .. }
            | Step::RecordBootstrap { .. }
            | Step::RecordConfigured { .. }
            | Step::ApplyManifests { .. }
            | Step::PostBootstrap { .. }
            | Step::AwaitHealth
            | Step::Upkeep(_) => {}
        }
        storages
    }
}

fn host_of(step: &Step) -> Option<&HostName> {
    if let Step::CloneVm { host, .. }
    | Step::CreateVm { host, .. }
    | Step::FetchImage { host, .. }
    | Step::RemoveImage { host, .. }
    | Step::RemoveSeed { host, .. }
    | Step::BuildTemplate { host, .. }
    | Step::Upkeep(Upkeep::MakeShelf { host, .. }) = step
    {
        return Some(host);
    }
    let template = || step.template().map(|template| &template.host);
    step.vm().map(|vm| &vm.host).or_else(template)
}

/// The storage a value makes a volume on.
fn allocated_on(key: &str, value: &str) -> Option<StorageId> {
    Slot::parse(key).ok().filter(|slot| slot.holds_volume())?;
    match Disk::parse(value).ok()?.source {
        DriveSource::Allocate { storage, .. } | DriveSource::CloudInit { storage } => storage,
        DriveSource::Volume(_) | DriveSource::Path(_) | DriveSource::Empty | DriveSource::HostCdrom => None,
    }
}

/// What is taken up now.
pub(super) struct Room {
    limits: Limits,
    taken: BTreeMap<Place, usize>,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, taken: BTreeMap::new() }
    }

    /// Takes all of it, or nothing if some of it is not to be had.
    pub(super) fn take(&mut self, Claims(places): &Claims) -> bool {
        let fits = places.iter().all(|place| self.count(place) < self.limit(place));
        if fits {
            for place in places {
                *self.taken.entry(place.clone()).or_default() += 1;
            }
        }
        fits
    }

    pub(super) fn give_back(&mut self, Claims(places): &Claims) {
        for place in places {
            if let Some(count) = self.taken.get_mut(place) {
                *count = count.saturating_sub(1);
            }
        }
    }

    fn count(&self, place: &Place) -> usize {
        self.taken.get(place).copied().unwrap_or_default()
    }

    fn limit(&self, place: &Place) -> usize {
        let Limits { parallelism, per_host, per_storage, per_template } = self.limits;
        let limit = match place {
            Place::Everywhere => parallelism,
            Place::Machines => parallelism.saturating_mul(LOOKING),
            Place::Host(_) => per_host.saturating_mul(LOOKING),
            Place::Storage(_) => per_storage.saturating_mul(LOOKING),
            Place::Template(_) => per_template.saturating_mul(LOOKING),
            Place::File(..) => 1,
        };
        // Nothing at all would never end.
        limit.max(1)
    }
}
