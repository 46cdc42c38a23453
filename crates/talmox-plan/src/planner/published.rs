//! Configuration that machines fetch (`config_delivery: url`): where from is written into a VM before it is started, and taken
//! out once its machine has it.

use talmox_pve::property::VmConfig;
use talmox_types::desired::{ConfigDelivery, Node};
use talmox_types::{VmId, split_serial};

use super::{Draft, Planner};
use crate::{Effect, Expected, Goal, Guest, Step, StepId, Until};

/// Where the machine of a VM fetches its configuration from. It is a secret: whoever knows it can fetch the same.
pub fn config_source(config: &VmConfig) -> Option<String> {
    let serial = config.smbios().ok().flatten()?.serial?;
    split_serial(&serial).1.map(str::to_owned)
}

impl Planner<'_> {
    /// What a VM needs before it is started so that its configuration reaches it; gives what the start has to wait for.
    pub(super) fn before_start(
        &mut self,
        node: &Node,
        vm: &Expected,
        needs: Vec<StepId>,
        effect: Effect,
    ) -> Vec<StepId> {
        match self.desired.talos.config_delivery {
            ConfigDelivery::Url => self.publish(node, vm, needs, effect),
            ConfigDelivery::Maintenance | ConfigDelivery::Cidata => {
                let needs = self.forget_source(node, vm, needs);
                self.seed(node, vm, needs, effect)
            }
        }
    }

    /// Whether a VM has such an address, or will have one no more once it restarts.
    pub(super) fn fetches(&self, vmid: VmId) -> bool {
        let guest = self.observed.guests.get(&vmid);
        guest.and_then(Guest::seen).is_some_and(|seen| config_source(&seen.next).is_some())
    }

    /// One that is there already may be of a run that is over: the step finds out whether it is still good.
    fn publish(&mut self, node: &Node, vm: &Expected, needs: Vec<StepId>, effect: Effect) -> Vec<StepId> {
        let wanted = self.request.until >= Until::Configured && self.request.goal == Goal::Converge;
        let Some(address) = self.addresses.get(&node.name).copied().filter(|_| wanted) else { return needs };
        let step = Step::PublishConfig { vm: vm.clone(), address };
        let reason = "its machine fetches its configuration when it boots";
        vec![self.push(Draft::new(Some(&node.name), step, reason, effect).after(needs))]
    }

    /// A machine that would wait for what nobody hands out any more.
    fn forget_source(&mut self, node: &Node, vm: &Expected, needs: Vec<StepId>) -> Vec<StepId> {
        let Some(address) = self.addresses.get(&node.name).copied().filter(|_| self.fetches(vm.vmid()))
        else {
            return needs;
        };
        let step = Step::WithdrawConfig { vm: vm.clone(), address };
        let reason = "its configuration does not come by URL any more";
        vec![self.push(Draft::new(Some(&node.name), step, reason, Effect::ChangeLive).after(needs))]
    }

    /// Takes the address out of the VM of a machine that has its configuration, or will have it after a step.
    pub(super) fn withdraw(&mut self, node: &Node, vm: &Expected, after: Option<StepId>) {
        let address = self.addresses.get(&node.name).copied();
        let (Some(address), true, true) = (address, self.fetches(vm.vmid()), self.request.covers(&node.name))
        else {
            return;
        };
        let step = Step::WithdrawConfig { vm: vm.clone(), address };
        let reason = "its machine has its configuration";
        let needs = after.into_iter().collect();
        self.push(Draft::new(Some(&node.name), step, reason, Effect::ChangeLive).after(needs));
    }
}
