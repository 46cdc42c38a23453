//! Nodes that HA looks after.

use talmox_exec::{Outcome, execute, observe};
use talmox_plan::{Goal, NoteKind, Plan, Request, check, plan};
use talmox_pve::client::{Client, Method};
use talmox_test::{Fault, Lab, When, vmid};
use talmox_types::desired::Desired;

use crate::exec::support::{Bench, description, make_pool, nonce};

/// Three control planes and a worker under HA on one host.
fn wanted() -> Desired {
    description(3, 1, "proxmox_nodes: [pve1]\nproxmox_vm_defaults: {ha_managed: true}\n")
}

async fn planned(client: &Client, desired: &Desired, request: &Request) -> Plan {
    let observed = observe(client, desired).await.unwrap();
    let plan = plan(desired, &observed, request, &nonce());
    assert_eq!(check(&plan, desired, &observed, request), []);
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    plan
}

/// Plans and carries out until nothing is left.
async fn converge(lab: &Lab, client: &Client, desired: Desired, request: Request) -> Vec<Outcome> {
    let bench = Bench { request, ..Bench::new(desired) };
    let mut outcomes = Vec::new();
    for _ in 0..8 {
        let plan = planned(client, &bench.desired, &bench.request).await;
        if plan.steps.is_empty() {
            return outcomes;
        }
        outcomes.push(execute(&bench.run(client), &plan).await);
    }
    panic!("it never ends: {outcomes:#?}\n{}", lab.calls());
}

async fn prepared(version: &str) -> (Lab, Client) {
    let lab = Lab::one_host(1);
    lab.world(|world| world.set_release(version)).unwrap();
    let root = lab.root();
    lab.template(&root, vmid(9000)).await;
    (lab, root)
}

#[tokio::test(start_paused = true)]
async fn nodes_come_under_ha_with_rules_and_leave_with_the_cluster() {
    let (lab, root) = prepared("9.2").await;
    converge(&lab, &root, wanted(), Request::default()).await;
    let mut sids: Vec<String> =
        root.ha_resources().await.unwrap().into_iter().map(|known| known.sid).collect();
    sids.sort();
    assert_eq!(sids, ["vm:2000", "vm:2001", "vm:2002", "vm:2003"]);
    let mut rules: Vec<(String, usize)> =
        root.ha_rules().await.unwrap().into_iter().map(|rule| (rule.rule, rule.resources.len())).collect();
    rules.sort();
    assert_eq!(rules, [("talmox-lab-hosts".to_owned(), 4)], "three cannot be kept apart on one host");
    let destroy = Request { goal: Goal::Destroy, ..Request::default() };
    converge(&lab, &root, wanted(), destroy).await;
    assert!(root.ha_rules().await.unwrap().is_empty() && root.ha_resources().await.unwrap().is_empty());
}

/// The manager had nothing to manage, and knows of no host for a while: the first run waits for it.
#[tokio::test(start_paused = true)]
async fn control_planes_are_kept_apart_by_the_first_run() {
    let lab = Lab::three_hosts(1);
    lab.world(|world| world.set_release("9.2")).unwrap();
    let root = lab.root();
    lab.template(&root, vmid(9000)).await;
    let desired =
        description(3, 1, "proxmox_nodes: [pve1, pve2, pve3]\nproxmox_vm_defaults: {ha_managed: true}\n");
    for outcome in converge(&lab, &root, desired, Request::default()).await {
        assert!(outcome.is_complete(), "{outcome:#?}");
    }
    let rules = root.ha_rules().await.unwrap();
    let apart = rules.iter().find(|rule| rule.rule == "talmox-lab-apart");
    assert_eq!(apart.map(|rule| rule.resources.len()), Some(3), "{rules:#?}");
}

#[tokio::test(start_paused = true)]
async fn version_8_has_groups() {
    let (lab, root) = prepared("8.4").await;
    converge(&lab, &root, wanted(), Request::default()).await;
    let groups = root.ha_groups().await.unwrap();
    assert_eq!(
        (groups[0].group.as_str(), groups[0].nodes.as_slice()),
        ("talmox-lab", ["pve1".to_owned()].as_slice())
    );
    assert!(
        root.ha_resources().await.unwrap().iter().all(|known| known.group.as_deref() == Some("talmox-lab"))
    );
}

/// Two clusters of one name on one Proxmox: HA would move the other's VMs to hosts nobody meant for them.
#[tokio::test(start_paused = true)]
async fn a_group_of_somebody_else_is_left_alone() {
    let (lab, root) = prepared("8.4").await;
    let theirs = [talmox_test::host(2)];
    root.add_ha_group("talmox-lab", &theirs, "talmox:v1 uid=fedcba9876543210 cluster=lab").await.unwrap();
    converge(&lab, &root, wanted(), Request::default()).await;
    let groups = root.ha_groups().await.unwrap();
    assert_eq!((groups.len(), groups[0].nodes.as_slice()), (1, ["pve2".to_owned()].as_slice()));
    assert_eq!(lab.calls().asking("PUT", "/cluster/ha/groups").count(), 0);
    assert!(root.ha_resources().await.unwrap().iter().all(|known| known.group.is_none()));
    let plan = planned(&root, &wanted(), &Request::default()).await;
    assert!(
        plan.notes.iter().any(|note| note.text.contains("HA group talmox-lab is not from us")),
        "{plan:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_adds_nothing_twice() {
    let (lab, root) = prepared("9.2").await;
    for path in ["/cluster/ha/resources", "/cluster/ha/rules"] {
        lab.plan(When::first(Method::Post, path), Fault::ReplyLost);
    }
    let outcomes = converge(&lab, &root, wanted(), Request::default()).await;
    assert!(outcomes.iter().all(|outcome| outcome.failed.is_empty()), "{outcomes:#?}");
    assert_eq!(root.ha_rules().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_it_is_left_out() {
    let (lab, _) = prepared("9.2").await;
    make_pool(&lab).await;
    let client = lab.client();
    converge(&lab, &client, wanted(), Request::default()).await;
    let plan = planned(&client, &wanted(), &Request::default()).await;
    let left_out =
        plan.notes.iter().any(|note| note.kind == NoteKind::LeftOut && note.text.starts_with("ha_managed"));
    assert!(left_out && lab.root().ha_resources().await.unwrap().is_empty(), "{:?}", plan.notes);
}
