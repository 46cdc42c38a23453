//! Steps that are planned and cannot be taken yet: they become what will follow, so that whoever approves the plan approves them.

use std::collections::BTreeSet;

use super::Planner;
use crate::privileges::uses;
use crate::{Intent, Planned, Step, StepId, Upkeep};

impl Planner<'_> {
    /// Takes steps out of the plan, what needs them, and what is only done for their sake. Gives what is to follow instead.
    pub(super) fn put_off(&mut self, is_put_off: impl Fn(&Planned) -> bool, reason: &str) -> Vec<Intent> {
        let mut gone: BTreeSet<StepId> = BTreeSet::new();
        // Each is listed after what it needs.
        for step in &self.plan.steps {
            if is_put_off(step) || step.needs.iter().any(|need| gone.contains(need)) {
                gone.insert(step.id.clone());
            }
        }
        let idle: Vec<StepId> = self
            .plan
            .steps
            .iter()
            .filter(|step| prepares(&step.step) && !gone.contains(&step.id))
            .filter(|step| {
                self.plan.steps.iter().any(|other| gone.contains(&other.id) && other.needs.contains(&step.id))
            })
            .map(|step| step.id.clone())
            .collect();
        gone.extend(idle);
        let steps = std::mem::take(&mut self.plan.steps);
        let (put_off, stay) = steps.into_iter().partition::<Vec<_>, _>(|step| gone.contains(&step.id));
        self.plan.steps = stay;
        let shared = self.plan.steps.iter().enumerate().filter(|(_, step)| step.node.is_none());
        self.shared = shared.map(|(index, _)| index).collect();
        for step in &put_off {
            let used = uses(&step.step, self.desired, self.observed);
            self.put_off_uses.push((step.step.word().to_owned(), step.node.clone(), used));
        }
        let intent = |step: Planned| Intent {
            node: step.node,
            step: step.step.word().to_owned(),
            effect: step.effect,
            reason: reason.to_owned(),
        };
        put_off.into_iter().map(intent).collect()
    }
}

/// Whether a step does nothing but make ready for one that takes its node down: alone it would say what is not so.
fn prepares(step: &Step) -> bool {
    matches!(
        step,
        Step::Upkeep(Upkeep::NoteAway { .. } | Upkeep::MakeShelf { .. } | Upkeep::MoveShelf { .. })
    )
}
