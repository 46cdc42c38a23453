//! Authorities that take the place of others: what is planned in which phase, when it is refused, and what `check` thinks of it.

use talmox_plan::{Observed, Plan, Rule, SeenMachine, Step, Upkeep, check};
use talmox_types::desired::Desired;
use talmox_types::{Phase, Phases, Realm};

use crate::inside::{healthy, later, living, silent};
use crate::support::*;

fn described() -> Desired {
    let mut desired = desired(3, 1);
    desired.talos.version = talmox_types::Version::parse("1.13.9").unwrap();
    desired
}

/// A cluster whose machines are in these phases of replacing both, by the order of the description.
fn in_phases(desired: &Desired, talos: &[Phase], kubernetes: &[Phase]) -> Observed {
    let mut observed = living(desired);
    observed.rotating = Realm::ALL.to_vec();
    for (index, node) in desired.nodes.iter().enumerate() {
        let Some(SeenMachine::Configured(seen)) = observed.talos.get_mut(&node.name) else { panic!() };
        seen.phases = Phases { talos: talos[index], kubernetes: kubernetes[index] };
    }
    observed
}

fn words(plan: &Plan) -> Vec<String> {
    let about = plan.steps.iter().filter(|step| step.id.to_string().contains("authority"));
    about.map(|step| step.id.to_string()).collect()
}

#[test]
fn only_phases_that_are_to_come_are_planned() {
    use Phase::{Accepted, Alone, Before, Issuing};
    let desired = described();
    let table: [(&[Phase; 4], &[&str]); 4] = [
        (&[Before; 4], &["accepted", "issuing", "alone"]),
        (&[Accepted, Accepted, Before, Before], &["accepted", "issuing", "alone"]),
        (&[Issuing, Accepted, Accepted, Accepted], &["issuing", "alone"]),
        (&[Alone; 4], &[]),
    ];
    for (phases, expected) in table {
        let plan = planned(&desired, &in_phases(&desired, phases, &[Alone; 4]), &healthy());
        let rotate = expected.iter().map(|phase| format!("rotate-authority-talos-{phase}"));
        let settle = ["settle-authority-talos".to_owned(), "settle-authority-kubernetes".to_owned()];
        assert_eq!(words(&plan), rotate.chain(settle).collect::<Vec<_>>(), "{phases:?}");
        // Each waits for the one before it.
        let about: Vec<_> =
            plan.steps.iter().filter(|step| step.id.to_string().contains("authority")).collect();
        assert!(about.windows(2).all(|pair| pair[1].needs.contains(&pair[0].id)), "{plan:#?}");
    }
}

#[test]
fn a_machine_that_does_not_answer_is_named_with_choices() {
    let desired = described();
    let mut observed = in_phases(&desired, &[Phase::Accepted; 4], &[Phase::Before; 4]);
    let lost = desired.nodes[3].name.clone();
    observed.talos.insert(lost.clone(), silent(&desired, lost.as_str()));
    let plan = planned(&desired, &observed, &healthy());
    assert!(words(&plan).is_empty());
    assert!(plan.refusals[0].problem.contains(&format!("{lost} (")), "{:?}", plan.refusals);
    assert_eq!(plan.refusals[0].choices.len(), 3);
}

#[test]
fn everything_else_comes_first() {
    let desired = described();
    let mut observed = in_phases(&desired, &[Phase::Before; 4], &[Phase::Before; 4]);
    let Some(SeenMachine::Configured(seen)) = observed.talos.get_mut(&desired.nodes[3].name) else {
        panic!()
    };
    let change = talmox_plan::Change {
        key: "machine.sysctls".to_owned(),
        old: None,
        new: Some("1".to_owned()),
        applies: talmox_plan::Applies::Now,
        field: None,
        sub: Vec::new(),
    };
    seen.config = Some(vec![change]);
    let plan = planned(&desired, &observed, &healthy());
    assert!(words(&plan).is_empty(), "{plan:#?}");
    assert!(later(&plan).contains(&"rotate-authority".to_owned()), "{:?}", plan.later);
    assert!(later(&plan).contains(&"settle-authority".to_owned()), "{:?}", plan.later);
}

#[test]
fn a_plan_that_leaves_a_phase_or_a_machine_out_is_caught() {
    let desired = described();
    let observed = in_phases(&desired, &[Phase::Before; 4], &[Phase::Before; 4]);
    let plan = planned(&desired, &observed, &healthy());
    let broken = |breaks: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        breaks(&mut plan);
        let found = check(&plan, &desired, &observed, &healthy());
        found.iter().any(|violation| violation.rule == Rule::PhaseByPhase)
    };
    assert!(!broken(&|_| {}));
    let skipped = |plan: &mut Plan| {
        let id = plan.steps.remove(0).id;
        plan.steps.iter_mut().for_each(|step| step.needs.retain(|need| *need != id));
    };
    assert!(broken(&skipped), "the first phase is left out");
    let left_out = |plan: &mut Plan| {
        if let Step::Upkeep(Upkeep::RotateAuthority { workers, .. }) = &mut plan.steps[1].step {
            workers.clear();
        }
    };
    assert!(broken(&left_out), "workers are left out");
    let unasked = Observed { rotating: vec![Realm::Talos], ..observed.clone() };
    let found = check(&plan, &desired, &unasked, &healthy());
    assert!(found.iter().any(|violation| violation.rule == Rule::PhaseByPhase), "nobody asked for it");
}

#[test]
fn a_node_nobody_describes_is_not_cut_off() {
    let mut desired = described();
    let observed = in_phases(&desired, &[Phase::Before; 4], &[Phase::Before; 4]);
    let dropped = desired.nodes.pop().unwrap();
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(words(&plan), [""; 0], "{plan:#?}");
    let refused = plan.refusals.iter().find(|refusal| refusal.problem.contains("could speak to nobody"));
    let refused = refused.unwrap_or_else(|| panic!("{plan:#?}"));
    assert!(refused.problem.contains(dropped.name.as_str()), "{refused:?}");
    assert!(refused.choices[1].contains("--remove w-1"), "{refused:?}");
}
