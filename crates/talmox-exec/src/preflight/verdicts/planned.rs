//! What a plan would refuse. Only once nothing else stands in its way: most refusals are the same problems in other
//! words.

use talmox_plan::{Goal, Nonce, Request, plan};
use talmox_types::desired::Desired;

use crate::preflight::facts::Facts;
use crate::preflight::report::Check;

const NAME: &str = "plan";

pub(super) fn checks(desired: &Desired, facts: &Facts, has_problem: bool) -> Vec<Check> {
    if has_problem {
        let message = "whether a plan can be made: the problems above come first";
        return vec![Check::not_checked(NAME, message, None)];
    }
    let observed = match &facts.observed {
        Ok(observed) => observed,
        Err(words) => {
            return vec![Check::problem(
                NAME,
                format!("no plan can be made: {words}"),
                "talmox plan says more",
            )];
        }
    };
    // Nothing of this plan is carried out, so what would tell its VMs from those of another run is of no account.
    // Manifests describe templates and no nodes.
    let goal = if desired.nodes.is_empty() { Goal::Templates } else { Goal::Converge };
    let made = plan(desired, observed, &Request { goal, ..Request::default() }, &Nonce::new(0));
    if made.refusals.is_empty() {
        let steps = made.steps.len();
        let message = if steps == 0 {
            "there is nothing to do".to_owned()
        } else {
            format!("a plan can be made: {steps} steps")
        };
        return vec![Check::ok(NAME, message)];
    }
    let refused = made.refusals.iter().map(|refusal| {
        let node = refusal.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
        let remedy = refusal.choices.join(", or ");
        Check::problem(NAME, format!("{node}{}", refusal.problem), remedy)
    });
    refused.collect()
}
