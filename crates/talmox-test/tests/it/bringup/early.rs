//! Workers before the bootstrap: a worker that finds control planes by the virtual address alone has no certificate until etcd has a
//! leader, and no step waits for its answer until then.

use std::time::Duration;

use talmox_plan::{Planned, Proof, SeenMachine, Step, Until};
use talmox_sim_talos::{MachineId, Trouble};
use talmox_test::{Fault, When};
use talmox_types::{Mark, VmId};

use crate::bringup::bed::{Bed, described, healthy, until};
use crate::bringup::trouble::{deaths, die_at_each};

/// How nodes may find each other.
#[derive(Clone, Copy, Debug)]
enum Discovery {
    On,
    Off,
    OutOfReach,
}

const ALL: [Discovery; 3] = [Discovery::On, Discovery::Off, Discovery::OutOfReach];

impl Discovery {
    fn bed(self, seed: u64, (controllers, workers): (usize, usize), more: &str) -> Bed {
        let line = if matches!(self, Self::Off) { "discovery: false" } else { "discovery: true" };
        let bed = Bed::new(seed, described(controllers, workers, &format!("{line}\n{more}")));
        bed.reserve();
        bed.lab.nodes(|nodes| nodes.reach_discovery(!matches!(self, Self::OutOfReach)));
        bed
    }
}

/// Longer than any of these clusters takes, and shorter than a wait for something that never comes.
const SOON: Duration = Duration::from_mins(5);

/// One run brings it up, every mark says that its machine was configured, and another run has nothing to do.
async fn comes_up(bed: &Bed, what: &str) {
    let begun = bed.now();
    let end = bed.converge(&healthy(), 1).await;
    end.unwrap_or_else(|error| panic!("{what}: {error}\n{}", bed.told.lines().join("\n")));
    let took = bed.now() - begun;
    assert!(took < SOON.as_secs(), "{what}: it took {took} s");
    is_complete(bed, what).await;
}

async fn is_complete(bed: &Bed, what: &str) {
    bed.is_healthy().await;
    assert_eq!((bed.etcd_clusters(), bed.accepted("Bootstrap")), (1, 1), "{what}");
    let dump = bed.lab.world(|world| world.dump());
    for (vmid, vm) in dump.vms.iter().filter(|(vmid, _)| **vmid < 9000) {
        let mark = Mark::of_description(&vm.config["description"]).unwrap();
        assert!(mark.configured, "{what}: the mark of {vmid} does not say that its machine was configured");
    }
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.waiting.is_empty() && plan.later.is_empty(), "{what}: {plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn however_a_worker_finds_its_control_planes() {
    for (seed, discovery) in (101..).zip(ALL) {
        for nodes in [(1, 1), (3, 2)] {
            let bed = discovery.bed(seed, nodes, "");
            comes_up(&bed, &format!("{discovery:?}, {nodes:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_there_long_before_the_control_planes() {
    for (seed, discovery) in (111..).zip(ALL) {
        let installs = "proxmox_vm_controller_defaults: {boot: iso}";
        let bed = discovery.bed(seed, (3, 2), installs);
        for machine in [2000, 2001, 2002] {
            bed.lab.nodes(|nodes| nodes.faults.trouble(MachineId(machine), Trouble::SlowInstall(10)));
        }
        comes_up(&bed, &format!("{discovery:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn workers_that_find_their_configuration_themselves() {
    for (seed, discovery) in (121..).zip(ALL) {
        for delivery in ["config_delivery: cidata", "config_delivery: url\nnode_network: dhcp"] {
            let bed = discovery.bed(seed, (1, 2), delivery);
            comes_up(&bed, &format!("{discovery:?}, {delivery}")).await;
            assert_eq!(bed.accepted("ApplyConfiguration"), 0, "{discovery:?}, {delivery}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_with_the_bootstrap_has_configured_the_workers() {
    let bed = Discovery::Off.bed(131, (1, 2), "");
    let summary = bed.converge(&until(Until::Bootstrapped), 1).await;
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert!(summary.waiting.is_empty(), "{:?}", summary.waiting);
    let observed = bed.look(&healthy()).await;
    assert!(observed.talos.values().all(|machine| matches!(machine, SeenMachine::Configured(_))));
    bed.converge(&healthy(), 2).await.unwrap();
    is_complete(&bed, "further").await;
}

/// It took its configuration before the bootstrap, and is silent for longer than a machine may take to boot.
#[tokio::test(start_paused = true)]
async fn a_worker_that_installs_itself_is_not_switched_off_meanwhile() {
    let bed = Discovery::Off.bed(135, (1, 1), "proxmox_vm_worker_defaults: {boot: iso}");
    bed.lab.nodes(|nodes| nodes.faults.trouble(MachineId(2001), Trouble::SlowInstall(100)));
    let end = bed.converge(&healthy(), 1).await;
    end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 0);
    is_complete(&bed, "installed").await;
}

/// The next run finds workers that took their configuration and do not answer: they do not keep it from the bootstrap.
#[tokio::test(start_paused = true)]
async fn a_run_that_died_before_the_bootstrap_is_gone_on_with() {
    let bed = Discovery::OutOfReach.bed(132, (3, 1), "");
    bed.lab.plan(When::talos("Bootstrap"), Fault::KillClient { sent: false });
    bed.converge_mortally(&healthy(), 0xa).await.unwrap_err();
    bed.lab.transport().revive_client();
    let plan = bed.plan(&healthy()).await;
    assert!(plan.waiting.is_empty(), "{:#?}", plan.waiting);
    assert!(plan.steps.iter().any(|planned| matches!(planned.step, Step::Bootstrap { .. })), "{plan:#?}");
    let follows =
        plan.later.iter().find(|intent| intent.node.as_ref().is_some_and(|n| n.as_str() == "worker-1"));
    assert!(follows.is_some_and(|intent| intent.reason.starts_with("once etcd runs")), "{:#?}", plan.later);
    bed.converge(&healthy(), 0xb).await.unwrap();
    is_complete(&bed, "gone on with").await;
}

#[test]
fn killed_at_any_call_while_workers_have_no_certificate() {
    let calls = talmox_test::thorough::runtime().block_on(async {
        let bed = Discovery::Off.bed(133, (1, 1), "");
        bed.converge(&healthy(), 0xa).await.unwrap();
        bed.lab.calls().len()
    });
    let runs = die_at_each(&deaths(calls, 41), async |number, sent, what| {
        let bed = Discovery::Off.bed(133, (1, 1), "");
        bed.lab.plan(When::call(number as u64), Fault::KillClient { sent });
        let _ = bed.converge_mortally(&healthy(), 0xa).await;
        bed.lab.transport().revive_client();
        let again = bed.converge(&healthy(), 0xb).await;
        again.unwrap_or_else(|error| panic!("{what}: {error}\n{}", bed.told.lines().join("\n")));
        bed.is_healthy().await;
        assert_eq!(bed.etcd_clusters(), 1, "{what}");
    });
    println!("killed without discovery: K = {calls} calls, {runs} runs");
}

fn configures(planned: &Planned) -> Option<(VmId, Proof)> {
    let Step::ConfigureNode { vm, proof, .. } = &planned.step else { return None };
    Some((vm.vmid(), *proof))
}

/// Once etcd is there, a worker that joins is waited for as before.
#[tokio::test(start_paused = true)]
async fn a_worker_that_joins_a_cluster_is_waited_for_until_it_answers() {
    let same = "allow_scheduling_on_control_planes: true\ndiscovery: false";
    let mut bed = Bed::new(134, described(1, 0, same));
    comes_up(&bed, "alone").await;
    bed.desired = described(1, 1, same);
    bed.converge(&until(Until::Reachable), 2).await.unwrap();
    let plan = bed.plan(&healthy()).await;
    let proofs: Vec<Proof> = plan.steps.iter().filter_map(configures).map(|(_, proof)| proof).collect();
    assert_eq!(proofs, [Proof::Certificate], "{plan:#?}");
    bed.converge(&healthy(), 3).await.unwrap();
    is_complete(&bed, "with a worker").await;
}
