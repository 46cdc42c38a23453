//! Which place of the description wants a change.

use std::collections::BTreeMap;

use talmox_config::{Description, explain};
use talmox_plan::Plan;
use talmox_types::NodeName;

/// Places by node and field: `cluster.yaml:31 proxmox_vm_worker_defaults.memory`.
#[derive(Default)]
pub(crate) struct Places(BTreeMap<(NodeName, String), String>);

impl Places {
    /// The places of everything a plan changes.
    pub(crate) fn of(plan: &Plan, description: &Description) -> Self {
        let mut places = BTreeMap::new();
        for step in &plan.steps {
            let Some(node) = &step.node else { continue };
            for field in step.changes.iter().filter_map(|change| change.field.as_ref()) {
                if let Some(place) = find(description, node, field) {
                    places.insert((node.clone(), field.clone()), place);
                }
            }
        }
        Self(places)
    }

    pub(crate) fn get(&self, node: &NodeName, field: &str) -> Option<&str> {
        self.0.get(&(node.clone(), field.to_owned())).map(String::as_str)
    }
}

fn find(description: &Description, node: &NodeName, field: &str) -> Option<String> {
    let member = description.member(node.as_str()).ok()?;
    let explanation = explain(description, &member, field).ok()?;
    let winner = explanation.candidates.into_iter().find(|candidate| candidate.wins)?;
    Some(match winner.place.as_str() {
        "built in" => "built in".to_owned(),
        "computed" => winner.text,
        place => {
            let key = winner.text.split_once(": ").map_or(winner.text.as_str(), |(key, _)| key);
            format!("{place} {key}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screens::testbed;

    #[test]
    fn the_nearest_place_is_named() {
        let (outcome, _) = testbed::homelab();
        let place = |node: &str, field: &str| {
            find(&outcome.description, &NodeName::parse(node).unwrap(), field).unwrap()
        };
        assert_eq!(place("worker-2", "vm_memory"), "nodes.yaml:15 vm_memory");
        assert_eq!(place("worker-1", "vm_memory"), "cluster.yaml:18 proxmox_vm_worker_defaults.memory");
        assert_eq!(place("cp-1", "vm_memory"), "built in");
        assert!(find(&outcome.description, &NodeName::parse("cp-1").unwrap(), "no_such_field").is_none());
    }
}
