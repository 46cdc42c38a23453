//! What Kubernetes says.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_k8s::{Client, Error, Node, Pod, Selection};
use talmox_types::NodeName;

use super::Name;
use super::member::{Cluster, Member};
use super::state::{CheckState, Collected, Missing};

/// The label by which Talos' own parts of Kubernetes are found.
const APP: &str = "k8s-app";

/// The parts each control plane runs.
const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-scheduler", "kube-controller-manager"];

pub(super) async fn check(cluster: &Cluster, name: Name) -> CheckState {
    // One that answers knows what the others would say.
    let mut last = "there is no way to ask it yet".to_owned();
    for client in &cluster.kubernetes {
        match ask(cluster, client, name).await {
            Ok(state) => return state,
            Err(error) => last = error.to_string(),
        }
    }
    CheckState::Waiting(Missing {
        why: format!("Kubernetes does not answer: {last}"),
        // Whoever runs it may say why.
        nodes: cluster.control_planes().map(|member| member.name.clone()).collect(),
        service: Some("kubelet"),
    })
}

async fn ask(cluster: &Cluster, client: &Client, name: Name) -> Result<CheckState, Error> {
    Ok(match name {
        Name::NodesReport => reporting(cluster, &expected_nodes(cluster, client).await?),
        Name::ComponentsReady => components(cluster, client).await?,
        Name::NodesReady | Name::CorednsReady if !cluster.has_network => without_network(),
        Name::NodesReady => ready(cluster, &expected_nodes(cluster, client).await?),
        Name::KubeProxyReady => kube_proxy(cluster, client).await?,
        Name::CorednsReady => coredns(client).await?,
        Name::NodesSchedulable => schedulable(cluster, &expected_nodes(cluster, client).await?),
        Name::EtcdHealthy
        | Name::EtcdConsistent
        | Name::EtcdOnControlPlanes
        | Name::ApidReady
        | Name::Memory
        | Name::Disks
        | Name::NoDiagnostics
        | Name::KubeletHealthy
        | Name::Booted
        | Name::StaticPods => CheckState::skipped("Kubernetes knows nothing of it"),
    })
}

/// Nodes Kubernetes has, without those that are to be off: it remembers them until they are removed.
async fn expected_nodes(cluster: &Cluster, client: &Client) -> Result<Vec<Node>, Error> {
    let mut nodes = client.nodes().await?;
    nodes.retain(|node| !cluster.is_off(node.name()));
    Ok(nodes)
}

fn without_network() -> CheckState {
    CheckState::skipped("the description has no network for pods (cni: none)")
}

/// Whose object a node's is: that of the node with one of its addresses.
fn owner<'a>(members: &[&'a Member], node: &Node) -> Option<&'a Member> {
    let addresses: Vec<IpAddr> = node.addresses().collect();
    members.iter().copied().find(|member| member.addresses.iter().any(|own| addresses.contains(&own)))
}

/// Every node has an object, and nobody else has.
fn matching(expected: &[&Member], nodes: &[&Node]) -> CheckState {
    let mut missing = Collected::about(Some("kubelet"));
    let found: BTreeSet<&NodeName> =
        nodes.iter().filter_map(|node| owner(expected, node)).map(|member| &member.name).collect();
    for member in expected.iter().filter(|member| !found.contains(&member.name)) {
        missing.add(&member.name, "is no node of Kubernetes yet");
    }
    let strangers: Vec<&str> =
        nodes.iter().filter(|node| owner(expected, node).is_none()).map(|node| node.name()).collect();
    let state = missing.state();
    if state.holds() && !strangers.is_empty() {
        return CheckState::waiting(format!("Kubernetes has other nodes: {}", strangers.join(", ")));
    }
    state
}

fn reporting(cluster: &Cluster, nodes: &[Node]) -> CheckState {
    matching(&cluster.members.iter().collect::<Vec<_>>(), &nodes.iter().collect::<Vec<_>>())
}

async fn components(cluster: &Cluster, client: &Client) -> Result<CheckState, Error> {
    let expected: Vec<&Member> = cluster.control_planes().collect();
    let nodes = expected_nodes(cluster, client).await?;
    let labelled: Vec<&Node> = nodes.iter().filter(|node| node.is_control_plane()).collect();
    let matched = matching(&expected, &labelled);
    if !matched.holds() {
        return Ok(matched);
    }
    for component in COMPONENTS {
        let mut pods = client.pods(&Selection::all().with_labels(format!("{APP}={component}"))).await?;
        pods.retain(|pod| !cluster.is_off(&pod.spec.node_name));
        if let Some(why) = unready(component, expected.len(), &pods) {
            return Ok(CheckState::Waiting(Missing { why, service: Some("kubelet"), ..Missing::default() }));
        }
    }
    Ok(CheckState::Ok)
}

/// What keeps so many pods from being ready.
fn unready(name: &str, wanted: usize, pods: &[Pod]) -> Option<String> {
    let ready = pods.iter().filter(|pod| pod.is_ready()).count();
    if pods.len() == wanted && ready == wanted {
        return None;
    }
    let waiting: Vec<String> = pods
        .iter()
        .filter(|pod| !pod.is_ready())
        .take(3)
        .map(|pod| format!("{} is {}", pod.full_name(), pod.status.phase))
        .collect();
    let waiting = if waiting.is_empty() { String::new() } else { format!(" ({})", waiting.join(", ")) };
    Some(format!("{name}: {ready} of {wanted} pods are ready{waiting}"))
}

fn ready(cluster: &Cluster, nodes: &[Node]) -> CheckState {
    each(cluster, nodes, |node| {
        if node.is_ready() {
            return None;
        }
        let said = node.readiness().map(|condition| condition.message.as_str()).unwrap_or_default();
        Some(if said.is_empty() { "is not ready".to_owned() } else { format!("is not ready: {said}") })
    })
}

fn schedulable(cluster: &Cluster, nodes: &[Node]) -> CheckState {
    each(cluster, nodes, |node| {
        let why = || match node.cordoned_for() {
            Some(reason) => format!("is cordoned (by talmox: {reason})"),
            None => format!("is cordoned (kubectl uncordon {})", node.name()),
        };
        node.spec.unschedulable.then(why)
    })
}

/// What is wrong with some of the nodes.
fn each(cluster: &Cluster, nodes: &[Node], wrong: impl Fn(&Node) -> Option<String>) -> CheckState {
    let members: Vec<&Member> = cluster.members.iter().collect();
    let mut missing = Collected::about(Some("kubelet"));
    for node in nodes {
        let Some(why) = wrong(node) else { continue };
        match owner(&members, node) {
            Some(member) => missing.add(&member.name, why),
            None => return CheckState::waiting(format!("{} {why}", node.name())),
        }
    }
    missing.state()
}

async fn kube_proxy(cluster: &Cluster, client: &Client) -> Result<CheckState, Error> {
    let selection = Selection::all().with_labels(format!("{APP}=kube-proxy"));
    let wanted = client.daemon_sets(&selection).await?.first().map(|set| set.status.desired_number_scheduled);
    let Some(wanted) = wanted.filter(|wanted| *wanted > 0) else {
        return Ok(CheckState::skipped("there is no kube-proxy"));
    };
    // One of a node that is off stays where it is, and is none of those that can be ready; it may still be among those wanted.
    let mut pods = client.pods(&selection).await?;
    let all = pods.len();
    pods.retain(|pod| !cluster.is_off(&pod.spec.node_name));
    let off = u32::try_from(all - pods.len()).unwrap_or(u32::MAX);
    let there = u32::try_from(pods.len()).unwrap_or(u32::MAX);
    Ok(counted("kube-proxy", there.clamp(wanted.saturating_sub(off), wanted), &pods))
}

async fn coredns(client: &Client) -> Result<CheckState, Error> {
    let selection = Selection::all().with_labels(format!("{APP}=kube-dns"));
    let wanted = client.deployments(&selection).await?.first().map(|one| one.spec.replicas);
    let Some(wanted) = wanted.filter(|wanted| *wanted > 0) else {
        return Ok(CheckState::skipped("there is no coredns"));
    };
    Ok(counted("coredns", wanted, &client.pods(&selection).await?))
}

/// Pods that go, or have gone, are none of those that are wanted.
fn counted(name: &str, wanted: u32, pods: &[Pod]) -> CheckState {
    let staying: Vec<Pod> =
        pods.iter().filter(|pod| !pod.is_terminating() && !pod.is_finished()).cloned().collect();
    match unready(name, wanted as usize, &staying) {
        None => CheckState::Ok,
        Some(why) => CheckState::waiting(why),
    }
}
