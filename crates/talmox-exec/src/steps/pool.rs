//! The cluster's pool.

use talmox_plan::Expected;
use talmox_pve::client::{ErrorKind, PoolChange};
use talmox_types::PoolName;
use talmox_types::sabotage::{Defect, sabotaged};

use crate::StepError;
use crate::find::vms;
use crate::work::{End, Result, Work};

/// A pool that is there already will do, whoever made it.
pub(super) async fn create(work: &Work<'_>, pool: &PoolName, comment: &str) -> Result {
    let client = work.client();
    let seen = client.pool(pool).await.map_err(StepError::call(format!("look for the pool {pool}")))?;
    if seen.is_some() {
        return Ok(End::Unchanged);
    }
    match client.create_pool(pool, Some(comment)).await {
        Ok(()) => Ok(End::Changed),
        Err(error) if *error.kind() == ErrorKind::Exists => Ok(End::Unchanged),
        Err(error) => Err(StepError::call(format!("make the pool {pool}"))(error)),
    }
}

/// Somebody else's pool, or one that is still in use, stays.
pub(super) async fn delete(work: &Work<'_>, pool: &PoolName, comment: &str) -> Result {
    let client = work.client();
    let seen = client.pool(pool).await.map_err(StepError::call(format!("look for the pool {pool}")))?;
    let Some(seen) = seen else { return Ok(End::Unchanged) };
    let foreign = seen.comment.as_deref().map(str::trim) != Some(comment.trim());
    if foreign && !sabotaged(Defect::ForeignPoolRemoved) {
        work.warn(&format!("the pool {pool} is not ours any more and stays"));
        return Ok(End::Unchanged);
    }
    if let Some(member) = seen.members.first() {
        work.warn(&format!("the pool {pool} still holds {} and stays", member.id));
        return Ok(End::Unchanged);
    }
    match client.delete_pool(pool).await {
        Ok(()) => Ok(End::Changed),
        Err(error) if error.is_not_found() => Ok(End::Unchanged),
        Err(error) if *error.kind() == ErrorKind::InUse => {
            work.warn(&format!("the pool {pool} is in use again and stays"));
            Ok(End::Unchanged)
        }
        Err(error) => Err(StepError::call(format!("remove the pool {pool}"))(error)),
    }
}

/// Puts a VM into the pool. It is never taken out of another one.
pub(super) async fn join(work: &Work<'_>, vm: &Expected, pool: &PoolName) -> Result {
    let client = work.client();
    let found = work.expect(vm).await?;
    let doing = format!("put {} into the pool {pool}", found.name());
    let listed = vms(client).await.map_err(StepError::call(doing.clone()))?;
    match listed.into_iter().find(|listed| listed.vmid == found.vmid).and_then(|listed| listed.pool) {
        Some(held) if held == *pool => return Ok(End::Unchanged),
        Some(held) => {
            return Err(StepError::Changed {
                what: format!("{}: it is in the pool {held} and", found.name()),
            });
        }
        None => {}
    }
    let change = PoolChange { vms: vec![found.vmid], ..PoolChange::default() };
    match client.change_pool(pool, &change).await {
        Ok(()) => Ok(End::Changed),
        Err(error) if *error.kind() == ErrorKind::Exists => Ok(End::Unchanged),
        Err(error) => Err(StepError::call(doing)(error)),
    }
}
