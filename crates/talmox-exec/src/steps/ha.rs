//! What HA looks after: resources, rules and groups.

use std::collections::BTreeSet;
use std::time::Duration;

use talmox_plan::{Expected, HaGroup, HaRule, HaScope};
use talmox_pve::client::{Error, ErrorKind, HaRuleScope, NewHaResource, NewHaRule};
use talmox_types::{HostName, VmId};
use tokio::time::Instant;

use crate::observe::{seen_groups, seen_rules};
use crate::work::{End, Result, Work};
use crate::{Event, StepError};

/// How long the HA manager may take to know the hosts.
const MANAGER_LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_secs(2);
const AWAKE: &str = "the HA manager to know the hosts";

/// Puts a VM under HA. What is under it already stays as it is.
pub(super) async fn add(
    work: &Work<'_>,
    vm: &Expected,
    started: bool,
    group: Option<&str>,
    comment: &str,
) -> Result {
    let found = work.expect(vm).await?;
    let doing = format!("put {} under HA", found.name());
    let resource = NewHaResource {
        state: Some(if started { "started" } else { "stopped" }.to_owned()),
        comment: Some(comment.to_owned()),
        group: group.map(str::to_owned),
        ..NewHaResource::default()
    };
    if is_listed(work, found.vmid).await.map_err(StepError::call(doing.clone()))? {
        return Ok(End::Unchanged);
    }
    let added = work.client().add_ha_resource(found.vmid, &resource).await;
    settle(work, added, doing, is_listed(work, found.vmid)).await
}

async fn is_listed(work: &Work<'_>, vmid: VmId) -> std::result::Result<bool, Error> {
    let sid = format!("vm:{vmid}");
    Ok(work.client().ha_resources().await?.iter().any(|resource| resource.sid == sid))
}

async fn rule_now(work: &Work<'_>, id: &str) -> std::result::Result<Option<HaRule>, Error> {
    Ok(seen_rules(work.client()).await?.remove(id))
}

async fn group_now(work: &Work<'_>, group: &str) -> std::result::Result<Option<HaGroup>, Error> {
    Ok(seen_groups(work.client()).await?.remove(group))
}

/// Makes a rule, or changes it. One that is not ours any more is left alone.
pub(super) async fn set_rule(work: &Work<'_>, rule: &HaRule) -> Result {
    let begun = Instant::now();
    loop {
        match try_rule(work, rule).await {
            Err(StepError::Call { source, .. })
                if knows_no_host(&source) && begun.elapsed() < MANAGER_LIMIT =>
            {
                let (elapsed, detail) = (begun.elapsed(), source.words());
                work.event(Event::Waiting {
                    step: work.planned,
                    name: AWAKE,
                    detail,
                    elapsed,
                    limit: MANAGER_LIMIT,
                });
                work.pause(AWAKE, PAUSE).await?;
            }
            ended => return ended,
        }
    }
}

/// A manager that had nothing to manage sleeps, and learns of the hosts some ten seconds after the first resource. Until then it
/// takes every rule that keeps VMs apart for one that cannot be kept.
fn knows_no_host(error: &Error) -> bool {
    error.words().contains("more resources than available nodes")
}

async fn try_rule(work: &Work<'_>, rule: &HaRule) -> Result {
    let doing = format!("set the HA rule {}", rule.id);
    let seen = rule_now(work, &rule.id).await.map_err(StepError::call(doing.clone()))?;
    let new = NewHaRule {
        rule: rule.id.clone(),
        resources: rule.vms.iter().copied().collect(),
        scope: match &rule.scope {
            HaScope::Apart => HaRuleScope::Apart,
            HaScope::Hosts { hosts } => HaRuleScope::Nodes(hosts.iter().cloned().collect()),
        },
        comment: rule.comment.clone(),
    };
    let sent = match seen {
        Some(seen) if seen == *rule => return Ok(End::Unchanged),
        Some(seen) if !same_owner(&seen.comment, &rule.comment) => {
            return Err(not_ours(&format!("the HA rule {}", rule.id)));
        }
        Some(_) => work.client().change_ha_rule(&new).await,
        None => work.client().add_ha_rule(&new).await,
    };
    settle(work, sent, doing, async { Ok(rule_now(work, &rule.id).await?.as_ref() == Some(rule)) }).await
}

pub(super) async fn delete_rule(work: &Work<'_>, rule: &HaRule) -> Result {
    let doing = format!("remove the HA rule {}", rule.id);
    match rule_now(work, &rule.id).await.map_err(StepError::call(doing.clone()))? {
        None => return Ok(End::Unchanged),
        Some(seen) if !same_owner(&seen.comment, &rule.comment) => {
            return Err(not_ours(&format!("the HA rule {}", rule.id)));
        }
        Some(_) => {}
    }
    let deleted = work.client().delete_ha_rule(&rule.id).await;
    settle(work, deleted, doing, async { Ok(rule_now(work, &rule.id).await?.is_none()) }).await
}

/// Makes a group of Proxmox 8, or changes its hosts. One that is not ours is left alone.
pub(super) async fn set_group(
    work: &Work<'_>,
    group: &str,
    hosts: &BTreeSet<HostName>,
    comment: &str,
) -> Result {
    let doing = format!("set the HA group {group}");
    let nodes: Vec<HostName> = hosts.iter().cloned().collect();
    let sent = match group_now(work, group).await.map_err(StepError::call(doing.clone()))? {
        Some(seen) if seen.hosts == *hosts => return Ok(End::Unchanged),
        Some(seen) if !same_owner(&seen.comment, comment) => {
            return Err(not_ours(&format!("the HA group {group}")));
        }
        Some(_) => work.client().change_ha_group(group, &nodes, comment).await,
        None => work.client().add_ha_group(group, &nodes, comment).await,
    };
    let is_set = async { Ok(group_now(work, group).await?.is_some_and(|seen| seen.hosts == *hosts)) };
    settle(work, sent, doing, is_set).await
}

/// Whether what was sent is there: an answer may be lost, and another run may be faster.
async fn settle(
    work: &Work<'_>,
    sent: std::result::Result<(), Error>,
    doing: String,
    is_there: impl Future<Output = std::result::Result<bool, Error>>,
) -> Result {
    match sent {
        Err(error) if matches!(error.kind(), ErrorKind::Denied(_)) => Err(StepError::call(doing)(error)),
        sent => {
            let there = is_there.await.map_err(StepError::call(doing.clone()))?;
            match sent {
                _ if there => Ok(End::Changed),
                Err(error) => Err(StepError::call(doing)(error)),
                Ok(()) => Err(StepError::Changed {
                    what: format!("what is needed to {doing}: {}", work.planned.id),
                }),
            }
        }
    }
}

/// The first two words of a comment of ours say whose it is; the cluster's name may change.
fn same_owner(seen: &str, ours: &str) -> bool {
    let owner = |comment: &str| comment.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    owner(seen) == owner(ours)
}

fn not_ours(what: &str) -> StepError {
    StepError::Changed { what: format!("{what}, which is not ours any more,") }
}
