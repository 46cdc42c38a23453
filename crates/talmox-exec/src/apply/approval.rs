//! What was approved, and what goes beyond it.

use std::collections::BTreeSet;

use talmox_plan::{Effect, Intent, Plan, Planned};
use talmox_types::NodeName;

/// Kinds, nodes and effects somebody has said yes to.
pub(super) struct Approval {
    kinds: BTreeSet<(String, Option<NodeName>, Effect)>,
    /// Nodes whose VM was to be made or finished: whatever that takes goes with it.
    made: BTreeSet<NodeName>,
}

impl Approval {
    pub(super) fn of(plan: &Plan) -> Self {
        let steps =
            plan.steps.iter().map(|step| (step.step.word().to_owned(), step.node.clone(), step.effect));
        let later = plan.later.iter().map(|intent| (intent.step.clone(), intent.node.clone(), intent.effect));
        let kinds: BTreeSet<_> = steps.chain(later).collect();
        let made = kinds.iter().filter(|(_, _, effect)| *effect == Effect::Create);
        let made = made.filter_map(|(_, node, _)| node.clone());
        Self { made: made.collect(), kinds }
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
        let kind = step.step.word();
        let listed = (kind.to_owned(), step.node.clone(), step.effect);
        // The pool belongs to no node, whoever it is made for.
        let pool =
            || kind == "create-pool" && (!self.made.is_empty() || self.kinds.iter().any(|(k, ..)| k == kind));
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
        self.kinds.contains(&listed) || pool() || finishes() || goes()
    }
}
