//! Whether nodes leave a living cluster in an order that loses nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::desired::Role;
use talmox_types::{Mark, NodeName};

use super::requested::may_be_removed;
use super::{Court, Rule};
use crate::{Effect, Expected, Goal, Guest, Planned, Seen, SeenKubernetes, Step, Until, Upkeep};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        if let Step::RemoveVm { vm, .. } = &step.step {
            if step.effect == Effect::Replace {
                has_a_successor(court, step, &vm.mark.node);
            }
            asks_etcd(court, step, &vm.mark.node);
        }
        let Step::Upkeep(upkeep) = &step.step else { continue };
        if let Upkeep::RetireNode { vm, control_planes, .. } = upkeep {
            retirement(court, step, vm);
            others(court, step, &vm.mark.node, control_planes);
        }
        if let Upkeep::ForgetNode { node, control_planes, .. } = upkeep {
            is_gone(court, step, node);
            others(court, step, node, control_planes);
        }
    }
}

/// What is or may be a control plane of a cluster that was begun goes only where the machines are asked: its member would stay in etcd.
fn asks_etcd(court: &mut Court<'_>, step: &Planned, node: &NodeName) {
    let Court { request, observed, desired, .. } = court;
    if request.goal != Goal::Converge || request.until > Until::Vms {
        return;
    }
    let is_ours = |mark: &Mark| desired.uid.as_ref() == Some(&mark.uid);
    let marks: Vec<Mark> = observed.guests.values().filter_map(own_mark).filter(is_ours).collect();
    let begun = marks.iter().any(|mark| mark.bootstrap.as_ref().is_some_and(|word| word.done));
    // Of two VMs of one node the one that goes never ran.
    let is_double = marks.iter().filter(|mark| mark.node == *node).count() > 1;
    let is_worker = court.node(node).is_some_and(|declared| declared.role == Role::Worker);
    if begun && !is_double && !is_worker {
        let problem = format!("{node} is or may be a member of etcd, and nobody asks the others");
        court.violate(Rule::OneAtATime, step, problem);
    }
}

/// A node that leaves etcd and is wiped is good for nothing else: its VM goes, and that was asked for.
fn retirement(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    if !may_be_removed(court, vm) {
        court.violate(Rule::AskedFor, step, format!("nobody asked for {} to leave", vm.mark.node));
    }
    let goes = |other: &&Planned| matches!(&other.step, Step::RemoveVm { vm: removed, .. } if removed == vm);
    let mut follows = court.steps().iter().filter(goes);
    if !follows.any(|other| court.before(other).iter().any(|before| before.id == step.id)) {
        court.violate(Rule::WellFormed, step, "its VM would stay, wiped");
    }
}

/// A VM stays until there is what another is made from: images and templates can fail to come.
fn has_a_successor(court: &mut Court<'_>, step: &Planned, node: &NodeName) {
    let makes = |other: &&Planned| {
        other.node.as_ref() == Some(node)
            && matches!(other.step, Step::CloneVm { .. } | Step::CreateVm { .. })
    };
    let Some(made) = court.steps().iter().find(makes) else { return };
    let is_source = |before: &&Planned| {
        matches!(
            before.step,
            Step::FetchImage { .. } | Step::BuildTemplate { .. } | Step::ConvertTemplate { .. }
        )
    };
    let earlier: Vec<_> = court.before(step).iter().map(|before| before.id.clone()).collect();
    let late =
        court.before(made).iter().copied().filter(is_source).find(|source| !earlier.contains(&source.id));
    if let Some(late) = late.map(|late| late.id.clone()) {
        court.violate(
            Rule::WellFormed,
            step,
            format!("{late}, which another is made from, may not come about"),
        );
    }
}

/// Somebody else has to go on.
fn others(court: &mut Court<'_>, step: &Planned, node: &NodeName, others: &BTreeMap<NodeName, IpAddr>) {
    if others.is_empty() || others.contains_key(node) {
        court.violate(Rule::OneAtATime, step, "no other control plane goes on");
    }
}

/// Only what cannot come back is forgotten.
fn is_gone(court: &mut Court<'_>, step: &Planned, node: &NodeName) {
    let removed =
        |before: &&Planned| matches!(&before.step, Step::RemoveVm { vm, .. } if vm.mark.node == *node);
    if court.before(step).iter().any(removed) {
        return;
    }
    let gone_hosts = &court.request.hosts.gone;
    let may_be = |guest: &&Guest| match &guest.config {
        Seen::Read(_) => own_mark(guest).is_some_and(|mark| mark.node == *node),
        Seen::Unreadable(_) => {
            guest.name.as_deref() == Some(node.as_str()) && !gone_hosts.contains(&guest.host)
        }
        Seen::NotAsked => false,
    };
    if let Some(guest) = court.observed.guests.values().find(may_be) {
        let problem = format!("VM {} on {} is, or may be, this node", guest.vmid, guest.host);
        court.violate(Rule::AskedFor, step, problem);
    }
    let ready = match &court.observed.kubernetes {
        SeenKubernetes::Answers(cluster) => cluster.nodes.get(node.as_str()).is_some_and(|seen| seen.ready),
        SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => false,
    };
    let declared = court.node(node).is_some();
    if ready && !declared {
        court.violate(Rule::AskedFor, step, "Kubernetes says that it is ready");
    }
}

fn own_mark(guest: &Guest) -> Option<Mark> {
    let Seen::Read(seen) = &guest.config else { return None };
    let line = seen.live.description()?.trim_end().lines().last()?;
    Mark::parse(line.trim()).ok().filter(|mark| mark.vmid == guest.vmid && !guest.template && !mark.shelf)
}
