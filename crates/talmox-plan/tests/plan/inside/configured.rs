//! A node is given its configuration in maintenance mode once.

use talmox_types::desired::ConfigDelivery;

use super::*;

const AGAIN: &str = "was configured before";

fn reconfigure(node: &str, fingerprint: Option<&str>) -> Request {
    let reconfigure = [(name(node), fingerprint.map(str::to_owned))].into();
    Request { reconfigure, ..healthy() }
}

/// A cluster that lives, in which whoever has the address of a node is in maintenance mode and tells the VM's uuid.
fn impersonated(desired: &Desired, node: &str) -> Observed {
    let mut observed = living(desired);
    see(&mut observed, node, maintenance(desired, node));
    remembered(&mut observed, node, true);
    observed
}

fn refusal(plan: &Plan) -> &talmox_plan::Refusal {
    assert_eq!(plan.refusals.len(), 1, "{plan:#?}");
    &plan.refusals[0]
}

#[test]
fn a_configured_node_in_maintenance_mode_is_refused_and_both_ways_are_named() {
    let desired = desired(3, 1);
    for node in ["cp-2", "w-1"] {
        let plan = planned(&desired, &impersonated(&desired, node), &healthy());
        let refusal = refusal(&plan);
        assert_eq!(refusal.node, Some(name(node)));
        assert!(refusal.problem.contains(AGAIN) && refusal.problem.contains("the mark of VM"), "{refusal:?}");
        assert!(refusal.problem.contains(FINGERPRINT), "{refusal:?}");
        let ways = refusal.choices.join("\n");
        assert!(ways.contains(&format!("--reconfigure {node}={FINGERPRINT}")), "{ways}");
        assert!(ways.contains(&format!("--replace {node}")), "{ways}");
        assert!(steps(&plan).iter().all(|step| !step.starts_with(&format!("{node}/configure"))), "{plan:#?}");
    }
}

#[test]
fn a_node_that_is_replaced_needs_no_other_word() {
    let desired = desired(3, 1);
    let request = Request { replace: [name("w-1")].into(), ..healthy() };
    let plan = planned(&desired, &impersonated(&desired, "w-1"), &request);
    assert!(plan.refusals.is_empty(), "{plan:#?}");
    let Some(Step::ConfigureNode { vm, reconfigure, .. }) =
        plan.steps.iter().map(|step| &step.step).find(|step| matches!(step, Step::ConfigureNode { .. }))
    else {
        panic!("{plan:#?}")
    };
    assert!(!vm.mark.configured && reconfigure.is_none(), "its VM is another one");
}

#[test]
fn a_node_of_kubernetes_proves_it_where_the_mark_does_not() {
    let desired = desired(3, 1);
    let mut observed = impersonated(&desired, "w-1");
    remembered(&mut observed, "w-1", false);
    // Nothing proves it: it is taken for one that was never configured.
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.refusals.is_empty() && steps(&plan)[0] == "w-1/configure-node create", "{plan:#?}");
    let knows = |uuid: &str| {
        let mut observed = observed.clone();
        let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it answers") };
        cluster.nodes.get_mut("w-1").unwrap().uuid = Some(uuid.to_owned());
        observed
    };
    // In either case and byte order.
    for known in ["9A7C6BCF-9F0E-4BF0-B3F1-000000002003", "cf6b7c9a-0e9f-f04b-b3f1-000000002003"] {
        let plan = planned(&desired, &knows(known), &healthy());
        let refusal = refusal(&plan);
        assert!(refusal.problem.contains(AGAIN) && refusal.problem.contains("Kubernetes"), "{refusal:?}");
    }
    // The Node of the VM that was there before is another machine's.
    let plan = planned(&desired, &knows(&uuid(2002)), &healthy());
    assert!(plan.refusals.is_empty(), "{plan:#?}");
    // A silent one is remembered by it.
    let mut silenced = knows(&uuid(2003));
    see(&mut silenced, "w-1", silent(&desired, "w-1"));
    let plan = planned(&desired, &silenced, &healthy());
    assert_eq!(steps(&plan), ["w-1/record-configured change_live"]);
}

#[test]
fn who_approves_says_which_machine_is_meant() {
    let desired = desired(3, 1);
    let observed = impersonated(&desired, "w-1");
    for asked in [None, Some(FINGERPRINT)] {
        let plan = planned(&desired, &observed, &reconfigure("w-1", asked));
        assert!(plan.refusals.is_empty(), "{plan:#?}");
        let Step::ConfigureNode { reconfigure: Some(approved), .. } = &plan.steps[0].step else {
            panic!("{plan:#?}")
        };
        assert_eq!(approved.fingerprint.as_deref(), Some(FINGERPRINT));
    }
    let plan = planned(&desired, &observed, &reconfigure("w-1", Some("of-another=")));
    assert!(refusal(&plan).problem.contains("of-another= was approved"), "{plan:#?}");
    // Another node's approval is none.
    let plan = planned(&desired, &observed, &reconfigure("cp-1", None));
    assert!(refusal(&plan).problem.contains(AGAIN), "{plan:#?}");
    assert!(plan.notes.iter().any(|note| note.text.contains("--reconfigure is not needed")), "{plan:#?}");
}

#[test]
fn a_plan_that_configures_again_unasked_is_not_carried_out() {
    let desired = desired(3, 1);
    let observed = impersonated(&desired, "w-1");
    let asked = reconfigure("w-1", None);
    let plan = planned(&desired, &observed, &asked);
    let rules = |plan: &Plan, observed: &Observed, request: &Request| -> Vec<Rule> {
        check(plan, &desired, observed, request).into_iter().map(|violation| violation.rule).collect()
    };
    let edited = |edit: &dyn Fn(&mut Option<talmox_plan::Reconfigure>)| {
        let mut plan = plan.clone();
        let Step::ConfigureNode { reconfigure, .. } = &mut plan.steps[0].step else { panic!("it") };
        edit(reconfigure);
        plan
    };
    assert_eq!(rules(&plan, &observed, &healthy()), [Rule::AskedFor]);
    let unasked = edited(&|reconfigure| *reconfigure = None);
    assert_eq!(rules(&unasked, &observed, &asked), [Rule::ConfiguredOnce]);
    let other = edited(&|reconfigure| reconfigure.as_mut().unwrap().fingerprint = Some("other=".to_owned()));
    assert_eq!(rules(&other, &observed, &asked), [Rule::ConfiguredOnce]);
    assert_eq!(rules(&plan, &observed, &reconfigure("w-1", Some("other="))), [Rule::ConfiguredOnce]);
    // Kubernetes alone proves it as well.
    let mut forgotten = observed.clone();
    remembered(&mut forgotten, "w-1", false);
    assert_eq!(rules(&unasked, &forgotten, &asked), []);
    let SeenKubernetes::Answers(cluster) = &mut forgotten.kubernetes else { panic!("it answers") };
    cluster.nodes.get_mut("w-1").unwrap().uuid = Some(uuid(2003));
    assert_eq!(rules(&unasked, &forgotten, &asked), [Rule::ConfiguredOnce]);
}

/// A machine that installs itself answers, and has what it was sent in memory alone: after a power cut it gets it again.
#[test]
fn a_machine_that_installs_itself_is_not_noted_yet() {
    let desired = desired(3, 1);
    let noted_at = |stage| {
        let mut observed = living(&desired);
        let machine = SeenNode { stage, ..member(&desired, "cp-2") };
        see(&mut observed, "cp-2", SeenMachine::Configured(Box::new(machine)));
        remembered(&mut observed, "cp-2", false);
        let plan = planned(&desired, &observed, &healthy());
        steps(&plan).iter().any(|step| step.starts_with("cp-2/record-configured"))
    };
    assert!(noted_at(SeenStage::Booting) && noted_at(SeenStage::Running));
    assert!(!noted_at(SeenStage::Installing) && !noted_at(SeenStage::Unknown));
    let mut cut = living(&desired);
    see(&mut cut, "cp-2", maintenance(&desired, "cp-2"));
    let plan = planned(&desired, &cut, &healthy());
    assert!(plan.refusals.is_empty() && steps(&plan)[0] == "cp-2/configure-node create", "{plan:#?}");
}

#[test]
fn marks_of_before_are_given_the_word_once() {
    let desired = desired(3, 1);
    let mut observed = living(&desired);
    assert!(planned(&desired, &observed, &healthy()).is_empty());
    for node in &desired.nodes {
        remembered(&mut observed, node.name.as_str(), false);
    }
    let plan = planned(&desired, &observed, &healthy());
    let words: Vec<String> =
        desired.nodes.iter().map(|node| format!("{}/record-configured change_live", node.name)).collect();
    assert_eq!(steps(&plan), words);
    // Only of what is covered, and not where nobody asks machines for their configuration.
    let one = Request { targets: [name("cp-2")].into(), ..healthy() };
    assert_eq!(steps(&planned(&desired, &observed, &one)), ["cp-2/record-configured change_live"]);
    assert!(planned(&desired, &observed, &until(Until::Reachable)).steps.is_empty());
    // Nobody saw it, so nobody writes it.
    let unseen = plan;
    see(&mut observed, "w-1", maintenance(&desired, "w-1"));
    let violations = check(&unseen, &desired, &observed, &healthy());
    assert!(violations.iter().any(|violation| violation.rule == Rule::ProvenMachine), "{violations:#?}");
}

#[test]
fn nothing_is_sent_where_the_configuration_comes_by_drive() {
    let mut desired = desired(1, 1);
    desired.talos.config_delivery = ConfigDelivery::Cidata;
    for node in &mut desired.nodes {
        node.vm.cloud_init = false;
    }
    let mut observed = running(&desired);
    all(&mut observed, &desired, maintenance);
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.steps.is_empty(), "{plan:#?}");
    let refusal = &plan.refusals[0];
    assert!(refusal.problem.contains("nothing is sent over the network"), "{refusal:?}");
    assert!(refusal.choices[0].contains("stop VM 2000"), "{refusal:?}");
}
