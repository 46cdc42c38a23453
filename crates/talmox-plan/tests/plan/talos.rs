//! Talos of another version, or with other extensions.

use std::collections::BTreeMap;

use talmox_plan::{
    Applies, Change, Effect, NoteKind, Observed, Plan, Request, Rule, SeenCluster, SeenEtcd, SeenKubernetes,
    SeenKubernetesNode, SeenMachine, SeenNode, Step, Until, Upkeep, UpkeepRequest, Waiting, check,
};
use talmox_types::desired::{Desired, TemplateRef};
use talmox_types::{SchematicId, Version};

use crate::inside::{address, living};
use crate::support::*;

const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000001";

fn healthy() -> Request {
    Request { until: Until::Healthy, ..Request::default() }
}

/// Changes what is seen of a machine.
fn machine(observed: &mut Observed, node: &str, edit: impl FnOnce(&mut SeenNode)) {
    let Some(SeenMachine::Configured(seen)) = observed.talos.get_mut(&name(node)) else {
        panic!("{node} does not live")
    };
    edit(seen);
}

/// Every machine runs this Talos.
fn all_run(observed: &mut Observed, desired: &Desired, version: &str) {
    for node in &desired.nodes {
        machine(observed, node.name.as_str(), |seen| seen.version = format!("v{version}"));
    }
}

fn kubelets(observed: &mut Observed, desired: &Desired, version: &str) {
    let node = SeenKubernetesNode {
        ready: true,
        schedulable: true,
        version: format!("v{version}"),
        cordoned_for: None,
        uuid: None,
    };
    let nodes = desired.nodes.iter().map(|one| (one.name.to_string(), node.clone())).collect();
    observed.kubernetes = SeenKubernetes::Answers(SeenCluster { nodes, ..SeenCluster::default() });
}

fn installer(desired: &Desired) -> String {
    let id = described(desired);
    format!("factory.example/nocloud-installer/{id}:v{}", desired.talos.version)
}

fn described(desired: &Desired) -> SchematicId {
    talmox_image::Schematic::from(&desired.talos.schematic).id()
}

fn planned(desired: &Desired, observed: &Observed, request: &Request) -> Plan {
    let plan = talmox_plan::plan(desired, observed, request, &talmox_plan::Nonce::new(7));
    let violations = check(&plan, desired, observed, request);
    assert!(violations.is_empty(), "{violations:#?}\n{plan:#?}");
    plan
}

/// The steps for Talos, in order.
fn rolled(plan: &Plan) -> Vec<String> {
    let words = ["drain", "upgrade-node", "return"];
    let steps = plan.steps.iter().filter(|step| words.contains(&step.step.word()));
    steps.map(|step| step.id.to_string()).collect()
}

fn needs(plan: &Plan, id: &str) -> Vec<String> {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id).unwrap();
    step.needs.iter().map(ToString::to_string).collect()
}

fn problems(plan: &Plan) -> Vec<&str> {
    plan.refusals.iter().map(|refusal| refusal.problem.as_str()).collect()
}

fn noted(plan: &Plan, kind: NoteKind) -> Vec<String> {
    plan.notes.iter().filter(|note| note.kind == kind).map(|note| note.text.clone()).collect()
}

#[test]
fn control_planes_roll_one_by_one_and_workers_follow() {
    let desired = desired(3, 2);
    let mut observed = living(&desired);
    all_run(&mut observed, &desired, "1.13.6");
    let plan = planned(&desired, &observed, &healthy());
    let expected: Vec<String> = ["cp-1", "cp-2", "cp-3", "w-1", "w-2"]
        .iter()
        .flat_map(|node| ["drain", "upgrade-node", "return"].map(|word| format!("{node}/{word}")))
        .collect();
    assert_eq!(rolled(&plan), expected);
    assert!(needs(&plan, "cp-2/drain").contains(&"cp-1/return".to_owned()));
    assert!(needs(&plan, "cp-3/drain").contains(&"cp-2/return".to_owned()));
    for worker in ["w-1/drain", "w-2/drain"] {
        let needs = needs(&plan, worker);
        assert!(
            ["cp-1/return", "cp-2/return", "cp-3/return"].iter().all(|cp| needs.contains(&(*cp).to_owned()))
        );
    }
    assert!(!needs(&plan, "w-2/drain").contains(&"w-1/return".to_owned()), "turns decide that");
    let upgrade = plan.steps.iter().find(|step| step.id.as_str() == "cp-1/upgrade-node").unwrap();
    assert_eq!(upgrade.effect, Effect::Reboot);
    let Step::Upkeep(Upkeep::UpgradeNode { from, to, installer: image, schematic, stage, .. }) =
        &upgrade.step
    else {
        panic!("{upgrade:?}")
    };
    assert_eq!((from.as_str(), to.as_str(), *stage), ("1.13.6", "1.13.9", false));
    assert_eq!(*image, installer(&desired));
    assert_eq!(schematic.as_deref(), Some(described(&desired).as_str()));
    assert!(noted(&plan, NoteKind::Inside).is_empty(), "{:?}", plan.notes);
}

#[test]
fn a_node_that_is_refused_is_not_opened_by_the_same_plan() {
    let desired = desired(3, 1);
    let mut observed = living(&desired);
    kubelets(&mut observed, &desired, "1.36.3");
    machine(&mut observed, "cp-1", |seen| {
        seen.version = "v1.14.0".to_owned();
        seen.config = Some(vec![Change {
            key: "machine.sysctls".to_owned(),
            old: None,
            new: Some("a".to_owned()),
            applies: Applies::Now,
            field: None,
            sub: Vec::new(),
        }]);
    });
    if let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes {
        let node = cluster.nodes.get_mut("cp-1").unwrap();
        (node.schedulable, node.cordoned_for) = (false, Some("upgrade".to_owned()));
    }
    let plan = planned(&desired, &observed, &healthy());
    assert!(problems(&plan)[0].contains("an older minor version"), "{plan:#?}");
    assert!(plan.steps.iter().all(|step| step.node != Some(name("cp-1"))), "{plan:#?}");
}

#[test]
fn whoever_leads_etcd_is_the_last_control_plane() {
    let desired = desired(3, 1);
    let mut observed = living(&desired);
    all_run(&mut observed, &desired, "1.13.6");
    machine(&mut observed, "cp-1", |seen| {
        if let Some(SeenEtcd::Member { leads, .. }) = &mut seen.etcd {
            *leads = true;
        }
    });
    let plan = planned(&desired, &observed, &healthy());
    let order: Vec<String> = rolled(&plan).into_iter().filter(|id| id.ends_with("upgrade-node")).collect();
    assert_eq!(order, ["cp-2/upgrade-node", "cp-3/upgrade-node", "cp-1/upgrade-node", "w-1/upgrade-node"]);
}

#[test]
fn what_runs_as_described_is_left_alone() {
    let desired = desired(1, 1);
    let mut observed = living(&desired);
    assert!(planned(&desired, &observed, &healthy()).is_empty());
    machine(&mut observed, "w-1", |seen| seen.schematic = Some(described(&desired).to_string()));
    assert!(planned(&desired, &observed, &healthy()).is_empty());
}

#[test]
fn the_installer_is_the_one_the_described_configuration_names() {
    let desired = desired(1, 0);
    let mut observed = living(&desired);
    let image = format!("registry.example/nocloud-installer/{OTHER}:v1.13.9");
    machine(&mut observed, "cp-1", |seen| {
        seen.version = "v1.13.6".to_owned();
        seen.config = Some(vec![Change {
            key: "machine.install.image".to_owned(),
            old: Some("registry.example/old:v1.13.6".to_owned()),
            new: Some(image.clone()),
            applies: Applies::Now,
            field: None,
            sub: Vec::new(),
        }]);
    });
    let plan = planned(&desired, &observed, &healthy());
    let found = plan.steps.iter().find_map(|step| match &step.step {
        Step::Upkeep(Upkeep::UpgradeNode { installer, schematic, .. }) => Some((installer, schematic)),
        _ => None,
    });
    assert_eq!(found, Some((&image, &Some(OTHER.to_owned()))));
    machine(&mut observed, "cp-1", |seen| {
        seen.config.as_mut().unwrap()[0].new = Some("registry.example/installer:v1.13.8".to_owned());
    });
    let plan = talmox_plan::plan(&desired, &observed, &healthy(), &talmox_plan::Nonce::new(7));
    assert!(problems(&plan)[0].contains("its installer is that of 1.13.8"), "{:?}", plan.refusals);
}

#[test]
fn an_installer_of_anything_else_is_a_violation() {
    let desired = desired(1, 0);
    let mut observed = living(&desired);
    all_run(&mut observed, &desired, "1.13.6");
    let mut plan = planned(&desired, &observed, &healthy());
    for step in &mut plan.steps {
        if let Step::Upkeep(Upkeep::UpgradeNode { installer, schematic, .. }) = &mut step.step {
            *installer = "ghcr.io/siderolabs/installer:v1.13.9".to_owned();
            *schematic = None;
        }
    }
    let violations = check(&plan, &desired, &observed, &healthy());
    assert!(violations.iter().any(|one| one.rule == Rule::Installer), "{violations:?}");
}

#[test]
fn other_extensions_are_an_upgrade_and_losses_are_named() {
    let mut desired = desired(1, 1);
    desired.talos.schematic.extensions = vec!["siderolabs/iscsi-tools".to_owned()];
    for node in &mut desired.nodes {
        node.vm.template = None;
    }
    let mut observed = living(&desired);
    for node in ["cp-1", "w-1"] {
        machine(&mut observed, node, |seen| {
            seen.schematic = Some(OTHER.to_owned());
            seen.extensions = vec!["iscsi-tools".to_owned(), "qemu-guest-agent".to_owned()];
        });
    }
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(rolled(&plan).len(), 6);
    let registered = plan.steps.iter().find(|step| step.step.word() == "register-schematic").unwrap();
    assert!(needs(&plan, "cp-1/drain").contains(&registered.id.to_string()));
    assert_eq!(
        noted(&plan, NoteKind::Warning),
        ["loses the extension qemu-guest-agent: the description does not have it"; 2]
    );
    // A machine that does not tell its schematic is known by what it has.
    machine(&mut observed, "w-1", |seen| seen.schematic = None);
    machine(&mut observed, "cp-1", |seen| {
        seen.schematic = None;
        seen.extensions = Vec::new();
    });
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(rolled(&plan), ["cp-1/drain", "cp-1/upgrade-node", "cp-1/return"]);
}

#[test]
fn a_template_of_others_is_what_it_is_until_the_description_changes() {
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.template = Some(TemplateRef::Id(id(9000)));
    let mut observed = living(&desired);
    machine(&mut observed, "cp-1", |seen| seen.schematic = Some(OTHER.to_owned()));
    let rolls = |observed: &Observed| {
        let plan = talmox_plan::plan(&desired, observed, &healthy(), &talmox_plan::Nonce::new(7));
        !rolled(&plan).is_empty()
    };
    assert!(!rolls(&observed));
    machine(&mut observed, "cp-1", |seen| {
        seen.config = Some(vec![Change {
            key: "machine.install.image".to_owned(),
            old: Some("registry.example/old:v1.13.9".to_owned()),
            new: Some(installer(&desired)),
            applies: Applies::Now,
            field: None,
            sub: Vec::new(),
        }]);
    });
    assert!(rolls(&observed));
}

#[test]
fn what_talos_does_not_support_is_refused_with_the_stations() {
    let mut desired = desired(1, 1);
    let refusals = |desired: &Desired, version: &str| {
        let mut observed = living(desired);
        all_run(&mut observed, desired, version);
        let plan = talmox_plan::plan(desired, &observed, &healthy(), &talmox_plan::Nonce::new(7));
        assert!(rolled(&plan).is_empty());
        plan.refusals.into_iter().map(|one| (one.problem, one.choices)).collect::<Vec<_>>()
    };
    let found = refusals(&desired, "1.10.9");
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0].0,
        "runs Talos 1.10.9, and 1.13.9 cannot be reached from there in one step; in between: 1.12"
    );
    assert_eq!(found[0].1, ["make talos_version the newest release of 1.12, apply, and go on from there"]);
    let found = refusals(&desired, "1.14.0");
    assert!(found[0].0.contains("an older minor version, 1.13.9, may not read its data"), "{found:?}");
    desired.talos.version = Version::parse("1.14.0").unwrap();
    let found = refusals(&desired, "1.8.0");
    assert!(found[0].0.ends_with("in between: 1.10, then 1.12"), "{found:?}");
}

#[test]
fn a_kubernetes_the_new_talos_does_not_run_is_refused_unless_it_changes_too() {
    let mut desired = desired(1, 0);
    desired.kubernetes.version = Version::parse("1.30.4").unwrap();
    let mut observed = living(&desired);
    all_run(&mut observed, &desired, "1.12.6");
    kubelets(&mut observed, &desired, "1.30.4");
    let plan = talmox_plan::plan(&desired, &observed, &healthy(), &talmox_plan::Nonce::new(7));
    assert_eq!(problems(&plan), ["Talos 1.13.9 does not run Kubernetes 1.30.4, which is there now"]);
}

/// What the upgrade of a node restarts its VM for.
fn carried(plan: &Plan, id: &str) -> Option<Vec<String>> {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id)?;
    let Step::Upkeep(Upkeep::UpgradeNode { carries, .. }) = &step.step else { return None };
    carries.as_ref().map(|carries| carries.keys.clone())
}

#[test]
fn one_restart_does_for_memory_and_talos() {
    let mut desired = desired(1, 2);
    let mut observed = living(&desired);
    desired.nodes[2].vm.memory += 1024;
    for allow_reboot in [false, true] {
        let request = Request { allow_reboot, ..healthy() };
        all_run(&mut observed, &desired, "1.13.6");
        let plan = planned(&desired, &observed, &request);
        assert_eq!(carried(&plan, "w-2/upgrade-node").unwrap(), ["memory"]);
        assert_eq!(carried(&plan, "w-1/upgrade-node"), None);
        assert!(needs(&plan, "w-2/drain").contains(&"w-2/configure".to_owned()), "written before");
        assert!(plan.steps.iter().all(|step| step.step.word() != "reboot"));
        assert!(plan.waiting.is_empty(), "{:?}", plan.waiting);
        // Before 1.13 Talos installs and restarts in one go.
        all_run(&mut observed, &desired, "1.12.6");
        let plan = planned(&desired, &observed, &request);
        assert_eq!(carried(&plan, "w-2/upgrade-node"), None);
        assert_eq!(plan.steps.iter().any(|step| step.id.as_str() == "w-2/reboot"), allow_reboot);
    }
    all_run(&mut observed, &desired, "1.13.6");
    let upkeep = UpkeepRequest { stage: true, ..UpkeepRequest::default() };
    let plan = planned(&desired, &observed, &Request { upkeep, ..healthy() });
    assert_eq!(carried(&plan, "w-2/upgrade-node"), None);
    assert!(matches!(&plan.waiting[..], [Waiting::Reboot { .. }]), "{:?}", plan.waiting);
}

#[test]
fn a_trial_of_somebody_else_is_waited_for_and_nothing_restarts() {
    let desired = desired(1, 1);
    let mut observed = living(&desired);
    machine(&mut observed, "w-1", |seen| {
        seen.on_trial = Some(1_794_855_845);
        seen.config = Some(vec![Change {
            key: "machine.sysctls".to_owned(),
            old: Some("a".to_owned()),
            new: None,
            applies: Applies::OnTrial,
            field: None,
            sub: Vec::new(),
        }]);
    });
    let plan = planned(&desired, &observed, &Request { allow_reboot: true, ..healthy() });
    assert!(plan.is_empty(), "{:?}", plan.steps);
    let trial = Waiting::Trial {
        node: name("w-1"),
        keys: vec!["machine.sysctls".to_owned()],
        since: Some(1_794_855_845),
    };
    assert_eq!(plan.waiting, [trial]);
}

#[test]
fn staged_upgrades_interrupt_nobody() {
    let desired = desired(1, 1);
    let mut observed = living(&desired);
    all_run(&mut observed, &desired, "1.13.6");
    let upkeep = UpkeepRequest { stage: true, ..UpkeepRequest::default() };
    let request = Request { upkeep, ..healthy() };
    let plan = planned(&desired, &observed, &request);
    assert_eq!(rolled(&plan), ["cp-1/upgrade-node", "w-1/upgrade-node"]);
    assert!(plan.steps.iter().all(|step| !step.effect.interrupts()));
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("no Kubernetes") };
    cluster.installed = BTreeMap::from(["cp-1", "w-1"].map(|node| (node.to_owned(), installer(&desired))));
    let plan = planned(&desired, &observed, &request);
    assert!(rolled(&plan).is_empty());
    assert_eq!(
        noted(&plan, NoteKind::Inside),
        ["Talos 1.13.9 is installed and waits for a restart, which apply without --stage makes: cp-1, w-1"]
    );
    assert_eq!(rolled(&planned(&desired, &observed, &healthy())).len(), 6, "the restart is left");
    all_run(&mut observed, &desired, "1.12.6");
    let plan = talmox_plan::plan(&desired, &observed, &request, &talmox_plan::Nonce::new(7));
    assert!(problems(&plan)[0].contains("cannot install now and restart later"), "{:?}", plan.refusals);
}

#[test]
fn who_does_not_answer_now_is_approved_with_the_others() {
    let desired = desired(3, 0);
    let mut observed = living(&desired);
    all_run(&mut observed, &desired, "1.13.6");
    let silent = SeenMachine::Unreachable {
        address: address(&desired, "cp-2"),
        reason: "connection refused".to_owned(),
    };
    observed.talos.insert(name("cp-2"), silent);
    let plan = planned(&desired, &observed, &healthy());
    let later: Vec<&str> = plan
        .later
        .iter()
        .filter(|intent| intent.node == Some(name("cp-2")))
        .map(|intent| intent.step.as_str())
        .collect();
    assert!(["drain", "upgrade-node", "return"].iter().all(|word| later.contains(word)), "{later:?}");
}

#[test]
fn only_what_is_asked_for_is_upgraded() {
    let desired = desired(1, 2);
    let mut observed = living(&desired);
    all_run(&mut observed, &desired, "1.13.6");
    let request = Request { targets: [name("w-2")].into(), ..healthy() };
    let plan = planned(&desired, &observed, &request);
    assert_eq!(rolled(&plan), ["w-2/drain", "w-2/upgrade-node", "w-2/return"]);
    let request = Request { until: Until::Reachable, ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert!(rolled(&plan).is_empty());
    let noted = noted(&plan, NoteKind::Inside);
    assert_eq!(
        noted,
        ["cp-1, w-1, w-2 are not as described and not asked for: left alone (-v shows what differs)"]
    );
}
