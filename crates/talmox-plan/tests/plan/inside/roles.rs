//! Machines that are described with another role.

use super::*;

fn reboots() -> Request {
    Request { allow_reboot: true, ..healthy() }
}

/// Three control planes live, and two of them are described as workers now.
fn demoted() -> (Desired, Desired, Observed) {
    let before = desired(3, 1);
    let observed = living(&before);
    let mut now = before.clone();
    for node in now.nodes.iter_mut().filter(|node| ["cp-2", "cp-3"].contains(&node.name.as_str())) {
        node.role = Role::Worker;
    }
    (before, now, observed)
}

#[test]
fn a_vote_is_not_taken_for_a_worker() {
    let (_, now, mut observed) = demoted();
    for vmid in [2001, 2002] {
        edit(&mut observed, vmid, |config| drop(config.set("memory", "1024")));
    }
    let replace = Request { replace: [name("cp-2")].into(), ..reboots() };
    for request in [reboots(), replace] {
        let plan = planned(&now, &observed, &request);
        let touched = |step: &&Planned| step.node == Some(name("cp-2")) || step.node == Some(name("cp-3"));
        assert_eq!(plan.steps.iter().filter(touched).count(), 0, "{:?}", steps(&plan));
        let problems: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.problem.as_str()).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("its vote in etcd would be lost"), "{problems:?}");
        assert!(plan.refusals[0].choices[1].contains("talmox apply --remove cp-2"), "{:?}", plan.refusals);
    }
}

#[test]
fn what_the_machine_is_configured_as_tells_where_nobody_lists_the_members() {
    let (_, now, mut observed) = demoted();
    see(&mut observed, "cp-1", silent(&now, "cp-1"));
    for node in ["cp-2", "cp-3"] {
        let mut seen = configured(&now, node);
        seen.config = Some(vec![another_role("controlplane", "worker")]);
        see(&mut observed, node, boxed(seen));
    }
    let plan = planned(&now, &observed, &reboots());
    assert_eq!(plan.refusals.len(), 2, "{plan:#?}");
}

fn another_role(old: &str, new: &str) -> Change {
    Change {
        key: "machine.type".to_owned(),
        old: Some(old.to_owned()),
        new: Some(new.to_owned()),
        applies: Applies::AfterReboot,
        field: None,
        sub: Vec::new(),
    }
}

#[test]
fn a_worker_becomes_a_control_plane_only_by_being_built_anew() {
    let before = desired(1, 3);
    let mut observed = living(&before);
    let mut now = before.clone();
    let promoted = ["w-1", "w-2"];
    for node in now.nodes.iter_mut().filter(|node| promoted.contains(&node.name.as_str())) {
        node.role = Role::Controller;
    }
    for node in promoted {
        let mut seen = configured(&before, node);
        seen.config = Some(vec![another_role("worker", "controlplane")]);
        see(&mut observed, node, boxed(seen));
    }
    let plan = planned(&now, &observed, &reboots());
    let touched = |plan: &Plan, node: &str| plan.steps.iter().any(|step| step.node == Some(name(node)));
    assert!(promoted.iter().all(|node| !touched(&plan, node)), "{:?}", steps(&plan));
    assert_eq!(plan.refusals.len(), 2, "{plan:#?}");
    assert!(plan.refusals[0].problem.contains("keeps the role it began with"), "{:?}", plan.refusals);
    assert!(plan.refusals[0].choices[0].contains("talmox apply --replace w-1"), "{:?}", plan.refusals);
    let mut replace = Request { replace: promoted.map(name).into(), ..reboots() };
    replace.upkeep.no_snapshot = true;
    let plan = planned(&now, &observed, &replace);
    assert!(plan.refusals.is_empty(), "{plan:#?}");
    assert!(touched(&plan, "w-1"), "{:?}", steps(&plan));
}

#[test]
fn a_plan_that_takes_it_for_one_is_not_carried_out() {
    let (before, now, mut observed) = demoted();
    edit(&mut observed, 2001, |config| drop(config.set("memory", "1024")));
    let plan = planned(&before, &observed, &reboots());
    assert!(check(&plan, &before, &observed, &reboots()).is_empty());
    let violations = check(&plan, &now, &observed, &reboots());
    let caught = violations.iter().any(|one| {
        one.rule == Rule::OneAtATime && one.problem.contains("described as a worker and has a vote in etcd")
    });
    assert!(caught, "{violations:#?}");
}
