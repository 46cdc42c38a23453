//! Whether a plan is one: ids, order, what each step says it does, and one control plane at a time.

use std::collections::BTreeSet;

use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::{Court, Rule};
use crate::{Effect, Planned, Step, StepId};

/// Options that hold secrets, or could.
const SECRET_KEYS: [&str; 4] = ["cipassword", "sshkeys", "cicustom", "args"];

pub(super) fn judge(court: &mut Court<'_>) {
    let mut known: BTreeSet<&StepId> = BTreeSet::new();
    let refused: BTreeSet<&NodeName> =
        court.plan.refusals.iter().filter_map(|refusal| refusal.node.as_ref()).collect();
    for step in court.steps() {
        if step.needs.iter().any(|need| !known.contains(need)) {
            court.violate(Rule::WellFormed, step, "it needs a step that does not come before it");
        }
        if !known.insert(&step.id) {
            court.violate(Rule::WellFormed, step, "another step has its id");
        }
        effect(court, step);
        secrets(court, step);
        if step.node.as_ref().is_some_and(|node| refused.contains(node)) {
            court.violate(Rule::WellFormed, step, "its node is refused");
        }
    }
    one_at_a_time(court);
}

/// A step that takes something down must say so: approval goes by the effect.
fn effect(court: &mut Court<'_>, step: &Planned) {
    let honest = match &step.step {
        Step::StopVm { .. } => step.effect == Effect::Stop,
        Step::RebootVm { .. } => step.effect == Effect::Reboot,
        Step::MoveVm { .. } => step.effect == Effect::Move,
        Step::RemoveVm { .. } => matches!(step.effect, Effect::Destroy | Effect::Replace),
        Step::CreatePool { .. }
        | Step::CloneVm { .. }
        | Step::CreateVm { .. }
        | Step::RegisterSchematic { .. }
        | Step::FetchImage { .. }
        | Step::BuildTemplate { .. }
        | Step::ConvertTemplate { .. }
        | Step::ConfigureNode { .. }
        | Step::Bootstrap { .. }
        | Step::ApplyManifests { .. }
        | Step::PostBootstrap { .. } => step.effect == Effect::Create,
        Step::AwaitHealth => step.effect == Effect::Wait,
        Step::Upkeep(upkeep) => super::upkeep::is_honest(upkeep, step.effect),
        Step::ConfigureTemplate { .. } | Step::AttachSeed { .. } | Step::PublishConfig { .. } => {
            matches!(step.effect, Effect::Create | Effect::ChangeLive)
        }
        Step::AddHa { .. }
        | Step::SetHaGroup { .. }
        | Step::SetHaRule { .. }
        | Step::DeleteHaRule { .. }
        | Step::RecordBootstrap { .. }
        | Step::RecordConfigured { .. }
        | Step::EjectSeed { .. }
        | Step::WithdrawConfig { .. }
        | Step::RemoveSeed { .. } => step.effect == Effect::ChangeLive,
        Step::DeletePool { .. } | Step::RemoveTemplate { .. } | Step::RemoveImage { .. } => {
            step.effect == Effect::Destroy
        }
        Step::StartVm { .. } => matches!(step.effect, Effect::Create | Effect::Start),
        Step::AddDisk { .. } | Step::GrowDisk { .. } | Step::JoinPool { .. } => {
            matches!(step.effect, Effect::Create | Effect::ChangeLive)
        }
        Step::ConfigureVm { .. } => matches!(
            step.effect,
            Effect::Create | Effect::ChangeLive | Effect::ChangePending | Effect::Reboot
        ),
    };
    if !honest {
        court.violate(Rule::WellFormed, step, "its effect is not what it does");
    }
}

fn secrets(court: &mut Court<'_>, step: &Planned) {
    let (Step::ConfigureVm { set, .. }
    | Step::CreateVm { set, .. }
    | Step::BuildTemplate { set, .. }
    | Step::ConfigureTemplate { set, .. }) = &step.step
    else {
        return;
    };
    if let Some(key) = SECRET_KEYS.iter().find(|key| set.contains_key(**key)) {
        court.violate(Rule::NoSecrets, step, format!("it sets {key}"));
    }
}

/// Of any two nodes that may be control planes, one is up again before the other goes down.
fn one_at_a_time(court: &mut Court<'_>) {
    if court.destroys_everything() {
        return;
    }
    let worker = |name: &NodeName| court.node(name).is_some_and(|node| node.role == Role::Worker);
    let down: Vec<&Planned> = court
        .steps()
        .iter()
        .filter(|step| step.effect.interrupts() && step.node.as_ref().is_some_and(|node| !worker(node)))
        .collect();
    for (index, second) in down.iter().enumerate() {
        let before: BTreeSet<&StepId> = court.before(second).into_iter().map(|step| &step.id).collect();
        for first in &down[..index] {
            if first.node == second.node {
                continue;
            }
            let last = first.node.as_ref().and_then(|node| court.known.last_of(node));
            let is_up = last.is_none_or(|last| before.contains(&last.id));
            if !is_up {
                let other = first.node.as_ref().map(ToString::to_string).unwrap_or_default();
                court.violate(Rule::OneAtATime, second, format!("{other} may be down at the same time"));
                break;
            }
        }
    }
}
