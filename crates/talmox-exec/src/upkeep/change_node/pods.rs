//! Which configuration a control plane's pods were made from.
//!
//! After a change Talos says for half a minute that all is well, because the old pods still are. What the pods themselves show
//! in Kubernetes is the truth: each carries the version of the settings it was made from.

use talmox_k8s::{Pod, Selection};
use talmox_talos::Client;
use talmox_types::NodeName;

use super::Servers;

/// The parts of the control plane: the kind of their settings, and their name.
const PARTS: [(&str, &str); 3] = [
    ("APIServerConfigs.kubernetes.talos.dev", "kube-apiserver"),
    ("ControllerManagerConfigs.kubernetes.talos.dev", "kube-controller-manager"),
    ("SchedulerConfigs.kubernetes.talos.dev", "kube-scheduler"),
];
const VERSION: &str = "talos.dev/config-version";
/// Of the certificates it was made with: it grows with every phase of a rotation, the other does not.
const SECRETS: &str = "talos.dev/secrets-version";

/// The first part that does not run with its settings of now, and why nobody can tell otherwise; nothing if all do.
pub(super) async fn stale(client: &Client, servers: &Servers, node: &NodeName) -> Option<String> {
    for (kind, name) in PARTS {
        let wanted = match client.version_of("controlplane", kind, name).await {
            Ok(Some(version)) => version,
            // It is not part of this cluster.
            Ok(None) => continue,
            Err(error) => return Some(error.to_string()),
        };
        match pod(servers, node, name).await {
            Err(reason) => return Some(reason),
            Ok(None) => return Some(format!("{name} is not in Kubernetes")),
            Ok(Some(pod)) => {
                let has = pod.metadata.annotations.get(VERSION).map(String::as_str).unwrap_or_default();
                if has != wanted {
                    return Some(format!("{name} still runs with settings {has}, not {wanted}"));
                }
                let secrets = match client.static_pod_annotation(name, SECRETS).await {
                    Ok(secrets) => secrets.unwrap_or_default(),
                    Err(error) => return Some(error.to_string()),
                };
                let has = pod.metadata.annotations.get(SECRETS).map(String::as_str).unwrap_or_default();
                if has != secrets {
                    return Some(format!("{name} still runs with certificates {has}, not {secrets}"));
                }
                if !pod.is_ready() {
                    return Some(format!("{name} is not ready"));
                }
            }
        }
    }
    None
}

async fn pod(servers: &Servers, node: &NodeName, name: &str) -> Result<Option<Pod>, String> {
    let (server, _) = servers.node(node.as_str()).await?;
    let of = Selection::in_namespace("kube-system").with_labels(format!("k8s-app={name}"));
    let pods = server.pods(&of).await.map_err(|error| error.to_string())?;
    Ok(pods.into_iter().find(|pod| pod.spec.node_name == node.as_str()))
}
