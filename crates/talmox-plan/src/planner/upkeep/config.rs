//! Machine configurations that differ.
//!
//! ```text
//!  a change needs a restart ─▶ allowed: drain, write, restart, return · --stage: written for the next one · else: waits
//!  could cut the machine off ─▶ on trial: the machine takes it back unless it was seen to be well
//!  all else ─▶ at once
//!  both of the first two ─▶ on trial without what needs a restart, then the rest: what is written down is taken back by nobody
//! ```
//!
//! A change is sent to one control plane after the other, then to workers, so many at a time as may be away: whoever is not
//! well with it keeps it from the others.

use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::Living;
use crate::network::is_network;
use crate::planner::{Draft, Planner};
use crate::{
    Applies, Change, ChangeMode, Component, Effect, Expected, NoteKind, Owned, Step, StepId, Upkeep, Waiting,
};

const INSTALL: &str = "machine.install";
const INSTALLER: &str = "machine.install.image";

/// How many keys a reason names.
const NAMED: usize = 3;

impl<'a> Planner<'a> {
    /// Changes configurations that differ in more than versions.
    pub(super) fn config_changes(&mut self, living: &[Living<'a>]) {
        self.changes_that_follow(living);
        let others = self.refuse_other_authorities(living);
        let at_once = self.request.upkeep.max_unavailable.map_or(1, std::num::NonZeroUsize::get);
        // The last step of each node that was changed before.
        let (mut controllers, mut workers): (Vec<StepId>, Vec<StepId>) = (Vec::new(), Vec::new());
        let mut in_turn: Vec<&Living<'a>> = living.iter().collect();
        in_turn.sort_by_key(|one| self.turn_of(one.node));
        for one in in_turn.into_iter().filter(|one| !others.contains(&one.node.name)) {
            // Its Talos cannot become the described one: nothing else is done to it either.
            if self.refused.contains(&one.node.name) {
                continue;
            }
            let Some(changes) = self.due(one) else { continue };
            let mut needs: Vec<StepId> = controllers.last().cloned().into_iter().collect();
            if one.node.role == Role::Worker
                && let Some(before) = workers.len().checked_sub(at_once)
            {
                needs.push(workers[before].clone());
            }
            let Some(last) = self.change(one, changes, needs) else { continue };
            match one.node.role {
                Role::Controller => controllers.push(last),
                Role::Worker => workers.push(last),
            }
        }
    }

    /// What a node's configuration gets now. Where another version of Talos or Kubernetes comes first, it follows that.
    fn due(&mut self, one: &Living<'a>) -> Option<&'a [Change]> {
        let name = &one.node.name;
        let changes = one.seen.config.as_deref().filter(|changes| !changes.is_empty())?;
        if !self.request.covers(name) {
            return None;
        }
        let images = |change: &&Change| Component::of_change(change).is_some();
        let upgrades = self.plan.steps.iter().any(|planned| {
            planned.node.as_ref() == Some(name)
                && matches!(planned.step, Step::Upkeep(Upkeep::UpgradeNode { .. }))
        });
        let runs = one.seen.version.trim_start_matches('v');
        let other_talos = !runs.is_empty() && runs != self.desired.talos.version.to_string();
        if changes.iter().any(|change| images(&change)) || upgrades || other_talos {
            // Images and the installer come with those versions, and what is written down comes with a restart.
            let own = changes.iter().filter(|change| !images(change) && change.key != INSTALLER);
            let own: Vec<Change> = own.filter(|change| change.applies != Applies::Written).cloned().collect();
            let installer = changes.iter().any(|change| change.key == INSTALLER) && !other_talos;
            if !own.is_empty() || installer || upgrades {
                self.follow_change(name, &own, "once it runs the versions that are described");
            }
            self.tell_written(name, changes);
            return None;
        }
        Some(changes)
    }

    fn change(&mut self, one: &Living<'a>, changes: &[Change], needs: Vec<StepId>) -> Option<StepId> {
        let name = &one.node.name;
        let owned = self.identities.of_node(name).next()?.clone();
        let address = self.addresses.get(name).copied()?;
        if changes.iter().all(|change| change.applies == Applies::OnTrial) {
            let keys = changes.iter().map(|change| change.key.clone()).collect();
            self.plan.waiting.push(Waiting::Trial { node: name.clone(), keys, since: one.seen.on_trial });
            return None;
        }
        self.say_what_talos_refuses(one);
        let mode = self.mode(changes);
        let is_written = changes.iter().all(|change| change.applies == Applies::Written);
        let waits = mode == ChangeMode::Reboot && !self.request.allow_reboot;
        if waits || (mode == ChangeMode::Staged && is_written) {
            self.wait_for_restart(name, restarting(changes));
            return None;
        }
        if untold(changes).next().is_some() {
            self.refuse_untold(name, changes);
            return None;
        }
        let Owned { mark, host, .. } = owned;
        let vm = Expected { host, mark };
        let change = |mode| Step::Upkeep(Upkeep::ChangeNode { vm: vm.clone(), address, mode });
        let (mut changes, mut needs) = (changes.to_vec(), needs);
        if is_tried_first(mode, &changes) {
            let reason = reason(ChangeMode::TryFirst, &changes);
            let live = changes.iter().filter(|change| change.applies == Applies::Now).cloned().collect();
            changes.retain(|change| change.applies != Applies::Now);
            let draft = Draft::new(Some(name), change(ChangeMode::TryFirst), &reason, Effect::ChangeLive);
            let part = Some("trial".to_owned());
            needs = vec![self.push(Draft { part, changes: live, ..draft.after(needs) })];
        }
        let reason = reason(mode, &changes);
        let needs = if mode == ChangeMode::Reboot { self.drain(name, &reason, needs) } else { needs };
        let draft = Draft::new(Some(name), change(mode), &reason, effect(mode)).after(needs);
        let last = vec![self.push(Draft { changes, ..draft })];
        let last = if mode == ChangeMode::Reboot { self.give_back(name, last) } else { last };
        last.into_iter().next()
    }

    /// Says what a machine has against the configuration it is to get, other than that it needs a restart.
    fn say_what_talos_refuses(&mut self, one: &Living<'a>) {
        if let Some(words) = &one.seen.refuses {
            let text = format!("Talos does not take the described configuration: {words}");
            self.note(Some(&one.node.name), NoteKind::Warning, text);
        }
    }

    /// Nobody can tell which part needs the restart, so nothing can be tried before it.
    fn refuse_untold(&mut self, node: &NodeName, changes: &[Change]) {
        let network = named(untold(changes));
        let others = changes.iter().filter(|change| !is_network(&change.key));
        let problem = format!(
            "{network} could cut it off and has to be tried, and Talos takes it over only with a restart together with {}",
            named(others)
        );
        let choices = vec![
            format!("apply {network} alone first, which can be tried, and then the rest"),
            format!("or the rest first, without {network}"),
        ];
        self.refuse(Some(node), problem, choices);
    }

    fn mode(&self, changes: &[Change]) -> ChangeMode {
        if restarting(changes).next().is_some() {
            return if self.request.upkeep.stage { ChangeMode::Staged } else { ChangeMode::Reboot };
        }
        if changes.iter().any(|change| is_network(&change.key)) {
            ChangeMode::Try
        } else {
            ChangeMode::NoReboot
        }
    }

    /// Nodes that something else happens to first: their change comes in a later round, and is approved now.
    fn changes_that_follow(&mut self, living: &[Living<'a>]) {
        let (desired, observed) = (self.desired, self.observed);
        for node in desired.nodes.iter().filter(|node| self.request.covers(&node.name)) {
            if living.iter().any(|one| one.node.name == node.name) {
                continue;
            }
            let seen = observed.talos.get(&node.name).and_then(crate::SeenMachine::configured);
            let Some(changes) = seen.and_then(|seen| seen.config.as_deref()) else { continue };
            // What is written down is in force once it was restarted, whatever for.
            let comes = self.restarts(&node.name);
            let left = changes.iter().filter(|change| !comes || change.applies != Applies::Written);
            let left: Vec<Change> = left.cloned().collect();
            if !left.is_empty() {
                self.follow_change(&node.name, &left, "once it is back");
            }
        }
    }

    fn follow_change(&mut self, node: &NodeName, changes: &[Change], reason: &str) {
        let mode = self.mode(changes);
        if mode == ChangeMode::Reboot {
            if !self.request.allow_reboot {
                return self.wait_for_restart(node, restarting(changes));
            }
            self.follow(Some(node), "drain", Effect::Drain, reason);
        }
        if is_tried_first(mode, changes) {
            self.follow(Some(node), "change-node", Effect::ChangeLive, reason);
        }
        self.follow(Some(node), "change-node", effect(mode), reason);
    }
}

fn restarting(changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().filter(|change| change.applies != Applies::Now)
}

/// Whether a part of it has to be tried before the part that needs a restart.
fn is_tried_first(mode: ChangeMode, changes: &[Change]) -> bool {
    let is_tried = |change: &Change| change.applies == Applies::Now && is_network(&change.key);
    matches!(mode, ChangeMode::Reboot | ChangeMode::Staged) && changes.iter().any(is_tried)
}

/// What could cut a machine off and yet seems to need a restart: Talos says so of a change as a whole, where nobody knows which part
/// of it does. What is written down already comes with the next restart, whoever makes that.
fn untold(changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().filter(|change| change.applies == Applies::AfterReboot && is_network(&change.key))
}

fn effect(mode: ChangeMode) -> Effect {
    match mode {
        ChangeMode::NoReboot | ChangeMode::Try | ChangeMode::TryFirst => Effect::ChangeLive,
        ChangeMode::Reboot | ChangeMode::Restart => Effect::Reboot,
        ChangeMode::Staged => Effect::ChangePending,
    }
}

/// Whether nothing on a machine goes by a change before the next installer runs.
fn is_for_installers(change: &Change) -> bool {
    change.key == INSTALL || change.key.strip_prefix(INSTALL).is_some_and(|rest| rest.starts_with('.'))
}

/// The first of some keys.
pub(super) fn named<'a>(changes: impl Iterator<Item = &'a Change>) -> String {
    let mut keys: Vec<&str> = changes.map(|change| change.key.as_str()).collect();
    let others = keys.len().saturating_sub(NAMED);
    keys.truncate(NAMED);
    let first = keys.join(", ");
    if others > 0 { format!("{first} and {others} more") } else { first }
}

/// Why it is done this way.
fn reason(mode: ChangeMode, changes: &[Change]) -> String {
    let restarts = || named(restarting(changes));
    let network = || named(changes.iter().filter(|change| is_network(&change.key)));
    match mode {
        ChangeMode::NoReboot if changes.iter().all(is_for_installers) => {
            "Talos keeps this, and the next upgrade goes by it".to_owned()
        }
        ChangeMode::NoReboot => {
            let kept = changes.iter().filter(|change| is_for_installers(change));
            let kept = named(kept);
            let but =
                if kept.is_empty() { String::new() } else { format!("; the next upgrade goes by {kept}") };
            format!("Talos takes this over while it runs{but}")
        }
        ChangeMode::Try => format!("{} could cut it off", network()),
        ChangeMode::TryFirst => {
            format!("{} could cut it off, so it is tried before {} is written down", network(), restarts())
        }
        ChangeMode::Reboot => format!("Talos takes {} over only when it starts", restarts()),
        ChangeMode::Restart => format!("{} is written down and waits for it", restarts()),
        ChangeMode::Staged => {
            format!("Talos takes {} over only when it starts, which is left for later", restarts())
        }
    }
}
