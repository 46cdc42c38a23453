//! What is planned for what is inside the machines.

mod broken;
mod configured;
mod early;
mod layers;
mod leaving;
mod restore;
mod roles;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_plan::{
    Applies, Change, Effect, NoteKind, Observed, Plan, Planned, Power, Request, Rule, SeenCluster, SeenEtcd,
    SeenKubernetes, SeenKubernetesNode, SeenMachine, SeenNode, SeenStage, Snapshot, Step, StepId, Until,
    Upkeep, UpkeepRequest, Waiting, check,
};
use talmox_types::desired::{Desired, NodeAddress, Power as WantedPower, Role};
use talmox_types::{BootstrapWord, Mark, NodeName};

use crate::support::*;

fn until(until: Until) -> Request {
    Request { until, ..Request::default() }
}

pub(crate) fn healthy() -> Request {
    until(Until::Healthy)
}

pub(crate) fn address(desired: &Desired, node: &str) -> IpAddr {
    let node = desired.nodes.iter().find(|one| one.name.as_str() == node).unwrap();
    let NodeAddress::Declared(pair) = node.address else { panic!("declared addresses only") };
    pair.primary()
}

fn uuid(vmid: u32) -> String {
    format!("9a7c6bcf-9f0e-4bf0-b3f1-{vmid:012}")
}

/// VMs as described, running, each with a uuid.
fn running(desired: &Desired) -> Observed {
    let mut observed = converged(desired);
    for vmid in observed.guests.keys().copied().filter(|id| id.get() < 9000).collect::<Vec<_>>() {
        edit(&mut observed, vmid.get(), |config| {
            let smbios = config.smbios().unwrap().unwrap_or_default();
            let uuid = Some(uuid(vmid.get()));
            config.set("smbios1", &talmox_pve::property::Smbios { uuid, ..smbios });
        });
    }
    observed
}

/// What is seen of a machine. The mark of its VM says whether it was configured: a run wrote that when it answered, and one in
/// maintenance mode is new.
pub(crate) fn see(observed: &mut Observed, node: &str, machine: SeenMachine) {
    match machine {
        SeenMachine::Configured(_) => remembered(observed, node, true),
        SeenMachine::Maintenance { .. } => remembered(observed, node, false),
        SeenMachine::Unreachable { .. } | SeenMachine::Foreign { .. } => {}
    }
    observed.talos.insert(name(node), machine);
}

/// Has the mark of a node's VM say whether its machine was configured.
pub(crate) fn remembered(observed: &mut Observed, node: &str, configured: bool) {
    let own = |guest: &talmox_plan::Guest| guest.name.as_deref() == Some(node) && !guest.template;
    let found = observed.guests.values().filter(|guest| own(guest)).map(|guest| guest.vmid.get());
    for vmid in found.collect::<Vec<_>>() {
        edit(observed, vmid, |config| {
            let Some(mark) = config.description().and_then(Mark::of_description) else { return };
            config.set("description", &Mark { configured, ..mark });
        });
    }
}

fn vmid_of(desired: &Desired, node: &str) -> u32 {
    2000 + u32::try_from(desired.nodes.iter().position(|one| one.name.as_str() == node).unwrap()).unwrap()
}

pub(crate) fn maintenance(desired: &Desired, node: &str) -> SeenMachine {
    SeenMachine::Maintenance {
        address: address(desired, node),
        uuid: uuid(vmid_of(desired, node)).to_uppercase(),
        version: Some("v1.13.9".to_owned()),
        fingerprint: Some(FINGERPRINT.to_owned()),
    }
}

/// What a machine in maintenance mode shows.
pub(crate) const FINGERPRINT: &str = "fingerprint-of-this-boot=";

pub(crate) fn silent(desired: &Desired, node: &str) -> SeenMachine {
    SeenMachine::Unreachable { address: address(desired, node), reason: "connection refused".to_owned() }
}

/// A configured machine before the bootstrap.
fn configured(desired: &Desired, node: &str) -> SeenNode {
    let role = desired.nodes.iter().find(|one| one.name.as_str() == node).unwrap().role;
    SeenNode {
        address: address(desired, node),
        version: "v1.13.9".to_owned(),
        schematic: None,
        extensions: Vec::new(),
        stage: SeenStage::Booting,
        ready: false,
        unmet: vec!["services: etcd not running".to_owned()],
        config: Some(Vec::new()),
        incomparable: None,
        refuses: None,
        on_trial: None,
        images: BTreeMap::new(),
        phases: talmox_types::Phases::default(),
        etcd: (role == Role::Controller).then_some(SeenEtcd::Empty),
        absent_pods: (role == Role::Worker).then(Vec::new),
        services: BTreeMap::new(),
    }
}

pub(crate) fn member(desired: &Desired, node: &str) -> SeenNode {
    let controllers = desired.nodes.iter().filter(|one| one.role == Role::Controller);
    let members = Some(controllers.map(|one| one.name.to_string()).collect());
    let before = configured(desired, node);
    SeenNode {
        stage: SeenStage::Running,
        ready: true,
        unmet: Vec::new(),
        etcd: before.etcd.as_ref().map(|_| SeenEtcd::Member {
            healthy: true,
            members,
            learners: 0,
            leaderless: false,
            leads: false,
        }),
        absent_pods: Some(Vec::new()),
        ..before
    }
}

fn all(observed: &mut Observed, desired: &Desired, seen: impl Fn(&Desired, &str) -> SeenMachine) {
    for node in &desired.nodes {
        see(observed, node.name.as_str(), seen(desired, node.name.as_str()));
    }
}

pub(crate) fn boxed(node: SeenNode) -> SeenMachine {
    SeenMachine::Configured(Box::new(node))
}

fn kubernetes(observed: &mut Observed, desired: &Desired) {
    let node = SeenKubernetesNode {
        ready: true,
        schedulable: true,
        version: "v1.36.3".to_owned(),
        cordoned_for: None,
        uuid: None,
    };
    let nodes = desired.nodes.iter().map(|one| (one.name.to_string(), node.clone())).collect();
    observed.kubernetes = SeenKubernetes::Answers(SeenCluster { nodes, ..SeenCluster::default() });
}

/// A cluster that lives, with what it takes to know it.
pub(crate) fn living(desired: &Desired) -> Observed {
    let mut observed = running(desired);
    all(&mut observed, desired, |desired, node| boxed(member(desired, node)));
    marked(&mut observed, 2000, true);
    kubernetes(&mut observed, desired);
    observed
}

pub(crate) fn later(plan: &Plan) -> Vec<String> {
    let line = |intent: &talmox_plan::Intent| match &intent.node {
        Some(node) => format!("{node}/{}", intent.step),
        None => intent.step.clone(),
    };
    plan.later.iter().map(line).collect()
}

fn marked(observed: &mut Observed, vmid: u32, done: bool) {
    edit(observed, vmid, |config| {
        let mut mark = Mark::of_description(config.description().unwrap()).unwrap();
        mark.bootstrap = Some(BootstrapWord { incarnation: mark.incarnation.clone(), done, snapshot: None });
        config.set("description", &mark);
    });
}

#[test]
fn from_nothing_everything_that_will_follow_is_said() {
    let desired = desired(3, 1);
    let plan = planned(&desired, &empty(), &healthy());
    assert!(plan.steps.iter().all(|step| !step.step.is_inside()));
    assert_eq!(
        later(&plan),
        [
            "cp-1/configure-node",
            "cp-2/configure-node",
            "cp-3/configure-node",
            "w-1/configure-node",
            "cp-1/bootstrap",
            "await-health"
        ]
    );
    assert_eq!(later(&planned(&desired, &empty(), &until(Until::Vms))), [""; 0]);
    assert_eq!(later(&planned(&desired, &empty(), &until(Until::Reachable))), [""; 0]);
    assert_eq!(later(&planned(&desired, &empty(), &until(Until::Configured))).len(), 4);
    assert_eq!(later(&planned(&desired, &empty(), &until(Until::Bootstrapped))).len(), 5);
}

#[test]
fn manifests_and_the_users_program_follow_the_bootstrap() {
    let mut desired = desired(1, 0);
    desired.kubernetes.bootstrap_manifests = vec!["cilium.yaml".to_owned()];
    desired.kubernetes.post_bootstrap = vec!["flux".to_owned(), "bootstrap".to_owned()];
    let plan = planned(&desired, &empty(), &healthy());
    assert_eq!(
        later(&plan),
        ["cp-1/configure-node", "cp-1/bootstrap", "apply-manifests", "post-bootstrap", "await-health"]
    );
    let mut observed = running(&desired);
    see(&mut observed, "cp-1", boxed(configured(&desired, "cp-1")));
    assert_eq!(
        steps(&planned(&desired, &observed, &healthy())),
        [
            "cp-1/bootstrap create",
            "apply-manifests create after cp-1/bootstrap",
            "post-bootstrap create after apply-manifests",
            "await-health wait after cp-1/bootstrap post-bootstrap",
        ]
    );
    // What Kubernetes says was done is not done again.
    let mut observed = living(&desired);
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it answers") };
    cluster.manifests = Some("d1".to_owned());
    assert_eq!(
        steps(&planned(&desired, &observed, &healthy())),
        ["post-bootstrap create", "await-health wait after post-bootstrap"]
    );
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it answers") };
    cluster.post_bootstrap = Some("d2".to_owned());
    assert!(planned(&desired, &observed, &healthy()).is_empty());
}

#[test]
fn machines_in_maintenance_are_configured_side_by_side() {
    let desired = desired(3, 1);
    let mut observed = running(&desired);
    all(&mut observed, &desired, maintenance);
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(
        steps(&plan),
        [
            "cp-1/configure-node create",
            "cp-2/configure-node create",
            "cp-3/configure-node create",
            "w-1/configure-node create"
        ]
    );
    assert_eq!(later(&plan), ["cp-1/bootstrap", "await-health"]);
    assert!(planned(&desired, &observed, &until(Until::Reachable)).is_empty());
    // Some of them have theirs.
    see(&mut observed, "cp-1", boxed(configured(&desired, "cp-1")));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(plan.steps.len(), 3);
    assert_eq!(
        plan.waiting,
        [Waiting::Bootstrap { node: name("cp-1"), missing: vec![name("cp-2"), name("cp-3")] }]
    );
}

#[test]
fn the_first_control_plane_by_name_is_bootstrapped_once_all_have_answered() {
    let desired = desired(3, 1);
    let mut observed = running(&desired);
    all(&mut observed, &desired, |desired, node| boxed(configured(desired, node)));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(steps(&plan), ["cp-1/bootstrap create", "await-health wait after cp-1/bootstrap"]);
    let Step::Bootstrap { vm, control_planes, .. } = &plan.steps[0].step else { panic!("a bootstrap") };
    assert_eq!(
        vm.mark.bootstrap,
        Some(BootstrapWord { incarnation: "aaaa0001".to_owned(), done: false, snapshot: None })
    );
    assert_eq!(control_planes.len(), 3);
    assert_eq!(steps(&planned(&desired, &observed, &until(Until::Bootstrapped))), ["cp-1/bootstrap create"]);
    assert!(planned(&desired, &observed, &until(Until::Configured)).is_empty());
    // An earlier run wrote its intent and died: the same node again.
    marked(&mut observed, 2000, false);
    assert_eq!(planned(&desired, &observed, &healthy()).steps[0].id.as_str(), "cp-1/bootstrap");
    // One of them cannot say whether it has data.
    let mut unsure = configured(&desired, "cp-3");
    unsure.etcd = Some(SeenEtcd::Unknown { reason: "it hangs".to_owned() });
    see(&mut observed, "cp-3", boxed(unsure));
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.steps.is_empty());
    assert_eq!(plan.waiting, [Waiting::Bootstrap { node: name("cp-1"), missing: vec![name("cp-3")] }]);
}

#[test]
fn a_cluster_that_is_healthy_has_an_empty_plan() {
    for (controllers, workers) in [(1, 0), (3, 2)] {
        let desired = desired(controllers, workers);
        let mut observed = living(&desired);
        let plan = planned(&desired, &observed, &healthy());
        assert!(plan.is_empty(), "{plan:#?}");
        assert!(plan.waiting.is_empty() && plan.notes.is_empty());
        // A run that could not write down that the bootstrap worked.
        marked(&mut observed, 2000, false);
        assert_eq!(steps(&planned(&desired, &observed, &healthy())), ["cp-1/record-bootstrap change_live"]);
        marked(&mut observed, 2000, true);
        assert!(planned(&desired, &observed, &healthy()).is_empty());
    }
}

#[test]
fn what_is_not_well_is_waited_for() {
    let desired = desired(3, 1);
    let reason = |observed: &Observed| {
        let plan = planned(&desired, observed, &healthy());
        assert_eq!(steps(&plan), ["await-health wait"]);
        plan.steps[0].reason.clone()
    };
    let mut observed = living(&desired);
    let mut joining = member(&desired, "cp-2");
    (joining.ready, joining.unmet) = (false, vec!["staticPods: pending".to_owned()]);
    see(&mut observed, "cp-2", boxed(joining));
    assert_eq!(reason(&observed), "cp-2 is not well: running, staticPods: pending");
    let mut observed = living(&desired);
    let mut alone = member(&desired, "cp-3");
    alone.etcd = Some(SeenEtcd::Member {
        healthy: true,
        members: Some(vec!["cp-3".to_owned()]),
        learners: 0,
        leaderless: false,
        leads: false,
    });
    see(&mut observed, "cp-3", boxed(alone));
    assert_eq!(reason(&observed), "the members cp-3 knows are cp-3");
    let mut observed = living(&desired);
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!("it answers") };
    cluster.nodes.remove("w-1");
    assert_eq!(reason(&observed), "w-1 is not in Kubernetes yet");
    observed.kubernetes = SeenKubernetes::Unreachable { reason: "refused".to_owned() };
    assert_eq!(reason(&observed), "Kubernetes does not answer: refused");
}

#[test]
fn nodes_that_come_later_are_configured_and_never_bootstrapped() {
    let all_of = desired(3, 2);
    for late in [["w-1", "w-2"], ["cp-1", "w-2"], ["cp-2", "cp-3"]] {
        let mut observed = living(&all_of);
        for node in late {
            see(&mut observed, node, maintenance(&all_of, node));
        }
        let plan = planned(&all_of, &observed, &healthy());
        let ids: BTreeSet<String> = plan.steps.iter().map(|step| step.id.to_string()).collect();
        let wanted = late.map(|node| format!("{node}/configure-node"));
        assert_eq!(ids, wanted.into_iter().chain(["await-health".to_owned()]).collect(), "{late:?}");
        assert!(!later(&plan).iter().any(|step| step.contains("bootstrap")));
        for node in late {
            see(&mut observed, node, boxed(configured(&all_of, node)));
        }
        let plan = planned(&all_of, &observed, &healthy());
        assert_eq!(steps(&plan), ["await-health wait"], "they join by themselves");
    }
}

/// A cluster that was adopted while nobody answered: its marks say nothing of etcd, and its first plan has one say it.
#[test]
fn that_etcd_was_begun_is_written_where_nobody_did() {
    let desired = desired(3, 1);
    let mut observed = living(&desired);
    edit(&mut observed, 2000, |config| {
        let mark = Mark::of_description(config.description().unwrap()).unwrap();
        config.set("description", &Mark { bootstrap: None, ..mark });
    });
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(steps(&plan), ["cp-1/record-bootstrap change_live"]);
    // Who is refused is not touched for this either.
    let mut demoted = desired.clone();
    for node in &mut demoted.nodes[..2] {
        node.role = Role::Worker;
    }
    let plan = planned(&demoted, &observed, &healthy());
    assert_eq!(plan.refusals.len(), 2, "{plan:#?}");
    assert!(steps(&plan).contains(&"cp-3/record-bootstrap change_live".to_owned()), "{:?}", steps(&plan));
    assert!(check(&plan, &demoted, &observed, &healthy()).is_empty());
    marked(&mut observed, 2002, true);
    assert!(planned(&desired, &observed, &healthy()).is_empty());
}

#[test]
fn a_cluster_that_lost_all_its_data_is_not_bootstrapped_again() {
    let desired = desired(3, 0);
    let mut observed = running(&desired);
    all(&mut observed, &desired, |desired, node| boxed(configured(desired, node)));
    marked(&mut observed, 2000, true);
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.is_empty());
    assert!(problems(&plan)[0].contains("bootstrapped before"), "{:?}", problems(&plan));
    // Nor on another node than an earlier run chose.
    let mut observed = running(&desired);
    all(&mut observed, &desired, |desired, node| boxed(configured(desired, node)));
    marked(&mut observed, 2001, false);
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.is_empty());
    assert!(problems(&plan)[0].contains("cp-2"), "{:?}", problems(&plan));
}

#[test]
fn a_stranger_at_our_address_gets_nothing() {
    let desired = desired(1, 0);
    let mut observed = running(&desired);
    let mut other = maintenance(&desired, "cp-1");
    let SeenMachine::Maintenance { uuid, .. } = &mut other else { panic!("in maintenance") };
    *uuid = self::uuid(4711);
    see(&mut observed, "cp-1", other);
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.steps.is_empty());
    assert!(problems(&plan)[0].contains("is not this node, and gets nothing"), "{:?}", problems(&plan));
    let foreign = SeenMachine::Foreign {
        address: address(&desired, "cp-1"),
        why: "its certificate is another's".to_owned(),
    };
    see(&mut observed, "cp-1", foreign);
    assert_eq!(problems(&planned(&desired, &observed, &healthy())).len(), 1);
}

#[test]
fn a_machine_that_does_not_answer_is_unknown_and_waited_for() {
    let desired = desired(3, 1);
    let mut observed = living(&desired);
    see(&mut observed, "cp-3", silent(&desired, "cp-3"));
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
    assert_eq!(later(&plan), ["cp-3/configure-node", "await-health"]);
    let [Waiting::Answer { node, vmid, .. }] = plan.waiting.as_slice() else { panic!("{:?}", plan.waiting) };
    assert_eq!((node, *vmid), (&name("cp-3"), id(2002)));
    // One this very run made can only be new.
    edit(&mut observed, 2002, |config| {
        for key in ["description", "smbios1"] {
            let text = config.get(key).unwrap().replace("aaaa0001", "bbbb0002");
            config.set(key, &text);
        }
        let smbios = config.smbios().unwrap().unwrap();
        let family = smbios.family.clone().map(|family| family.replace("aaaa0001", "bbbb0002"));
        config.set("smbios1", &talmox_pve::property::Smbios { family, ..smbios });
    });
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(steps(&plan), ["cp-3/configure-node create", "await-health wait after cp-3/configure-node"]);
}

#[test]
fn what_differs_inside_others_than_was_asked_for_is_shown_and_left_alone() {
    let desired = desired(1, 1);
    let mut observed = living(&desired);
    let mut other = member(&desired, "w-1");
    other.version = "v1.12.11".to_owned();
    other.config = Some(vec![Change {
        key: "machine.kubelet.extraArgs".to_owned(),
        old: Some("a".to_owned()),
        new: Some("b".to_owned()),
        applies: Applies::Now,
        field: None,
        sub: Vec::new(),
    }]);
    see(&mut observed, "w-1", boxed(other));
    let plan = planned(&desired, &observed, &Request { targets: [name("cp-1")].into(), ..healthy() });
    assert!(plan.is_empty());
    let notes: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "runs Talos 1.12.11, described is 1.13.9: left as it is",
            "its configuration differs and is left as it is: machine.kubelet.extraArgs a → b",
            "w-1 is not as described and not asked for: left alone (-v shows what differs)"
        ]
    );
    let kinds: Vec<NoteKind> = plan.notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::Beyond, NoteKind::Beyond, NoteKind::Inside]);
}

#[test]
fn a_control_plane_that_is_ready_before_its_pods_are_there_is_waited_for() {
    let desired = desired(3, 0);
    let absent = Some(vec!["kube-apiserver".to_owned()]);
    for (absent_pods, why) in
        [(absent, "no static pod of kube-apiserver"), (None, "its static pods are not known")]
    {
        let mut observed = living(&desired);
        see(&mut observed, "cp-2", boxed(SeenNode { absent_pods, ..member(&desired, "cp-2") }));
        let plan = planned(&desired, &observed, &healthy());
        assert_eq!(steps(&plan), ["await-health wait"]);
        assert_eq!(plan.steps[0].reason, format!("cp-2 is not well: running, {why}"));
    }
}

#[test]
fn a_vm_that_is_switched_on_first_follows_later() {
    let desired = desired(1, 1);
    let mut observed = living(&desired);
    observed.guests.get_mut(&id(2001)).unwrap().power = Power::Stopped;
    observed.talos.remove(&name("w-1"));
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(steps(&plan), ["w-1/start start"]);
    assert_eq!(later(&plan), ["w-1/configure-node", "await-health"]);
}

#[test]
fn a_cluster_that_is_described_as_stopped_is_not_waited_for() {
    let mut desired = desired(1, 1);
    let mut observed = running(&desired);
    for node in &mut desired.nodes {
        node.vm.power = WantedPower::Stopped;
    }
    for guest in observed.guests.values_mut() {
        guest.power = Power::Stopped;
    }
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
}

#[test]
fn only_targets_are_touched() {
    let desired = desired(3, 2);
    let mut observed = living(&desired);
    for node in ["w-1", "w-2"] {
        see(&mut observed, node, maintenance(&desired, node));
    }
    let request = Request { targets: BTreeSet::from([name("w-2")]), ..healthy() };
    assert_eq!(steps(&planned(&desired, &observed, &request)), ["w-2/configure-node create"]);
}
