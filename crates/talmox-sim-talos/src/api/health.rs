//! `HealthCheck`: the node looks at the whole cluster and tells what it waits for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use bytes::Bytes;
use serde_json::Value;
use talmox_proto::Message;
use talmox_proto::cluster::{HealthCheckProgress, HealthCheckRequest};

use super::machine::run;
use super::stream::Kind;
use super::{Asked, Handlers};
use crate::hardware::MachineId;
use crate::kube::{Caller, Health};
use crate::machine::settings::{Cni, Role};
use crate::machine::{Port, Run, Stage};
use crate::nodes::{Event, Nodes};
use crate::wire::{ApiReply, Code, KubeCall, Peer, Status};

pub(super) const HANDLERS: Handlers = &[("/cluster.ClusterService/HealthCheck", check)];

/// What is looked at, in this order, and the words for it.
const CHECKS: &[(&str, Look)] = &[
    ("etcd to be healthy", etcd_healthy),
    ("etcd members to be consistent across nodes", etcd_consistent),
    ("etcd members to be control plane nodes", etcd_on_control_planes),
    ("apid to be ready", apid_ready),
    ("all nodes memory sizes", memory_sizes),
    ("all nodes disk sizes", nothing_against),
    ("no diagnostics", nothing_against),
    ("kubelet to be healthy", kubelet_healthy),
    ("all nodes to finish boot sequence", booted),
    ("all k8s nodes to report", nodes_report),
    ("all control plane static pods to be running", static_pods),
    ("all control plane components to be ready", components_ready),
    ("all k8s nodes to report ready", nodes_ready),
    ("kube-proxy to report ready", proxy_ready),
    ("coredns to report ready", dns_ready),
    ("all k8s nodes to report schedulable", schedulable),
];

type Look = fn(&mut Nodes, &Watched) -> Found;

/// What a look brought.
enum Found {
    Well,
    Skipped,
    Not(String),
}

/// Whom a check is about.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    machine: MachineId,
    control_planes: Vec<IpAddr>,
    workers: Vec<IpAddr>,
}

/// A check that goes on.
#[derive(Clone, Debug)]
pub(crate) struct HealthCheck {
    watched: Watched,
    deadline: u64,
    at: usize,
    /// What was said last of the check at hand; none before it was named.
    said: Option<String>,
}

fn check(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let request: HealthCheckRequest = asked.request()?;
    if !run(nodes, asked)?.is_control_plane() {
        let words = "cluster health check is only available on control plane nodes";
        return Err(Status::new(Code::Unimplemented, words));
    }
    let seconds =
        request.wait_timeout.map_or(1200, |length| u64::try_from(length.seconds).unwrap_or_default());
    let info = request.cluster_info.unwrap_or_default();
    let parse = |list: &[String]| list.iter().filter_map(|text| text.parse().ok()).collect::<Vec<IpAddr>>();
    let (mut control_planes, mut workers) = (parse(&info.control_plane_nodes), parse(&info.worker_nodes));
    if control_planes.is_empty() && workers.is_empty() {
        (control_planes, workers) = discovered(nodes, asked.machine);
    }
    let watched = Watched { machine: asked.machine, control_planes, workers };
    let words = format!("discovered nodes: {}", quoted(watched.all().map(|ip| ip.to_string())));
    let deadline = nodes.clock + seconds * 1000;
    let check = HealthCheck { watched, deadline, at: 0, said: None };
    nodes.schedule(asked.machine, seconds * 1000, Event::Look);
    Ok(nodes.open_stream_with(asked.machine, Kind::Health(Box::new(check)), vec![message(words)]))
}

impl Watched {
    fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.control_planes.iter().chain(&self.workers).copied()
    }
}

/// Nodes that found each other: without the service outside, a node knows only itself.
fn discovered(nodes: &Nodes, id: MachineId) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let own = nodes.run(id).and_then(Run::settings);
    let known = nodes.machines.iter().filter_map(|(other, machine)| {
        let run = machine.run.as_ref()?;
        let (own, theirs) = (own?, run.settings()?);
        let same = nodes.discovers(own, theirs);
        let main = run.network.main()?;
        (*other == id || same).then_some((main, theirs.role == Role::ControlPlane))
    });
    let (control_planes, workers): (Vec<_>, Vec<_>) = known.partition(|(_, control_plane)| *control_plane);
    let plain = |list: Vec<(IpAddr, bool)>| list.into_iter().map(|(ip, _)| ip).collect();
    (plain(control_planes), plain(workers))
}

fn message(words: String) -> Bytes {
    Bytes::from(HealthCheckProgress { metadata: None, message: words }.encode_to_vec())
}

/// As Go prints a list of strings.
fn quoted(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(" "))
}

impl HealthCheck {
    /// Looks as far as it gets, and tells what is new.
    pub(crate) fn go_on(&mut self, nodes: &mut Nodes) -> (Vec<Bytes>, Option<Status>) {
        let mut said = Vec::new();
        while let Some((name, look)) = CHECKS.get(self.at) {
            let mut say = |words: &str| said.push(message(format!("waiting for {name}: {words}")));
            if self.said.is_none() {
                say("...");
                self.said = Some(String::new());
            }
            match look(nodes, &self.watched) {
                Found::Well => say("OK"),
                Found::Skipped => say("SKIP"),
                Found::Not(words) => {
                    if self.said.as_ref() != Some(&words) {
                        say(&words);
                        self.said = Some(words);
                    }
                    let late = nodes.clock >= self.deadline;
                    let end = late.then(|| Status::new(Code::DeadlineExceeded, "context deadline exceeded"));
                    return (said, end);
                }
            }
            self.at += 1;
            self.said = None;
        }
        (said, Some(Status::ok()))
    }
}

fn node(nodes: &Nodes, address: IpAddr) -> Option<&Run> {
    nodes.at(address).and_then(|id| nodes.run(id)).filter(|run| matches!(run.port, Port::Secure(_)))
}

fn unreachable(address: IpAddr) -> String {
    format!(
        "1 error occurred:\n\t* {address}: rpc error: code = Unavailable desc = connection error: desc = \
         \"transport: Error while dialing: dial tcp {address}:50000: connect: no route to host\""
    )
}

/// The first of the nodes something is wrong with.
fn each(addresses: impl Iterator<Item = IpAddr>, look: impl Fn(IpAddr) -> Option<String>) -> Found {
    let mut addresses = addresses;
    addresses.find_map(look).map_or(Found::Well, Found::Not)
}

fn service_healthy(nodes: &Nodes, addresses: impl Iterator<Item = IpAddr>, id: &str) -> Found {
    each(addresses, |address| match node(nodes, address) {
        None => Some(unreachable(address)),
        Some(run) if run.is_service_up(id) => None,
        Some(run) => {
            let state = run.services.get(id).map_or("Unknown", |service| service.state.name());
            let words = if state == "Running" {
                "service is not healthy".to_owned()
            } else {
                format!("service is not in expected state Running: current state [{state}]")
            };
            Some(format!("1 error occurred:\n\t* {address}: {words}: {id}"))
        }
    })
}

fn etcd_healthy(nodes: &mut Nodes, watched: &Watched) -> Found {
    service_healthy(nodes, watched.control_planes.iter().copied(), "etcd")
}

fn kubelet_healthy(nodes: &mut Nodes, watched: &Watched) -> Found {
    service_healthy(nodes, watched.control_planes.iter().copied(), "kubelet")
}

fn etcd_consistent(nodes: &mut Nodes, watched: &Watched) -> Found {
    let lists: BTreeSet<Option<Vec<(String, u64, bool)>>> = watched
        .control_planes
        .iter()
        .map(|address| {
            let cluster = nodes.reachable_cluster(nodes.at(*address)?)?;
            let members = &nodes.clusters.get(&cluster)?.members;
            Some(members.iter().map(|(id, member)| (member.name.clone(), *id, member.learner)).collect())
        })
        .collect();
    if lists.len() == 1 && !lists.contains(&None) {
        Found::Well
    } else {
        Found::Not("etcd member lists of the nodes are different".to_owned())
    }
}

fn etcd_on_control_planes(nodes: &mut Nodes, watched: &Watched) -> Found {
    let Some(cluster) = nodes.reachable_cluster(watched.machine) else {
        return Found::Not("no etcd members".to_owned());
    };
    let members = nodes.clusters.get(&cluster).into_iter().flat_map(|cluster| cluster.members.values());
    let hosts: Vec<String> = members
        .flat_map(|member| &member.peer_urls)
        .map(|url| url.trim_start_matches("https://").rsplit_once(':').map_or("", |(host, _)| host))
        .map(|host| host.trim_matches(['[', ']']).to_owned())
        .collect();
    let known: Vec<String> = watched.control_planes.iter().map(ToString::to_string).collect();
    if hosts.iter().all(|host| known.contains(host)) {
        return Found::Well;
    }
    let (hosts, known) = (quoted(hosts.into_iter()), quoted(known.into_iter()));
    Found::Not(format!("etcd member ips {hosts} are not subset of control plane node ips {known}"))
}

fn apid_ready(nodes: &mut Nodes, watched: &Watched) -> Found {
    each(watched.all(), |address| node(nodes, address).is_none().then(|| unreachable(address)))
}

fn memory_sizes(nodes: &mut Nodes, watched: &Watched) -> Found {
    each(watched.all(), |address| {
        let machine = nodes.machines.get(&nodes.at(address)?)?;
        let run = machine.run.as_ref().filter(|run| !run.is_container())?;
        let least = if run.is_control_plane() { 1698_u64 << 20 } else { 874 << 20 };
        let memory = machine.hardware.memory / 100 * 97;
        (memory < least).then(|| format!("node {address} has too little memory: {} MiB", memory >> 20))
    })
}

/// Simulated disks are as large as they have to be, and nothing diagnoses itself.
fn nothing_against(_: &mut Nodes, _: &Watched) -> Found {
    Found::Well
}

fn booted(nodes: &mut Nodes, watched: &Watched) -> Found {
    each(watched.all(), |address| match node(nodes, address) {
        None => Some(unreachable(address)),
        Some(run) if run.stage == Stage::Running => None,
        Some(run) => Some(format!("nodes {address}: not in running stage: {}", run.stage.name())),
    })
}

/// Objects of Kubernetes, if an API server of the cluster can be asked.
fn objects(nodes: &mut Nodes, watched: &Watched, path: &str) -> Result<Vec<Value>, Found> {
    let unanswered = || Found::Not("the Kubernetes API does not answer".to_owned());
    let cluster = nodes.kubernetes_of(watched.machine).ok_or_else(unanswered)?;
    let now = nodes.epoch + nodes.clock;
    let to = watched.control_planes.first().copied().ok_or_else(unanswered)?;
    let call = KubeCall {
        to,
        peer: Peer::Nobody,
        method: "GET".to_owned(),
        path: path.to_owned(),
        query: Vec::new(),
        content_type: None,
        body: Bytes::new(),
    };
    let store = nodes.kube.get_mut(&cluster).ok_or_else(unanswered)?;
    let answer = store.handle(&call, Caller::Master, Health::Serving, now);
    let list: Value = serde_json::from_slice(&answer.body).map_err(|_| unanswered())?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

fn found(result: Result<Found, Found>) -> Found {
    result.unwrap_or_else(|found| found)
}

fn nodes_report(nodes: &mut Nodes, watched: &Watched) -> Found {
    found(objects(nodes, watched, NODES).map(|list| {
        let addresses = |node: &Value| -> Vec<String> {
            let all = node["status"]["addresses"].as_array().cloned().unwrap_or_default();
            let internal = all.iter().filter(|one| one["type"] == "InternalIP");
            internal.filter_map(|one| one["address"].as_str()).map(str::to_owned).collect()
        };
        let there: Vec<Vec<String>> = list.iter().map(addresses).collect();
        let wanted: Vec<String> = watched.all().map(|ip| ip.to_string()).collect();
        let missing: Vec<String> =
            wanted.iter().filter(|ip| !there.iter().flatten().any(|known| known == *ip)).cloned().collect();
        let strange = there.iter().filter(|known| !known.iter().any(|ip| wanted.contains(ip)));
        let strange: Vec<String> = strange.flatten().cloned().collect();
        if !missing.is_empty() {
            Found::Not(format!("can't find expected node with IPs {}", quoted(missing.into_iter())))
        } else if !strange.is_empty() {
            Found::Not(format!("unexpected nodes with IPs {}", quoted(strange.into_iter())))
        } else {
            Found::Well
        }
    }))
}

const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn static_pods(nodes: &mut Nodes, watched: &Watched) -> Found {
    each(watched.control_planes.iter().copied(), |address| {
        let missing = node(nodes, address).is_none_or(|run| !run.kubernetes.has_pods());
        missing.then(|| {
            format!(
                "missing static pods on node {address}: {}",
                quoted(COMPONENTS.iter().map(ToString::to_string))
            )
        })
    })
}

fn components_ready(nodes: &mut Nodes, watched: &Watched) -> Found {
    let count = watched.control_planes.len();
    found(objects(nodes, watched, PODS).map(|pods| {
        for component in COMPONENTS {
            let of: Vec<&Value> =
                pods.iter().filter(|pod| pod["metadata"]["labels"]["k8s-app"] == component).collect();
            let not_ready: Vec<&str> = of.iter().filter(|pod| !is_ready(pod)).map(|pod| name(pod)).collect();
            if of.len() != count {
                return Found::Not(format!(
                    "expected number of pods for {component} to be {count}, got {}",
                    of.len()
                ));
            }
            if !not_ready.is_empty() {
                return Found::Not(format!(
                    "some pods are not ready for {component}: [{}]",
                    not_ready.join(" ")
                ));
            }
        }
        Found::Well
    }))
}

/// Since 1.13 a cluster that brings its own network is not waited for.
fn brings_own_network(nodes: &Nodes, watched: &Watched) -> bool {
    nodes.run(watched.machine).is_some_and(|run| {
        run.minor() >= 13 && run.settings().is_some_and(|settings| settings.cni == Cni::None)
    })
}

fn nodes_ready(nodes: &mut Nodes, watched: &Watched) -> Found {
    if brings_own_network(nodes, watched) {
        return Found::Skipped;
    }
    found(objects(nodes, watched, NODES).map(|list| {
        let waiting: Vec<&str> = list.iter().filter(|node| !is_ready(node)).map(name).collect();
        if waiting.is_empty() {
            Found::Well
        } else {
            Found::Not(format!("some nodes are not ready: [{}]", waiting.join(" ")))
        }
    }))
}

fn pods_of(nodes: &mut Nodes, watched: &Watched, app: &str) -> Found {
    found(objects(nodes, watched, PODS).map(|pods| {
        let of: Vec<&Value> = pods.iter().filter(|pod| pod["metadata"]["labels"]["k8s-app"] == app).collect();
        let waiting: Vec<&str> = of.iter().filter(|pod| !is_ready(pod)).map(|pod| name(pod)).collect();
        if of.is_empty() {
            Found::Skipped
        } else if waiting.is_empty() {
            Found::Well
        } else {
            Found::Not(format!("some pods are not ready for {app}: [{}]", waiting.join(" ")))
        }
    }))
}

fn proxy_ready(nodes: &mut Nodes, watched: &Watched) -> Found {
    pods_of(nodes, watched, "kube-proxy")
}

fn dns_ready(nodes: &mut Nodes, watched: &Watched) -> Found {
    if brings_own_network(nodes, watched) { Found::Skipped } else { pods_of(nodes, watched, "kube-dns") }
}

fn schedulable(nodes: &mut Nodes, watched: &Watched) -> Found {
    found(objects(nodes, watched, NODES).map(|list| {
        let cordoned: Vec<&str> =
            list.iter().filter(|node| node["spec"]["unschedulable"] == true).map(name).collect();
        if cordoned.is_empty() {
            Found::Well
        } else {
            Found::Not(format!("some nodes are not schedulable: [{}]", cordoned.join(" ")))
        }
    }))
}
