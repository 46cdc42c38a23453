//! A cluster that begins with a snapshot.

use super::*;

/// A request to begin with a snapshot.
fn restoring() -> Request {
    let snapshot = Snapshot { path: "lab.snapshot".to_owned(), digest: "ab".repeat(32) };
    let upkeep = UpkeepRequest { restore: Some(snapshot), ..UpkeepRequest::default() };
    Request { upkeep, ..healthy() }
}

#[test]
fn a_cluster_without_data_begins_with_the_snapshot_that_was_asked_for() {
    let desired = desired(3, 1);
    let mut observed = running(&desired);
    all(&mut observed, &desired, |desired, node| boxed(configured(desired, node)));
    let plan = planned(&desired, &observed, &restoring());
    assert_eq!(steps(&plan), ["cp-1/recover-etcd create", "await-health wait after cp-1/recover-etcd"]);
    let word = plan.steps[0].step.vm().unwrap().mark.bootstrap.clone().unwrap();
    assert_eq!((word.done, word.snapshot.as_deref()), (false, Some("abababababababab")));
    // From nothing it follows in place of the bootstrap.
    let from_nothing = later(&planned(&desired, &empty(), &restoring()));
    assert!(from_nothing.contains(&"cp-1/recover-etcd".to_owned()), "{from_nothing:?}");
    assert!(!from_nothing.contains(&"cp-1/bootstrap".to_owned()));
    // Its data was lost: without a snapshot it is refused, with one it goes on.
    marked(&mut observed, 2000, true);
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.refusals[0].choices[0].contains("talmox apply --restore FILE"), "{:?}", plan.refusals);
    assert_eq!(planned(&desired, &observed, &restoring()).steps[0].id.as_str(), "cp-1/recover-etcd");
}

#[test]
fn a_restore_that_was_interrupted_goes_on_and_never_becomes_a_bootstrap() {
    let desired = desired(1, 0);
    let mut observed = running(&desired);
    all(&mut observed, &desired, |desired, node| boxed(configured(desired, node)));
    edit(&mut observed, 2000, |config| {
        let mut mark = Mark::of_description(config.description().unwrap()).unwrap();
        let (incarnation, snapshot) = (mark.incarnation.clone(), Some("abababababababab".to_owned()));
        mark.bootstrap = Some(BootstrapWord { incarnation, done: false, snapshot });
        config.set("description", &mark);
    });
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.steps.is_empty() && plan.refusals[0].problem.contains("did not finish"), "{plan:#?}");
    assert_eq!(planned(&desired, &observed, &restoring()).steps[0].id.as_str(), "cp-1/recover-etcd");
}

#[test]
fn data_is_never_overwritten_by_a_snapshot() {
    let desired = desired(3, 0);
    let mut observed = living(&desired);
    let plan = planned(&desired, &observed, &restoring());
    assert!(plan.refusals[0].problem.starts_with("cp-1, cp-2, cp-3 have data of etcd"), "{plan:#?}");
    // Unless it is the one it began with.
    edit(&mut observed, 2000, |config| {
        let mut mark = Mark::of_description(config.description().unwrap()).unwrap();
        let (incarnation, snapshot) = (mark.incarnation.clone(), Some("abababababababab".to_owned()));
        mark.bootstrap = Some(BootstrapWord { incarnation, done: true, snapshot });
        config.set("description", &mark);
    });
    let plan = planned(&desired, &observed, &restoring());
    assert!(plan.is_empty() && plan.refusals.is_empty(), "{plan:#?}");
}

#[test]
fn what_is_risky_without_a_snapshot_is_not_carried_out() {
    let desired = desired(3, 0);
    let observed = living(&desired);
    let mut plan = planned(&desired, &observed, &healthy());
    let step = |upkeep: Upkeep, effect: Effect, needs: Vec<StepId>| Planned {
        id: StepId::new(None, upkeep.word()),
        needs,
        node: None,
        step: Step::Upkeep(upkeep),
        reason: String::new(),
        effect,
        changes: Vec::new(),
        destroys: Vec::new(),
    };
    let upgrade = Upkeep::UpgradeKubernetes {
        from: "1.36.2".to_owned(),
        to: "1.36.3".to_owned(),
        control_planes: BTreeMap::new(),
        workers: BTreeMap::new(),
    };
    plan.steps = vec![step(upgrade.clone(), Effect::ChangeLive, Vec::new())];
    let broken = |plan: &Plan, request: &Request| -> Vec<Rule> {
        check(plan, &desired, &observed, request).into_iter().map(|violation| violation.rule).collect()
    };
    assert_eq!(broken(&plan, &healthy()), [Rule::SnapshotFirst]);
    let unwanted = UpkeepRequest { no_snapshot: true, ..UpkeepRequest::default() };
    assert_eq!(broken(&plan, &Request { upkeep: unwanted, ..healthy() }), []);
    let snapshot = step(Upkeep::SnapshotEtcd { control_planes: BTreeMap::new() }, Effect::Create, Vec::new());
    let needs = vec![snapshot.id.clone()];
    plan.steps = vec![snapshot, step(upgrade, Effect::ChangeLive, needs)];
    assert_eq!(broken(&plan, &healthy()), []);
}
