//! What workers do, each in the module of its subject.

use serde::{Deserialize, Serialize};

use crate::access::{Caller, ROOT};
use crate::api::storage::DeleteVolume;
use crate::api::transfer::{Download, Upload};
use crate::qemu::clone::CloneJob;
use crate::qemu::create::CreateJob;
use crate::qemu::destroy::DestroyJob;
use crate::qemu::migrate::MigrateJob;
use crate::qemu::power::PowerJob;
use crate::qemu::reassign::ReassignJob;
use crate::qemu::reshape::{MoveJob, ResizeJob, TemplateJob};
use crate::qemu::snapshot::SnapshotJob;
use crate::qemu::update::UpdateJob;
use crate::storage::Allocations;
use crate::tasks::Job;
use crate::world::World;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Create(CreateJob),
    Destroy(DestroyJob),
    Update(UpdateJob),
    Clone(CloneJob),
    Power(PowerJob),
    Resize(ResizeJob),
    Template(TemplateJob),
    Move(MoveJob),
    Reassign(ReassignJob),
    Migrate(MigrateJob),
    Snapshot(SnapshotJob),
    Download(Download),
    Upload(Upload),
    DeleteVolume(DeleteVolume),
    /// A backup: the VM is locked as long as it lasts.
    Backup {
        vmid: u32,
        lasts: u64,
    },
    /// Hands a wish to the HA manager and ends.
    Ask {
        line: String,
        wish: Option<Wish>,
    },
}

/// What the HA manager is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Wish {
    Power(PowerJob),
    Migrate(MigrateJob),
}

impl Wish {
    /// The type of the task it becomes, and the VM it is about.
    fn subject(&self) -> (&'static str, u32) {
        match self {
            Self::Power(job) => (job.kind(), job.vmid()),
            Self::Migrate(job) => ("qmigrate", job.vmid),
        }
    }
}

impl From<Wish> for Work {
    fn from(wish: Wish) -> Self {
        match wish {
            Wish::Power(job) => Self::Power(job),
            Wish::Migrate(job) => Self::Migrate(job),
        }
    }
}

impl Work {
    /// The VM whose configuration the worker locks, and whether it wants it alone.
    pub(crate) fn lock(&self) -> Option<(u32, bool)> {
        match self {
            Self::Create(job) => Some((job.vmid, true)),
            Self::Destroy(job) => Some((job.vmid, true)),
            Self::Update(job) => Some((job.vmid, true)),
            Self::Clone(job) => Some((job.target, true)),
            Self::Power(job) => job.lock(),
            Self::Resize(job) => Some((job.vmid, true)),
            Self::Template(job) => Some((job.vmid, true)),
            Self::Move(job) => Some((job.vmid, true)),
            Self::Reassign(job) => Some((job.vmid, true)),
            Self::Migrate(job) => Some((job.vmid, true)),
            Self::Snapshot(job) => Some((job.vmid, true)),
            // A backup locks the file only to write the lock into it.
            Self::Download(_)
            | Self::Upload(_)
            | Self::DeleteVolume(_)
            | Self::Backup { .. }
            | Self::Ask { .. } => None,
        }
    }

    /// The volumes the worker makes, for which it queues once it has the VM's lock.
    pub(crate) fn allocations(&self, world: &World, job: &Job) -> Allocations {
        match self {
            Self::Create(work) => work.allocations(),
            Self::Update(work) => work.allocations(),
            Self::Clone(work) => work.allocations(world, job),
            Self::Move(work) => work.allocations(),
            Self::Template(work) => work.allocations(world),
            Self::Destroy(_)
            | Self::Power(_)
            | Self::Resize(_)
            | Self::Reassign(_)
            | Self::Migrate(_)
            | Self::Snapshot(_)
            | Self::Download(_)
            | Self::Upload(_)
            | Self::DeleteVolume(_)
            | Self::Backup { .. }
            | Self::Ask { .. } => Allocations::new(),
        }
    }

    /// Devices a VM is about to take over, and which VM.
    pub(crate) fn reserved_devices(&self) -> Option<(u32, &[String])> {
        if let Self::Power(work) = self { Some((work.vmid(), work.devices())) } else { None }
    }

    /// What is done with the VM's lock before anything else.
    pub(crate) fn claim(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        if let Self::Clone(work) = self { work.claim(world, job) } else { Ok(()) }
    }

    /// What comes before the lock; may be a reason to fail.
    pub(crate) fn before_lock(&self, world: &mut World, job: &Job) -> Option<String> {
        if let Self::Power(work) = self { work.before_lock(world, job) } else { None }
    }

    /// Begins: answers how long the work takes, or fails at once.
    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        match self {
            Self::Create(work) => work.enter(world, job),
            Self::Destroy(work) => work.enter(world, job),
            Self::Update(work) => work.enter(world, job),
            Self::Clone(work) => work.enter(world, job),
            Self::Power(work) => work.enter(world, job),
            Self::Resize(work) => work.enter(world, job),
            Self::Template(work) => work.enter(world, job),
            Self::Move(work) => work.enter(world, job),
            Self::Reassign(work) => work.enter(world, job),
            Self::Migrate(work) => work.enter(world, job),
            Self::Snapshot(work) => work.enter(world, job),
            Self::Download(work) => work.enter(world, job),
            Self::Upload(work) => work.enter(world, job),
            Self::DeleteVolume(work) => work.enter(world, job),
            Self::Backup { vmid, lasts } => crate::hosts::begin_backup(world, job, *vmid).map(|()| *lasts),
            Self::Ask { line, .. } => {
                world.log(job, line.clone());
                Ok(world.timing.small)
            }
        }
    }

    /// Ends: what the work changes becomes visible.
    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        match self {
            Self::Create(work) => work.finish(world, job),
            Self::Destroy(work) => work.finish(world, job),
            Self::Clone(work) => work.finish(world, job),
            Self::Power(work) => work.finish(world, job),
            Self::Resize(work) => work.finish(world, job),
            Self::Template(work) => work.finish(world, job),
            Self::Move(work) => work.finish(world, job),
            Self::Reassign(work) => work.finish(world, job),
            Self::Migrate(work) => work.finish(world, job),
            Self::Snapshot(work) => work.finish(world, job),
            Self::Download(work) => {
                work.finish(world, job);
                Ok(())
            }
            Self::Upload(work) => {
                work.finish(world, job);
                Ok(())
            }
            Self::Ask { wish, .. } => {
                if let Some(wish) = wish.take().filter(|_| world.ha_manager) {
                    let root = Caller { user: ROOT.into(), token: None };
                    let (kind, vmid) = wish.subject();
                    world.spawn(&job.node, kind, &vmid.to_string(), &root, wish.into());
                }
                Ok(())
            }
            Self::Backup { vmid, .. } => {
                world.set_lock(*vmid, None);
                Ok(())
            }
            Self::Update(_) | Self::DeleteVolume(_) => Ok(()),
        }
    }

    /// It cannot go on: cleans up what a worker cleans up, and words the end.
    pub(crate) fn abandon(&self, world: &mut World, cause: &str) -> String {
        match self {
            Self::Create(work) => {
                world.remove_vm(work.vmid);
                format!("unable to create VM {} - {cause}", work.vmid)
            }
            Self::Clone(work) => {
                work.give_up(world);
                format!("clone failed: {cause}")
            }
            Self::Migrate(work) => {
                work.give_up(world);
                cause.to_owned()
            }
            Self::Destroy(DestroyJob { vmid, .. }) | Self::Backup { vmid, .. } => {
                world.set_lock(*vmid, None);
                cause.to_owned()
            }
            Self::Update(_)
            | Self::Power(_)
            | Self::Resize(_)
            | Self::Template(_)
            | Self::Move(_)
            | Self::Reassign(_)
            | Self::Snapshot(_)
            | Self::Download(_)
            | Self::Upload(_)
            | Self::DeleteVolume(_)
            | Self::Ask { .. } => cause.to_owned(),
        }
    }
}
