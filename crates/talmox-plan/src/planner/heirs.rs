//! Who remembers that the cluster was bootstrapped.
//!
//! The mark of the first control plane says so, and nothing else does once the data of etcd is lost: without it another run would
//! begin an empty cluster under the name of the old one. So the word outlives its VM. Control planes that are made or adopted while etcd
//! is there bear it from the beginning; where the last VM that bears it goes, a member that stays is given it first; and where
//! nobody ever wrote it, which is so in a cluster that was adopted while its machines did not answer, a member is given it.

use std::collections::BTreeSet;

use talmox_types::desired::{Node, Role};
use talmox_types::{BootstrapWord, Mark, NodeName, VmId};

use super::{Draft, Planner};
use crate::{Effect, Expected, Owned, SeenEtcd, SeenMachine, Step};

impl Planner<'_> {
    /// The mark of a VM that is to be made.
    pub(super) fn new_mark(&self, node: &Node, vmid: VmId) -> Mark {
        let mark = self.mark(&node.name, vmid);
        let joins = node.role == Role::Controller && self.with_data().next().is_some();
        let incarnation = mark.incarnation.clone();
        let word = BootstrapWord { incarnation, done: true, snapshot: None };
        Mark { bootstrap: joins.then_some(word), ..mark }
    }

    /// Has a member that stays bear the word, before whoever bears it now goes.
    pub(super) fn hand_on_bootstrap(&mut self) {
        let going: BTreeSet<VmId> = self.removed_vms().collect();
        let bears = |owned: &&Owned| owned.mark.bootstrap.as_ref().is_some_and(|word| word.done);
        let bearers: BTreeSet<VmId> =
            self.identities.ours().filter(bears).map(|owned| owned.mark.vmid).collect();
        let nobody_said = self.identities.ours().all(|owned| owned.mark.bootstrap.is_none());
        let is_lost = bearers.is_empty() && (nobody_said || self.lacks_a_control_plane());
        let goes = !bearers.is_empty() && bearers.is_subset(&going);
        if !(is_lost || goes) {
            return;
        }
        let Some(heir) = self.heir(&going) else { return };
        let node = heir.mark.node.clone();
        let step = Step::RecordBootstrap { vm: Expected { host: heir.host, mark: heir.mark } };
        let reason = "etcd runs, and no mark that stays says that it was begun";
        let id = self.push(Draft::new(Some(&node), step, reason, Effect::ChangeLive));
        for planned in &mut self.plan.steps {
            if removes(&planned.step).is_some_and(|vmid| bearers.contains(&vmid)) {
                planned.needs.push(id.clone());
            }
        }
        self.put_first();
    }

    /// The step that was planned last comes first: whoever goes down later must not seem to be back with it.
    fn put_first(&mut self) {
        self.plan.steps.rotate_right(1);
        self.shared.iter_mut().for_each(|index| *index += 1);
    }

    fn removed_vms(&self) -> impl Iterator<Item = VmId> {
        self.plan.steps.iter().filter_map(|planned| removes(&planned.step))
    }

    /// Nodes that were seen to have data of etcd.
    fn with_data(&self) -> impl Iterator<Item = &NodeName> {
        let is_member = |machine: &SeenMachine| {
            machine.configured().is_some_and(|seen| matches!(seen.etcd, Some(SeenEtcd::Member { .. })))
        };
        self.observed.talos.iter().filter(move |(_, machine)| is_member(machine)).map(|(node, _)| node)
    }

    /// Whether the VM of a control plane is gone, and with it perhaps the word.
    fn lacks_a_control_plane(&self) -> bool {
        let mut controllers = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        controllers.any(|node| self.identities.of_node(&node.name).next().is_none())
    }

    /// The first member by name that stays where it is, bears no word yet, and may be touched.
    fn heir(&self, going: &BTreeSet<VmId>) -> Option<Owned> {
        let planned = |node: &NodeName| {
            let records = |step: &Step| matches!(step, Step::RecordBootstrap { .. });
            self.plan.steps.iter().any(|step| step.node.as_ref() == Some(node) && records(&step.step))
        };
        let stays = |owned: &&Owned| !going.contains(&owned.mark.vmid) && !planned(&owned.mark.node);
        let may = |node: &&NodeName| self.request.covers(node) && !self.refused.contains(*node);
        let covered = self.with_data().filter(may);
        covered.flat_map(|node| self.identities.of_node(node)).find(stays).cloned()
    }
}

fn removes(step: &Step) -> Option<VmId> {
    if let Step::RemoveVm { vm, .. } = step { Some(vm.vmid()) } else { None }
}
