//! Moving a VM to another host. HA answers at once and moves later, so what counts is where the VM is seen.

use talmox_plan::Expected;
use talmox_pve::client::{Look, Migration};
use talmox_types::HostName;

use super::follow;
use super::making::COPY_LIMIT;
use crate::StepError;
use crate::find::{Found, find};
use crate::work::{End, Result, Work};

pub(super) async fn run(work: &Work<'_>, vm: &Expected, to: &HostName, local_disks: bool) -> Result {
    let found = work.expect(vm).await?;
    if found.host == *to {
        return Ok(End::Unchanged);
    }
    let doing = format!("move {} to {to}", found.name());
    let online = found.is_running(work.client()).await.map_err(StepError::call(doing.clone()))?;
    let migration = Migration {
        target: to.clone(),
        online,
        with_local_disks: local_disks && online,
        target_storage: None,
    };
    let moved = match work.client().migrate_vm(&found.host, found.vmid, &migration).await {
        Ok(task) => follow(work, Some(task), &doing, COPY_LIMIT).await,
        Err(error) => Err(StepError::call(doing)(error)),
    };
    match moved {
        // The task of HA ends when HA has taken it on.
        Ok(()) => see_host(work, &found, to).await.map(|()| End::Changed),
        // Somebody else may have moved it meanwhile.
        Err(error) => match work.find(vm).await? {
            Some(now) if now.host == *to => Ok(End::Changed),
            _ => Err(error),
        },
    }
}

async fn see_host(work: &Work<'_>, found: &Found, to: &HostName) -> Result<()> {
    let client = work.client();
    work.until(&format!("VM {} on {to}", found.vmid), COPY_LIMIT, async || {
        let now = find(client, to, found.vmid).await?;
        Ok(match now {
            Some(now) if now.host == *to && now.config.lock().is_none() => Look::Done(()),
            Some(now) => Look::NotYet(format!("it is on {}", now.host)),
            None => Look::NotYet("it is nowhere".to_owned()),
        })
    })
    .await
}
