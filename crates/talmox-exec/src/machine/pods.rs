//! The parts of Kubernetes a control plane runs by itself.

use talmox_talos::{Client, Error};

/// A part of Kubernetes that Talos runs as a static pod: the kind its settings have, and what its pods are called.
const PARTS: [(&str, &str); 3] = [
    ("APIServerConfigs.kubernetes.talos.dev", "kube-apiserver"),
    ("ControllerManagerConfigs.kubernetes.talos.dev", "kube-controller-manager"),
    ("SchedulerConfigs.kubernetes.talos.dev", "kube-scheduler"),
];

/// Parts a control plane is told to run and that its kubelet has no pod of.
pub(crate) async fn absent(client: &Client) -> Result<Vec<String>, Error> {
    let running = client.list_ids("k8s", "StaticPodStatuses.kubernetes.talos.dev").await?;
    let mut absent = Vec::new();
    for (kind, pod) in PARTS {
        let prefix = format!("kube-system/{pod}");
        let runs = running.iter().any(|id| id.starts_with(&prefix));
        // A part can be switched off: then it has no settings either.
        if !runs && !client.list_ids("controlplane", kind).await?.is_empty() {
            absent.push(pod.to_owned());
        }
    }
    Ok(absent)
}
