//! Daemon sets and deployments, as far as health asks about them.

use serde::Deserialize;

use super::meta::{Meta, Selection};
use super::pods::PodSpec;
use crate::{Client, Error};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: Meta,
    pub spec: DaemonSetSpec,
    pub status: DaemonSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DaemonSetSpec {
    pub template: PodTemplate,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    pub spec: PodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetStatus {
    pub desired_number_scheduled: u32,
    pub number_ready: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Deployment {
    pub metadata: Meta,
    pub spec: DeploymentSpec,
    pub status: DeploymentStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    pub replicas: u32,
}

impl Default for DeploymentSpec {
    /// What Kubernetes takes for nothing said.
    fn default() -> Self {
        Self { replicas: 1 }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStatus {
    pub ready_replicas: u32,
}

impl Client {
    pub async fn daemon_sets(&self, selection: &Selection) -> Result<Vec<DaemonSet>, Error> {
        self.list("/apis/apps/v1", "daemonsets", selection).await
    }

    pub async fn deployments(&self, selection: &Selection) -> Result<Vec<Deployment>, Error> {
        self.list("/apis/apps/v1", "deployments", selection).await
    }
}
