//! Start, stop, restart. HA answers at once and acts later, so what counts is what is seen.

use std::time::Duration;

use talmox_plan::Expected;
use talmox_pve::client::{Client, Error, ErrorKind, Look, PendingItem, VmPower};

use super::{CHANGE_LIMIT, SEEN_LIMIT, follow};
use crate::StepError;
use crate::find::Found;
use crate::work::{End, Result, Work};

pub(super) async fn start(work: &Work<'_>, vm: &Expected) -> Result {
    let found = work.expect(vm).await?;
    if is_running(work, &found).await? {
        return Ok(End::Unchanged);
    }
    bring_up(work, &found).await?;
    Ok(End::Changed)
}

async fn bring_up(work: &Work<'_>, found: &Found) -> Result<()> {
    let doing = format!("start {}", found.name());
    let turn = work.turn_to_begin(None, Some(&found.host)).await?;
    let task =
        work.client().start_vm(&found.host, found.vmid).await.map_err(StepError::call(doing.clone()))?;
    let end = follow(work, Some(task), &doing, CHANGE_LIMIT).await;
    drop(turn);
    match end {
        // Somebody was faster.
        Err(error) if error.kind() == Some(&ErrorKind::WrongState) && is_running(work, found).await? => {
            Ok(())
        }
        Err(error) => Err(error),
        Ok(()) => see_power(work, found, VmPower::Running, SEEN_LIMIT).await,
    }
}

pub(super) async fn stop(work: &Work<'_>, vm: &Expected, timeout: u32) -> Result {
    let Some(found) = work.find(vm).await? else { return Ok(End::Unchanged) };
    if !is_running(work, &found).await? {
        return Ok(End::Unchanged);
    }
    let client = work.client();
    let doing = format!("stop {}", found.name());
    let patience = Duration::from_secs(u64::from(timeout));
    let turn = work.turn(&found.host).await;
    let task = match client.shut_down_vm(&found.host, found.vmid, Some(patience), true).await {
        // A paused guest cannot hear.
        Err(error) if *error.kind() == ErrorKind::WrongState => {
            client.stop_vm(&found.host, found.vmid, false).await
        }
        other => other,
    };
    let task = task.map_err(StepError::call(doing.clone()))?;
    follow(work, Some(task), &doing, patience + CHANGE_LIMIT).await?;
    drop(turn);
    see_power(work, &found, VmPower::Stopped, patience + SEEN_LIMIT).await?;
    Ok(End::Changed)
}

/// Restarts a VM for what is pending. One without anything pending has been restarted already.
pub(crate) async fn reboot(work: &Work<'_>, vm: &Expected, timeout: u32) -> Result {
    let found = work.expect(vm).await?;
    let client = work.client();
    let doing = format!("restart {}", found.name());
    let status = client.vm_status(&found.host, found.vmid).await.map_err(StepError::call(doing.clone()))?;
    if status.status != VmPower::Running {
        bring_up(work, &found).await?;
        return Ok(End::Changed);
    }
    let waits = pending(client, &found).await.map_err(StepError::call(doing.clone()))?;
    if waits.is_empty() {
        return Ok(End::Unchanged);
    }
    let patience = Duration::from_secs(u64::from(timeout));
    let task = client.reboot_vm(&found.host, found.vmid, Some(patience)).await;
    let task = match task {
        // It stopped between the two calls.
        Err(error) if *error.kind() == ErrorKind::WrongState => {
            bring_up(work, &found).await?;
            return Ok(End::Changed);
        }
        other => other.map_err(StepError::call(doing.clone()))?,
    };
    match follow(work, Some(task), &doing, patience + CHANGE_LIMIT).await {
        Err(error) if error.kind() == Some(&ErrorKind::Timeout) && is_running(work, &found).await? => {
            if !work.run.request.force_stop {
                let (vmid, host) = (found.vmid, found.host.clone());
                return Err(StepError::NoShutdown { vmid, host, limit: patience });
            }
            let seconds = patience.as_secs();
            work.warn(&format!("{} did not shut down within {seconds} s: it is stopped hard", found.name()));
            cycle(work, &found).await?;
        }
        end => end?,
    }
    // The task ends when the guest is down; another one starts it again.
    see_power(work, &found, VmPower::Running, SEEN_LIMIT).await?;
    let left = pending(client, &found).await.map_err(StepError::call(doing))?;
    if !left.is_empty() {
        work.warn(&format!("{} still wait for a restart", left.join(", ")));
    }
    Ok(End::Changed)
}

/// Pulls the plug and puts it in again, for a machine that hangs before it has anything to lose, or where the user allowed it.
pub(super) async fn cycle(work: &Work<'_>, found: &Found) -> Result<()> {
    let doing = format!("switch {} off and on", found.name());
    let turn = work.turn(&found.host).await;
    let stopped = work.client().stop_vm(&found.host, found.vmid, false).await;
    let task = stopped.map_err(StepError::call(doing.clone()))?;
    follow(work, Some(task), &doing, CHANGE_LIMIT).await?;
    drop(turn);
    see_power(work, found, VmPower::Stopped, SEEN_LIMIT).await?;
    bring_up(work, found).await
}

async fn pending(client: &Client, found: &Found) -> std::result::Result<Vec<String>, Error> {
    let items = client.pending(&found.host, found.vmid).await?;
    Ok(items.into_iter().filter(PendingItem::is_pending).map(|item| item.key).collect())
}

async fn is_running(work: &Work<'_>, found: &Found) -> Result<bool> {
    let doing = format!("look whether {} runs", found.name());
    found.is_running(work.client()).await.map_err(StepError::call(doing))
}

async fn see_power(work: &Work<'_>, found: &Found, wanted: VmPower, limit: Duration) -> Result<()> {
    let client = work.client();
    let state = if wanted == VmPower::Running { "running" } else { "stopped" };
    work.until(&format!("{} {state}", found.name()), limit, async || {
        let status = client.vm_status(&found.host, found.vmid).await?;
        let seen = status.qmpstatus.unwrap_or_else(|| format!("{:?}", status.status));
        Ok(if status.status == wanted { Look::Done(()) } else { Look::NotYet(seen) })
    })
    .await
}
