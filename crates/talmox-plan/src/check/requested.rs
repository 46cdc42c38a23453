//! Whether everything that destroys or takes down was asked for.

use std::collections::BTreeSet;

use talmox_types::{Mark, NodeName};

use super::{Court, Rule};
use crate::{Effect, Expected, Goal, Planned, Step};

pub(super) fn judge(court: &mut Court<'_>) {
    pruned(court);
    for step in court.steps() {
        if let Some(node) = &step.node
            && !court.request.covers(node)
        {
            court.violate(Rule::AskedFor, step, "it is not among the targets");
        }
        match &step.step {
            Step::RemoveVm { vm, .. } => remove(court, step, vm),
            Step::StopVm { vm, .. } => stop(court, step, vm),
            Step::RebootVm { .. } if !court.request.allow_reboot => {
                court.violate(Rule::AskedFor, step, "no reboot was allowed");
            }
            Step::ConfigureVm { .. } if step.effect == Effect::Reboot && !court.request.allow_reboot => {
                court.violate(Rule::AskedFor, step, "it re-plugs a device and no reboot was allowed");
            }
            Step::MoveVm { vm, to, .. }
                if court.request.moves.get(&vm.mark.node) != Some(to) && !for_hosts(court, vm, Some(to)) =>
            {
                court.violate(Rule::AskedFor, step, format!("nobody asked for {} to move", vm.mark.node));
            }
            Step::DeletePool { .. } if !court.destroys_everything() => {
                court.violate(Rule::AskedFor, step, "only a whole cluster's pool goes");
            }
            Step::CreatePool { .. }
            | Step::CloneVm { .. }
            | Step::CreateVm { .. }
            | Step::RegisterSchematic { .. }
            | Step::FetchImage { .. }
            | Step::BuildTemplate { .. }
            | Step::ConvertTemplate { .. }
            | Step::ConfigureTemplate { .. }
            | Step::RemoveTemplate { .. }
            | Step::RemoveImage { .. }
            | Step::ConfigureVm { .. }
            | Step::AddDisk { .. }
            | Step::GrowDisk { .. }
            | Step::JoinPool { .. }
            | Step::StartVm { .. }
            | Step::RebootVm { .. }
            | Step::MoveVm { .. }
            | Step::AddHa { .. }
            | Step::SetHaGroup { .. }
            | Step::SetHaRule { .. }
            | Step::DeleteHaRule { .. }
            | Step::DeletePool { .. }
            | Step::AttachSeed { .. }
            | Step::EjectSeed { .. }
            | Step::RemoveSeed { .. }
            | Step::PublishConfig { .. }
            | Step::WithdrawConfig { .. }
            | Step::ConfigureNode { .. }
            | Step::Bootstrap { .. }
            | Step::RecordBootstrap { .. }
            | Step::RecordConfigured { .. }
            | Step::ApplyManifests { .. }
            | Step::PostBootstrap { .. }
            | Step::AwaitHealth
            | Step::Upkeep(_) => {}
        }
    }
}

pub(super) fn may_be_removed(court: &Court<'_>, vm: &Expected) -> bool {
    let (request, node) = (court.request, &vm.mark.node);
    let declared = court.node(node).is_some();
    match request.goal {
        Goal::Destroy => true,
        Goal::Converge if declared => {
            let rolled = || crate::outdated(court.desired, court.observed).contains_key(node);
            let given_up = || super::quorum::is_given_up(court, node);
            request.replace.contains(node) || (request.roll_templates && rolled()) || given_up()
        }
        Goal::Converge => request.prune || request.remove.contains(node),
        Goal::Templates | Goal::PruneTemplates | Goal::Hosts => false,
    }
}

/// What nobody named goes only if it is no more than half of what is there: a description may have lost its nodes by mistake.
fn pruned(court: &mut Court<'_>) {
    if court.request.goal != Goal::Converge {
        return;
    }
    let unnamed = |step: &&Planned| {
        matches!(&step.step, Step::RemoveVm { vm, .. }
            if court.node(&vm.mark.node).is_none() && !court.request.remove.contains(&vm.mark.node))
    };
    let going: Vec<&Planned> = court.steps().iter().filter(unnamed).collect();
    let mark = |guest: &crate::Guest| Mark::of_description(guest.seen()?.live.description()?);
    let is_ours = |mark: &Mark| court.desired.uid.as_ref() == Some(&mark.uid) && !mark.shelf;
    let nodes: BTreeSet<NodeName> =
        court.observed.guests.values().filter_map(mark).filter(is_ours).map(|mark| mark.node).collect();
    let names: BTreeSet<&NodeName> = going.iter().filter_map(|step| step.node.as_ref()).collect();
    if let Some(first) = going.first().filter(|_| names.len() * 2 > nodes.len()) {
        court.violate(Rule::AskedFor, first, "most of the cluster would go, and nobody named what goes");
    }
}

fn remove(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    if !may_be_removed(court, vm) {
        court.violate(Rule::AskedFor, step, format!("nobody asked for the removal of {}", vm.mark.node));
    }
    let follows = |other: &Planned| court.before(other).iter().any(|before| before.id == step.id);
    if step.effect == Effect::Replace && !court.known.makers(&vm.mark.node).any(follows) {
        court.violate(Rule::WellFormed, step, "it says replace, and nothing takes the VM's place");
    }
}

/// A VM is stopped to be removed, or because the description wants it stopped.
fn stop(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    let node = court.node(&vm.mark.node);
    let wanted = node.is_some_and(|node| node.vm.power == talmox_types::desired::Power::Stopped);
    if !wanted && !may_be_removed(court, vm) && !for_hosts(court, vm, None) {
        court.violate(Rule::AskedFor, step, format!("nobody asked for {} to stop", vm.mark.node));
    }
}

/// A VM leaves a host that is drained, or goes back to the one it was taken off.
fn for_hosts(court: &Court<'_>, vm: &Expected, to: Option<&talmox_types::HostName>) -> bool {
    let hosts = &court.request.hosts;
    if court.request.goal != Goal::Hosts {
        return false;
    }
    let leaves = hosts.drain.as_ref() == Some(&vm.host) && to != Some(&vm.host);
    let seen = court.observed.guests.get(&vm.vmid()).and_then(crate::Guest::seen);
    let mark = seen.and_then(|seen| talmox_types::Mark::of_description(seen.live.description()?));
    let away = mark.and_then(|mark| mark.away);
    let returns = hosts.move_back
        && to.is_some()
        && hosts.back.as_ref() == to
        && away.as_ref().and_then(talmox_types::AwayWord::home) == to;
    leaves || returns
}
