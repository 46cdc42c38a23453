//! Machine configurations that differ.
//!
//! ```text
//!  a change needs a restart ─▶ allowed: drain, write, restart, return · --stage: written for the next one · else: waits
//!  could cut the machine off ─▶ on trial: the machine takes it back unless it was seen to be well
//!  all else ─▶ at once
//! ```
//!
//! A change is sent to one control plane after the other, then to workers, so many at a time as may be away: whoever is not
//! well with it keeps it from the others.

use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::Living;
use crate::planner::{Draft, Planner};
use crate::{Applies, Change, ChangeMode, Component, Effect, Expected, Owned, Step, StepId, Upkeep, Waiting};

/// Documents that say how a machine is reached.
const NETWORK_KINDS: [&str; 17] = [
    "BondConfig",
    "BridgeConfig",
    "DHCPv4Config",
    "DHCPv6Config",
    "DummyLinkConfig",
    "EthernetConfig",
    "HostnameConfig",
    "KubeSpanConfig",
    "Layer2VIPConfig",
    "LinkAliasConfig",
    "LinkConfig",
    "NetworkDefaultActionConfig",
    "NetworkRuleConfig",
    "ResolverConfig",
    "StaticHostConfig",
    "VLANConfig",
    "WireguardConfig",
];

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
        for one in living.iter().filter(|one| !others.contains(&one.node.name)) {
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
            let mut own = changes.iter().filter(|change| !images(change) && change.key != INSTALLER);
            let installer = changes.iter().any(|change| change.key == INSTALLER) && !other_talos;
            if own.next().is_some() || installer || upgrades {
                self.follow_change(name, changes, "once it runs the versions that are described");
            }
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
        let mode = self.mode(changes);
        let is_written = changes.iter().all(|change| change.applies == Applies::Written);
        let waits = mode == ChangeMode::Reboot && !self.request.allow_reboot;
        if waits || (mode == ChangeMode::Staged && is_written) {
            let keys = restarting(changes).map(|change| change.key.clone()).collect();
            let (node, vmid) = (name.clone(), owned.mark.vmid);
            self.plan.waiting.push(Waiting::Reboot { node, vmid, keys });
            return None;
        }
        let Owned { mark, host, .. } = owned;
        let step = Step::Upkeep(Upkeep::ChangeNode { vm: Expected { host, mark }, address, mode });
        let reason = reason(mode, changes);
        let needs = if mode == ChangeMode::Reboot { self.drain(name, &reason, needs) } else { needs };
        let draft = Draft::new(Some(name), step, &reason, effect(mode)).after(needs);
        let last = vec![self.push(Draft { changes: changes.to_vec(), ..draft })];
        let last = if mode == ChangeMode::Reboot { self.give_back(name, last) } else { last };
        last.into_iter().next()
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
            if !changes.is_empty() {
                self.follow_change(&node.name, changes, "once it is back");
            }
        }
    }

    fn follow_change(&mut self, node: &NodeName, changes: &[Change], reason: &str) {
        let mode = self.mode(changes);
        if mode == ChangeMode::Reboot {
            if !self.request.allow_reboot {
                return;
            }
            self.follow(Some(node), "drain", Effect::Drain, reason);
        }
        self.follow(Some(node), "change-node", effect(mode), reason);
    }
}

fn restarting(changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().filter(|change| change.applies != Applies::Now)
}

fn effect(mode: ChangeMode) -> Effect {
    match mode {
        ChangeMode::NoReboot | ChangeMode::Try => Effect::ChangeLive,
        ChangeMode::Reboot => Effect::Reboot,
        ChangeMode::Staged => Effect::ChangePending,
    }
}

fn is_network(key: &str) -> bool {
    let kind = key.split(' ').next().unwrap_or(key);
    key == "machine.network" || key.starts_with("machine.network.") || NETWORK_KINDS.contains(&kind)
}

/// Why it is done this way.
fn reason(mode: ChangeMode, changes: &[Change]) -> String {
    let named = |mut keys: Vec<&str>| {
        let others = keys.len().saturating_sub(NAMED);
        keys.truncate(NAMED);
        let first = keys.join(", ");
        if others > 0 { format!("{first} and {others} more") } else { first }
    };
    let restarts = || named(restarting(changes).map(|change| change.key.as_str()).collect());
    match mode {
        ChangeMode::NoReboot => "Talos takes this over while it runs".to_owned(),
        ChangeMode::Try => {
            let keys = changes.iter().map(|change| change.key.as_str()).filter(|key| is_network(key));
            format!("{} could cut it off", named(keys.collect()))
        }
        ChangeMode::Reboot => format!("Talos takes {} over only when it starts", restarts()),
        ChangeMode::Staged => {
            format!("Talos takes {} over only when it starts, which is left for later", restarts())
        }
    }
}
