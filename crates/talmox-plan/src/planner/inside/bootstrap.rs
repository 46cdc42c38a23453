//! How etcd begins: on the first control plane by name, once every one of them says that it has no data.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::{Node, Role};
use talmox_types::{BootstrapWord, NodeName};

use super::{Etcd, Standing, first_control_plane};
use crate::planner::{Draft, Planner};
use crate::{Effect, Expected, Owned, SeenEtcd, Step, Waiting};

impl<'a> Planner<'a> {
    /// Whether etcd is there, is made by this plan, or later.
    pub(super) fn bootstrap(
        &mut self,
        vms: &BTreeMap<NodeName, Owned>,
        standings: &[(&'a Node, Standing<'a>)],
    ) -> Etcd {
        let Some(first) = first_control_plane(self.desired) else { return Etcd::Not };
        let controllers = || standings.iter().filter(|(node, _)| node.role == Role::Controller);
        let etcd = |standing: &Standing<'a>| standing.seen().and_then(|seen| seen.etcd.as_ref());
        let mut by_rank = vms.get(first).into_iter().chain(vms.values());
        let marked = by_rank.find_map(|owned| Some((owned, owned.mark.bootstrap.as_ref()?)));
        let member = |(node, standing): &(&Node, Standing<'a>)| {
            matches!(etcd(standing), Some(SeenEtcd::Member { .. })).then(|| node.name.clone())
        };
        let members: BTreeSet<NodeName> = controllers().filter_map(member).collect();
        if !members.is_empty() {
            self.record(marked, &members);
            self.refuse_restore_over(marked.map(|(_, word)| word), &members);
            return Etcd::There;
        }
        let all_empty = controllers().all(|(_, s)| matches!(etcd(s), Some(SeenEtcd::Empty)));
        if !self.may_begin(marked.map(|(_, word)| word), all_empty) {
            return Etcd::Not;
        }
        if let Some((owned, _)) = marked.filter(|(owned, word)| owned.mark.node != *first && !word.done) {
            self.refuse_other_first(&owned.mark.node, first);
            return Etcd::Not;
        }
        let missing: Vec<NodeName> = controllers()
            .filter(|(_, standing)| !matches!(etcd(standing), Some(SeenEtcd::Empty)))
            .map(|(node, _)| node.name.clone())
            .collect();
        self.bootstrap_first(first, vms, standings, missing)
    }

    fn bootstrap_first(
        &mut self,
        first: &NodeName,
        vms: &BTreeMap<NodeName, Owned>,
        standings: &[(&'a Node, Standing<'a>)],
        missing: Vec<NodeName>,
    ) -> Etcd {
        // One that is described as stopped will never say whether it has data.
        let is_off = |(node, standing): &(&Node, Standing<'a>)| {
            node.role == Role::Controller && matches!(standing, Standing::Off)
        };
        if !self.request.covers(first) || standings.iter().any(is_off) {
            return Etcd::Not;
        }
        let seen = standings.iter().find(|(node, _)| node.name == *first);
        if let (true, Some(owned), Some((_, Standing::Configured(seen)))) =
            (missing.is_empty(), vms.get(first), seen)
        {
            let mut mark = owned.mark.clone();
            mark.bootstrap = Some(self.intent(&mark));
            let vm = Expected { host: owned.host.clone(), mark };
            let controllers = standings.iter().filter(|(node, _)| node.role == Role::Controller);
            let control_planes = controllers
                .filter_map(|(node, standing)| Some((node.name.clone(), standing.seen()?.address)));
            let (step, reason) = self.first_member(vm, seen.address, control_planes.collect());
            let draft = Draft::new(Some(first), step, reason, Effect::Create);
            return Etcd::Made(self.push(draft.after(self.undeclared_removals())));
        }
        let waits = standings.iter().any(|(node, standing)| {
            node.role == Role::Controller && matches!(standing, Standing::Configured(_))
        });
        if waits {
            self.plan.waiting.push(Waiting::Bootstrap { node: first.clone(), missing });
        }
        self.follow(
            Some(first),
            self.first_member_word(),
            Effect::Create,
            "once every control plane has its configuration",
        );
        Etcd::Later
    }

    /// A run that died after the bootstrap could not write that it worked.
    fn record(&mut self, marked: Option<(&Owned, &BootstrapWord)>, members: &BTreeSet<NodeName>) {
        let Some((owned, _)) = marked.filter(|(_, word)| !word.done) else { return };
        let node = &owned.mark.node;
        let busy = self.moving().contains(node) || self.refused.contains(node);
        if members.contains(node) && self.request.covers(node) && !busy {
            let vm = Expected { host: owned.host.clone(), mark: owned.mark.clone() };
            let reason = "etcd runs, and its mark does not say so yet";
            self.push(Draft::new(Some(node), Step::RecordBootstrap { vm }, reason, Effect::ChangeLive));
        }
    }

    fn refuse_other_first(&mut self, marked: &NodeName, first: &NodeName) {
        let problem = format!(
            "an earlier run was to bootstrap the cluster on {marked} and may have; {first} comes before it by name now"
        );
        let choices = vec![format!("apply without {first} until the cluster is bootstrapped, then add it")];
        self.refuse(Some(first), problem, choices);
    }
}
