//! Six nodes, fifty, three hundred: how long they take from nothing to healthy, against the least their own durations allow.
//!
//! ```text
//!  image, template ─▶ VM ─▶ boot ─▶ configuration ─▶ etcd ─▶ one member after the other ─▶ static pods     the control planes
//!  image, template ─▶ every start of the busiest host, so many at once ─▶ boot ─▶ kubelet ─▶ ready          its last machine
//! ```
//!
//! Time is the cluster's clock, and as exact as the counts: nothing here depends on how busy the machine is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use talmox_exec::Limits;
use talmox_sim::TaskRecord;
use talmox_sim_talos::Timing;
use talmox_test::thorough::runtime;
use talmox_test::{Lab, Latency};
use talmox_types::desired::Desired;

use crate::bringup::bed::{Bed, desired, healthy};

const HOSTS: usize = 3;
const CONTROLLERS: usize = 3;
/// How many times as long as the lower bound a bring-up may take. Looks that are a second or two apart, and VMs that are all
/// made before the first is configured, weigh more where everything else takes a tenth of the time it really takes.
const MOST_SCALED: f64 = 2.2;
const MOST_RECORDED: f64 = 1.5;
/// How many calls a node may take, on all layers together. Those of a small cluster that waits are looks at the same few.
const MOST_CALLS: usize = 250;

fn description(nodes: usize) -> Desired {
    let mut text =
        "node_cidr: 10.0.0.0/16\nnode_gateway: 10.0.0.1\ncluster_pod_cidr: 10.64.0.0/12\nnodes:\n".to_owned();
    for number in 0..nodes {
        let controller = number < CONTROLLERS;
        let name = if controller { format!("cp-{number}") } else { format!("worker-{number}") };
        let address = format!("10.0.{}.{}", 20 + number / 200, 1 + number % 200);
        let _ = writeln!(text, "  - {{name: {name}, address: {address}, controller: {controller}}}");
    }
    desired(&text)
}

/// What the simulator has on record of a bring-up, and how long its parts take.
struct Durations {
    tasks: Vec<TaskRecord>,
    templates: BTreeSet<u32>,
    timing: Timing,
}

impl Durations {
    fn of(lab: &Lab) -> Self {
        let tasks = lab.world(|world| world.task_records());
        let templates =
            tasks.iter().filter(|task| task.kind == "qmtemplate").filter_map(|task| task.vmid).collect();
        Self { tasks, templates, timing: lab.nodes(|nodes| nodes.timing.clone()) }
    }

    /// No bring-up can be faster.
    fn least(&self) -> Duration {
        let first = self.prelude() + self.quickest_vm() + self.boot() + self.control_planes();
        let last = self.prelude() + self.starts() + self.boot() + self.worker();
        first.max(last)
    }

    /// What tasks worked, and the round trips that begin each of them and see its end.
    fn worked<'a>(tasks: impl Iterator<Item = &'a TaskRecord>) -> Duration {
        tasks.map(|task| Duration::from_millis(task.worked + 2 * Latency::RECORDED.least)).sum()
    }

    /// Until the quickest host has an image and a template of it.
    fn prelude(&self) -> Duration {
        let mut hosts: BTreeMap<&str, Vec<&TaskRecord>> = BTreeMap::new();
        for task in &self.tasks {
            if task.kind == "download" || task.vmid.is_some_and(|vmid| self.templates.contains(&vmid)) {
                hosts.entry(&task.node).or_default().push(task);
            }
        }
        hosts.into_values().map(|tasks| Self::worked(tasks.into_iter())).min().unwrap_or_default()
    }

    /// The tasks of the VM that took the fewest.
    fn quickest_vm(&self) -> Duration {
        let mut vms: BTreeMap<u32, Vec<&TaskRecord>> = BTreeMap::new();
        for task in &self.tasks {
            if let Some(vmid) = task.vmid.filter(|vmid| !self.templates.contains(vmid)) {
                vms.entry(vmid).or_default().push(task);
            }
        }
        vms.into_values().map(|tasks| Self::worked(tasks.into_iter())).min().unwrap_or_default()
    }

    /// Every start on the busiest host, as many at once as it may be asked for.
    fn starts(&self) -> Duration {
        let mut hosts: BTreeMap<&str, Duration> = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| task.kind == "qmstart") {
            *hosts.entry(&task.node).or_default() += Duration::from_millis(task.worked);
        }
        let busiest = hosts.into_values().max().unwrap_or_default();
        busiest / u32::try_from(Limits::default().per_host).unwrap()
    }

    /// From the switch to an answer in maintenance mode.
    fn boot(&self) -> Duration {
        let Timing { kernel, network, config, .. } = self.timing;
        at_least(kernel + network + config)
    }

    /// From a configuration to a container runtime.
    fn runtime(&self) -> Duration {
        let Timing { partition, service, health, .. } = self.timing;
        at_least(partition + service + health)
    }

    /// From a configuration to control planes that are whole: etcd takes in one member after the other.
    fn control_planes(&self) -> Duration {
        let Timing {
            service,
            pull,
            etcd_health,
            promotion,
            api_server,
            static_pods,
            register,
            node_ready,
            ..
        } = self.timing;
        let member = service + pull + etcd_health;
        let joins = (CONTROLLERS as u64 - 1) * (member + promotion);
        self.runtime() + at_least(member + joins + api_server + static_pods.max(register + node_ready))
    }

    /// From a configuration to a node that is ready in a cluster that was there before.
    fn worker(&self) -> Duration {
        let Timing { service, health, pull, register, node_ready, .. } = self.timing;
        self.runtime() + at_least(service + pull + health + register + node_ready)
    }
}

/// What a node does takes up to a tenth less than it usually takes.
fn at_least(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds * 9 / 10)
}

/// Brings so many nodes up and holds the time against the bound.
fn measure(nodes: usize, (named, timing): (&str, Timing), most: f64) {
    let begun = Instant::now();
    let lab = Lab::three_hosts(nodes as u64).with_nodes();
    // As many fit as are wanted.
    lab.world(|world| world.nodes.values_mut().for_each(|node| (node.memory, node.cpus) = (1 << 44, 4096)));
    lab.nodes(|nodes| nodes.timing = timing);
    let bed = Bed::in_lab(lab, description(nodes));
    // The cluster's clock goes on only in there.
    let time = runtime().block_on(async {
        let end = bed.converge(&healthy(), 1).await;
        end.unwrap_or_else(|error| panic!("{nodes} nodes: {error}"));
        Duration::from_millis(bed.lab.transport().now())
    });
    let calls = bed.lab.calls().len() / nodes;
    let durations = Durations::of(&bed.lab);
    let least = durations.least();
    let ratio = time.as_secs_f64() / least.as_secs_f64();
    println!(
        "{nodes} nodes on {HOSTS} hosts, {named}: {:.1} s simulated, at least {:.1} s: {ratio:.2} times; {calls} calls a node; \
         {}; {:.1} s in all",
        time.as_secs_f64(),
        least.as_secs_f64(),
        milestones(&bed),
        begun.elapsed().as_secs_f64()
    );
    assert_eq!((bed.accepted("Bootstrap"), bed.etcd_clusters()), (1, 1));
    assert!(ratio >= 1.0, "{ratio:.2}: the bound is none");
    assert!(ratio <= most, "{ratio:.2} times the lower bound");
    assert!(calls <= MOST_CALLS, "{calls} calls a node");
}

/// When the last machine was switched on, and the last was configured, and etcd began.
fn milestones(bed: &Bed) -> String {
    let calls = bed.lab.calls();
    let last = |method, part| {
        let at = calls.asking(method, part).last().map_or(0, |call| call.at);
        Duration::from_millis(at).as_secs_f64()
    };
    format!(
        "started by {:.1} s, configured by {:.1} s, bootstrap at {:.1} s",
        last("POST", "/status/start"),
        last("CALL", "ApplyConfiguration"),
        last("CALL", "Bootstrap")
    )
}

/// Lengths of time the simulator has by default, about a tenth of real ones.
fn scaled() -> (&'static str, Timing) {
    ("scaled", Timing::default())
}

/// As genuine machines were seen to take.
fn recorded() -> (&'static str, Timing) {
    ("recorded", Timing::recorded())
}

#[test]
fn six_nodes() {
    measure(6, scaled(), MOST_SCALED);
    measure(6, recorded(), MOST_RECORDED);
}

#[test]
fn fifty_nodes() {
    measure(50, scaled(), MOST_SCALED);
    measure(50, recorded(), MOST_RECORDED);
}

#[test]
fn three_hundred_nodes() {
    measure(300, scaled(), MOST_SCALED);
    measure(300, recorded(), MOST_RECORDED);
}
