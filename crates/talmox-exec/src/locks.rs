//! Locks of VMs: work in flight is known by them, whoever began it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use talmox_pve::client::{Client, Error, Look, Progress, TaskQuery, TaskSource, Wait};
use talmox_types::{HostName, VmId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::StepError;
use crate::find::{Found, find};
use crate::work::Result;

/// A lock that no running task has held for so long was left behind by a worker that died. A task ends and its lock
/// goes within the same second, so this is ample.
const ABANDONED_AFTER: Duration = Duration::from_secs(15);

/// What became of a VM that was locked.
pub(crate) enum Settled {
    Free(Found),
    Gone,
}

enum Seen {
    Free(Found),
    Gone,
    Abandoned { host: HostName, lock: String },
}

/// Waits for others, told to whoever listens.
pub(crate) struct Watch<'a> {
    pub(crate) client: &'a Client,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) progress: &'a dyn Progress,
}

impl Watch<'_> {
    /// Waits until nothing holds the VM any more. A lock that nobody works under is an error that says how to take it
    /// away. Told to stop, it gives up: nothing of ours is under way.
    pub(crate) async fn settle(&self, found: Found, limit: Duration) -> Result<Settled> {
        let Some(lock) = found.config.lock() else { return Ok(Settled::Free(found)) };
        let (vmid, host) = (found.vmid, found.host.clone());
        let name = format!("the {lock} of VM {vmid} on {host}");
        let idle = Idle::default();
        let wait = Wait { name: &name, limit, progress: self.progress };
        let waited = wait.until(async || self.look(&host, vmid, &idle).await);
        let stopped = || StepError::Interrupted { waiting_for: name.clone() };
        let seen = self.stop.run_until_cancelled(waited).await.ok_or_else(stopped)?;
        match seen.map_err(|source| StepError::Wait { doing: format!("wait for {name}"), source })? {
            Seen::Free(found) => Ok(Settled::Free(found)),
            Seen::Gone => Ok(Settled::Gone),
            Seen::Abandoned { host, lock } => Err(StepError::Stuck { vmid, host, lock }),
        }
    }

    async fn look(&self, host: &HostName, vmid: VmId, idle: &Idle) -> std::result::Result<Look<Seen>, Error> {
        let Some(found) = find(self.client, host, vmid).await? else { return Ok(Look::Done(Seen::Gone)) };
        let Some(lock) = found.config.lock().map(str::to_owned) else {
            return Ok(Look::Done(Seen::Free(found)));
        };
        // Of a backup or a migration nobody can tell which task it belongs to.
        if is_of_making(&lock) && idle.is_abandoned(self.client, &found.host, vmid).await? {
            return Ok(Look::Done(Seen::Abandoned { host: found.host, lock }));
        }
        Ok(Look::NotYet(format!("locked ({lock})")))
    }
}

/// Whether a lock is held while a VM is made or destroyed: name and description do not count then.
pub(crate) fn is_of_making(lock: &str) -> bool {
    matches!(lock, "create" | "clone" | "import" | "destroyed")
}

/// Since when nobody works on a VM.
#[derive(Default)]
struct Idle(Mutex<Option<Instant>>);

impl Idle {
    /// Whether nobody has worked on a VM for long enough. Only who may see everybody's tasks can tell.
    async fn is_abandoned(
        &self,
        client: &Client,
        host: &HostName,
        vmid: VmId,
    ) -> std::result::Result<bool, Error> {
        if is_worked_on(client, host, vmid).await? {
            *self.since() = None;
            return Ok(false);
        }
        let since = *self.since().get_or_insert_with(Instant::now);
        Ok(since.elapsed() >= ABANDONED_AFTER && may_see_tasks(client, host).await?)
    }

    fn since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a task that runs on the host may be the one that holds the VM. A clone's task has the id of its source, so any
/// clone may.
async fn is_worked_on(client: &Client, host: &HostName, vmid: VmId) -> std::result::Result<bool, Error> {
    let query = TaskQuery { source: TaskSource::Active, ..TaskQuery::default() };
    let tasks = client.tasks(host, &query).await?;
    let id = vmid.to_string();
    let mut running = tasks.iter().filter(|task| task.endtime.is_none());
    Ok(running.any(|task| task.kind == "qmclone" || task.id.as_deref() == Some(&id)))
}

async fn may_see_tasks(client: &Client, host: &HostName) -> std::result::Result<bool, Error> {
    let path = format!("/nodes/{host}");
    Ok(client.permissions(Some(&path)).await?.has(&path, "Sys.Audit"))
}
