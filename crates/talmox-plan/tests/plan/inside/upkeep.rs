//! What is done to nodes that live.

use talmox_plan::ChangeMode;

use super::*;

fn change(key: &str, applies: Applies) -> Change {
    Change {
        key: key.to_owned(),
        old: Some("a".to_owned()),
        new: Some("b".to_owned()),
        applies,
        field: None,
        sub: Vec::new(),
    }
}

/// Every node's configuration differs in these.
fn differing(desired: &Desired, changes: &[Change]) -> Observed {
    let mut observed = living(desired);
    for node in &desired.nodes {
        let mut seen = member(desired, node.name.as_str());
        seen.config = Some(changes.to_vec());
        see(&mut observed, node.name.as_str(), boxed(seen));
    }
    observed
}

fn reboots() -> Request {
    Request { allow_reboot: true, ..healthy() }
}

/// What is done to a node, and the effect of each.
fn about(plan: &Plan, node: &str) -> Vec<String> {
    let own = plan.steps.iter().filter(|planned| planned.node == Some(name(node)));
    own.map(|planned| {
        format!("{} {}", planned.id, serde_json::to_value(planned.effect).unwrap().as_str().unwrap())
    })
    .collect()
}

fn sound(plan: &Plan, desired: &Desired, observed: &Observed, request: &Request) {
    let violations = check(plan, desired, observed, request);
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn pods_leave_before_a_restart_and_come_back_after() {
    let desired = desired(1, 2);
    let mut observed = living(&desired);
    edit(&mut observed, 2001, |config| drop(config.set("memory", "1024")));
    let plan = planned(&desired, &observed, &reboots());
    assert_eq!(
        about(&plan, "w-1"),
        ["w-1/configure change_pending", "w-1/drain drain", "w-1/reboot reboot", "w-1/return change_live"]
    );
    sound(&plan, &desired, &observed, &reboots());
    // A plan that forgets them is not carried out.
    let mut forgets = plan.clone();
    forgets.steps.retain(|planned| planned.step.word() != "drain");
    for planned in &mut forgets.steps {
        planned.needs.retain(|need| !need.as_str().ends_with("/drain"));
    }
    let violations = check(&forgets, &desired, &observed, &reboots());
    assert!(violations.iter().any(|violation| violation.rule == Rule::PodsFirst), "{violations:#?}");
    let mut closed = plan.clone();
    closed.steps.retain(|planned| planned.step.word() != "return");
    let violations = check(&closed, &desired, &observed, &reboots());
    assert!(violations.iter().any(|violation| violation.rule == Rule::PodsFirst), "{violations:#?}");
    // Where nobody could take them, they stay.
    let alone = crate::support::desired(1, 0);
    let mut observed = living(&alone);
    edit(&mut observed, 2000, |config| drop(config.set("memory", "1024")));
    let plan = planned(&alone, &observed, &reboots());
    assert!(plan.steps.iter().all(|planned| planned.step.word() != "drain"), "{:?}", steps(&plan));
    sound(&plan, &alone, &observed, &reboots());
}

#[test]
fn what_an_earlier_run_closed_is_opened_again() {
    let desired = desired(1, 1);
    let mut observed = living(&desired);
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it lives") };
    let node = cluster.nodes.get_mut("w-1").unwrap();
    (node.schedulable, node.cordoned_for) = (false, Some("memory waits for a restart".to_owned()));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(about(&plan, "w-1"), ["w-1/return change_live"]);
    sound(&plan, &desired, &observed, &healthy());
}

#[test]
fn configurations_change_in_the_mildest_way() {
    let desired = desired(3, 1);
    let changed = |changes: &[Change], request: &Request| {
        let observed = differing(&desired, changes);
        let plan = planned(&desired, &observed, request);
        sound(&plan, &desired, &observed, request);
        plan
    };
    let of_first = |plan: &Plan| about(plan, "cp-1");
    let plan = changed(&[change("machine.sysctls.a", Applies::Now)], &healthy());
    assert_eq!(of_first(&plan), ["cp-1/change-node change_live"]);
    let second = plan.steps.iter().find(|planned| planned.id.as_str() == "cp-2/change-node").unwrap();
    assert_eq!(
        second.needs.iter().map(talmox_plan::StepId::as_str).collect::<Vec<_>>(),
        ["cp-1/change-node"]
    );
    let restart = [change("machine.env.A", Applies::AfterReboot), change("machine.sysctls.a", Applies::Now)];
    assert_eq!(
        of_first(&changed(&restart, &reboots())),
        ["cp-1/drain drain", "cp-1/change-node reboot", "cp-1/return change_live"]
    );
    let waits = changed(&restart, &healthy());
    assert!(waits.steps.iter().all(|planned| planned.node.is_none()), "{:?}", steps(&waits));
    assert_eq!(waits.waiting.len(), 4);
    let mut staged = healthy();
    staged.upkeep.stage = true;
    assert_eq!(of_first(&changed(&restart, &staged)), ["cp-1/change-node change_pending"]);
    assert!(changed(&[change("machine.env.A", Applies::Written)], &staged).steps.is_empty());
    // Versions are others' to change, and come first.
    let images = [change("cluster.apiServer.image", Applies::Now), change("machine.sysctls.a", Applies::Now)];
    assert_eq!(later(&changed(&images, &healthy()))[0], "cp-1/change-node");
}

#[test]
fn what_installers_go_by_is_said_to_wait_for_the_next_of_them() {
    let desired = desired(1, 0);
    let reason = |changes: &[Change]| {
        let plan = planned(&desired, &differing(&desired, changes), &healthy());
        plan.steps.iter().find(|step| step.id.as_str() == "cp-1/change-node").unwrap().reason.clone()
    };
    let install = change("machine.install.wipe", Applies::Now);
    assert_eq!(reason(std::slice::from_ref(&install)), "Talos keeps this, and the next upgrade goes by it");
    let both = [install, change("machine.sysctls.a", Applies::Now)];
    assert_eq!(
        reason(&both),
        "Talos takes this over while it runs; the next upgrade goes by machine.install.wipe"
    );
}

#[test]
fn what_needs_a_restart_is_told_beside_an_upgrade_of_talos_too() {
    let desired = desired(1, 1);
    let changes = [
        change("machine.env.A", Applies::AfterReboot),
        // A dry run says of a configuration as a whole that it needs a restart.
        change("machine.install.image", Applies::AfterReboot),
    ];
    let mut observed = differing(&desired, &changes);
    for machine in observed.talos.values_mut() {
        let SeenMachine::Configured(seen) = machine else { panic!("it lives") };
        "v1.13.6".clone_into(&mut seen.version);
    }
    let mut request = healthy();
    request.upkeep.no_snapshot = true;
    let plan = planned(&desired, &observed, &request);
    let keys = plan.waiting.iter().filter_map(|waiting| match waiting {
        Waiting::Reboot { node, keys, .. } => Some(format!("{node}: {}", keys.join(", "))),
        _ => None,
    });
    assert_eq!(keys.collect::<Vec<_>>(), ["cp-1: machine.env.A", "w-1: machine.env.A"]);
    let intents = |changes: &[Change]| {
        let mut observed = observed.clone();
        for machine in observed.talos.values_mut() {
            let SeenMachine::Configured(seen) = machine else { panic!("it lives") };
            seen.config = Some(changes.to_vec());
        }
        later(&planned(&desired, &observed, &request))
    };
    // The installer comes with the new Talos, and nobody restarts for it.
    assert!(intents(&changes[1..]).contains(&"cp-1/change-node".to_owned()), "{:?}", intents(&changes[1..]));
}

#[test]
fn what_talos_has_against_a_configuration_is_said() {
    let desired = desired(1, 0);
    let mut observed = differing(&desired, &[change("machine.sysctls.a", Applies::Now)]);
    for machine in observed.talos.values_mut() {
        let SeenMachine::Configured(seen) = machine else { panic!("it lives") };
        seen.refuses = Some("unknown keys found".to_owned());
    }
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(about(&plan, "cp-1"), ["cp-1/change-node change_live"]);
    let said = plan.notes.iter().find(|note| note.kind == talmox_plan::NoteKind::Warning);
    let said = said.map(|note| note.text.as_str());
    assert_eq!(said, Some("Talos does not take the described configuration: unknown keys found"));
}

#[test]
fn what_could_cut_a_machine_off_is_tried_whatever_comes_with_it() {
    let desired = desired(3, 1);
    let changed = |changes: &[Change], request: &Request| {
        let observed = differing(&desired, changes);
        let plan = planned(&desired, &observed, request);
        sound(&plan, &desired, &observed, request);
        plan
    };
    let modes = |plan: &Plan| -> Vec<ChangeMode> {
        let own = plan.steps.iter().filter(|planned| planned.node == Some(name("cp-1")));
        let mode = |planned: &Planned| {
            if let Step::Upkeep(Upkeep::ChangeNode { mode, .. }) = &planned.step { Some(*mode) } else { None }
        };
        own.filter_map(mode).collect()
    };
    for key in [
        "machine.network.interfaces[0].mtu",
        "BlackholeRouteConfig 10.9.0.0/16",
        "RoutingRuleConfig 1000 src",
        "VRFConfig blue links",
        "VethConfig veth0 peer",
        "BGPInstanceConfig core peers",
        "HCloudVIPConfig 10.0.7.9 link",
        "KubeSpanEndpointsConfig extraAnnouncedEndpoints",
    ] {
        assert_eq!(modes(&changed(&[change(key, Applies::Now)], &healthy())), [ChangeMode::Try], "{key}");
    }
    for key in ["TimeSyncConfig ntp.servers", "TCPProbeConfig dns endpoint"] {
        assert_eq!(
            modes(&changed(&[change(key, Applies::Now)], &healthy())),
            [ChangeMode::NoReboot],
            "{key}"
        );
    }
    // Beside what needs a restart it is tried before: what is written down goes back by nobody.
    let both = [change("machine.env.A", Applies::AfterReboot), change("LinkConfig eth0 mtu", Applies::Now)];
    let plan = changed(&both, &reboots());
    assert_eq!(
        about(&plan, "cp-1"),
        [
            "cp-1/change-node-trial change_live",
            "cp-1/drain drain",
            "cp-1/change-node reboot",
            "cp-1/return change_live"
        ]
    );
    assert_eq!(modes(&plan), [ChangeMode::TryFirst, ChangeMode::Reboot]);
    let of = |id: &str| plan.steps.iter().find(|planned| planned.id.as_str() == id).unwrap();
    let keys = |id: &str| of(id).changes.iter().map(|change| change.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys("cp-1/change-node-trial"), ["LinkConfig eth0 mtu"]);
    assert_eq!(keys("cp-1/change-node"), ["machine.env.A"]);
    let needs = |id: &str| of(id).needs.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(needs("cp-1/drain"), ["cp-1/change-node-trial"]);
    assert_eq!(needs("cp-2/change-node-trial"), ["cp-1/return"]);
    assert_eq!(
        of("cp-1/change-node-trial").reason,
        "LinkConfig eth0 mtu could cut it off, so it is tried before machine.env.A is written down"
    );
    let mut staged = healthy();
    staged.upkeep.stage = true;
    assert_eq!(modes(&changed(&both, &staged)), [ChangeMode::TryFirst, ChangeMode::Staged]);
    // Until a restart is allowed, all of it waits.
    let waits = changed(&both, &healthy());
    assert!(modes(&waits).is_empty() && waits.waiting.len() == 4, "{waits:#?}");
    // Where Talos says of the whole alone that it needs a restart, nothing can be tried.
    let untold = both.map(|change| Change { applies: Applies::AfterReboot, ..change });
    let observed = differing(&desired, &untold);
    let plan = planned(&desired, &observed, &reboots());
    assert!(modes(&plan).is_empty(), "{:?}", steps(&plan));
    let refusal = plan.refusals.iter().find(|refusal| refusal.node == Some(name("cp-1"))).unwrap();
    assert!(refusal.problem.contains("LinkConfig eth0 mtu") && refusal.choices.len() == 2, "{refusal:?}");
}

#[test]
fn authorities_somebody_else_replaced_are_never_put_back() {
    let desired = desired(3, 1);
    let changes = [change("cluster.ca.crt", Applies::Now), change("machine.sysctls.a", Applies::Now)];
    let plan = planned(&desired, &differing(&desired, &changes), &healthy());
    assert!(plan.steps.iter().all(|planned| planned.node.is_none()), "{:?}", steps(&plan));
    let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
    assert!(refusal.problem.starts_with("cp-1, cp-2, cp-3, w-1: the authority"), "{}", refusal.problem);
    assert!(refusal.choices[0].contains("talmox secrets generate --from"), "{:?}", refusal.choices);
    // Of those that only begin alike nobody is afraid.
    let alike = [change("machine.cable", Applies::Now)];
    let plan = planned(&desired, &differing(&desired, &alike), &healthy());
    assert!(plan.refusals.is_empty());
    assert_eq!(about(&plan, "cp-1"), ["cp-1/change-node change_live"]);
}

#[test]
fn a_control_plane_that_left_etcd_is_named_with_the_way_back() {
    let desired = desired(3, 1);
    let mut observed = living(&desired);
    let knows = |node: &str, members: &[&str]| {
        let mut seen = member(&desired, node);
        let Some(SeenEtcd::Member { members: known, .. }) = &mut seen.etcd else {
            panic!("{node} is a member")
        };
        *known = Some(members.iter().map(|&member| member.to_owned()).collect());
        seen
    };
    for node in ["cp-1", "cp-2"] {
        see(&mut observed, node, boxed(knows(node, &["cp-1", "cp-2"])));
    }
    let mut left = knows("cp-3", &["cp-1", "cp-2"]);
    left.ready = false;
    left.unmet = vec!["services: etcd not running".to_owned()];
    left.etcd = Some(SeenEtcd::Unknown { reason: "no answer".to_owned() });
    see(&mut observed, "cp-3", boxed(left.clone()));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(problems(&plan), ["it left etcd, and does not come back by itself"]);
    assert_eq!(plan.refusals[0].choices, ["talmox apply --replace cp-3 builds it anew"]);
    assert!(about(&plan, "cp-3").is_empty(), "it is not waited for: {:?}", steps(&plan));
    let anew = planned(&desired, &observed, &Request { replace: [name("cp-3")].into(), ..healthy() });
    assert!(!problems(&anew).iter().any(|problem| problem.contains("left etcd")), "{:?}", anew.refusals);
    // One that is booting may be about to join.
    left.stage = talmox_plan::SeenStage::Booting;
    see(&mut observed, "cp-3", boxed(left));
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    let told = plan.steps.iter().any(|planned| planned.reason.contains("cp-3 is not well"));
    assert!(told, "{:#?}", plan.steps);
}
