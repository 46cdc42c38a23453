//! Workers of a cluster whose etcd does not run yet: no step waits for an answer that may come only after the bootstrap.

use talmox_plan::{Observed, Plan, Proof, Rule, Step, Until, Waiting, check};
use talmox_types::desired::Desired;

use super::{all, boxed, configured, healthy, later, living, maintenance, running, see, silent, until};
use crate::support::*;

fn proofs(plan: &Plan) -> Vec<(String, Proof)> {
    let of = |planned: &talmox_plan::Planned| {
        let Step::ConfigureNode { vm, proof, .. } = &planned.step else { return None };
        Some((vm.mark.node.to_string(), *proof))
    };
    plan.steps.iter().filter_map(of).collect()
}

/// Control planes that are configured, and a worker that does not answer.
fn refused_by_the_worker(desired: &Desired) -> Observed {
    let mut observed = running(desired);
    all(&mut observed, desired, |desired, node| boxed(configured(desired, node)));
    see(&mut observed, "w-1", silent(desired, "w-1"));
    observed
}

#[test]
fn before_the_bootstrap_a_worker_is_configured_once_it_has_left_maintenance() {
    let desired = desired(1, 1);
    let mut observed = running(&desired);
    all(&mut observed, &desired, maintenance);
    let expected = |proof| vec![("cp-1".to_owned(), Proof::Certificate), ("w-1".to_owned(), proof)];
    assert_eq!(proofs(&planned(&desired, &observed, &healthy())), expected(Proof::LeftMaintenance));
    // A run that ends before the bootstrap waits for what it was asked for.
    let plan = planned(&desired, &observed, &until(Until::Configured));
    assert_eq!(proofs(&plan), expected(Proof::Certificate));
    // Once etcd runs, control planes sign.
    let mut observed = living(&desired);
    see(&mut observed, "w-1", maintenance(&desired, "w-1"));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(proofs(&plan), [("w-1".to_owned(), Proof::Certificate)]);
}

#[test]
fn the_bootstrap_does_not_wait_for_a_worker_that_does_not_answer() {
    let desired = desired(3, 1);
    let observed = refused_by_the_worker(&desired);
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(steps(&plan), ["cp-1/bootstrap create"]);
    assert_eq!(
        (plan.waiting.as_slice(), later(&plan)),
        (&[][..], vec!["w-1/configure-node".to_owned(), "await-health".to_owned()])
    );
    // While a control plane is not configured either, nothing is waited for but that.
    let mut observed = observed;
    see(&mut observed, "cp-3", maintenance(&desired, "cp-3"));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(steps(&plan), ["cp-3/configure-node create"]);
    assert!(plan.waiting.iter().all(|waiting| matches!(waiting, Waiting::Bootstrap { .. })), "{plan:#?}");
    // Where nothing bootstraps, it is waited for by name.
    let observed = refused_by_the_worker(&desired);
    let plan = planned(&desired, &observed, &until(Until::Configured));
    assert!(
        matches!(&plan.waiting[..], [Waiting::Answer { node, .. }] if node.as_str() == "w-1"),
        "{plan:#?}"
    );
    let mut observed = living(&desired);
    see(&mut observed, "w-1", silent(&desired, "w-1"));
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Answer { .. })), "{plan:#?}");
}

#[test]
fn a_plan_that_takes_a_control_planes_answer_for_granted_is_not_carried_out() {
    let desired = desired(1, 1);
    let mut observed = running(&desired);
    all(&mut observed, &desired, maintenance);
    let mut plan = planned(&desired, &observed, &healthy());
    assert_eq!(check(&plan, &desired, &observed, &healthy()), []);
    let Step::ConfigureNode { proof, .. } = &mut plan.steps[0].step else { panic!("{plan:#?}") };
    *proof = Proof::LeftMaintenance;
    let rules: Vec<Rule> =
        check(&plan, &desired, &observed, &healthy()).into_iter().map(|one| one.rule).collect();
    assert_eq!(rules, [Rule::ProvenMachine]);
}
