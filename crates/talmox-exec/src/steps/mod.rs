//! The steps. Each looks first and writes nothing if its work is done already, acts, and is done when the result is seen.

mod clone;
mod configure;
mod disks;
mod doubles;
mod meaning;
mod pool;
mod power;
mod remove;

use std::time::Duration;

use talmox_plan::Step;
use talmox_pve::client::Upid;

use crate::StepError;
use crate::work::{Result, Work};

/// How long a task may take that changes a configuration or a small volume.
const CHANGE_LIMIT: Duration = Duration::from_mins(10);
/// How long a result may take to be seen once Proxmox says that it is done. HA acts up to a minute later.
const SEEN_LIMIT: Duration = Duration::from_mins(3);

/// Runs a step once.
pub(crate) async fn run(work: &Work<'_>) -> Result {
    match &work.planned.step {
        Step::CreatePool { pool, comment } => pool::create(work, pool, comment).await,
        Step::DeletePool { pool, comment } => pool::delete(work, pool, comment).await,
        Step::JoinPool { vm, pool } => pool::join(work, vm, pool).await,
        Step::CloneVm { host, mark, template, clone, pool } => {
            clone::run(work, &clone::Order { host, mark, template, clone, pool: pool.as_ref() }).await
        }
        Step::ConfigureVm { vm, set, delete, drives, witness, digest } => {
            let order = configure::Order { set, delete, drives, witness: *witness };
            configure::run(work, vm, &order, digest.as_deref()).await
        }
        Step::AddDisk { vm, slot, storage, size, value } => {
            disks::add(work, vm, *slot, (storage, *size), value).await
        }
        Step::GrowDisk { vm, slot, to } => disks::grow(work, vm, *slot, *to).await,
        Step::StartVm { vm } => power::start(work, vm).await,
        Step::StopVm { vm, timeout } => power::stop(work, vm, *timeout).await,
        Step::RebootVm { vm, timeout } => power::reboot(work, vm, *timeout).await,
        Step::RemoveVm { vm, detach, purge } => remove::run(work, vm, detach, *purge).await,
    }
}

/// Follows a task, if Proxmox did not do it at once.
async fn follow(work: &Work<'_>, task: Option<Upid>, doing: &str, limit: Duration) -> Result<()> {
    let Some(upid) = task else { return Ok(()) };
    work.follow(&upid, doing, limit).await.map_err(StepError::task(doing))
}
