//! Every screen, as a person sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use insta::assert_snapshot;
use talmox_machine::Time;
use talmox_plan::{
    Applies, ChangeMode, DriveView, Effect, NodeState, NodeView, Plan, Planned, Power, SeenCluster, SeenEtcd,
    SeenKubernetes, SeenKubernetesNode, SeenMachine, SeenNode, SeenStage, Step, Upkeep, View,
};
use talmox_types::desired::Role;
use talmox_types::{FamilyPair, NodeName};

use super::testbed::{self, homelab, name};
use super::*;

/// Without colour, as in a file.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Escape sequences made visible, so that a snapshot can be read.
fn coloured(text: &str) -> String {
    text.replace('\u{1b}', "␛")
}

fn shown(plan: &Plan, verbosity: Verbosity) -> String {
    let (outcome, desired) = homelab();
    let places = Places::of(plan, &outcome.description);
    plan_text(&Story::new(plan, &desired), &places, verbosity)
}

fn markdown(plan: &Plan) -> String {
    let (outcome, desired) = homelab();
    plan_markdown(&Story::new(plan, &desired), &Places::of(plan, &outcome.description))
}

fn data(plan: &Plan) -> serde_json::Value {
    let (outcome, desired) = homelab();
    let (story, places) = (Story::new(plan, &desired), Places::of(plan, &outcome.description));
    serde_json::to_value(PlanData::new(&story, &places)).unwrap()
}

#[test]
fn plan_from_nothing() {
    let text = shown(&testbed::from_nothing(), Verbosity::Normal);
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
}

#[test]
fn plan_of_changes() {
    let text = shown(&testbed::changes(), Verbosity::Normal);
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
}

/// How a machine that lives takes another configuration, and why, is told once for each.
#[test]
fn plan_of_configurations() {
    let change_node = |node: &str, vmid, mode, effect, reason: &str, changes| {
        let address = FamilyPair::one("10.0.7.11".parse().unwrap());
        let vm = testbed::vm(node, vmid);
        let step = Step::Upkeep(Upkeep::ChangeNode { vm, address, mode });
        Planned { changes, ..testbed::planned(Some(node), step, effect, reason) }
    };
    let value = |key: &str, applies| vec![testbed::change(key, Some("a"), Some("b"), applies, "")];
    let (live, reboot) = (Effect::ChangeLive, Effect::Reboot);
    let written = "Talos takes machine.env.A over only when it starts";
    let first = "LinkConfig net0 mtu could cut it off, so it is tried before machine.env.A is written down";
    let drain = Step::Upkeep(Upkeep::DrainNode { node: name("cp-2") });
    let plan = Plan {
        steps: vec![
            change_node(
                "cp-1",
                2000,
                ChangeMode::Try,
                live,
                "LinkConfig net0 mtu could cut it off",
                value("LinkConfig net0 mtu", Applies::Now),
            ),
            change_node(
                "cp-2",
                2001,
                ChangeMode::TryFirst,
                live,
                first,
                value("LinkConfig net0 mtu", Applies::Now),
            ),
            testbed::planned(Some("cp-2"), drain, Effect::Drain, written),
            change_node(
                "cp-2",
                2001,
                ChangeMode::Reboot,
                reboot,
                written,
                value("machine.env.A", Applies::AfterReboot),
            ),
            change_node(
                "worker-1",
                2003,
                ChangeMode::NoReboot,
                live,
                "Talos takes this over while it runs",
                value("machine.sysctls.a", Applies::Now),
            ),
        ],
        ..testbed::empty()
    };
    assert_snapshot!(plain(&shown(&plan, Verbosity::Normal)));
    assert!(plain(&shown(&plan, Verbosity::Everything)).contains("on trial: goes back by itself"));
    assert!(markdown(&plan).contains("on trial: goes back by itself"));
    let modes: Vec<serde_json::Value> =
        data(&plan)["steps"].as_array().unwrap().iter().map(|step| step["mode"].clone()).collect();
    assert_eq!(
        serde_json::json!(modes),
        serde_json::json!(["try", "try_first", null, "reboot", "no_reboot"])
    );
}

/// A node with two VMs, both of which go: nobody agrees to the end of a VM they were not shown.
#[test]
fn every_vm_that_goes_is_shown() {
    let mut plan = testbed::destroy();
    let of_cp_1 = |planned: &&Planned| planned.node == Some(name("cp-1"));
    let second: Vec<Planned> = testbed::destroy_as(2020).steps.iter().filter(of_cp_1).cloned().collect();
    plan.steps.extend(second);
    let text = plain(&shown(&plan, Verbosity::Normal));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("vm        cp-1")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows[0].contains("2000 on pve") && rows[1].contains("2020 on pve"), "{text}");
    assert!(text.contains("local-zfs:vm-2020-disk-1"), "{text}");
    assert!(text.contains("4 to destroy"), "{text}");
}

/// What is left of a node whose VM is gone is removed before another is made, and that is told where it is.
#[test]
fn a_plan_that_removes_a_former_member() {
    let mut plan = testbed::from_nothing();
    let node = homelab().1.nodes.iter().find(|node| node.role == Role::Controller).unwrap().name.clone();
    let own = plan.steps.iter().position(|planned| planned.node.as_ref() == Some(&node)).unwrap();
    let mut forget = plan.steps[own].clone();
    forget.id = talmox_plan::StepId::new(Some(&node), "forget");
    forget.effect = talmox_plan::Effect::ChangeLive;
    let forgets = talmox_plan::Upkeep::ForgetNode { node, address: None, control_planes: BTreeMap::new() };
    forget.step = talmox_plan::Step::Upkeep(forgets);
    plan.steps.insert(own, forget);
    let text = plain(&shown(&plan, Verbosity::Normal));
    assert!(text.contains("its old member is removed from etcd, and its Node from Kubernetes"), "{text}");
}

#[test]
fn plan_to_replace_and_remove() {
    let text = shown(&testbed::replace_and_remove(), Verbosity::Normal);
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
}

#[test]
fn plan_to_destroy() {
    let text = shown(&testbed::destroy(), Verbosity::Normal);
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
}

#[test]
fn plan_of_templates() {
    let text = shown(&testbed::templates(), Verbosity::Normal);
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
    assert_snapshot!(markdown(&testbed::templates()));
    let steps = data(&testbed::templates())["steps"].clone();
    let told = steps.as_array().unwrap().iter().map(|step| {
        format!(
            "{} {} {} {} {}\n",
            step["id"], step["host"], step["template"], step["image"], step["schematic"]
        )
    });
    assert_snapshot!(told.collect::<String>());
}

#[test]
fn plan_to_prune_templates() {
    let text = shown(&testbed::prune(), Verbosity::Normal);
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
    assert_snapshot!(markdown(&testbed::prune()));
}

/// A cluster from nothing, template included.
#[test]
fn plan_from_an_image_to_nodes() {
    let mut plan = testbed::from_nothing();
    let mut steps = testbed::templates().steps;
    steps.truncate(4);
    plan.steps.splice(0..0, steps);
    assert_snapshot!(plain(&shown(&plan, Verbosity::Normal)));
}

#[test]
fn no_template_to_be_done() {
    let (_, desired) = homelab();
    let text = no_template_to_do(
        &testbed::empty(),
        &desired,
        Verbosity::Normal,
        ("The template is as described", "9 requests, 0.2 s"),
    );
    assert_snapshot!(plain(&text), @"No changes. The template is as described (9 requests, 0.2 s).");
}

#[test]
fn plan_with_refusals() {
    let text = shown(&testbed::refusals(), Verbosity::Normal);
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
}

#[test]
fn undeclared_copies_and_what_is_waited_for() {
    let (_, desired) = homelab();
    let text =
        |verbosity| nothing_to_do(&testbed::remarks(), &desired, verbosity, 9, Duration::from_millis(240));
    assert_snapshot!(plain(&text(Verbosity::Normal)));
    assert_snapshot!(plain(&text(Verbosity::Everything)));
    assert_snapshot!(coloured(&text(Verbosity::Normal)));
}

#[test]
fn nothing_to_be_done() {
    let (_, desired) = homelab();
    let text = nothing_to_do(&testbed::empty(), &desired, Verbosity::Normal, 9, Duration::from_millis(240));
    assert_snapshot!(plain(&text), @"No changes. homelab matches its description (6 VMs, 9 requests, 0.2 s).");
    assert_snapshot!(coloured(&text));
}

#[test]
fn a_cluster_without_uid_is_planned() {
    let plan = Plan { uid: None, ..testbed::changes() };
    assert!(plain(&shown(&plan, Verbosity::Normal)).starts_with("cluster homelab (no uid yet)\n"));
}

#[test]
fn plans_for_pull_requests() {
    assert_snapshot!(markdown(&testbed::from_nothing()));
    assert_snapshot!(markdown(&testbed::refusals()));
    assert_snapshot!(markdown(&testbed::replace_and_remove()));
    assert_snapshot!(markdown(&testbed::remarks()));
    assert_snapshot!(markdown(&testbed::empty()));
}

#[test]
fn plans_for_programs_fit_their_schema() {
    let schema: serde_json::Value = serde_json::from_str(PLAN_SCHEMA).unwrap();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    for plan in [
        testbed::from_nothing(),
        testbed::changes(),
        testbed::replace_and_remove(),
        testbed::destroy(),
        testbed::templates(),
        testbed::prune(),
        testbed::remarks(),
        testbed::refusals(),
        testbed::empty(),
    ] {
        let data = data(&plan);
        let errors: Vec<String> =
            validator.iter_errors(&data).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    let mut wrong = data(&testbed::changes());
    wrong["steps"][0]["effect"] = "explode".into();
    assert!(!validator.is_valid(&wrong));
    assert_snapshot!(serde_json::to_string_pretty(&data(&testbed::changes())).unwrap());
}

#[test]
fn the_end_of_a_run() {
    let finish = Finish {
        cluster: "homelab",
        result: "6 VMs as described".to_owned(),
        steps: 19,
        elapsed: Duration::from_secs(41),
        simulated: true,
        waiting: testbed::changes().waiting.iter().map(waits).collect(),
        next: vec![
            ("look", "talmox status --simulate".to_owned()),
            ("change", "edit, then talmox plan".to_owned()),
        ],
    };
    assert_snapshot!(plain(&finished(&finish)));
    assert_snapshot!(coloured(&finished(&finish)));
}

#[test]
fn something_breaks_half_way() {
    let run = Broken {
        failures: vec![Failed {
            what: "could not clone 9000 to 2001 on pve2".to_owned(),
            causes: vec!["Proxmox said: out of space (task UPID:pve2:…)".to_owned()],
            hints: vec!["`pvesm status` on pve2 shows what is left".to_owned()],
            retry_is_safe: true,
        }],
        state: BTreeMap::from([
            (name("cp-1"), "runs"),
            (name("cp-2"), "was not created"),
            (name("cp-3"), "runs"),
            (name("worker-1"), "runs"),
        ]),
        interrupted: false,
        again: "talmox apply -f homelab".to_owned(),
    };
    assert_snapshot!(plain(&broken(&run)));
    assert_snapshot!(coloured(&broken(&run)));
    let interrupted = Broken { failures: Vec::new(), interrupted: true, ..run };
    assert_snapshot!(plain(&broken(&interrupted)));
}

fn node(name: &str, vmid: Option<u32>) -> NodeView {
    NodeView {
        node: testbed::name(name),
        role: Some(if name.starts_with("cp") { Role::Controller } else { Role::Worker }),
        state: NodeState::Present,
        vmid: vmid.map(testbed::id),
        host: vmid.map(|_| "pve".parse().unwrap()),
        power: vmid.map(|_| Power::Running),
        addresses: vec!["10.0.7.11".to_owned()],
        mac: Some("BC:24:11:00:00:01".to_owned()),
        lock: None,
        pool: None,
        ha: None,
        drift: Vec::new(),
        tasks: Vec::new(),
        halted: None,
        snapshots: Vec::new(),
        power_differs: false,
        pending: Vec::new(),
        notes: Vec::new(),
    }
}

/// One node in each state there is.
fn view() -> View {
    let drift = testbed::changes().steps[0].changes.clone();
    View {
        drives: Vec::new(),
        cluster: "homelab".parse().unwrap(),
        uid: testbed::empty().uid,
        nodes: vec![
            node("cp-1", Some(2000)),
            NodeView { power: Some(Power::Stopped), ..node("cp-2", Some(2001)) },
            NodeView { lock: Some("clone".to_owned()), ..node("cp-3", Some(2002)) },
            NodeView { drift, ha: Some("started".to_owned()), ..node("worker-1", Some(2003)) },
            NodeView { pending: vec!["memory".to_owned()], ..node("worker-2", Some(2004)) },
            NodeView { state: NodeState::Missing, ..node("worker-3", None) },
            NodeView {
                state: NodeState::Unfinished,
                power: Some(Power::Stopped),
                ..node("worker-4", Some(2006))
            },
            NodeView {
                state: NodeState::Lost,
                notes: vec!["VM 2010 on pve has its MAC and no mark".to_owned()],
                ..node("worker-5", None)
            },
            NodeView { state: NodeState::Double, ..node("worker-6", Some(2007)) },
            NodeView {
                state: NodeState::Unknown,
                addresses: Vec::new(),
                mac: None,
                ..node("worker-7", None)
            },
        ],
        undeclared: vec![NodeView { role: None, ..node("old-worker", Some(2009)) }],
    }
}

#[test]
fn status() {
    let text = status_text(&view(), None, " -f lab");
    assert_snapshot!(plain(&text));
    assert_snapshot!(coloured(&text));
    assert_snapshot!(
        serde_json::to_string_pretty(&StatusData::new(&view(), None))
            .unwrap()
            .lines()
            .take(40)
            .collect::<Vec<_>>()
            .join("\n")
    );
}

/// What keeps changes from happening is told with what it keeps from happening.
#[test]
fn obstacles() {
    let halted =
        |name, vmid, state: &str| NodeView { halted: Some(state.to_owned()), ..node(name, Some(vmid)) };
    let locked = |name, vmid, lock: &str| NodeView { lock: Some(lock.to_owned()), ..node(name, Some(vmid)) };
    let view = View {
        nodes: vec![
            locked("cp-1", 2000, "backup"),
            locked("cp-2", 2001, "suspended"),
            halted("worker-1", 2003, "paused"),
            halted("worker-2", 2004, "io-error"),
            NodeView {
                snapshots: vec!["before-upgrade".to_owned(), "odd\u{7}name".to_owned()],
                ..node("worker-3", Some(2005))
            },
        ],
        undeclared: vec![halted("old-worker", 2009, "prelaunch")],
        ..view()
    };
    assert_snapshot!(plain(&status_text(&view, None, "")));
}

/// What an interrupted run left holds the cluster's keys.
#[test]
fn configuration_drives() {
    let drive = |host: &str, vmid: Option<u32>| DriveView {
        host: host.parse().unwrap(),
        volume: "local:iso/talmox-seed-0123456789abcdef-2000-00ff.iso".parse().unwrap(),
        vmid: vmid.map(testbed::id),
    };
    let nodes = vec![node("cp-1", Some(2000)), node("worker-1", Some(2003))];
    let drives = vec![drive("pve", Some(2000)), drive("pve2", None)];
    let view = View { nodes, undeclared: Vec::new(), drives, ..view() };
    assert_snapshot!(plain(&status_text(&view, None, " -f lab")));
    let left_behind = View { drives: vec![drive("pve2", None)], ..view.clone() };
    let told = plain(&status_text(&left_behind, None, ""));
    assert!(
        told.ends_with("next: talmox apply  removes configuration drives that no node needs\n"),
        "{told}"
    );
    let told = serde_json::to_value(StatusData::new(&view, None)).unwrap();
    assert_eq!(told["drives"][0]["vmid"], 2000);
    assert!(told["drives"][1]["vmid"].is_null());
}

#[test]
fn outputs() {
    assert_snapshot!(plain(&output_text(&view())));
    let few = View { nodes: vec![node("cp-1", Some(2000)), node("worker-3", None)], ..view() };
    assert_snapshot!(serde_json::to_string_pretty(&OutputData::new(&few)).unwrap());
    assert_snapshot!(serde_saphyr::to_string(&OutputData::new(&few)).unwrap());
}

fn configured(etcd: Option<SeenEtcd>) -> SeenMachine {
    SeenMachine::Configured(Box::new(SeenNode {
        address: "10.0.7.11".parse().unwrap(),
        version: "v1.13.9".to_owned(),
        schematic: None,
        extensions: Vec::new(),
        stage: SeenStage::Running,
        ready: true,
        unmet: Vec::new(),
        config: Some(Vec::new()),
        incomparable: None,
        refuses: None,
        on_trial: None,
        images: BTreeMap::new(),
        phases: talmox_types::Phases::default(),
        etcd,
        absent_pods: Some(Vec::new()),
        services: BTreeMap::new(),
    }))
}

/// With a way to ask the machines there is more to see.
#[test]
fn status_of_what_is_inside() {
    let machine = |name: &str, seen: SeenMachine| (name.parse::<NodeName>().unwrap(), seen);
    let address = "10.0.7.14".parse().unwrap();
    let member = SeenEtcd::Member {
        healthy: true,
        members: Some(vec!["cp-1".to_owned()]),
        learners: 0,
        leaderless: false,
        leads: false,
    };
    let ready = SeenKubernetesNode {
        ready: true,
        schedulable: true,
        version: "v1.36.3".to_owned(),
        cordoned_for: None,
        uuid: None,
    };
    let cordoned = SeenKubernetesNode { schedulable: false, ..ready.clone() };
    let nodes = [("cp-1".to_owned(), ready), ("worker-1".to_owned(), cordoned)].into();
    let silent = SeenMachine::Unreachable { address, reason: "connection refused".to_owned() };
    let new = SeenMachine::Maintenance { address, uuid: "u".to_owned(), version: None, fingerprint: None };
    let inside = InsideView {
        health: SeenHealth::Unhealthy { why: "3 of 4 nodes configured and reachable".to_owned() },
        described: "1.13.9".to_owned(),
        talos: [
            machine("cp-1", configured(Some(member))),
            machine("worker-1", configured(None)),
            machine("worker-2", silent),
            machine("worker-3", new),
        ]
        .into(),
        kubernetes: SeenKubernetes::Answers(SeenCluster { nodes, ..SeenCluster::default() }),
        etcd: Some(EtcdView {
            healthy: 1,
            members: 1,
            leader: Some("cp-1".parse().unwrap()),
            database_bytes: Some(41 << 20),
            troubles: Vec::new(),
        }),
        certificates_end: Some("2036-11-02".to_owned()),
        ending: Ending::soon("the token", Time::from_unix(86_400), Time::from_unix(0), "make another")
            .into_iter()
            .collect(),
        rotation: Vec::new(),
    };
    let view = View {
        nodes: vec![
            node("cp-1", Some(2000)),
            node("worker-1", Some(2003)),
            node("worker-2", Some(2004)),
            node("worker-3", Some(2005)),
        ],
        undeclared: Vec::new(),
        ..view()
    };
    assert_snapshot!(plain(&status_text(&view, Some(&inside), "")));
    let told = serde_json::to_value(StatusData::new(&view, Some(&inside))).unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&told["inside"]["etcd"]).unwrap());
}
