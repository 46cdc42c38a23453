//! Pods.

use serde::Deserialize;

use super::meta::{Condition, Meta, Selection, or_default};
use crate::{Client, Error};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Empty while it has no node.
    pub node_name: String,
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    pub name: String,
    pub image: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl Pod {
    /// `NAMESPACE/NAME`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// What it is a part of, by the label everybody sets: `kube-apiserver`.
    pub fn app(&self) -> Option<&str> {
        self.metadata.labels.get("k8s-app").map(String::as_str)
    }

    pub fn is_ready(&self) -> bool {
        let ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        self.status.conditions.iter().any(ready)
    }

    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it will not run again.
    pub fn is_finished(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.status.phase.as_str())
    }

    /// Whether it only shows what a kubelet runs by itself: nobody can evict it.
    pub fn is_mirror(&self) -> bool {
        self.metadata.annotations.contains_key("kubernetes.io/config.mirror")
    }

    /// Whether its controller would put it onto the same node again.
    pub fn is_of_daemon_set(&self) -> bool {
        self.metadata.owner_references.iter().any(|owner| owner.controller && owner.kind == "DaemonSet")
    }

    /// Whether a node is free of it only when it was evicted.
    pub fn must_leave(&self) -> bool {
        !self.is_mirror() && !self.is_of_daemon_set() && !self.is_finished()
    }
}

impl Client {
    pub async fn pods(&self, selection: &Selection) -> Result<Vec<Pod>, Error> {
        self.list("/api/v1", "pods", selection).await
    }
}
