//! What was approved, and what goes beyond it.

use std::collections::BTreeSet;

use talmox_plan::{Effect, Intent, Plan, Planned, Step};
use talmox_types::NodeName;

/// Kinds, nodes and effects somebody has said yes to.
pub(super) struct Approval {
    kinds: BTreeSet<(String, Option<NodeName>, Effect)>,
    /// What of templates and images goes, one by one: they belong to no node that would tell them apart.
    removed: BTreeSet<String>,
    /// Nodes whose VM was to be made or finished: whatever that takes goes with it.
    made: BTreeSet<NodeName>,
}

impl Approval {
    pub(super) fn of(plan: &Plan) -> Self {
        let steps =
            plan.steps.iter().map(|step| (step.step.word().to_owned(), step.node.clone(), step.effect));
        let later = plan.later.iter().map(|intent| (intent.step.clone(), intent.node.clone(), intent.effect));
        let kinds: BTreeSet<_> = steps.chain(later).collect();
        let removed = plan.steps.iter().filter_map(|planned| removes(&planned.step)).collect();
        let made = kinds.iter().filter(|(_, _, effect)| *effect == Effect::Create);
        let made = made.filter_map(|(_, node, _)| node.clone());
        Self { made: made.collect(), removed, kinds }
    }

    /// What a plan wants that nobody has said yes to.
    pub(super) fn beyond(&self, plan: &Plan) -> Vec<Intent> {
        let steps = plan.steps.iter().filter(|step| !self.covers(step)).map(|step| Intent {
            node: step.node.clone(),
            step: step.step.word().to_owned(),
            effect: step.effect,
            reason: step.reason.clone(),
        });
        steps.collect()
    }

    fn covers(&self, step: &Planned) -> bool {
        if let Some(removed) = removes(&step.step) {
            return self.removed.contains(&removed);
        }
        let kind = step.step.word();
        let listed = (kind.to_owned(), step.node.clone(), step.effect);
        // Pools, images and templates belong to no node, whoever they are made for.
        let serves = || {
            is_for_all(&step.step)
                && (!self.made.is_empty()
                    || self.kinds.iter().any(|(_, node, effect)| node.is_none() && *effect == Effect::Create))
        };
        let finishes = || {
            let harmless = matches!(
                step.effect,
                Effect::Create | Effect::ChangeLive | Effect::Start | Effect::ChangePending
            );
            harmless && step.node.as_ref().is_some_and(|node| self.made.contains(node))
        };
        // What is to be removed may have been started since: it has to be stopped first.
        let goes = || {
            let removal = |(removed, node, _): &(String, Option<NodeName>, Effect)| {
                removed == "remove" && *node == step.node
            };
            kind == "stop" && self.kinds.iter().any(removal)
        };
        self.kinds.contains(&listed) || serves() || finishes() || goes()
    }
}

/// Whether a step makes what nodes are made from, or makes it fit: approving those approves this.
fn is_for_all(step: &Step) -> bool {
    matches!(
        step,
        Step::CreatePool { .. }
            | Step::RegisterSchematic { .. }
            | Step::FetchImage { .. }
            | Step::BuildTemplate { .. }
            | Step::ConvertTemplate { .. }
            | Step::ConfigureTemplate { .. }
    )
}

/// The template or image that is gone after a step.
fn removes(step: &Step) -> Option<String> {
    if let Step::RemoveTemplate { template } = step {
        return Some(template.mark.to_string());
    }
    if let Step::RemoveImage { host, volume } = step { Some(format!("{host} {volume}")) } else { None }
}
