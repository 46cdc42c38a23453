//! VMs that carry this cluster's uid and the name of another cluster: it was renamed, or its description was copied to make another.
//!
//! A copy has the uid of what it was copied from, so that all of its VMs are ours and most of them not described: to prune or destroy by
//! such a description would be the end of the cluster it was copied from. Nobody can tell the two apart but whoever wrote it.

use std::collections::BTreeSet;

use talmox_types::ClusterName;
use talmox_types::sabotage::{Defect, sabotaged};

use super::Planner;
use crate::{NoteKind, Owned};

impl Planner<'_> {
    /// Refuses a description that has the uid of what is there, and else nothing of it; says it of one that may be meant.
    pub(super) fn copied_description(&mut self) {
        let others: Vec<Owned> =
            self.identities.ours().filter(|owned| self.is_of_another(owned)).cloned().collect();
        let Some(name) = others.first().map(|owned| owned.mark.cluster.clone()) else { return };
        let described = |owned: &Owned| self.names.contains_key(owned.mark.node.as_str());
        if self.identities.ours().any(described) {
            let text = format!(
                "VMs of this cluster say that it is {name}, and it is described as {}: it is renamed. If this is a copy of its \
                 description, it needs a cluster_uid and secrets of its own",
                self.desired.name
            );
            return self.note(None, NoteKind::Warning, text);
        }
        let (problem, choices) = self.copied(&others, &name);
        self.refuse(None, problem, choices);
    }

    /// Refuses to remove what says that it is of another cluster: true if there is any among what would go.
    pub(super) fn spares_another(&mut self, going: &[Owned]) -> bool {
        let others: Vec<Owned> = going.iter().filter(|owned| self.is_of_another(owned)).cloned().collect();
        let Some(name) = others.first().map(|owned| owned.mark.cluster.clone()) else { return false };
        if sabotaged(Defect::CopyDestroysOriginal) {
            return false;
        }
        let (problem, mut choices) = self.copied(&others, &name);
        if self.plan.refusals.iter().any(|refusal| refusal.problem == problem) {
            return true;
        }
        choices.push(format!("if {name} is to go, describe it by its name: cluster_name: {name}"));
        self.refuse(None, problem, choices);
        true
    }

    fn is_of_another(&self, owned: &Owned) -> bool {
        owned.mark.cluster != self.desired.name
    }

    fn copied(&self, others: &[Owned], name: &ClusterName) -> (String, Vec<String>) {
        let vms: BTreeSet<String> =
            others.iter().map(|owned| format!("{} ({})", owned.mark.vmid, owned.mark.node)).collect();
        let vms = vms.into_iter().collect::<Vec<_>>().join(", ");
        let problem = format!(
            "the notes of VMs {vms} say that they are of the cluster {name}: this description has its cluster_uid, and is of {}",
            self.desired.name
        );
        let choices = vec![
            format!(
                "if it is a copy of {name}'s description, take cluster_uid and secrets out of it: another cluster gets its own"
            ),
            format!("if {name} was renamed: talmox apply with its nodes described writes the new name"),
        ];
        (problem, choices)
    }
}
