//! A snapshot of etcd before anything risky.
//!
//! Upgrades and members that leave cannot be taken back if they go wrong, and a snapshot is what a lost cluster is built
//! from again. One is taken before the first of them; whoever does not want it says so.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::NodeName;
use talmox_types::desired::Role;

use crate::planner::{Draft, Planner};
use crate::{Effect, Planned, SeenEtcd, SeenMachine, Step, StepId, Upkeep};

impl Planner<'_> {
    /// Puts a snapshot before risky steps, once all of them are planned.
    pub(in crate::planner) fn snapshot_first(&mut self) {
        let risky: Vec<usize> = (0..self.plan.steps.len()).filter(|at| self.is_risky(*at)).collect();
        let follows = self.plan.later.iter().any(|intent| match intent.step.as_str() {
            "upgrade-kubernetes" => true,
            "upgrade-node" | "retire" => intent.node.as_ref().is_some_and(|node| self.may_be_member(node)),
            _ => false,
        });
        if (risky.is_empty() && !follows) || self.request.upkeep.no_snapshot {
            return;
        }
        if self.desired.talos.etcd_backup.is_none() {
            return self.refuse_without_place();
        }
        let members = self.with_a_member();
        if members.is_empty() {
            if !self.has_no_etcd() {
                self.refuse_without_member();
            }
            return;
        }
        if risky.is_empty() {
            let reason = "before what is risky";
            return self.follow(None, "snapshot-etcd", Effect::Create, reason);
        }
        self.take_before(&risky, members);
    }

    /// Whether a step is one that a cluster may not survive.
    fn is_risky(&self, at: usize) -> bool {
        let Some(Planned { step, node, .. }) = self.plan.steps.get(at) else { return false };
        let of_member = || node.as_ref().is_none_or(|node| self.may_be_member(node));
        // The end of one that does not answer any more.
        if matches!(step, Step::RemoveVm { .. }) {
            return self.goes_on() && of_member();
        }
        let Step::Upkeep(upkeep) = step else { return false };
        match upkeep {
            Upkeep::UpgradeKubernetes { .. } => true,
            Upkeep::UpgradeNode { .. } | Upkeep::RetireNode { .. } => of_member(),
            Upkeep::ForgetNode { node, .. } => self.goes_on() && self.loses_its_member(node),
            Upkeep::SnapshotEtcd { .. }
            | Upkeep::DrainNode { .. }
            | Upkeep::ReturnNode { .. }
            | Upkeep::ChangeNode { .. }
            | Upkeep::RotateAuthority { .. }
            | Upkeep::SettleAuthority { .. }
            | Upkeep::NoteAway { .. }
            | Upkeep::MakeShelf { .. }
            | Upkeep::MoveDisk { .. }
            | Upkeep::MoveShelf { .. }
            | Upkeep::RemoveShelf { .. }
            | Upkeep::RecoverEtcd { .. } => false,
        }
    }

    /// Whether forgetting a node takes a member out of etcd that nothing before it has: where its VM goes in the same plan, the snapshot
    /// comes before that.
    fn loses_its_member(&self, node: &NodeName) -> bool {
        let goes =
            |step: &Planned| matches!(step.step, Step::RemoveVm { .. }) && step.node.as_ref() == Some(node);
        let members = self.members();
        let listed = if members.is_empty() { self.may_be_member(node) } else { members.contains(node) };
        listed && !self.plan.steps.iter().any(goes)
    }

    /// Whether a node is or may be a member of etcd. Of one that is not declared the members themselves know.
    fn may_be_member(&self, node: &NodeName) -> bool {
        if let Some(declared) = self.names.get(node.as_str()) {
            return declared.role == Role::Controller;
        }
        let lists = self.observed.talos.values().filter_map(SeenMachine::configured);
        let mut lists = lists.filter_map(|seen| match &seen.etcd {
            Some(SeenEtcd::Member { members: Some(members), .. }) => Some(members),
            Some(SeenEtcd::Member { .. } | SeenEtcd::Unknown { .. } | SeenEtcd::Empty) | None => None,
        });
        let Some(first) = lists.next() else { return true };
        std::iter::once(first).chain(lists).any(|members| members.iter().any(|one| one == node.as_str()))
    }

    /// Control planes that have a member, and where they are.
    fn with_a_member(&self) -> BTreeMap<NodeName, IpAddr> {
        let member = |(node, machine): (&NodeName, &SeenMachine)| {
            let seen = machine.configured()?;
            matches!(seen.etcd, Some(SeenEtcd::Member { .. })).then(|| (node.clone(), seen.address))
        };
        self.observed.talos.iter().filter_map(member).collect()
    }

    /// Whether every control plane says that it has no data: then there is nothing to lose.
    fn has_no_etcd(&self) -> bool {
        let controllers = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let mut etcd =
            controllers.map(|node| self.observed.talos.get(&node.name)?.configured()?.etcd.as_ref());
        etcd.all(|etcd| matches!(etcd, Some(SeenEtcd::Empty)))
    }

    fn take_before(&mut self, risky: &[usize], control_planes: BTreeMap<NodeName, IpAddr>) {
        let step = Step::Upkeep(Upkeep::SnapshotEtcd { control_planes });
        let taken = StepId::new(None, step.word());
        let nodes: Vec<NodeName> =
            risky.iter().filter_map(|at| self.plan.steps.get(*at)?.node.clone()).collect();
        for (at, planned) in self.plan.steps.iter_mut().enumerate() {
            // Nobody's pods move for an upgrade that then does not happen for want of a snapshot.
            let drains = planned.effect == Effect::Drain
                && planned.node.as_ref().is_some_and(|node| nodes.contains(node));
            if drains || risky.contains(&at) {
                planned.needs.push(taken.clone());
            }
        }
        self.push(Draft::new(None, step, "before what is risky", Effect::Create));
        // Steps are listed after those they need.
        self.plan.steps.rotate_right(1);
        for index in &mut self.shared {
            *index = (*index + 1) % self.plan.steps.len();
        }
    }

    fn refuse_without_place(&mut self) {
        let problem = "this is risky, and nothing says where a snapshot of etcd would be kept";
        let choices = vec![
            "name a folder in cluster.yaml: etcd_backup: {dir: etcd-backup}; with age: [age1…] they are encrypted"
                .to_owned(),
            "--no-snapshot, if there is another way back".to_owned(),
        ];
        self.refuse(None, problem.to_owned(), choices);
    }

    fn refuse_without_member(&mut self) {
        let problem = "this is risky, and no control plane answers that could give a snapshot of etcd";
        let choices = vec![
            "talmox status shows what each of them says".to_owned(),
            "--no-snapshot, if there is another way back".to_owned(),
        ];
        self.refuse(None, problem.to_owned(), choices);
    }
}
