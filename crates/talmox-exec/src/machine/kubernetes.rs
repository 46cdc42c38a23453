//! Kubernetes, asked at the control planes themselves: an address they share may not be there yet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_k8s::{Client, Error, Pod, Selection, Server};
use talmox_plan::{
    Component, Observed, SeenCluster, SeenEtcd, SeenKubernetes, SeenKubernetesNode, SeenMachine,
};
use talmox_types::desired::{Desired, Role};

use super::places;
use crate::Reach;

/// Where a control plane serves the API.
const PORT: u16 = 6443;
const DEADLINE: Duration = Duration::from_secs(5);
/// Where notes about a cluster are kept.
pub(crate) const NAMESPACE: &str = "kube-system";
/// What was done once, by the digest of what was to be done.
pub(crate) const MANIFESTS: &str = "talmox-bootstrap-manifests";
pub(crate) const POST_BOOTSTRAP: &str = "talmox-post-bootstrap";
pub(crate) const DIGEST: &str = "digest";

impl Reach<'_> {
    /// Kubernetes at these control planes, and last at the address of the cluster.
    pub(crate) fn kubernetes_at(&self, control_planes: impl Iterator<Item = IpAddr>) -> Vec<Client> {
        let (Some(transport), Some(access)) = (&self.kubernetes, self.machines.kubernetes()) else {
            return Vec::new();
        };
        let client = Client::new(Arc::clone(transport), access).with_deadline(DEADLINE);
        let each = control_planes.map(|address| client.clone().at(Server::new(address.to_string(), PORT)));
        each.chain([client.clone()]).collect()
    }
}

/// Addresses of the control planes that run.
pub(crate) fn control_planes(desired: &Desired, observed: &Observed) -> Vec<IpAddr> {
    let all = places(desired, observed).into_iter();
    all.filter(|(node, _)| node.role == Role::Controller).map(|(_, at)| at.address.primary()).collect()
}

/// Asks Kubernetes, if there is an etcd it can stand on.
pub(super) async fn look(reach: &Reach<'_>, desired: &Desired, observed: &Observed) -> SeenKubernetes {
    let runs = |machine: &SeenMachine| {
        let etcd = machine.configured().and_then(|node| node.etcd.as_ref());
        matches!(etcd, Some(SeenEtcd::Member { healthy: true, .. }))
    };
    if !observed.talos.values().any(runs) {
        return SeenKubernetes::NotAsked;
    }
    let clients = reach.kubernetes_at(control_planes(desired, observed).into_iter());
    let mut last = None;
    for client in &clients {
        match ask(client, desired).await {
            Ok(cluster) => return SeenKubernetes::Answers(cluster),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(SeenKubernetes::NotAsked, |error| SeenKubernetes::Unreachable { reason: error.to_string() })
}

async fn ask(client: &Client, desired: &Desired) -> Result<SeenCluster, Error> {
    let all = client.nodes().await?;
    let installed =
        all.iter().filter_map(|node| Some((node.name().to_owned(), node.installed()?.to_owned())));
    let installed = installed.collect();
    let nodes = all.into_iter().map(|node| {
        let seen = SeenKubernetesNode {
            ready: node.is_ready(),
            schedulable: !node.spec.unschedulable,
            version: node.status.node_info.kubelet_version.clone(),
            cordoned_for: node.cordoned_for().map(str::to_owned),
            uuid: Some(node.status.node_info.system_uuid.clone()).filter(|uuid| !uuid.is_empty()),
        };
        (node.name().to_owned(), seen)
    });
    let nodes = nodes.collect();
    let kubernetes = &desired.kubernetes;
    let manifests = !kubernetes.bootstrap_manifests.is_empty();
    let post_bootstrap = !kubernetes.post_bootstrap.is_empty();
    let (pods, proxy) = (pod_images(client).await?, kubernetes.kube_proxy);
    Ok(SeenCluster {
        nodes,
        pods,
        proxy: if proxy { proxy_image(client).await? } else { None },
        installed,
        manifests: if manifests { note(client, MANIFESTS).await? } else { None },
        post_bootstrap: if post_bootstrap { note(client, POST_BOOTSTRAP).await? } else { None },
    })
}

/// What the control planes' own pods run, by component and node.
async fn pod_images(client: &Client) -> Result<BTreeMap<Component, BTreeMap<String, String>>, Error> {
    let names: Vec<&str> = Component::PODS.iter().map(|component| component.name()).collect();
    let selector = format!("k8s-app in ({})", names.join(","));
    let pods = client.pods(&Selection::in_namespace(NAMESPACE).with_labels(selector)).await?;
    let mut images: BTreeMap<Component, BTreeMap<String, String>> = BTreeMap::new();
    for component in Component::PODS {
        let of = |pod: &&Pod| pod.app() == Some(component.name()) && pod.is_mirror();
        let each = pods
            .iter()
            .filter(of)
            .filter_map(|pod| Some((pod.spec.node_name.clone(), pod.spec.containers.first()?.image.clone())));
        images.insert(component, each.collect());
    }
    Ok(images)
}

async fn proxy_image(client: &Client) -> Result<Option<String>, Error> {
    let name = Component::Proxy.name();
    let selection = Selection::in_namespace(NAMESPACE).with_labels(format!("k8s-app={name}"));
    let sets = client.daemon_sets(&selection).await?;
    let set = sets.into_iter().find(|set| set.metadata.name == name);
    Ok(set.and_then(|set| Some(set.spec.template.spec.containers.first()?.image.clone())))
}

/// The digest of what was done under a name.
pub(crate) async fn note(client: &Client, name: &str) -> Result<Option<String>, Error> {
    let data = client.config_map(NAMESPACE, name).await?;
    Ok(data.and_then(|mut data| data.remove(DIGEST)))
}
