//! Control planes with disks of the past: VMs that were rolled back to a snapshot, or restored from a backup.
//!
//! A member of etcd that comes back with them has forgotten what it promised the others: what they agreed on with its help can be lost, or
//! told differently by two of them. So it is not started as long as anybody is there who remembers more, running or not, and is
//! built anew instead. Where all of them were rolled back nobody does; and a control plane that is alone owes nothing to anybody.

use std::collections::BTreeSet;

use talmox_types::NodeName;
use talmox_types::desired::{Node, Power as WantedPower, Role};
use talmox_types::sabotage::{Defect, sabotaged};

use super::Planner;
use crate::{Guest, NoteKind, Owned, Power, Rewound, SeenEtcd, SeenMachine};

impl Planner<'_> {
    /// Whether a described control plane must not be started because its disks are of the past. One that runs with them is told of.
    pub(super) fn is_rewound(&mut self, node: &Node, guest: &Guest) -> bool {
        if node.role != Role::Controller {
            return false;
        }
        match guest.power {
            Power::Running => {
                self.tell_of_rewound(&node.name, guest);
                false
            }
            Power::Stopped => node.vm.power == WantedPower::Running && self.must_stay_off(&node.name, guest),
            Power::Unknown => false,
        }
    }

    fn tell_of_rewound(&mut self, name: &NodeName, guest: &Guest) {
        let Some(how) = self.observed.rewound.get(&guest.vmid).copied() else { return };
        if self.who_remember(name).is_empty() {
            return;
        }
        let text = format!(
            "VM {} {} and runs with data the other members of etcd have left behind, which they never take back: \
             talmox apply --replace {name} builds it anew, and it joins again",
            guest.vmid,
            was(how)
        );
        self.note(Some(name), NoteKind::Warning, text);
    }

    /// Refuses to start a VM whose disks are of the past, if it may be a member of etcd and others remember more.
    pub(super) fn must_stay_off(&mut self, name: &NodeName, guest: &Guest) -> bool {
        let Some(how) = self.observed.rewound.get(&guest.vmid).copied() else { return false };
        if sabotaged(Defect::RolledBackStarted) {
            return false;
        }
        let others = self.who_remember(name);
        if others.is_empty() {
            self.tell_that_all_are();
            return false;
        }
        let problem = format!(
            "VM {} {} and has not run since: its member of etcd would come back with data the others have left behind",
            guest.vmid,
            was(how)
        );
        let mut choices = Vec::new();
        if !others.iter().any(|other| self.observed.talos.contains_key(other)) {
            let others: Vec<&str> = others.iter().map(NodeName::as_str).collect();
            choices.push(format!("start the others first: talmox apply --target {}", others.join(",")));
        }
        choices.push(if self.names.contains_key(name.as_str()) {
            format!("talmox apply --replace {name} builds it anew, and it joins again")
        } else {
            format!("it is not described: talmox apply --remove {name}")
        });
        self.refuse(Some(name), problem, choices);
        true
    }

    /// Other control planes whose disks are as they were when they last ran, whether they run or not.
    fn who_remember(&self, name: &NodeName) -> BTreeSet<NodeName> {
        let remembers = |owned: &&Owned| {
            owned.finished
                && self.may_have_voted(owned)
                && !self.observed.rewound.contains_key(&owned.mark.vmid)
        };
        let mut others: BTreeSet<NodeName> =
            self.identities.ours().filter(remembers).map(|owned| owned.mark.node.clone()).collect();
        let controllers = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        // Nobody can read those, and they come back with their host.
        let unread = controllers.map(|node| &node.name).filter(|node| {
            let mut guests = self.unknown.of_name(node).into_iter();
            guests.any(|guest| !self.request.hosts.gone.contains(&guest.host))
        });
        others.extend(unread.cloned());
        others.remove(name);
        others
    }

    /// Whether a VM is a control plane: described as one, marked as one that came to an etcd, or a member by its own word.
    fn may_have_voted(&self, owned: &Owned) -> bool {
        let node = &owned.mark.node;
        if let Some(node) = self.names.get(node.as_str()) {
            return node.role == Role::Controller;
        }
        let seen = self.observed.leaving.get(node).and_then(SeenMachine::configured);
        owned.mark.bootstrap.as_ref().is_some_and(|word| word.done)
            || seen.is_some_and(|seen| matches!(seen.etcd, Some(SeenEtcd::Member { .. })))
    }

    /// Says once that nobody remembers more. One that is alone needs no such word.
    fn tell_that_all_are(&mut self) {
        let voted = |owned: &&Owned| owned.finished && self.may_have_voted(owned);
        let all: Vec<String> =
            self.identities.ours().filter(voted).map(|owned| owned.mark.node.to_string()).collect();
        let text = format!(
            "all control planes were rolled back or restored ({}): they are started together, with what they had then. That is \
             right if it is of one moment",
            all.join(", ")
        );
        if all.len() > 1 && !self.plan.notes.iter().any(|note| note.text == text) {
            self.note(None, NoteKind::Warning, text);
        }
    }
}

fn was(how: Rewound) -> &'static str {
    match how {
        Rewound::RolledBack => "was rolled back to a snapshot",
        Rewound::Restored => "was restored from a backup",
    }
}
