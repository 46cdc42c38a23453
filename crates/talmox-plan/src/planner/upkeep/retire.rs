//! Nodes that leave a cluster that lives: drained, out of etcd, wiped, and forgotten.
//!
//! ```text
//!  answers:       drain ─▶ retire (out of etcd, wiped) ─▶ stop ─▶ remove VM ─▶ forget ─┐
//!  does not:                                              stop ─▶ remove VM ─▶ forget ─┤
//!  has no VM:                                                                 forget ─┤
//!                     built anew: clone ─▶ configure ─▶ start ─▶ give configuration ─▶ return (it votes, it is Ready)
//! ```
//!
//! All of it is one node's turn: the next one goes when this one is back, or gone for good.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::NodeName;
use talmox_types::desired::{Node, Power as WantedPower, Role};
use talmox_types::sabotage::{Defect, sabotaged};

use crate::planner::{Draft, Planner};
use crate::{
    Effect, Expected, Goal, Guest, NoteKind, Proof, SeenEtcd, SeenKubernetes, SeenMachine, SeenNode, Step,
    StepId, Until, Upkeep,
};

/// What becomes of a node's part of the cluster when its VM goes.
pub(in crate::planner) enum Departure {
    /// There is no cluster that would notice.
    Unnoticed,
    Noticed {
        /// Where it answers, if it does: then it can take its leave.
        answers: Option<IpAddr>,
        /// Where nothing must answer afterwards.
        address: Option<IpAddr>,
        /// Control planes that stay.
        control_planes: BTreeMap<NodeName, IpAddr>,
    },
}

impl<'a> Planner<'a> {
    /// How a node leaves. None if it must not.
    pub(in crate::planner) fn departure(
        &mut self,
        name: &NodeName,
        node: Option<&Node>,
        effect: Effect,
    ) -> Option<Departure> {
        if !self.request.looks_inside() {
            self.leaves_unasked(name, node, effect)?;
            return Some(Departure::Unnoticed);
        }
        if !self.goes_on() {
            return (!self.nobody_says(name)).then_some(Departure::Unnoticed);
        }
        let control_planes = self.company(name);
        let machine = self.machine(name).and_then(SeenMachine::configured);
        let is_worker = node.is_some_and(|node| node.role == Role::Worker);
        if !is_worker {
            self.comes_back(name, effect)?;
            self.keeps_quorum(name, &control_planes, effect)?;
        }
        if control_planes.is_empty() {
            let text = "no control plane answers: Kubernetes goes on listing it".to_owned();
            self.note(Some(name), NoteKind::Warning, text);
            return Some(Departure::Unnoticed);
        }
        let address = self.machine(name).map(SeenMachine::address).or_else(|| self.address_of(name));
        Some(Departure::Noticed { answers: machine.map(|seen| seen.address), address, control_planes })
    }

    /// Refuses to take anything out of a cluster that was begun and whose control planes run and do not answer: they may be as well as
    /// ever, and only out of reach from here.
    fn nobody_says(&mut self, name: &NodeName) -> bool {
        if !self.given_up.is_empty() || self.request.upkeep.restore.is_some() {
            return false;
        }
        let begun = self.was_begun();
        let controllers = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let silent = controllers.filter_map(|node| match self.observed.talos.get(&node.name)? {
            SeenMachine::Unreachable { reason, .. } => Some(format!("{}: {reason}", node.name)),
            SeenMachine::Foreign { why, .. } => Some(format!("{}: {why}", node.name)),
            SeenMachine::Maintenance { .. } | SeenMachine::Configured(_) => None,
        });
        let silent: Vec<String> = silent.collect();
        if !begun || silent.is_empty() || sabotaged(Defect::LeavesUnseen) {
            return false;
        }
        let problem = format!(
            "no control plane says how the cluster is, so nothing can leave it in good order ({})",
            silent.join("; ")
        );
        let mut choices = vec![
            "talmox status shows who answers; this may also be the network between here and there".to_owned(),
        ];
        if self.names.get(name.as_str()).is_some_and(|node| node.role == Role::Worker) {
            choices.push(format!("if it is to go all the same: talmox destroy --target {name}"));
        }
        self.refuse(Some(name), problem, choices);
        true
    }

    /// Refuses to take a control plane out of a cluster that was begun where nobody asks the machines: its member would stay in etcd,
    /// dead, and nobody would know whether the others can do without it. Of one that is not described nobody knows what it is. A
    /// worker may go; what that leaves behind is said.
    fn leaves_unasked(&mut self, name: &NodeName, node: Option<&Node>, effect: Effect) -> Option<()> {
        // `destroy` has a rule of its own.
        if self.request.goal != Goal::Converge || !self.was_begun() {
            return Some(());
        }
        let until = self.request.until.word();
        if node.is_some_and(|node| node.role == Role::Worker) {
            let text = format!(
                "with --until {until} its pods are not asked to leave first, and Kubernetes keeps the Node of the old machine"
            );
            self.note(Some(name), NoteKind::Warning, text);
            return Some(());
        }
        let (problem, choice) = if effect == Effect::Replace {
            (
                format!(
                    "it is a control plane of a cluster that was bootstrapped: with --until {until} it would not take its leave from \
                     etcd, and not join again"
                ),
                format!("--until configured, or all the way: talmox apply --replace {name}"),
            )
        } else {
            (
                format!(
                    "it is not described, and may be a control plane of a cluster that was bootstrapped: with --until {until} it \
                     would not take its leave from etcd"
                ),
                format!("without --until: talmox apply --remove {name}"),
            )
        };
        self.refuse(Some(name), problem, vec![choice]);
        None
    }

    /// Whether a mark says that etcd was begun.
    fn was_begun(&self) -> bool {
        self.identities.ours().any(|owned| owned.mark.bootstrap.as_ref().is_some_and(|word| word.done))
    }

    /// Refuses to build a member anew by a run that ends before it could join again.
    fn comes_back(&mut self, name: &NodeName, effect: Effect) -> Option<()> {
        let ends_before = self.request.until < Until::Configured && effect == Effect::Replace;
        if !ends_before || !self.members().contains(name) {
            return Some(());
        }
        let until = self.request.until.word();
        let problem = format!("it would leave etcd, and with --until {until} not join again");
        let choices = vec![format!("--until configured, or all the way: talmox apply --replace {name}")];
        self.refuse(Some(name), problem, choices);
        None
    }

    /// Steps a node takes its leave by; what comes next waits for them.
    pub(in crate::planner) fn leave(
        &mut self,
        vm: &Expected,
        departure: &Departure,
        effect: Effect,
    ) -> Vec<StepId> {
        let Departure::Noticed { answers: Some(address), control_planes, .. } = departure else {
            return Vec::new();
        };
        let node = &vm.mark.node;
        let needs = self.drain(node, "it is about to leave", Vec::new());
        let step = Step::Upkeep(Upkeep::RetireNode {
            vm: vm.clone(),
            address: *address,
            control_planes: control_planes.clone(),
        });
        let reason = "it leaves the cluster before its VM goes";
        vec![self.push(Draft::new(Some(node), step, reason, effect).after(needs))]
    }

    /// The step that removes what is left of a node whose VM is gone.
    pub(in crate::planner) fn forget(
        &mut self,
        node: &NodeName,
        departure: &Departure,
        reason: &str,
        needs: Vec<StepId>,
    ) -> Option<StepId> {
        let Departure::Noticed { address, control_planes, .. } = departure else { return None };
        let step = Step::Upkeep(Upkeep::ForgetNode {
            node: node.clone(),
            address: *address,
            control_planes: control_planes.clone(),
        });
        Some(self.push(Draft::new(Some(node), step, reason, Effect::ChangeLive).after(needs)))
    }

    /// A node without a VM that etcd or Kubernetes still know: it is forgotten before another takes its place. None if that
    /// must not be.
    pub(in crate::planner) fn forget_former(&mut self, node: &Node) -> Option<Vec<StepId>> {
        // A VM on a host that is gone for good.
        if !self.request.looks_inside() && self.request.replace.contains(&node.name) {
            self.leaves_unasked(&node.name, Some(node), Effect::Replace)?;
        }
        if !self.request.looks_inside() || !self.goes_on() {
            return Some(Vec::new());
        }
        let lost = self.unknown.of_name(&node.name);
        if let Some(guest) = lost.first()
            && self.is_ready(&node.name)
        {
            let problem = format!(
                "Kubernetes says that it is ready, so VM {} on {} runs: the host is not gone",
                guest.vmid, guest.host
            );
            self.refuse(Some(&node.name), problem, vec!["look at the host, and wait for it".to_owned()]);
            return None;
        }
        if self.is_restarted_by_ha(&node.name, &lost) {
            return None;
        }
        if !self.is_known(&node.name) {
            return Some(Vec::new());
        }
        let departure = self.departure(&node.name, Some(node), Effect::Replace)?;
        self.left_etcd.remove(&node.name);
        Some(self.forget(&node.name, &departure, "it has no VM any more", Vec::new()).into_iter().collect())
    }

    /// Nodes nobody describes, without a VM, that etcd or Kubernetes still know: forgotten if their removal was asked for.
    pub(in crate::planner) fn forget_leftovers(&mut self) {
        if !self.request.looks_inside() || !self.goes_on() {
            return;
        }
        let there: BTreeSet<NodeName> = self.identities.ours().map(|owned| owned.mark.node.clone()).collect();
        for member in self.members() {
            if !self.names.contains_key(member.as_str())
                && !there.contains(&member)
                && !self.request.remove.contains(&member)
            {
                let text = format!(
                    "etcd has a member {member} that is not in the description and has no VM: left alone (--remove {member})"
                );
                self.note(None, NoteKind::Undeclared, text);
            }
        }
        let asked: Vec<NodeName> = self.request.remove.iter().cloned().collect();
        for name in asked {
            if self.names.contains_key(name.as_str()) || there.contains(&name) || !self.request.covers(&name)
            {
                continue;
            }
            if self.is_ready(&name) {
                let problem = "it has no VM of ours, and Kubernetes says that it is ready".to_owned();
                let choices = vec!["talmox status shows what is there".to_owned()];
                self.refuse(Some(&name), problem, choices);
            } else if self.is_known(&name)
                && !self.may_come_back(&name)
                && let Some(departure) = self.departure(&name, None, Effect::Destroy)
            {
                self.forget(
                    &name,
                    &departure,
                    "it has no VM any more, and its removal was asked for",
                    Vec::new(),
                );
            }
        }
    }

    /// Whether a VM of that name is on a host that does not answer: it comes back with the host, and must not be forgotten before.
    fn may_come_back(&mut self, name: &NodeName) -> bool {
        let lost = self.unknown.of_name(name);
        let waits = lost.iter().find(|guest| !self.request.hosts.gone.contains(&guest.host));
        if let Some(guest) = waits {
            let (vmid, host) = (guest.vmid, &guest.host);
            let problem = format!(
                "VM {vmid} on {host} may be its, and {host} does not answer: it would come back with it"
            );
            let choices = vec![
                format!("run this again once {host} is back"),
                format!("if {host} is gone for good: talmox apply --remove {name} --host-gone {host}"),
            ];
            self.refuse(Some(name), problem, choices);
            return true;
        }
        self.is_restarted_by_ha(name, &lost)
    }

    /// Whether HA brings a VM back that nobody can read now; refused then.
    fn is_restarted_by_ha(&mut self, name: &NodeName, lost: &[&Guest]) -> bool {
        let Some(guest) = lost.iter().find(|guest| guest.ha.is_some()) else { return false };
        let problem = format!("HA looks after VM {}, and starts it on another host by itself", guest.vmid);
        let choices = vec![
            "wait until it has".to_owned(),
            format!("ha-manager remove vm:{} on a host that answers, and run this again", guest.vmid),
        ];
        self.refuse(Some(name), problem, choices);
        true
    }

    /// What follows once a node of a living cluster is built anew: it joins, and is well before the next one goes.
    pub(in crate::planner) fn join_anew(&mut self, node: &Node, vm: Expected) {
        let runs = node.vm.power == WantedPower::Running;
        if !self.request.looks_inside() || self.request.until < Until::Configured || !runs || !self.goes_on()
        {
            return;
        }
        let Some(address) = self.addresses.get(&node.name).copied() else { return };
        let started = StepId::new(Some(&node.name), "start");
        let step = Step::ConfigureNode { vm, address, reconfigure: None, proof: Proof::Certificate };
        let draft = Draft::new(Some(&node.name), step, "it is new", Effect::Create);
        let configured = self.push(draft.after(vec![started]));
        let step = Step::Upkeep(Upkeep::ReturnNode { node: node.name.clone(), address: address.primary() });
        let draft = Draft::new(Some(&node.name), step, "it has to be well again", Effect::ChangeLive);
        let returned = self.push(draft.after(vec![configured]));
        self.anew.insert(node.name.clone(), returned);
    }

    /// Whether etcd is there and goes on: nobody has to take their leave from one that is given up.
    pub(in crate::planner) fn goes_on(&self) -> bool {
        self.lives() && self.given_up.is_empty()
    }

    /// Whether etcd is there, as far as anybody has said.
    pub(in crate::planner) fn lives(&self) -> bool {
        let member = |machine: &SeenMachine| {
            let etcd = machine.configured().and_then(|seen| seen.etcd.as_ref());
            matches!(etcd, Some(SeenEtcd::Member { .. }))
        };
        self.observed.talos.values().chain(self.observed.leaving.values()).any(member)
    }

    fn machine(&self, name: &NodeName) -> Option<&'a SeenMachine> {
        self.observed.talos.get(name).or_else(|| self.observed.leaving.get(name))
    }

    fn address_of(&self, name: &NodeName) -> Option<IpAddr> {
        self.addresses.get(name).map(talmox_types::FamilyPair::primary)
    }

    /// Described control planes beside a node that are well enough to be asked.
    fn company(&self, without: &NodeName) -> BTreeMap<NodeName, IpAddr> {
        let nodes = self.desired.nodes.iter();
        let others = nodes.filter(|node| node.role == Role::Controller && node.name != *without);
        let well = |node: &Node| {
            let seen = self.observed.talos.get(&node.name)?.configured()?;
            is_healthy_member(seen).then(|| (node.name.clone(), seen.address))
        };
        others.filter_map(well).collect()
    }

    /// Members of etcd, as the control planes that can be asked know them.
    pub(in crate::planner) fn members(&self) -> BTreeSet<NodeName> {
        let machines = self.observed.talos.values().chain(self.observed.leaving.values());
        let lists = machines.filter_map(|machine| match &machine.configured()?.etcd {
            Some(SeenEtcd::Member { members: Some(members), .. }) => Some(members),
            Some(SeenEtcd::Member { .. } | SeenEtcd::Empty | SeenEtcd::Unknown { .. }) | None => None,
        });
        lists.flatten().filter_map(|name| NodeName::parse(name).ok()).collect()
    }

    /// Whether etcd or Kubernetes list a node.
    pub(in crate::planner) fn is_known(&self, name: &NodeName) -> bool {
        let listed = match &self.observed.kubernetes {
            SeenKubernetes::Answers(cluster) => cluster.nodes.contains_key(name.as_str()),
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => false,
        };
        listed || self.members().contains(name)
    }

    fn is_ready(&self, name: &NodeName) -> bool {
        match &self.observed.kubernetes {
            SeenKubernetes::Answers(cluster) => {
                cluster.nodes.get(name.as_str()).is_some_and(|node| node.ready)
            }
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => false,
        }
    }

    /// Refuses what would leave etcd without a majority. A member that leaves is counted out for those after it.
    fn keeps_quorum(
        &mut self,
        name: &NodeName,
        company: &BTreeMap<NodeName, IpAddr>,
        effect: Effect,
    ) -> Option<()> {
        let members = self.members();
        if !members.contains(name) {
            return Some(());
        }
        let mut stay = members;
        stay.retain(|member| member != name && !self.left_etcd.contains(member));
        let well: BTreeSet<&NodeName> = stay.iter().filter(|member| self.is_well(member)).collect();
        if company.is_empty() {
            let problem =
                "no other control plane of the description is a member of etcd and well: the cluster's data \
                           would go with it"
                    .to_owned();
            let choices = vec![
                "bring another control plane up first: talmox status says how they are".to_owned(),
                "talmox destroy, for an end of the whole cluster".to_owned(),
            ];
            self.refuse(Some(name), problem, choices);
            return None;
        }
        if well.len() * 2 <= stay.len() {
            let sick: Vec<&str> =
                stay.iter().filter(|member| !well.contains(member)).map(NodeName::as_str).collect();
            let sick = sick.join(", ");
            let problem = format!(
                "without it {} of {} members of etcd would be well, which is no majority: {sick} has to be well first",
                well.len(),
                stay.len()
            );
            let choices =
                vec![format!("talmox apply --replace {sick}"), "talmox health says what is wrong".to_owned()];
            self.refuse(Some(name), problem, choices);
            return None;
        }
        let left = stay.len();
        if effect == Effect::Destroy {
            self.left_etcd.insert(name.clone());
            if left.is_multiple_of(2) {
                let text = format!(
                    "{left} members of etcd are left, which bear the loss of {}, as {} would: odd numbers are better",
                    (left - 1) / 2,
                    left - 1
                );
                self.note(Some(name), NoteKind::Warning, text);
            }
        }
        Some(())
    }

    fn is_well(&self, name: &NodeName) -> bool {
        self.machine(name).and_then(SeenMachine::configured).is_some_and(is_healthy_member)
    }
}

fn is_healthy_member(seen: &SeenNode) -> bool {
    matches!(seen.etcd, Some(SeenEtcd::Member { healthy: true, .. }))
}
