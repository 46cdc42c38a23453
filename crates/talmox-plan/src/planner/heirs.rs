//! What the mark of a VM says for the whole cluster, and must not go with it.
//!
//! That the cluster was bootstrapped stands in the mark of one control plane. Without that word a cluster whose data is lost would look
//! like a new one, and be bootstrapped again, empty.

use talmox_types::desired::Role;
use talmox_types::{BootstrapWord, NodeName};

use super::{Draft, Planner};
use crate::{Effect, Expected, Goal, Owned, Step, StepId, Upkeep};

impl Planner<'_> {
    /// Plans that another control plane says that the cluster was bootstrapped, before the VM goes that says so; gives what
    /// the removal has to wait for. A whole cluster that goes leaves nothing to say.
    pub(super) fn hand_on_bootstrap(&mut self, owned: &Owned, needs: Vec<StepId>) -> Vec<StepId> {
        let Some(word) = done_word(owned).cloned() else { return needs };
        let whole = self.request.goal == Goal::Destroy && self.request.targets.is_empty();
        let said = |other: &Owned| done_word(other).is_some() && !self.goes(&other.mark.node);
        if whole || self.identities.ours().any(said) {
            return needs;
        }
        let Some(heir) = self.heir(&owned.mark.node) else { return needs };
        let mut vm = Expected { host: heir.host, mark: heir.mark };
        vm.mark.bootstrap = Some(word);
        let node = vm.mark.node.clone();
        let reason = format!("{} says so, and goes", owned.mark.node);
        let step = Step::Upkeep(Upkeep::NoteBootstrap { vm });
        let noted = self.push(Draft::new(Some(&node), step, &reason, Effect::ChangeLive));
        needs.into_iter().chain([noted]).collect()
    }

    /// The word a VM that takes another's place is made with.
    pub(super) fn inherited(&self, node: &NodeName) -> Option<BootstrapWord> {
        let mut before = self.identities.of_node(node);
        before.find_map(|owned| done_word(owned)).cloned()
    }

    /// Whether the VM of a node goes in this plan.
    fn goes(&self, node: &NodeName) -> bool {
        match self.names.get(node.as_str()) {
            Some(_) if self.request.goal == Goal::Destroy => self.request.covers(node),
            Some(_) => self.is_replaced(node),
            None => true,
        }
    }

    /// A control plane that stays, and can be written to.
    fn heir(&self, without: &NodeName) -> Option<Owned> {
        let controllers = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let mut stay = controllers.filter(|node| node.name != *without && !self.goes(&node.name));
        stay.find_map(|node| {
            let owned = self.identities.of_node(&node.name).next()?;
            let guest = self.observed.guests.get(&owned.mark.vmid)?;
            let online = self.observed.hosts.get(&guest.host).is_some_and(|host| host.online);
            (online && guest.lock.is_none() && guest.seen().is_some()).then(|| owned.clone())
        })
    }
}

fn done_word(owned: &Owned) -> Option<&BootstrapWord> {
    owned.mark.bootstrap.as_ref().filter(|word| word.done)
}
