//! Authorities that take the place of others: what is planned in which phase, when it is refused, and what `check` thinks of it.

use talmox_plan::{Observed, Plan, Rule, SeenMachine, Step, Upkeep, check};
use talmox_types::desired::Desired;
use talmox_types::{Phase, Phases, Realm};

use crate::inside::{boxed, healthy, later, living, maintenance, member, see, silent};
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
fn what_restarts_with_the_authority_of_kubernetes_is_said() {
    let told = |controllers: u8, kubernetes: Phase| {
        let mut desired = desired(controllers, 1);
        desired.talos.version = talmox_types::Version::parse("1.13.9").unwrap();
        let observed = in_phases(&desired, &[Phase::Alone; 4], &[kubernetes; 4]);
        let notes = planned(&desired, &observed, &healthy()).notes;
        notes.into_iter().map(|note| note.text).find(|text| text.contains("restart"))
    };
    assert!(told(3, Phase::Before).unwrap().contains("one machine after the other"));
    assert!(told(1, Phase::Issuing).unwrap().contains("the API of Kubernetes is away"));
    assert_eq!(told(3, Phase::Alone), None);
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

pub(crate) fn change(key: &str) -> talmox_plan::Change {
    talmox_plan::Change {
        key: key.to_owned(),
        old: Some("a".to_owned()),
        new: Some("b".to_owned()),
        applies: talmox_plan::Applies::Now,
        field: None,
        sub: Vec::new(),
    }
}

/// The configuration of each of these nodes differs in this field.
fn differing(desired: &Desired, nodes: &[&str], key: &str) -> Observed {
    let mut observed = living(desired);
    for node in nodes {
        let mut seen = member(desired, node);
        seen.config = Some(vec![change("machine.sysctls.a"), change(key)]);
        see(&mut observed, node, boxed(seen));
    }
    observed
}

/// Where who signs is, in both layouts.
const AUTHORITIES: [&str; 6] = [
    "machine.ca.crt",
    "cluster.ca.key",
    "cluster.ca",
    "cluster.etcd.ca.crt",
    "KubeAPIServerCAConfig issuingCA.cert",
    "KubeAPIServerCAConfig acceptedCAs[0]",
];

#[test]
fn authorities_others_replaced_are_left_alone_in_every_layout() {
    let desired = described();
    for key in AUTHORITIES {
        // A rotation of our own makes no difference: neither of its two authorities is one.
        for rotating in [Vec::new(), Realm::ALL.to_vec()] {
            let mut observed = differing(&desired, &["cp-2", "w-1"], key);
            observed.rotating = rotating;
            let plan = planned(&desired, &observed, &healthy());
            let [refusal] = plan.refusals.as_slice() else { panic!("{key}: {plan:#?}") };
            assert!(refusal.problem.starts_with("cp-2, w-1: the authority"), "{key}: {}", refusal.problem);
            assert!(plan.steps.iter().all(|step| step.node.is_none()), "{key}: {plan:#?}");
            assert_eq!(words(&plan), [""; 0], "{key}");
        }
    }
    // One that is only accepted beside the others goes like any difference.
    for key in ["cluster.acceptedCAs", "KubeAPIServerCAConfig acceptedCAs[1]", "machine.cable"] {
        let plan = planned(&desired, &differing(&desired, &["w-1"], key), &healthy());
        assert!(plan.refusals.is_empty(), "{key}: {:?}", plan.refusals);
    }
}

#[test]
fn authorities_others_replaced_keep_a_machine_from_joining() {
    let desired = described();
    let mut observed = differing(&desired, &["cp-2"], "cluster.ca.crt");
    see(&mut observed, "w-1", maintenance(&desired, "w-1"));
    let only = talmox_plan::Request { targets: [name("w-1")].into(), ..healthy() };
    let plan = planned(&desired, &observed, &only);
    let refused = plan.refusals.iter().any(|refusal| refusal.problem.starts_with("cp-2: the authority"));
    assert!(refused, "{plan:#?}");
}

#[test]
fn a_plan_that_puts_an_authority_back_is_caught() {
    let desired = described();
    let harmless = differing(&desired, &["cp-1"], "machine.sysctls.b");
    let plan = planned(&desired, &harmless, &healthy());
    assert!(plan.steps.iter().any(|step| matches!(step.step, Step::Upkeep(Upkeep::ChangeNode { .. }))));
    let breaks = |plan: &Plan, observed: &Observed| {
        let found = check(plan, &desired, observed, &healthy());
        found.iter().any(|violation| violation.rule == Rule::AuthoritiesStay)
    };
    assert!(!breaks(&plan, &harmless));
    for key in AUTHORITIES {
        // The plan does not say so, and all of a configuration is sent.
        assert!(breaks(&plan, &differing(&desired, &["cp-1"], key)), "{key}");
        assert!(!breaks(&plan, &differing(&desired, &["cp-1"], "machine.sysctls.b")), "{key}");
        let mut says = plan.clone();
        says.steps.iter_mut().for_each(|step| step.changes.push(change(key)));
        assert!(breaks(&says, &harmless), "{key}");
    }
    // A rotation goes over every machine.
    let observed = in_phases(&desired, &[Phase::Before; 4], &[Phase::Before; 4]);
    let plan = planned(&desired, &observed, &healthy());
    assert!(!breaks(&plan, &observed));
    let third = Observed { rotating: Realm::ALL.to_vec(), ..differing(&desired, &["w-1"], "machine.ca.crt") };
    assert!(breaks(&plan, &third));
    // Whoever joins would believe nobody.
    let mut observed = living(&desired);
    see(&mut observed, "w-1", maintenance(&desired, "w-1"));
    let plan = planned(&desired, &observed, &healthy());
    assert!(!breaks(&plan, &observed));
    let mut replaced = differing(&desired, &["cp-3"], "cluster.ca.crt");
    see(&mut replaced, "w-1", maintenance(&desired, "w-1"));
    assert!(breaks(&plan, &replaced));
    // What goes in the same plan has nothing to say of what takes its place; what goes beside it makes no difference.
    let and_without = |gone: &str| {
        let anew = talmox_plan::Request { replace: [name(gone)].into(), ..healthy() };
        let own = planned(&desired, &living(&desired), &anew).steps.into_iter();
        let removals = own.filter(|step| matches!(step.step, Step::RemoveVm { .. }));
        let mut both = plan.clone();
        let before = both.steps.len();
        both.steps.extend(removals);
        assert_eq!(both.steps.len(), before + 1, "{gone} is removed");
        both
    };
    assert!(!breaks(&and_without("cp-3"), &replaced));
    assert!(breaks(&and_without("cp-2"), &replaced));
}
