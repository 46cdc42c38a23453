//! What the credentials cannot see is unknown, never missing: nothing is built in its place.

use talmox_exec::observe;
use talmox_exec::preflight::setup;
use talmox_plan::{Goal, NodeState, Nonce, NoteKind, Plan, Request, Step, plan, view};
use talmox_pve::client::{Client, Credentials, Params};
use talmox_types::NodeName;
use talmox_types::desired::Desired;

use crate::preflight::bed::{ACCOUNT, Bed, changed, described, larger, small};
use crate::preflight::paste::paste;

const TOKEN: &str = "talmox-lab@pve!talmox";

/// The cluster of `small()`, made with the token of `check --setup`.
async fn stands() -> (Bed, Client) {
    let bed = Bed::new("9.2", |_| {}).await;
    let client = granted(&bed, &small()).await;
    bed.live_a_little(&client).await;
    // Until the hosts' broadcasts name the new VMs.
    tokio::time::sleep(std::time::Duration::from_secs(21)).await;
    (bed, client)
}

async fn granted(bed: &Bed, desired: &Desired) -> Client {
    let facts = bed.facts(desired, &bed.root()).await;
    let secret = paste(&bed.root(), &setup(desired, &facts, &bed.account())).await.unwrap();
    bed.client(&Credentials::token_parts(&format!("{ACCOUNT}!talmox"), secret).unwrap())
}

/// Takes every entry of the token and its user at a path away.
fn without_entry(bed: &Bed, path: &str) {
    bed.lab.world(|world| world.access.acl.retain(|entry| entry.path != path));
}

/// Changes the role that is granted at a path.
fn change_role(bed: &Bed, path: &str, change: impl Fn(&mut std::collections::BTreeSet<String>) -> bool) {
    bed.lab.world(|world| {
        let role = world.access.acl.iter().find(|entry| entry.path == path && entry.subject == TOKEN);
        let role = role.unwrap_or_else(|| panic!("nothing is granted at {path}")).role.clone();
        assert!(change(world.access.roles.get_mut(&role).unwrap()), "it is so already");
    });
}

/// Anything below the pool, and nothing outside of it.
fn pool_alone(bed: &Bed) {
    change_role(bed, "/pool/talmox-lab", |role| role.insert("VM.Audit".to_owned()));
    without_entry(bed, "/vms");
}

async fn planned(client: &Client, desired: &Desired, request: &Request) -> Plan {
    plan(desired, &observe(client, desired).await.unwrap(), request, &Nonce::new(7))
}

fn vms(bed: &Bed) -> usize {
    bed.lab.world(|world| (2000..3000).filter(|id| world.has_vm(*id)).count())
}

/// The refusals, and that nothing is made.
async fn refused(client: &Client, desired: &Desired) -> String {
    let plan = planned(client, desired, &Request::default()).await;
    let made: Vec<&Step> =
        plan.steps.iter().map(|planned| &planned.step).filter(|step| step.makes().is_some()).collect();
    assert_eq!(made, Vec::<&Step>::new());
    let one =
        |refusal: &talmox_plan::Refusal| format!("{}\n{}\n", refusal.problem, refusal.choices.join("\n"));
    plan.refusals.iter().map(one).collect()
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_left_the_pool_is_not_built_again() {
    let (bed, client) = stands().await;
    pool_alone(&bed);
    let out = Params::new().with("poolid", "talmox-lab").with("vms", 2000).with("delete", 1);
    bed.root().put::<()>("/pools", out).await.unwrap();
    insta::assert_snapshot!(refused(&client, &small()).await);
    let before = bed.lab.calls().writes().count();
    let error = bed.converge(&client, &small(), &Request::default()).await.unwrap_err();
    assert!(error.contains("VM.Audit is missing on /vms"), "{error}");
    assert_eq!((vms(&bed), bed.lab.calls().writes().count()), (2, before));
    let seen = view(&small(), &observe(&client, &small()).await.unwrap());
    assert_eq!(seen.nodes[0].state, NodeState::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_seen_is_not_built_again() {
    let (bed, client) = stands().await;
    without_entry(&bed, "/vms");
    let told = refused(&client, &small()).await;
    assert!(told.contains("VM.Audit is missing on /vms: to see"), "{told}");
    let before = bed.lab.calls().writes().count();
    bed.converge(&client, &small(), &Request::default()).await.unwrap_err();
    let destroy = Request { goal: Goal::Destroy, ..Request::default() };
    let error = bed.converge(&client, &small(), &destroy).await.unwrap_err();
    assert!(error.contains("VM.Audit is missing on /vms"), "{error}");
    assert_eq!((vms(&bed), bed.lab.calls().writes().count()), (2, before));
}

#[tokio::test(start_paused = true)]
async fn a_right_that_reaches_no_vm_is_no_right() {
    let (bed, client) = stands().await;
    bed.lab.world(|world| {
        for entry in world.access.acl.iter_mut().filter(|entry| entry.path == "/vms") {
            entry.propagate = false;
        }
    });
    assert!(refused(&client, &small()).await.contains("VM.Audit is missing on /vms"));
    let report = bed.check(&small(), &client).await;
    let named =
        |check: &talmox_exec::preflight::Check| check.message.contains("VM.Audit is missing on /vms:");
    assert!(report.checks.iter().any(named), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn with_the_pool_alone_what_is_seen_is_changed_and_removed_and_nothing_created() {
    let (bed, client) = stands().await;
    pool_alone(&bed);
    let reboots = Request { allow_reboot: true, ..Request::default() };
    bed.converge(&client, &changed(), &reboots).await.unwrap();
    assert!(refused(&client, &larger()).await.contains("VM.Audit is missing on /vms"));
    let plan = planned(&client, &changed(), &Request::default()).await;
    let warned = plan.notes.iter().any(|note| {
        note.kind == NoteKind::Warning
            && note.text.contains("VMs outside of the pool talmox-lab cannot be seen")
    });
    assert!(warned && plan.is_empty(), "{plan:#?}");
    let worker = NodeName::parse("worker-1").unwrap();
    let replace = Request { replace: [worker].into(), ..Request::default() };
    let replaced = planned(&client, &changed(), &replace).await;
    let told: Vec<&str> = replaced.refusals.iter().map(|refusal| refusal.problem.as_str()).collect();
    assert!(told.iter().any(|problem| problem.contains("VM.Audit is missing on /vms")), "{replaced:#?}");
    assert_eq!(vms(&bed), 2);
    let destroy = Request { goal: Goal::Destroy, ..Request::default() };
    bed.converge(&client, &changed(), &destroy).await.unwrap();
    assert_eq!(vms(&bed), 0);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_look_at_pools_learns_who_is_in_one_from_the_pool() {
    let (bed, client) = stands().await;
    change_role(&bed, "/pool/talmox-lab", |role| role.remove("Pool.Audit"));
    let before = bed.lab.calls().writes().count();
    bed.converge(&client, &small(), &Request::default()).await.unwrap();
    assert_eq!(bed.lab.calls().writes().count(), before, "they are in the pool already");
    let told = refused(&client, &larger()).await;
    assert!(told.contains("Pool.Audit is missing on /pool/talmox-lab: to see the cluster's pool"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn storages_that_cannot_be_seen() {
    let bed = Bed::new("9.2", |_| {}).await;
    let client = granted(&bed, &small()).await;
    change_role(&bed, "/storage/local-zfs", |role| role.remove("Datastore.Audit"));
    let told = refused(&client, &small()).await;
    assert!(told.contains("Datastore.Audit is missing on /storage/local-zfs: to see the storage"), "{told}");
    assert!(!told.contains("no storage"), "a storage that cannot be seen is not one that is missing: {told}");
}

/// An entry for one VM replaces what is granted on every VM.
#[tokio::test(start_paused = true)]
async fn a_template_that_its_own_entry_hides() {
    let nodes = "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n";
    let by_name = described("talos_template: talos-template\n", nodes);
    let bed = Bed::new("9.2", |_| {}).await;
    let client = granted(&bed, &by_name).await;
    change_role(&bed, "/vms/9000", |role| role.remove("VM.Audit"));
    let told = refused(&client, &by_name).await;
    assert!(told.contains("VM.Audit is missing on /vms/9000"), "{told}");
    let report = bed.check(&by_name, &client).await;
    let named =
        |check: &talmox_exec::preflight::Check| check.message.contains("VM.Audit is missing on /vms/9000:");
    assert!(report.checks.iter().any(named), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_proxmox_cluster_without_quorum_is_not_written_to() {
    let bed = Bed::new("9.2", |world| {
        world.add_node("pve2", "192.0.2.12");
        world.cluster = Some(("lab".to_owned(), 2));
    })
    .await;
    let client = granted(&bed, &small()).await;
    bed.lab.world(|world| {
        world.nodes.get_mut("pve2").unwrap().reach = talmox_sim::Reach::Unreachable;
    });
    let plan = planned(&client, &small(), &Request::default()).await;
    assert!(plan.is_empty(), "{plan:#?}");
    let told: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.problem.as_str()).collect();
    assert_eq!(
        told,
        ["the Proxmox cluster has no quorum, so it is read-only: 1 of 2 hosts do not answer (pve2)"]
    );
}
