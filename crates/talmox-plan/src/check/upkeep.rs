//! What is done to a cluster that lives, stated again without the planner's code.

use talmox_types::desired::Role;
use talmox_types::support::line_of;
use talmox_types::{NodeName, Phase, Realm, Version};

use super::{Court, Rule};
use crate::{
    ChangeMode, Effect, Expected, Planned, SeenEtcd, SeenKubernetes, SeenMachine, Step, Until, Upkeep,
};

/// Upgrades of control planes and of Kubernetes, and the end of a control plane, come after a snapshot, as long as somebody has
/// data.
fn after_a_snapshot(court: &mut Court<'_>, step: &Planned) {
    let controller = || {
        let node = step.node.as_ref().and_then(|node| court.node(node));
        node.is_some_and(|node| node.role == Role::Controller)
    };
    let risky = if let Step::Upkeep(Upkeep::ForgetNode { node, .. }) = &step.step {
        loses_a_member(court, step, node)
    } else if let Step::Upkeep(upkeep) = &step.step {
        is_risky(upkeep, controller)
    } else {
        let goes = matches!(step.step, Step::RemoveVm { .. }) && court.request.looks_inside();
        goes && !court.request.upkeep.quorum_lost && controller()
    };
    let has_data = |machine: &SeenMachine| {
        machine.configured().is_some_and(|seen| matches!(seen.etcd, Some(SeenEtcd::Member { .. })))
    };
    // What is refused is not carried out.
    if !risky
        || !court.plan.refusals.is_empty()
        || court.request.upkeep.no_snapshot
        || !court.observed.talos.values().any(has_data)
    {
        return;
    }
    let taken = |before: &&Planned| matches!(before.step, Step::Upkeep(Upkeep::SnapshotEtcd { .. }));
    if !court.before(step).iter().any(taken) {
        court.violate(Rule::SnapshotFirst, step, "no snapshot of etcd is taken before it");
    }
}

/// A member that is dead is taken out of etcd. Where the VM goes before, so does the snapshot.
fn loses_a_member(court: &Court<'_>, step: &Planned, node: &NodeName) -> bool {
    let lists = |machine: &SeenMachine| {
        let etcd = machine.configured().and_then(|seen| seen.etcd.as_ref());
        matches!(etcd, Some(SeenEtcd::Member { members: Some(members), .. })
            if members.iter().any(|member| member == node.as_str()))
    };
    let removed =
        |before: &&Planned| matches!(&before.step, Step::RemoveVm { vm, .. } if vm.mark.node == *node);
    !court.request.upkeep.quorum_lost
        && court.observed.talos.values().any(lists)
        && !court.before(step).iter().any(removed)
}

fn is_risky(upkeep: &Upkeep, controller: impl FnOnce() -> bool) -> bool {
    match upkeep {
        Upkeep::UpgradeKubernetes { .. } => true,
        Upkeep::UpgradeNode { .. } | Upkeep::RetireNode { .. } => controller(),
        Upkeep::SnapshotEtcd { .. }
        | Upkeep::DrainNode { .. }
        | Upkeep::ReturnNode { .. }
        | Upkeep::ChangeNode { .. }
        | Upkeep::ForgetNode { .. }
        | Upkeep::NoteAway { .. }
        | Upkeep::MakeShelf { .. }
        | Upkeep::MoveDisk { .. }
        | Upkeep::MoveShelf { .. }
        | Upkeep::RemoveShelf { .. }
        | Upkeep::RotateAuthority { .. }
        | Upkeep::SettleAuthority { .. }
        | Upkeep::RecoverEtcd { .. } => false,
    }
}

/// Whether a step of upkeep says what it does to what runs.
pub(super) fn is_honest(upkeep: &Upkeep, effect: Effect) -> bool {
    match upkeep {
        Upkeep::SnapshotEtcd { .. } | Upkeep::RecoverEtcd { .. } | Upkeep::MakeShelf { .. } => {
            effect == Effect::Create
        }
        Upkeep::DrainNode { .. } => effect == Effect::Drain,
        Upkeep::ReturnNode { .. }
        | Upkeep::UpgradeKubernetes { .. }
        | Upkeep::ForgetNode { .. }
        | Upkeep::MoveDisk { .. }
        | Upkeep::MoveShelf { .. }
        | Upkeep::RemoveShelf { .. }
        | Upkeep::NoteAway { .. }
        | Upkeep::RotateAuthority { .. }
        | Upkeep::SettleAuthority { .. } => effect == Effect::ChangeLive,
        Upkeep::ChangeNode { mode, .. } => match mode {
            ChangeMode::NoReboot | ChangeMode::Try | ChangeMode::TryFirst => effect == Effect::ChangeLive,
            ChangeMode::Staged => effect == Effect::ChangePending,
            ChangeMode::Reboot | ChangeMode::Restart => effect == Effect::Reboot,
        },
        Upkeep::UpgradeNode { stage, .. } => {
            effect == if *stage { Effect::ChangePending } else { Effect::Reboot }
        }
        Upkeep::RetireNode { .. } => matches!(effect, Effect::Destroy | Effect::Replace),
    }
}

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        if let Step::Upkeep(Upkeep::ChangeNode { vm, mode, .. }) = &step.step {
            change(court, step, vm, *mode);
        }
        if let Step::Upkeep(Upkeep::DrainNode { node } | Upkeep::ReturnNode { node, .. }) = &step.step
            && step.node.as_ref() != Some(node)
        {
            court.violate(Rule::WellFormed, step, format!("it is about {node}"));
        }
        pods_first(court, step);
        runs_its_kubelet(court, step);
        after_a_snapshot(court, step);
        rotation(court, step);
        let replaces_pods = matches!(
            step.step,
            Step::Upkeep(
                Upkeep::UpgradeKubernetes { .. } | Upkeep::RotateAuthority { realm: Realm::Kubernetes, .. }
            )
        );
        if replaces_pods {
            one_api_server_at_a_time(court, step);
        }
    }
}

/// A node restarts into a Talos that runs the kubelet it has, or after Kubernetes was upgraded on it.
fn runs_its_kubelet(court: &mut Court<'_>, step: &Planned) {
    let Step::Upkeep(Upkeep::UpgradeNode { to, stage: false, .. }) = &step.step else { return };
    let (SeenKubernetes::Answers(cluster), Some(node)) = (&court.observed.kubernetes, &step.node) else {
        return;
    };
    let has = cluster.nodes.get(node.as_str()).and_then(|seen| Version::parse(&seen.version).ok());
    let line = Version::parse(to).ok().as_ref().and_then(line_of);
    let Some((has, line)) = has.zip(line).filter(|(has, line)| !line.supports(has)) else { return };
    let upgrades = |before: &&Planned| {
        matches!(&before.step, Step::Upkeep(Upkeep::UpgradeKubernetes { control_planes, workers, .. })
            if control_planes.contains_key(node) || workers.contains_key(node))
    };
    if court.plan.refusals.is_empty() && !court.before(step).iter().any(upgrades) {
        let problem = format!("Talos {} does not run the kubelet of {node}, which is {has}", line.talos);
        court.violate(Rule::RunsItsKubelet, step, problem);
    }
}

/// A phase comes after the one before it, on every machine of the description; what is settled is through all of them.
fn rotation(court: &mut Court<'_>, step: &Planned) {
    let Step::Upkeep(upkeep) = &step.step else { return };
    let (realm, needed, nodes) =
        if let Upkeep::RotateAuthority { realm, phase, control_planes, workers } = upkeep {
            (*realm, phase.previous(), [control_planes, workers])
        } else if let Upkeep::SettleAuthority { realm, control_planes, workers } = upkeep {
            (*realm, Some(Phase::Alone), [control_planes, workers])
        } else {
            return;
        };
    if !court.observed.rotating.contains(&realm) {
        court.violate(
            Rule::PhaseByPhase,
            step,
            format!("no authority of {} is being replaced", realm.name()),
        );
    }
    let left_out =
        court.desired.nodes.iter().find(|node| !nodes.iter().any(|all| all.contains_key(&node.name)));
    if let Some(node) = left_out {
        court.violate(Rule::PhaseByPhase, step, format!("{} is left out", node.name));
    }
    let Some(needed) = needed else {
        return court.violate(Rule::PhaseByPhase, step, "there is no phase before it");
    };
    let brings = |before: &&Planned| {
        matches!(&before.step, Step::Upkeep(Upkeep::RotateAuthority { realm: of, phase, .. })
            if *of == realm && *phase == needed)
    };
    if court.before(step).iter().any(brings) {
        return;
    }
    let behind = nodes.into_iter().flat_map(|all| all.keys()).find(|node| {
        let seen = court.observed.talos.get(*node).and_then(SeenMachine::configured);
        seen.is_none_or(|seen| seen.phases.of(realm) < needed)
    });
    if let Some(node) = behind {
        court.violate(Rule::PhaseByPhase, step, format!("{node} does not have the phase before"));
    }
}

/// API servers are replaced one by one; no control plane may go down beside that.
fn one_api_server_at_a_time(court: &mut Court<'_>, step: &Planned) {
    let may_be_control_plane = |other: &Planned| {
        let node = other.node.as_ref().and_then(|node| court.node(node));
        other.node.is_some() && node.is_none_or(|node| node.role == Role::Controller)
    };
    let before =
        |one: &Planned, other: &Planned| court.before(other).iter().any(|needed| needed.id == one.id);
    let beside = court.steps().iter().find(|other| {
        other.effect.interrupts()
            && may_be_control_plane(other)
            && !before(other, step)
            && !before(step, other)
    });
    if let Some(other) = beside {
        court.violate(
            Rule::OneAtATime,
            step,
            format!("{} may take a control plane down meanwhile", other.id),
        );
    }
}

/// A configuration goes to a machine that proved itself and was compared; a restart for it was allowed.
fn change(court: &mut Court<'_>, step: &Planned, vm: &Expected, mode: ChangeMode) {
    let seen = court.observed.talos.get(&vm.mark.node).and_then(SeenMachine::configured);
    match seen {
        None => court.violate(Rule::ProvenMachine, step, "the machine has not proved itself"),
        Some(seen) if seen.config.is_none() => {
            court.violate(Rule::ProvenMachine, step, "its configuration could not be compared");
        }
        Some(_) => {}
    }
    if matches!(mode, ChangeMode::Reboot | ChangeMode::Restart) && !court.request.allow_reboot {
        court.violate(Rule::AskedFor, step, "no reboot was allowed");
    }
    if mode == ChangeMode::Staged && !court.request.upkeep.stage {
        court.violate(Rule::AskedFor, step, "nobody asked for it to wait for another restart");
    }
}

/// A node with pods that others could take is drained before it goes down, and opened again if it comes back.
fn pods_first(court: &mut Court<'_>, step: &Planned) {
    let comes_back = matches!(
        step.step,
        Step::RebootVm { .. }
            | Step::Upkeep(Upkeep::ChangeNode { mode: ChangeMode::Reboot | ChangeMode::Restart, .. })
    );
    if !comes_back && !matches!(step.step, Step::StopVm { .. }) {
        return;
    }
    let Some(node) = step.node.as_ref().filter(|node| has_pods(court, node)) else { return };
    let goes = |other: &Planned| matches!(other.step, Step::RemoveVm { .. }) && other.node == step.node;
    if court.steps().iter().any(goes) {
        return;
    }
    let drains = |other: &&Planned| {
        let drained =
            if let Step::Upkeep(Upkeep::DrainNode { node }) = &other.step { Some(node) } else { None };
        drained == Some(node)
    };
    if !court.before(step).iter().any(drains) {
        court.violate(Rule::PodsFirst, step, format!("{node} goes down with its pods on it"));
    }
    let opens = |other: &Planned| {
        matches!(&other.step, Step::Upkeep(Upkeep::ReturnNode { node: back, .. }) if back == node)
            && court.before(other).iter().any(|needed| needed.id == step.id)
    };
    if comes_back && !court.steps().iter().any(opens) {
        court.violate(Rule::PodsFirst, step, format!("{node} would stay closed to pods"));
    }
}

/// Whether Kubernetes has the node ready, and another for its pods.
fn has_pods(court: &Court<'_>, node: &NodeName) -> bool {
    let SeenKubernetes::Answers(cluster) = &court.observed.kubernetes else { return false };
    let ready = |name: &str| cluster.nodes.get(name).is_some_and(|seen| seen.ready);
    let others = cluster.nodes.iter().filter(|(name, _)| name.as_str() != node.as_str());
    court.request.looks_inside()
        && court.request.until >= Until::Configured
        && ready(node.as_str())
        && others.into_iter().any(|(_, seen)| seen.ready && seen.schedulable)
}
