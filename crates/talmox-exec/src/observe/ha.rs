//! What HA looks after.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{HaGroup, HaRule, HaScope, SeenHa};
use talmox_pve::client::{self, Client, Error, ErrorKind};
use talmox_types::desired::Desired;
use talmox_types::{HostName, VmId};

use super::ObserveError;

/// Resources, and rules or groups as the version has them. Nobody asks unless a node wants HA.
pub(super) async fn ha(
    client: &Client,
    desired: &Desired,
    version: &str,
) -> Result<Option<SeenHa>, ObserveError> {
    if !desired.nodes.iter().any(|node| node.vm.ha_managed) {
        return Ok(None);
    }
    let doing = ObserveError::new("read what HA looks after");
    let seen = async {
        let mut seen = SeenHa::default();
        let resources = client.ha_resources().await?;
        seen.resources = resources.iter().filter_map(|resource| vmid(&resource.sid)).collect();
        if version.starts_with("8.") {
            seen.groups = seen_groups(client).await?;
        } else {
            seen.rules = seen_rules(client).await?;
        }
        Ok::<_, Error>(seen)
    };
    match seen.await {
        Ok(seen) => Ok(Some(seen)),
        // Who may not look may not change anything either, and the plan says so.
        Err(error) if matches!(error.kind(), ErrorKind::Denied(_)) => Ok(Some(SeenHa::default())),
        Err(error) => Err(doing(error)),
    }
}

/// Rules about VMs, by name.
pub(crate) async fn seen_rules(client: &Client) -> Result<BTreeMap<String, HaRule>, Error> {
    let rules = client.ha_rules().await?;
    Ok(rules.into_iter().filter_map(rule).map(|rule| (rule.id.clone(), rule)).collect())
}

fn rule(seen: client::HaRule) -> Option<HaRule> {
    let scope = match (seen.kind.as_str(), seen.affinity.as_deref()) {
        ("resource-affinity", Some("negative")) => HaScope::Apart,
        ("node-affinity", _) => HaScope::Hosts { hosts: hosts(&seen.nodes) },
        _ => return None,
    };
    Some(HaRule {
        id: seen.rule,
        scope,
        vms: seen.resources.iter().filter_map(|sid| vmid(sid)).collect(),
        comment: seen.comment.unwrap_or_default(),
    })
}

/// The hosts of each group, without priorities, and whose it is.
pub(crate) async fn seen_groups(client: &Client) -> Result<BTreeMap<String, HaGroup>, Error> {
    let groups = client.ha_groups().await?;
    let seen = |group: client::HaGroup| {
        let seen = HaGroup { hosts: hosts(&group.nodes), comment: group.comment.unwrap_or_default() };
        (group.group, seen)
    };
    Ok(groups.into_iter().map(seen).collect())
}

fn hosts(words: &[String]) -> BTreeSet<HostName> {
    words.iter().filter_map(|word| HostName::parse(word.split(':').next()?).ok()).collect()
}

fn vmid(sid: &str) -> Option<VmId> {
    VmId::try_from(sid.strip_prefix("vm:")?.parse::<u32>().ok()?).ok()
}
