//! Plans that must not be carried out.

use super::*;

/// A good plan that bootstraps, and what it stands on.
fn bootstrap() -> (Desired, Observed, Plan) {
    let desired = desired(3, 1);
    let mut observed = running(&desired);
    all(&mut observed, &desired, |desired, node| boxed(configured(desired, node)));
    let plan = planned(&desired, &observed, &healthy());
    (desired, observed, plan)
}

fn rules(plan: &Plan, desired: &Desired, observed: &Observed) -> Vec<Rule> {
    let violations = check(plan, desired, observed, &healthy());
    violations.into_iter().map(|violation| violation.rule).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn a_bootstrap_where_somebody_has_data_or_has_not_answered() {
    let (desired, observed, plan) = bootstrap();
    let unknown = SeenEtcd::Unknown { reason: "it hangs".to_owned() };
    let machines = [
        boxed(member(&desired, "cp-3")),
        boxed(SeenNode { etcd: Some(unknown), ..configured(&desired, "cp-3") }),
        silent(&desired, "cp-3"),
        maintenance(&desired, "cp-3"),
    ];
    for machine in machines {
        let mut observed = observed.clone();
        see(&mut observed, "cp-3", machine.clone());
        assert_eq!(rules(&plan, &desired, &observed), [Rule::BootstrapOnce], "{machine:?}");
    }
    let mut unasked = observed;
    unasked.talos.remove(&name("cp-2"));
    assert_eq!(rules(&plan, &desired, &unasked), [Rule::BootstrapOnce]);
}

#[test]
fn a_bootstrap_without_intent_or_beside_another() {
    let (desired, observed, plan) = bootstrap();
    let edited = |edit: &dyn Fn(&mut Mark, &mut BTreeMap<NodeName, IpAddr>)| {
        let mut plan = plan.clone();
        let Step::Bootstrap { vm, control_planes, .. } = &mut plan.steps[0].step else { panic!("it") };
        edit(&mut vm.mark, control_planes);
        plan
    };
    let without = edited(&|mark, _| mark.bootstrap = None);
    assert_eq!(rules(&without, &desired, &observed), [Rule::BootstrapOnce]);
    let done = edited(&|mark, _| mark.bootstrap.as_mut().unwrap().done = true);
    assert_eq!(rules(&done, &desired, &observed), [Rule::BootstrapOnce]);
    let unasked = edited(&|_, asked| {
        asked.remove(&name("cp-2"));
    });
    assert_eq!(rules(&unasked, &desired, &observed), [Rule::BootstrapOnce]);
    for done in [false, true] {
        let mut observed = observed.clone();
        marked(&mut observed, 2001, done);
        assert_eq!(rules(&plan, &desired, &observed), [Rule::BootstrapOnce]);
    }
    let mut twice = plan.clone();
    let mut second = twice.steps[0].clone();
    second.id = talmox_plan::StepId::new(None, "again");
    twice.steps.push(second);
    assert_eq!(rules(&twice, &desired, &observed), [Rule::BootstrapOnce]);
}

#[test]
fn a_bootstrap_of_any_other_node() {
    let (desired, observed, plan) = bootstrap();
    for (node, vmid) in [("cp-2", 2001), ("w-1", 2003)] {
        let mut plan = plan.clone();
        let Step::Bootstrap { vm, address, .. } = &mut plan.steps[0].step else { panic!("it") };
        let mut mark = mark(node, vmid);
        mark.bootstrap =
            Some(BootstrapWord { incarnation: mark.incarnation.clone(), done: false, snapshot: None });
        vm.mark = mark;
        vm.host = observed.guests[&id(vmid)].host.clone();
        *address = super::address(&desired, node);
        plan.steps[0].node = Some(name(node));
        assert_eq!(rules(&plan, &desired, &observed), [Rule::BootstrapOnce], "{node}");
    }
}

#[test]
fn a_configuration_for_a_machine_that_did_not_prove_itself() {
    let desired = desired(1, 1);
    let mut observed = running(&desired);
    all(&mut observed, &desired, maintenance);
    let plan = planned(&desired, &observed, &healthy());
    let mut other = maintenance(&desired, "w-1");
    let SeenMachine::Maintenance { uuid, .. } = &mut other else { panic!("in maintenance") };
    *uuid = super::uuid(2000);
    let foreign = SeenMachine::Foreign { address: address(&desired, "w-1"), why: "another's".to_owned() };
    for machine in [other, foreign, boxed(member(&desired, "w-1")), maintenance(&desired, "cp-1")] {
        let mut observed = observed.clone();
        see(&mut observed, "w-1", machine.clone());
        assert_eq!(rules(&plan, &desired, &observed), [Rule::ProvenMachine], "{machine:?}");
    }
    let mut stopped = observed.clone();
    stopped.guests.get_mut(&id(2001)).unwrap().power = Power::Stopped;
    assert_eq!(rules(&plan, &desired, &stopped), [Rule::ProvenMachine]);
    // A VM that is not ours.
    let mut lost = observed;
    edit(&mut lost, 2001, |config| {
        config.remove("description");
    });
    assert_eq!(rules(&plan, &desired, &lost), [Rule::OursOnly]);
}

#[test]
fn anything_inside_that_nobody_asked_for() {
    let (desired, observed, plan) = bootstrap();
    let violations = check(&plan, &desired, &observed, &until(Until::Vms));
    assert!(!violations.is_empty() && violations.iter().all(|one| one.rule == Rule::AskedFor));
}
