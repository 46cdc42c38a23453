//! Configurations that are on a disk and not in force: they wait for a restart.
//!
//! An upgrade of Kubernetes puts images into the configuration in force and sends that. What waits on the disk would be lost, so it
//! comes into force first: by whatever restarts the node anyway, or by a restart of its own.

use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::Living;
use super::config::named;
use crate::planner::{Draft, Planner};
use crate::{Applies, Change, ChangeMode, Effect, Expected, Step, Upkeep, Waiting};

impl<'a> Planner<'a> {
    /// Says that something waits for a node's restart, unless this plan restarts it.
    pub(super) fn tell_written(&mut self, node: &NodeName, changes: &[Change]) {
        if !self.restarts(node) {
            self.wait_for_restart(node, changes.iter().filter(|change| change.applies == Applies::Written));
        }
    }

    /// Says which keys wait for a node's restart.
    pub(super) fn wait_for_restart<'c>(
        &mut self,
        node: &NodeName,
        changes: impl Iterator<Item = &'c Change>,
    ) {
        let keys: Vec<String> = changes.map(|change| change.key.clone()).collect();
        let vmid = self.identities.of_node(node).next().map(|owned| owned.mark.vmid);
        if let Some(vmid) = vmid.filter(|_| !keys.is_empty()) {
            self.plan.waiting.push(Waiting::Reboot { node: node.clone(), vmid, keys });
        }
    }

    /// Whether a step of this plan restarts a node, or its VM.
    pub(super) fn restarts(&self, node: &NodeName) -> bool {
        let mut own = self.plan.steps.iter().filter(|step| step.node.as_ref() == Some(node));
        own.any(|step| matches!(step.effect, Effect::Reboot | Effect::Stop | Effect::Start))
    }

    /// Brings into force what waits on disks, so that Kubernetes can be upgraded; false if that cannot be. Restarts that come after
    /// Kubernetes are of no use for it.
    pub(super) fn written_is_in_force(&mut self, living: &[Living<'a>], kubernetes_first: bool) -> bool {
        let waiting: Vec<Living<'a>> = living
            .iter()
            .filter(|one| written(one).next().is_some())
            .filter(|one| kubernetes_first || !self.restarts(&one.node.name))
            .copied()
            .collect();
        if waiting.is_empty() {
            return true;
        }
        if kubernetes_first || !self.request.allow_reboot || self.request.upkeep.stage {
            self.refuse_beside_written(&waiting, kubernetes_first);
            return false;
        }
        for role in [Role::Controller, Role::Worker] {
            for one in waiting.iter().filter(|one| one.node.role == role) {
                self.restart_into_written(one);
            }
        }
        true
    }

    fn refuse_beside_written(&mut self, waiting: &[Living<'a>], kubernetes_first: bool) {
        let names: Vec<&str> = waiting.iter().map(|one| one.node.name.as_str()).collect();
        let keys = waiting.first().map(|one| named(written(one))).unwrap_or_default();
        let problem = format!(
            "Kubernetes is not upgraded while a configuration waits for the restart of {}: {keys} would be lost",
            names.join(", ")
        );
        let restarts = if kubernetes_first {
            "apply --allow-reboot with the versions that run now, and then with these"
        } else {
            "apply --allow-reboot, without --stage: they are restarted first"
        };
        let choices = vec![restarts.to_owned(), "or restart them yourself: talosctl reboot".to_owned()];
        self.refuse(None, problem, choices);
    }

    /// Restarts a node with what is on its disk; nothing else of its configuration changes.
    fn restart_into_written(&mut self, one: &Living<'a>) {
        let name = &one.node.name;
        let owned = self.identities.of_node(name).next().cloned();
        let (Some(owned), Some(address)) = (owned, self.addresses.get(name).copied()) else { return };
        let changes: Vec<Change> = written(one).cloned().collect();
        // What is done about it need not be waited for.
        let keys: Vec<String> = changes.iter().map(|change| change.key.clone()).collect();
        let is_told = |waiting: &Waiting| matches!(waiting, Waiting::Reboot { node, keys: told, .. } if node == name && *told == keys);
        self.plan.waiting.retain(|waiting| !is_told(waiting));
        let reason = format!(
            "{} is written down and waits for it, and Kubernetes is upgraded only then",
            named(changes.iter())
        );
        let vm = Expected { host: owned.host, mark: owned.mark };
        let step = Step::Upkeep(Upkeep::ChangeNode { vm, address, mode: ChangeMode::Restart });
        let drained = self.drain(name, &reason, Vec::new());
        let draft = Draft::new(Some(name), step, &reason, Effect::Reboot).after(drained);
        let restarted = self.push(Draft { changes, ..draft });
        self.give_back(name, vec![restarted]);
    }
}

/// What of a node's configuration waits for its restart.
fn written<'a>(one: &Living<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let changes = one.seen.config.as_deref().unwrap_or_default();
    changes.iter().filter(|change| change.applies == Applies::Written)
}
