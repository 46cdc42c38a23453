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

/// Two of three control planes are gone, and the one that is left has no leader.
fn without_majority(desired: &Desired) -> Observed {
    let mut observed = living(desired);
    let mut alone = member(desired, "cp-1");
    alone.etcd =
        Some(SeenEtcd::Member { healthy: false, members: None, learners: 0, leaderless: true, leads: false });
    see(&mut observed, "cp-1", boxed(alone));
    for (node, vmid) in [("cp-2", 2001), ("cp-3", 2002)] {
        observed.talos.remove(&name(node));
        observed.guests.remove(&id(vmid));
    }
    observed.kubernetes = SeenKubernetes::Unreachable { reason: "refused".to_owned() };
    observed.depth = talmox_plan::Depth::Everything;
    observed
}

fn given_up() -> Request {
    let restore = Some(Snapshot { path: "left".to_owned(), digest: "ab".repeat(32) });
    Request { upkeep: UpkeepRequest { restore, quorum_lost: true, ..UpkeepRequest::default() }, ..healthy() }
}

#[test]
fn data_is_given_up_only_where_no_member_has_a_leader() {
    let desired = desired(3, 0);
    let observed = without_majority(&desired);
    let plan = planned(&desired, &observed, &given_up());
    assert!(plan.refusals.is_empty(), "{plan:#?}");
    assert!(steps(&plan).contains(&"cp-1/remove replace after cp-1/stop".to_owned()), "{:?}", steps(&plan));
    assert!(later(&plan).contains(&"cp-1/recover-etcd".to_owned()));
    let broken = |observed: &Observed, request: &Request| -> BTreeSet<Rule> {
        check(&plan, &desired, observed, request).into_iter().map(|violation| violation.rule).collect()
    };
    assert!(broken(&observed, &given_up()).is_empty());
    // Another member turns out to have one.
    let mut led = observed.clone();
    see(&mut led, "cp-2", boxed(member(&desired, "cp-2")));
    assert!(broken(&led, &given_up()).contains(&Rule::OneAtATime));
    // Nobody gave their word, or nothing takes the place of the data.
    assert!(broken(&observed, &healthy()).contains(&Rule::AskedFor));
    let mut nothing = given_up();
    nothing.upkeep.restore = None;
    assert!(broken(&observed, &nothing).contains(&Rule::SnapshotFirst));
}

/// It answers in maintenance mode as a machine without data does; its mark knows that it was configured, and another machine may be in
/// its place.
#[test]
fn a_member_that_was_configured_before_may_have_data_whatever_answers_in_its_place() {
    let desired = desired(3, 0);
    let mut observed = living(&desired);
    observed.guests.extend(without_majority(&desired).guests);
    observed.talos = without_majority(&desired).talos;
    observed.depth = talmox_plan::Depth::Everything;
    see(&mut observed, "cp-2", maintenance(&desired, "cp-2"));
    see(&mut observed, "cp-3", maintenance(&desired, "cp-3"));
    let gone = planned(&desired, &observed, &given_up());
    assert!(steps(&gone).contains(&"cp-1/remove replace after cp-1/stop".to_owned()), "{gone:#?}");

    remembered(&mut observed, "cp-2", true);
    let plan = planned(&desired, &observed, &given_up());
    assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
    let waits = plan.waiting.iter().any(|waiting| {
        matches!(waiting, talmox_plan::Waiting::Answer { node, reason, .. }
            if node.as_str() == "cp-2" && reason.contains("--replace cp-2 as well"))
    });
    assert!(waits, "{plan:#?}");
    // A person says that it is gone, or that it is this very machine.
    for asked in [
        Request { replace: [name("cp-2")].into(), ..given_up() },
        Request { reconfigure: [(name("cp-2"), Some(FINGERPRINT.to_owned()))].into(), ..given_up() },
    ] {
        let plan = planned(&desired, &observed, &asked);
        assert!(steps(&plan).contains(&"cp-1/remove replace after cp-1/stop".to_owned()), "{plan:#?}");
    }
}

#[test]
fn what_is_not_in_the_description_may_have_data_too() {
    let three = desired(3, 0);
    let mut observed = without_majority(&three);
    let other = finished(&desired(4, 0), "cp-4", 2007, "pve2");
    observed.guests.insert(other.vmid, other);
    let plan = planned(&three, &observed, &given_up());
    assert_eq!(
        problems(&plan),
        ["--quorum-lost: VM 2007 (cp-4) on pve2 is not in the description, and may have data of etcd"]
    );
}

/// Three control planes live, and the description names others, with the same secrets: a file that was copied, or edited too much.
#[test]
fn a_snapshot_makes_no_second_cluster_beside_a_living_one() {
    let mut living = living(&desired(3, 0));
    living.depth = talmox_plan::Depth::Everything;
    let mut others = desired(3, 0);
    for (node, number) in others.nodes.iter_mut().zip(4_u8..) {
        node.name = name(&format!("cp-{number}"));
        node.vm.id = None;
        node.address = NodeAddress::Declared(talmox_types::FamilyPair::one([10, 0, 7, 40 + number].into()));
    }
    let plan = planned(&others, &living, &restoring());
    let refused =
        plan.refusals.iter().find(|refusal| refusal.problem.contains("alive beside what is restored"));
    assert!(refused.is_some_and(|refusal| refusal.problem.starts_with("VM 2000 (cp-1)")), "{plan:#?}");
    assert!(!later(&plan).contains(&"cp-4/recover-etcd".to_owned()), "{plan:#?}");
    // What was asked to go goes first.
    let mut observed = running(&desired(3, 1));
    let fewer = desired(3, 0);
    all(&mut observed, &fewer, |desired, node| boxed(configured(desired, node)));
    let plan = planned(&fewer, &observed, &Request { prune: true, ..restoring() });
    let recover = plan.steps.iter().find(|step| step.id.as_str() == "cp-1/recover-etcd").unwrap();
    assert_eq!(recover.needs, [StepId::new(Some(&name("w-1")), "remove")], "{plan:#?}");
}
