//! A node is given its configuration in maintenance mode once: whoever takes its address over later, and knows the uuid of its VM,
//! gets nothing.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join;
use talmox_plan::{Plan, Request, Step};
use talmox_pve::client::ConfigChange;
use talmox_sim_talos::{Hardware, MachineId};
use talmox_talos::ResetPlan;
use talmox_test::{Fault, When, host, vmid};
use talmox_types::Mark;

use crate::bringup::bed::{Bed, described, healthy};
use crate::bringup::trouble::STRANGER;

/// The worker of a cluster with one control plane.
const WORKER: &str = "10.0.7.12";
const WORKER_VM: u32 = 2001;

async fn up(seed: u64, more: &str) -> Bed {
    let bed = Bed::new(seed, described(1, 1, more));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed
}

fn mark(bed: &Bed, number: u32) -> Mark {
    let dump = bed.lab.world(|world| world.dump());
    Mark::of_description(&dump.vms[&number].config["description"]).unwrap()
}

/// Writes whether the mark of a VM says that its machine was configured.
async fn write(bed: &Bed, number: u32, configured: bool) {
    let mark = Mark { configured, ..mark(bed, number) };
    let change = ConfigChange::new().set("description", &mark.to_string()).unwrap();
    bed.lab.root().change_config(&host(1), vmid(number), &change).await.unwrap();
}

async fn uuid(bed: &Bed, number: u32) -> Option<String> {
    let config = bed.lab.root().vm_config(&host(1), vmid(number)).await.ok()?;
    config.smbios().unwrap()?.uuid
}

/// Puts a machine in maintenance mode at the address of a node, which tells the uuid of the node's VM: Proxmox told it.
async fn impersonate(bed: &Bed, address: &str, number: u32) {
    let address: IpAddr = address.parse().unwrap();
    let uuid = uuid(bed, number).await.unwrap().to_lowercase();
    bed.lab.nodes(|nodes| nodes.power_on(Hardware { uuid, ..Hardware::stranger(STRANGER, address) }));
    tokio::time::sleep(Duration::from_mins(1)).await;
}

/// Calls that gave somebody a configuration, whatever came of them.
fn sent(bed: &Bed) -> usize {
    bed.lab.calls().asking("CALL", "/ApplyConfiguration").count()
}

fn reconfigure(fingerprint: Option<&str>) -> Request {
    let node = "worker-1".parse().unwrap();
    Request { reconfigure: [(node, fingerprint.map(str::to_owned))].into(), ..healthy() }
}

/// Makes the worker forget its configuration, as somebody does by hand.
async fn wipe(bed: &Bed) {
    let plan = ResetPlan { graceful: false, reboot: true, partitions: vec!["STATE".to_owned()] };
    bed.client(WORKER).reset(&plan).await.unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
}

/// The fingerprint a plan would have the worker configured behind.
fn approved(plan: &Plan) -> Option<String> {
    plan.steps.iter().find_map(|planned| {
        let Step::ConfigureNode { reconfigure, .. } = &planned.step else { return None };
        reconfigure.as_ref()?.fingerprint.clone()
    })
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_takes_the_address_of_a_configured_node_gets_nothing() {
    for (address, number, node) in [(WORKER, WORKER_VM, "worker-1"), ("10.0.7.11", 2000, "cp-1")] {
        let bed = up(101, "").await;
        assert!(mark(&bed, number).configured, "it has answered");
        let before = sent(&bed);
        impersonate(&bed, address, number).await;
        let plan = bed.plan(&healthy()).await;
        let refusal = plan
            .refusals
            .iter()
            .find(|refusal| refusal.node.as_ref().is_some_and(|refused| refused.as_str() == node));
        let refusal = refusal.unwrap_or_else(|| panic!("{plan:#?}"));
        assert!(refusal.problem.contains("was configured before"), "{refusal:?}");
        let ways = refusal.choices.join("\n");
        assert!(ways.contains(&format!("--reconfigure {node}=")), "{ways}");
        assert!(ways.contains(&format!("--replace {node}")), "{ways}");
        bed.converge(&healthy(), 2).await.unwrap_err();
        assert_eq!(sent(&bed), before, "{node}");
        // The node itself was there all the time.
        bed.lab.nodes(|nodes| nodes.power_off(STRANGER));
        tokio::time::sleep(Duration::from_mins(1)).await;
        bed.is_healthy().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_of_kubernetes_proves_it_where_the_mark_does_not() {
    let bed = up(102, "").await;
    write(&bed, WORKER_VM, false).await;
    let before = sent(&bed);
    impersonate(&bed, WORKER, WORKER_VM).await;
    let plan = bed.plan(&healthy()).await;
    assert!(
        plan.refusals.iter().any(|refusal| refusal.problem.contains("Kubernetes has its Node")),
        "{plan:#?}"
    );
    bed.converge(&healthy(), 2).await.unwrap_err();
    assert_eq!(sent(&bed), before);
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_says_so_since_the_plan_was_made_counts() {
    let bed = Bed::new(103, described(1, 1, ""));
    // While its VM boots somebody else's run has it configured, and a machine takes its address over.
    let meanwhile = async {
        while uuid(&bed, WORKER_VM).await.is_none()
            || !bed.lab.nodes(|nodes| nodes.is_on(MachineId(WORKER_VM)))
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        write(&bed, WORKER_VM, true).await;
    };
    let request = healthy();
    let (end, ()) = join(bed.converge(&request, 1), meanwhile).await;
    let error = end.unwrap_err();
    assert!(error.contains("worker-1 was configured before"), "{error}");
    let to_worker =
        bed.lab.calls().asking("CALL", "/ApplyConfiguration").filter(|call| call.host == WORKER).count();
    assert_eq!(to_worker, 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_dies_between_sending_and_the_answer_goes_on_by_itself() {
    for arrived in [false, true] {
        let bed = Bed::new(104, described(1, 0, ""));
        bed.lab.plan(When::talos("ApplyConfiguration"), Fault::KillClient { sent: arrived });
        bed.converge_mortally(&healthy(), 0xa).await.unwrap_err();
        assert!(!mark(&bed, 2000).configured, "nobody has heard its answer");
        bed.lab.transport().revive_client();
        bed.converge(&healthy(), 0xb).await.unwrap();
        bed.is_healthy().await;
        assert!(mark(&bed, 2000).configured);
        assert!(bed.plan(&healthy()).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn marks_of_before_are_given_the_word_once() {
    let bed = up(105, "").await;
    for number in [2000, WORKER_VM] {
        write(&bed, number, false).await;
    }
    let plan = bed.plan(&healthy()).await;
    let steps: Vec<String> = plan.steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(steps, ["cp-1/record-configured", "worker-1/record-configured"]);
    bed.converge(&healthy(), 2).await.unwrap();
    assert!(mark(&bed, 2000).configured && mark(&bed, WORKER_VM).configured);
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "{plan:#?}");
    let writes = bed.lab.calls().writes().count();
    bed.converge(&healthy(), 3).await.unwrap();
    assert_eq!(bed.lab.calls().writes().count(), writes, "a second run writes nothing");
}

#[tokio::test(start_paused = true)]
async fn who_looked_at_the_console_has_it_configured_again() {
    let bed = up(106, "").await;
    let before = sent(&bed);
    wipe(&bed).await;
    bed.converge(&healthy(), 2).await.unwrap_err();
    assert_eq!(sent(&bed), before);
    let plan = bed.plan(&reconfigure(None)).await;
    let shown = approved(&plan).unwrap_or_else(|| panic!("{plan:#?}"));
    // It restarts, or another takes its place, before the plan is carried out: it makes another certificate.
    bed.lab.nodes(|nodes| nodes.reset(MachineId(WORKER_VM)));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let error = bed.carry_out(&plan, &reconfigure(None), 99).await.unwrap_err();
    assert!(error.contains(&format!("{shown} was approved")), "{error}");
    let plan = bed.plan(&reconfigure(Some(&shown))).await;
    assert!(plan.refusals[0].problem.contains(&format!("{shown} was approved")), "{plan:#?}");
    assert_eq!(sent(&bed), before);
    // What is on the console now is approved.
    let now = approved(&bed.plan(&reconfigure(None)).await).unwrap();
    bed.converge(&reconfigure(Some(&now)), 3).await.unwrap();
    assert_eq!(sent(&bed), before + 1);
    bed.is_healthy().await;
    assert!(bed.plan(&healthy()).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_built_anew_is_configured_without_a_word() {
    let bed = up(107, "").await;
    let before = mark(&bed, WORKER_VM);
    wipe(&bed).await;
    let request = Request { replace: ["worker-1".parse().unwrap()].into(), ..healthy() };
    bed.converge(&request, 2).await.unwrap();
    bed.is_healthy().await;
    let after = mark(&bed, WORKER_VM);
    assert!(after.configured && after.incarnation != before.incarnation, "{after}");
}

#[tokio::test(start_paused = true)]
async fn by_drive_nothing_is_sent_to_whoever_is_in_maintenance_mode() {
    let bed = Bed::new(108, described(1, 1, "config_delivery: cidata"));
    // Before the worker has answered for the first time another machine has its address.
    let meanwhile = async {
        while uuid(&bed, WORKER_VM).await.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        impersonate(&bed, WORKER, WORKER_VM).await;
    };
    let request = healthy();
    let (end, ()) = join(bed.converge(&request, 1), meanwhile).await;
    let error = end.unwrap_err();
    assert!(error.contains("worker-1 at 10.0.7.12: waited 20 min"), "{error}");
    assert_eq!(sent(&bed), 0);
    bed.lab.nodes(|nodes| nodes.power_off(STRANGER));
    tokio::time::sleep(Duration::from_mins(1)).await;
    bed.converge(&request, 2).await.unwrap();
    assert_eq!(sent(&bed), 0);
    bed.is_healthy().await;
}
