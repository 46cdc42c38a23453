//! VMs that Proxmox shall keep running: who is looked after, where they may run, and who stays apart from whom.
//!
//! Proxmox 9 has rules for the latter two. Version 8 has groups, which say where and know no apart. What others have put
//! under HA, and rules and groups without our comment, are theirs.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::{Node, Power as WantedPower, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, NodeName, VmId};

use super::{Draft, Planner, is_our_pool, pool_comment};
use crate::{Effect, Expected, HaRule, HaScope, Intent, NoteKind, Owned, SeenHa, Step, StepId};

impl Planner<'_> {
    /// Plans what the description wants of HA, after everything else.
    pub(super) fn ha(&mut self) {
        let wanted: Vec<&Node> = self.desired.nodes.iter().filter(|node| node.vm.ha_managed).collect();
        let Some(seen) = &self.observed.ha else { return };
        if wanted.is_empty() && seen.rules.is_empty() {
            return;
        }
        if !self.observed.rights.ha() {
            if !wanted.is_empty() {
                let text = "ha_managed is left out: the credentials lack Sys.Console on /".to_owned();
                self.note(None, NoteKind::LeftOut, text);
            }
            return;
        }
        let there: Vec<(&Node, Owned)> =
            wanted.iter().filter_map(|node| Some((*node, self.only_one(node)?))).collect();
        let missing: Vec<&Node> =
            wanted.iter().copied().filter(|node| self.only_one(node).is_none()).collect();
        self.ha_later(&missing);
        let group = self.ha_group(seen, !there.is_empty());
        let mut own: BTreeMap<NodeName, Vec<StepId>> = BTreeMap::new();
        for step in &self.plan.steps {
            if let Some(node) = &step.node {
                own.entry(node.clone()).or_default().push(step.id.clone());
            }
        }
        let mut added = Vec::new();
        for (node, owned) in &there {
            let needs = own.remove(&node.name).unwrap_or_default();
            added.extend(self.add_ha(node, owned, seen, (needs, group.as_ref())));
        }
        if self.has_rules() {
            self.ha_rules(seen, &there, &added);
        }
    }

    /// The VM of a node that has one and no second.
    fn only_one(&self, node: &Node) -> Option<Owned> {
        let mut owned = self.identities.of_node(&node.name);
        let first = owned.next()?.clone();
        let free = self.observed.guests.get(&first.mark.vmid).is_some_and(|guest| guest.lock.is_none());
        (free && first.finished && owned.next().is_none() && self.request.covers(&node.name)).then_some(first)
    }

    fn ha_later(&mut self, missing: &[&Node]) {
        let intent = |node: Option<NodeName>, step: &str| Intent {
            node,
            step: step.to_owned(),
            effect: Effect::ChangeLive,
            reason: "once it is there".to_owned(),
        };
        for (index, node) in missing.iter().enumerate() {
            self.plan.later.push(intent(Some(node.name.clone()), "add-ha"));
            if index == 0 {
                self.plan.later.push(intent(None, "set-ha-rule"));
            }
        }
    }

    fn has_rules(&self) -> bool {
        let major = self.observed.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_none_or(|major| major >= 9)
    }

    fn ha_comment(&self) -> String {
        pool_comment(&self.uid, self.desired)
    }

    /// The group of Proxmox 8 that keeps VMs on the hosts the description allows; and the step that makes it.
    fn ha_group(&mut self, seen: &SeenHa, needed: bool) -> Option<(String, Option<StepId>)> {
        let hosts: BTreeSet<HostName> = self.desired.proxmox.hosts.iter().cloned().collect();
        if self.has_rules() || hosts.is_empty() || !needed {
            return None;
        }
        let group = format!("talmox-{}", self.desired.name);
        match seen.groups.get(&group) {
            Some(seen) if seen.hosts == hosts => return Some((group, None)),
            Some(seen)
                if !is_our_pool(&seen.comment, &self.uid) && !sabotaged(Defect::ForeignRuleChanged) =>
            {
                let text =
                    format!("the HA group {group} is not from us: left alone, and HA may use every host");
                self.note(None, NoteKind::Foreign, text);
                return None;
            }
            Some(_) | None => {}
        }
        let step = Step::SetHaGroup { group: group.clone(), hosts, comment: self.ha_comment() };
        let draft = Draft::new(None, step, "it names the hosts the description allows", Effect::ChangeLive);
        let made = self.push(draft);
        Some((group, Some(made)))
    }

    fn add_ha(
        &mut self,
        node: &Node,
        owned: &Owned,
        seen: &SeenHa,
        (mut needs, group): (Vec<StepId>, Option<&(String, Option<StepId>)>),
    ) -> Option<StepId> {
        if seen.resources.contains(&owned.mark.vmid) {
            return None;
        }
        let vm = Expected { host: owned.host.clone(), mark: owned.mark.clone() };
        needs.extend(group.and_then(|(_, made)| made.clone()));
        let started = node.vm.power == WantedPower::Running;
        let group = group.map(|(name, _)| name.clone());
        let step = Step::AddHa { vm, started, group, comment: self.ha_comment() };
        let draft = Draft::new(
            Some(&node.name),
            step,
            "ha_managed, and HA does not look after it",
            Effect::ChangeLive,
        );
        Some(self.push(draft.after(needs)))
    }

    /// Rules of ours as they shall be: control planes apart, and everybody on hosts the description allows.
    fn ha_rules(&mut self, seen: &SeenHa, there: &[(&Node, Owned)], added: &[StepId]) {
        let ids = |role: Option<Role>| -> BTreeSet<VmId> {
            let of_role = there.iter().filter(|(node, _)| role.is_none_or(|role| node.role == role));
            of_role.map(|(_, owned)| owned.mark.vmid).collect()
        };
        let name = |what: &str| format!("talmox-{}-{what}", self.desired.name);
        let hosts: BTreeSet<HostName> = self.desired.proxmox.hosts.iter().cloned().collect();
        let room = if hosts.is_empty() { self.observed.hosts.len() } else { hosts.len() };
        let control_planes = ids(Some(Role::Controller));
        // Proxmox refuses a rule that cannot be kept.
        let apart = if control_planes.len() <= room { control_planes } else { BTreeSet::new() };
        let rules = [
            (name("apart"), HaScope::Apart, apart, 2),
            (
                name("hosts"),
                HaScope::Hosts { hosts: hosts.clone() },
                ids(None),
                if hosts.is_empty() { usize::MAX } else { 1 },
            ),
        ];
        for (id, scope, vms, least) in rules {
            let seen = seen.rules.get(&id);
            let ours = seen.is_none_or(|rule| is_our_pool(&rule.comment, &self.uid));
            let ours = ours || sabotaged(Defect::ForeignRuleChanged);
            if !ours {
                let text = format!("the HA rule {id} is not from us: left alone");
                self.note(None, NoteKind::Foreign, text);
            } else if vms.len() >= least {
                let rule = HaRule { id, scope, vms, comment: self.ha_comment() };
                if seen != Some(&rule) {
                    let reason = match &rule.scope {
                        HaScope::Apart => "control planes are kept on different hosts",
                        HaScope::Hosts { .. } => "they run on the hosts the description allows",
                    };
                    let part = Some(rule.id.clone());
                    let draft = Draft::new(None, Step::SetHaRule { rule }, reason, Effect::ChangeLive);
                    self.push(Draft { part, ..draft.after(added.to_vec()) });
                }
            } else if let Some(rule) = seen.cloned() {
                self.delete_rule(rule, "too few VMs are left for it");
            }
        }
    }

    fn delete_rule(&mut self, rule: HaRule, reason: &str) -> StepId {
        let part = Some(rule.id.clone());
        let draft = Draft::new(None, Step::DeleteHaRule { rule }, reason, Effect::ChangeLive);
        self.push(Draft { part, ..draft })
    }

    /// Rules of ours go before the VMs they are about.
    pub(super) fn delete_ha_rules(&mut self) -> Vec<StepId> {
        let Some(seen) = &self.observed.ha else { return Vec::new() };
        let ours = seen.rules.values().filter(|rule| is_our_pool(&rule.comment, &self.uid));
        let rules: Vec<HaRule> = ours.cloned().collect();
        rules
            .into_iter()
            .map(|rule| self.delete_rule(rule, "the cluster goes, and it was its rule"))
            .collect()
    }
}
