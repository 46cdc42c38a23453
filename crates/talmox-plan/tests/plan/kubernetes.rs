//! When Kubernetes is moved to another version, in which order, and when that is refused.

use std::collections::BTreeMap;

use talmox_plan::{
    Applies, Change, ChangeMode, Component, NoteKind, Observed, Plan, Request, Rule, SeenKubernetes,
    SeenMachine, SeenNode, Step, Upkeep, UpkeepRequest, Waiting, check,
};
use talmox_types::desired::{Desired, Role};
use talmox_types::support::{LINES, Pair, upgrade_path};
use talmox_types::{Contract, NodeName, Version};

use crate::inside::{healthy, later, living, silent};
use crate::support::*;

fn request() -> Request {
    // Where snapshots go is another matter.
    Request { upkeep: UpkeepRequest { no_snapshot: true, ..UpkeepRequest::default() }, ..healthy() }
}

fn image(component: Component, version: &str) -> String {
    format!("registry.k8s.io/{}:v{version}", component.name())
}

fn components(role: Role) -> &'static [Component] {
    match role {
        Role::Controller => &Component::ALL,
        Role::Worker => &[Component::Kubelet],
    }
}

fn seen_mut<'a>(observed: &'a mut Observed, node: &NodeName) -> &'a mut SeenNode {
    match observed.talos.get_mut(node) {
        Some(SeenMachine::Configured(seen)) => seen,
        other => panic!("{other:?}"),
    }
}

/// A cluster that runs these versions everywhere, as its configurations and pods say.
fn runs(desired: &Desired, talos: &str, kubernetes: &str) -> Observed {
    let mut observed = living(desired);
    for node in &desired.nodes {
        let seen = seen_mut(&mut observed, &node.name);
        seen.version = format!("v{talos}");
        let images = components(node.role).iter();
        seen.images = images.map(|one| (one.place().to_owned(), image(*one, kubernetes))).collect();
    }
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("no Kubernetes") };
    for node in cluster.nodes.values_mut() {
        node.version = format!("v{kubernetes}");
    }
    for component in Component::PODS {
        let controllers = desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let pods = controllers.map(|node| (node.name.to_string(), image(component, kubernetes)));
        cluster.pods.insert(component, pods.collect());
    }
    cluster.proxy = Some(image(Component::Proxy, kubernetes));
    observed
}

/// What of a node is not as described any more.
fn differs(observed: &mut Observed, desired: &Desired, node: &NodeName) {
    let (role, to) =
        (desired.nodes.iter().find(|one| one.name == *node).unwrap().role, &desired.kubernetes.version);
    let seen = seen_mut(observed, node);
    let change = |component: &Component| Change {
        key: component.place().to_owned(),
        old: seen.images.get(component.place()).cloned(),
        new: Some(image(*component, &to.to_string())),
        applies: Applies::Now,
        field: None,
        sub: Vec::new(),
    };
    let changes: Vec<Change> =
        components(role).iter().map(change).filter(|change| change.old != change.new).collect();
    seen.config = Some(changes);
}

fn described(talos: &str, kubernetes: &str) -> Desired {
    let mut desired = desired(3, 2);
    desired.talos.version = Version::parse(talos).unwrap();
    desired.kubernetes.version = Version::parse(kubernetes).unwrap();
    desired
}

/// A cluster of one pair of versions, described as another.
fn from_to((talos, kubernetes): (&str, &str), desired: &Desired) -> Observed {
    let mut observed = runs(desired, talos, kubernetes);
    for node in &desired.nodes {
        differs(&mut observed, desired, &node.name);
    }
    observed
}

fn upgrade(plan: &Plan) -> Option<(String, String, usize, usize)> {
    plan.steps.iter().find_map(|step| match &step.step {
        Step::Upkeep(Upkeep::UpgradeKubernetes { from, to, control_planes, workers }) => {
            Some((from.clone(), to.clone(), control_planes.len(), workers.len()))
        }
        _ => None,
    })
}

fn upgraded(from: &str, to: &str) -> (String, String, usize, usize) {
    (from.to_owned(), to.to_owned(), 3, 2)
}

#[test]
fn nothing_is_planned_for_what_is_as_described() {
    let desired = described("1.13.9", "1.36.3");
    let plan = planned(&desired, &runs(&desired, "1.13.9", "1.36.3"), &request());
    assert!(plan.is_empty(), "{plan:#?}");
}

#[test]
fn a_patch_and_a_minor_version_are_one_step() {
    for (from, to) in [("1.36.3", "1.36.4"), ("1.35.4", "1.36.3")] {
        let desired = described("1.13.9", to);
        let plan = planned(&desired, &from_to(("1.13.9", from), &desired), &request());
        assert_eq!(upgrade(&plan), Some(upgraded(from, to)), "{plan:#?}");
        assert_eq!(problems(&plan), [""; 0]);
    }
}

#[test]
fn one_that_was_begun_is_finished_whatever_still_runs() {
    let desired = described("1.13.9", "1.36.4");
    let done = || {
        let mut observed = runs(&desired, "1.13.9", "1.36.4");
        let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("no Kubernetes") };
        (observed.talos.clone(), cluster.clone())
    };
    let plan_of = |change: &dyn Fn(&mut talmox_plan::SeenCluster)| {
        let (talos, mut cluster) = done();
        change(&mut cluster);
        let mut observed = runs(&desired, "1.13.9", "1.36.4");
        (observed.talos, observed.kubernetes) = (talos, SeenKubernetes::Answers(cluster));
        planned(&desired, &observed, &request())
    };
    let pods = plan_of(&|cluster| {
        let scheduler = cluster.pods.get_mut(&Component::Scheduler).unwrap();
        scheduler.insert("cp-2".to_owned(), image(Component::Scheduler, "1.36.3"));
    });
    assert_eq!(upgrade(&pods), Some(upgraded("1.36.3", "1.36.4")));
    let kubelet = plan_of(&|cluster| cluster.nodes.get_mut("w-2").unwrap().version = "v1.36.3".to_owned());
    assert_eq!(upgrade(&kubelet), Some(upgraded("1.36.3", "1.36.4")));
    let proxy = plan_of(&|cluster| cluster.proxy = Some(image(Component::Proxy, "1.36.3")));
    assert_eq!(upgrade(&proxy), Some(upgraded("1.36.3", "1.36.4")));
    // A pod that is not there at all is being started, by whoever.
    let missing =
        plan_of(&|cluster| drop(cluster.pods.get_mut(&Component::Scheduler).unwrap().remove("cp-2")));
    assert_eq!(upgrade(&missing), None);
}

#[test]
fn jumps_and_ways_back_are_refused_with_what_to_do() {
    let desired = described("1.13.9", "1.36.3");
    let plan = planned(&desired, &from_to(("1.13.9", "1.34.1"), &desired), &request());
    assert_eq!(upgrade(&plan), None);
    assert_eq!(
        plan.refusals[0].problem,
        "Kubernetes 1.34 cannot become 1.36 at once: it goes up one minor version at a time"
    );
    assert_eq!(
        plan.refusals[0].choices,
        [
            "apply with kubernetes_version: 1.35.4 (and talos_version: 1.13.x)",
            "then with kubernetes_version: 1.36.3 (and talos_version: 1.13.9)"
        ]
    );
    let desired = described("1.13.9", "1.35.4");
    let plan = planned(&desired, &from_to(("1.13.9", "1.36.3"), &desired), &request());
    assert_eq!(
        plan.refusals[0].problem,
        "Kubernetes 1.36 runs, and 1.35.4 is described: it cannot go back to an older minor version"
    );
    // Within a minor version it can, and is told.
    let desired = described("1.13.9", "1.36.3");
    let plan = planned(&desired, &from_to(("1.13.9", "1.36.4"), &desired), &request());
    assert_eq!(upgrade(&plan), Some(upgraded("1.36.4", "1.36.3")));
    assert!(plan.notes.iter().any(|note| note.kind == NoteKind::Warning), "{:?}", plan.notes);
}

/// A node whose kubelet is of another version than the rest.
fn kubelet_of(observed: &mut Observed, desired: &Desired, node: &str, version: &str) {
    let kubelet = (Component::Kubelet.place().to_owned(), image(Component::Kubelet, version));
    seen_mut(observed, &name(node)).images.extend([kubelet]);
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("no Kubernetes") };
    cluster.nodes.get_mut(node).unwrap().version = format!("v{version}");
    differs(observed, desired, &name(node));
}

#[test]
fn a_kubelet_the_new_talos_does_not_run_is_upgraded_before_it() {
    // A worker that was away when the others went from 1.31 to 1.32.
    let desired = described("1.14.0", "1.32.4");
    let mut observed = from_to(("1.13.6", "1.32.4"), &desired);
    kubelet_of(&mut observed, &desired, "w-2", "1.31.4");
    let plan = planned(&desired, &observed, &request());
    assert_eq!(problems(&plan), [""; 0]);
    assert_eq!(upgrade(&plan), Some(upgraded("1.31.4", "1.32.4")));
    let changes = order(&plan);
    assert_eq!((changes.len(), changes[0].as_ref()), (6, None), "{changes:?}");
    // A plan with the other order is not carried out.
    let mut wrong = plan.clone();
    for step in &mut wrong.steps {
        step.needs.retain(|need| need.as_str() != "upgrade-kubernetes");
    }
    let violations = check(&wrong, &desired, &observed, &request());
    let [violation] =
        violations.iter().filter(|one| one.rule == Rule::RunsItsKubelet).collect::<Vec<_>>()[..]
    else {
        panic!("{violations:#?}")
    };
    assert_eq!(violation.problem, "Talos 1.14 does not run the kubelet of w-2, which is 1.31.4");
}

#[test]
fn while_kubernetes_cannot_be_upgraded_a_talos_that_needs_it_waits_too() {
    let desired = described("1.14.0", "1.32.4");
    let mut observed = from_to(("1.13.6", "1.32.4"), &desired);
    for node in ["cp-1", "cp-3", "w-1", "w-2"] {
        kubelet_of(&mut observed, &desired, node, "1.31.4");
    }
    observed.talos.insert(name("cp-2"), silent(&desired, "cp-2"));
    let plan = planned(&desired, &observed, &request());
    assert_eq!(order(&plan), []);
    for awaited in
        ["upgrade-kubernetes", "cp-1/drain", "cp-1/upgrade-node", "cp-1/return", "w-1/upgrade-node"]
    {
        assert!(later(&plan).contains(&awaited.to_owned()), "{awaited}: {:#?}", later(&plan));
    }
}

#[test]
fn a_kubelet_far_behind_is_refused_and_one_behind_is_not() {
    let desired = described("1.13.9", "1.36.3");
    for (kubelet, planned_at_all) in [("1.33.6", true), ("1.32.4", false)] {
        let mut observed = from_to(("1.13.9", "1.35.4"), &desired);
        let node = name("w-1");
        seen_mut(&mut observed, &node).images =
            BTreeMap::from([(Component::Kubelet.place().to_owned(), image(Component::Kubelet, kubelet))]);
        let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("no Kubernetes") };
        cluster.nodes.get_mut("w-1").unwrap().version = format!("v{kubelet}");
        differs(&mut observed, &desired, &node);
        let plan = planned(&desired, &observed, &request());
        assert_eq!(upgrade(&plan).is_some(), planned_at_all, "{kubelet}: {plan:#?}");
        assert_eq!(plan.refusals.is_empty(), planned_at_all, "{kubelet}");
    }
}

#[test]
fn while_a_control_plane_is_away_it_follows_later_and_a_worker_is_left_for_later() {
    let desired = described("1.13.9", "1.36.4");
    let mut observed = from_to(("1.13.9", "1.36.3"), &desired);
    observed.talos.insert(name("cp-2"), silent(&desired, "cp-2"));
    let plan = planned(&desired, &observed, &request());
    assert_eq!(upgrade(&plan), None);
    assert!(later(&plan).contains(&"upgrade-kubernetes".to_owned()), "{:?}", plan.later);
    let mut observed = from_to(("1.13.9", "1.36.3"), &desired);
    observed.talos.insert(name("w-2"), silent(&desired, "w-2"));
    let plan = planned(&desired, &observed, &request());
    assert_eq!(upgrade(&plan).map(|(_, _, controllers, workers)| (controllers, workers)), Some((3, 1)));
}

#[test]
fn a_worker_that_is_started_follows_the_others_and_that_is_approved_with_it() {
    let desired = described("1.13.9", "1.36.4");
    let mut observed = from_to(("1.13.9", "1.36.4"), &desired);
    kubelet_of(&mut observed, &desired, "w-2", "1.35.4");
    observed.guests.get_mut(&id(2004)).unwrap().power = talmox_plan::Power::Stopped;
    observed.talos.remove(&name("w-2"));
    let plan = planned(&desired, &observed, &request());
    assert_eq!(upgrade(&plan), None);
    assert!(later(&plan).contains(&"upgrade-kubernetes".to_owned()), "{:?}", later(&plan));
    // Where no snapshot could be kept, nothing is refused for its sake.
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(problems(&plan), [""; 0]);
}

#[test]
fn a_talos_that_does_not_run_it_is_upgraded_first() {
    let desired = described("1.13.9", "1.36.3");
    let plan = planned(&desired, &from_to(("1.12.6", "1.35.4"), &desired), &request());
    let order = order(&plan);
    assert_eq!(order.len(), 6, "{plan:#?}");
    assert_eq!(order.last(), Some(&None), "{order:?}");
}

#[test]
fn documents_of_their_own_are_understood() {
    let desired = described("1.14.0", "1.37.1");
    let mut observed = runs(&desired, "1.14.0", "1.37.0");
    let seen = seen_mut(&mut observed, &name("w-1"));
    let [_, key] = Component::Kubelet.keys();
    seen.images = BTreeMap::from([(key.clone(), image(Component::Kubelet, "1.37.0"))]);
    seen.config = Some(vec![Change {
        key,
        old: Some(image(Component::Kubelet, "1.37.0")),
        new: Some(image(Component::Kubelet, "1.37.1")),
        applies: Applies::Now,
        field: None,
        sub: Vec::new(),
    }]);
    let plan = planned(&desired, &observed, &request());
    assert_eq!(upgrade(&plan), Some(upgraded("1.37.0", "1.37.1")));
}

#[test]
fn what_cannot_be_compared_or_was_not_asked_for_is_left_alone() {
    let desired = described("1.13.9", "1.36.4");
    let mut observed = from_to(("1.13.9", "1.36.3"), &desired);
    let targets = Request { targets: [name("w-1")].into(), ..request() };
    assert_eq!(upgrade(&planned(&desired, &observed, &targets)), None);
    for node in &desired.nodes {
        seen_mut(&mut observed, &node.name).config = None;
    }
    let plan = planned(&desired, &observed, &request());
    assert_eq!((upgrade(&plan), plan.refusals.len()), (None, 0));
}

/// The steps that change versions, in the order they are carried out: Talos of a node, or Kubernetes.
fn order(plan: &Plan) -> Vec<Option<String>> {
    let mut done: Vec<&talmox_plan::Planned> = Vec::new();
    // Whatever needs nothing that is open may go: here always the last one listed, to be unkind.
    while done.len() < plan.steps.len() {
        let is_done = |id: &talmox_plan::StepId| done.iter().any(|step| step.id == *id);
        let ready = |step: &&talmox_plan::Planned| !is_done(&step.id) && step.needs.iter().all(is_done);
        let next = plan.steps.iter().rev().find(ready).unwrap_or_else(|| panic!("no way on: {plan:#?}"));
        done.push(next);
    }
    let changes = done.into_iter().filter_map(|step| match &step.step {
        Step::Upkeep(Upkeep::UpgradeNode { .. }) => Some(step.node.as_ref().map(ToString::to_string)),
        Step::Upkeep(Upkeep::UpgradeKubernetes { .. }) => Some(None),
        _ => None,
    });
    changes.collect()
}

#[test]
fn over_all_pairs_of_versions_every_pair_in_between_is_supported() {
    let mut pairs = Vec::new();
    for line in LINES.iter().filter(|line| line.talos >= Contract::new(1, 10)) {
        for minor in line.kubernetes_from.minor..=line.kubernetes_to.minor {
            pairs.push((Version::new(1, line.talos.minor, 1), Version::new(1, minor, 1)));
        }
    }
    let (mut carried_out, mut refused) = (0, 0);
    for (talos, kubernetes) in &pairs {
        for (new_talos, new_kubernetes) in &pairs {
            let mut desired = desired(3, 1);
            (desired.talos.version, desired.kubernetes.version) = (new_talos.clone(), new_kubernetes.clone());
            let observed = from_to((&talos.to_string(), &kubernetes.to_string()), &desired);
            let plan = planned(&desired, &observed, &request());
            let what = format!("{talos} with {kubernetes} to {new_talos} with {new_kubernetes}");
            let way = upgrade_path(Pair::of(talos, kubernetes), Pair::of(new_talos, new_kubernetes));
            let moves = |of: fn(&Pair) -> Contract| {
                let path = [Pair::of(talos, kubernetes)].into_iter().chain(way.clone().unwrap_or_default());
                path.map(|pair| of(&pair)).collect::<std::collections::BTreeSet<_>>().len() - 1
            };
            let at_once =
                way.is_some() && moves(|pair| pair.talos) <= 1 && moves(|pair| pair.kubernetes) <= 1;
            assert_eq!(plan.refusals.is_empty(), at_once, "{what}: {:#?}", plan.refusals);
            if !at_once {
                assert!(plan.refusals.iter().all(|refusal| !refusal.choices.is_empty()), "{what}");
                refused += 1;
                continue;
            }
            let before = desired.nodes.iter().map(|node| (node.name.to_string(), (talos, kubernetes)));
            is_supported_on_the_way(&plan, before.collect(), (new_talos, new_kubernetes), &what);
            carried_out += 1;
        }
    }
    println!("pairs: {carried_out} ways carried out in a supported order, {refused} refused with stations");
    assert!(carried_out > 100 && refused > 100);
}

/// Every node runs what its Talos supports, after every step, and in the end what is described.
fn is_supported_on_the_way<'a>(
    plan: &Plan,
    mut nodes: BTreeMap<String, (&'a Version, &'a Version)>,
    (talos, kubernetes): (&'a Version, &'a Version),
    what: &str,
) {
    for change in order(plan) {
        match change {
            Some(node) => nodes.get_mut(&node).unwrap().0 = talos,
            None => nodes.values_mut().for_each(|runs| runs.1 = kubernetes),
        }
        for (node, (talos, runs)) in &nodes {
            assert!(Pair::of(talos, runs).is_supported(), "{what}: {node} has {talos} with {runs}");
        }
    }
    assert!(nodes.values().all(|runs| *runs == (talos, kubernetes)), "{what}: {plan:#?}");
}

#[test]
fn over_all_pairs_with_a_kubelet_that_is_behind_too() {
    let (mut carried_out, mut first) = (0, 0);
    for line in LINES.iter().filter(|line| line.talos >= Contract::new(1, 11)) {
        for behind in line.kubernetes_from.minor..line.kubernetes_to.minor {
            for new_line in LINES.iter().filter(|new| new.talos >= line.talos) {
                let (talos, new_talos) =
                    (Version::new(1, line.talos.minor, 1), Version::new(1, new_line.talos.minor, 1));
                let (kubelet, kubernetes) = (Version::new(1, behind, 1), Version::new(1, behind + 1, 1));
                let mut desired = desired(3, 2);
                (desired.talos.version, desired.kubernetes.version) = (new_talos.clone(), kubernetes.clone());
                let mut observed = from_to((&talos.to_string(), &kubernetes.to_string()), &desired);
                kubelet_of(&mut observed, &desired, "w-2", &kubelet.to_string());
                let plan = planned(&desired, &observed, &request());
                if !plan.refusals.is_empty() {
                    continue;
                }
                let what = format!("{talos} with {kubernetes}, w-2 with {kubelet}, to {new_talos}");
                let of = |node: &str| if node == "w-2" { &kubelet } else { &kubernetes };
                let before = desired
                    .nodes
                    .iter()
                    .map(|node| (node.name.to_string(), (&talos, of(node.name.as_str()))));
                is_supported_on_the_way(&plan, before.collect(), (&new_talos, &kubernetes), &what);
                carried_out += 1;
                first += usize::from(talos != new_talos && order(&plan)[0].is_none());
            }
        }
    }
    assert!(carried_out > 20 && first > 1, "{carried_out}, Kubernetes first in {first}");
}

#[test]
fn no_control_plane_goes_down_beside_it() {
    let desired = described("1.13.9", "1.36.3");
    let observed = from_to(("1.12.6", "1.35.4"), &desired);
    let mut plan = planned(&desired, &observed, &request());
    assert!(check(&plan, &desired, &observed, &request()).is_empty());
    for step in &mut plan.steps {
        if matches!(step.step, Step::Upkeep(Upkeep::UpgradeKubernetes { .. })) {
            step.needs.clear();
        }
    }
    let violations = check(&plan, &desired, &observed, &request());
    assert!(violations.iter().any(|violation| violation.rule == Rule::OneAtATime), "{violations:#?}");
}

/// Something of a node's configuration is written down and waits for its restart.
fn waits(observed: &mut Observed, node: &str) {
    let changes = seen_mut(observed, &name(node)).config.get_or_insert_default();
    changes.push(Change {
        key: "machine.env.A".to_owned(),
        old: None,
        new: Some("b".to_owned()),
        applies: Applies::Written,
        field: None,
        sub: Vec::new(),
    });
}

fn told(plan: &Plan) -> Vec<String> {
    let waits = plan.waiting.iter().filter_map(|waiting| match waiting {
        Waiting::Reboot { node, keys, .. } => Some(format!("{node}: {}", keys.join(", "))),
        _ => None,
    });
    waits.collect()
}

#[test]
fn what_waits_for_a_restart_comes_into_force_before_kubernetes_is_upgraded() {
    let desired = described("1.13.9", "1.36.4");
    let mut observed = from_to(("1.13.9", "1.36.3"), &desired);
    for node in ["w-1", "cp-3"] {
        waits(&mut observed, node);
    }
    let plan = planned(&desired, &observed, &Request { allow_reboot: true, ..request() });
    assert_eq!(problems(&plan), [""; 0]);
    assert_eq!(told(&plan), [""; 0], "something is done about it");
    let kubernetes = plan.steps.iter().find(|step| step.step.word() == "upgrade-kubernetes").unwrap();
    for back in ["cp-3/return", "w-1/return"] {
        assert!(kubernetes.needs.iter().any(|need| need.as_str() == back), "{plan:#?}");
    }
    let restarts = plan.steps.iter().filter(|step| {
        matches!(step.step, Step::Upkeep(Upkeep::ChangeNode { mode: ChangeMode::Restart, .. }))
    });
    let restarts: Vec<&str> = restarts.map(|step| step.id.as_str()).collect();
    assert_eq!(restarts, ["cp-3/change-node", "w-1/change-node"], "the new images are not sent with it");
}

#[test]
fn what_waits_for_a_restart_that_nobody_allowed_keeps_kubernetes_as_it_is() {
    let desired = described("1.13.9", "1.36.4");
    let mut observed = from_to(("1.13.9", "1.36.3"), &desired);
    waits(&mut observed, "w-1");
    let mut staged = Request { allow_reboot: true, ..request() };
    staged.upkeep.stage = true;
    for request in [Request { allow_reboot: false, ..request() }, staged] {
        let plan = planned(&desired, &observed, &request);
        assert_eq!(upgrade(&plan), None, "{plan:#?}");
        assert_eq!(told(&plan), ["w-1: machine.env.A"]);
        assert!(problems(&plan)[0].contains("waits for the restart of w-1: machine.env.A"), "{plan:#?}");
        assert!(plan.refusals[0].choices[0].contains("--allow-reboot"), "{plan:#?}");
    }
}

#[test]
fn what_waits_for_a_restart_comes_with_that_of_talos() {
    let desired = described("1.13.9", "1.36.3");
    let mut observed = from_to(("1.12.6", "1.35.4"), &desired);
    waits(&mut observed, "w-1");
    let plan = planned(&desired, &observed, &Request { allow_reboot: false, ..request() });
    assert_eq!(problems(&plan), [""; 0]);
    assert_eq!(told(&plan), [""; 0]);
    assert_eq!(upgrade(&plan), Some(upgraded("1.35.4", "1.36.3")), "{plan:#?}");
}

#[test]
fn a_talos_that_is_only_installed_comes_after_the_kubernetes_it_needs_as_well() {
    let desired = described("1.14.0", "1.32.1");
    let mut observed = from_to(("1.13.9", "1.31.4"), &desired);
    let mut staged = request();
    staged.upkeep.stage = true;
    let plan = planned(&desired, &observed, &staged);
    assert_eq!(order(&plan).first(), Some(&None), "{:?}", steps(&plan));
    let installs = plan.steps.iter().filter(|step| step.step.word() == "upgrade-node");
    let installs: Vec<_> = installs.collect();
    assert_eq!(installs.len(), 5, "{:?}", steps(&plan));
    for step in installs {
        assert!(step.needs.iter().any(|need| need.as_str() == "upgrade-kubernetes"), "{step:?}");
    }
    // Where Kubernetes has to wait, so has this.
    observed.talos.insert(name("cp-3"), silent(&desired, "cp-3"));
    let plan = planned(&desired, &observed, &staged);
    assert!(plan.steps.iter().all(|step| step.step.word() != "upgrade-node"), "{:?}", steps(&plan));
    assert!(later(&plan).contains(&"w-1/upgrade-node".to_owned()), "{:?}", later(&plan));
}

#[test]
fn the_kubelet_of_a_node_that_does_not_answer_may_not_be_too_far_behind_either() {
    let desired = described("1.13.9", "1.36.3");
    let mut observed = from_to(("1.13.9", "1.35.4"), &desired);
    observed.talos.insert(name("w-2"), silent(&desired, "w-2"));
    let of_kubelet = |observed: &mut Observed, version: &str| {
        let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("no Kubernetes") };
        version.clone_into(&mut cluster.nodes.get_mut("w-2").unwrap().version);
    };
    of_kubelet(&mut observed, "v1.33.4");
    assert_eq!(problems(&planned(&desired, &observed, &request())), [""; 0]);
    of_kubelet(&mut observed, "v1.32.4");
    let plan = planned(&desired, &observed, &request());
    assert!(problems(&plan)[0].contains("Kubernetes 1.32 cannot become 1.36 at once"), "{plan:#?}");
}
