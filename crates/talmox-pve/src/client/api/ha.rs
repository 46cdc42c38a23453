//! High availability.

use serde::Deserialize;
use talmox_types::VmId;

use crate::client::encode::path;
use crate::client::{Client, Error, Params, scalar};

/// A guest Proxmox keeps running by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HaResource {
    /// `vm:100`.
    pub sid: String,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub state: Option<String>,
    /// Proxmox 8 only; 9 has rules.
    #[serde(default, deserialize_with = "scalar::optional")]
    pub group: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub comment: Option<String>,
}

/// A rule of Proxmox 9: where resources may run, or which keep together or apart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HaRule {
    pub rule: String,
    /// `node-affinity` or `resource-affinity`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, deserialize_with = "scalar::words")]
    pub resources: Vec<String>,
    #[serde(default, deserialize_with = "scalar::words")]
    pub nodes: Vec<String>,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub strict: bool,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub affinity: Option<String>,
}

/// An entry of the HA status: quorum, managers, services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HaStatus {
    pub id: String,
    #[serde(rename = "type", default, deserialize_with = "scalar::or_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub node: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub status: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub state: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub quorate: Option<bool>,
}

/// A VM to be put under HA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewHaResource {
    /// `started` unless said otherwise.
    pub state: Option<String>,
    pub max_restart: Option<u32>,
    pub max_relocate: Option<u32>,
    pub comment: Option<String>,
}

impl Client {
    pub async fn ha_resources(&self) -> Result<Vec<HaResource>, Error> {
        self.get("/cluster/ha/resources", Params::new()).await
    }

    pub async fn ha_status(&self) -> Result<Vec<HaStatus>, Error> {
        self.get("/cluster/ha/status/current", Params::new()).await
    }

    /// The rules of Proxmox 9; version 8 does not know the call.
    pub async fn ha_rules(&self) -> Result<Vec<HaRule>, Error> {
        self.get("/cluster/ha/rules", Params::new()).await
    }

    pub async fn add_ha_resource(&self, vmid: VmId, resource: &NewHaResource) -> Result<(), Error> {
        let params = Params::new()
            .with("sid", format!("vm:{vmid}"))
            .with_some("state", resource.state.as_ref())
            .with_some("max_restart", resource.max_restart)
            .with_some("max_relocate", resource.max_relocate)
            .with_some("comment", resource.comment.as_ref());
        self.post("/cluster/ha/resources", params).await
    }

    /// Asks HA for another state: `started`, `stopped`, `disabled` or `ignored`.
    pub async fn set_ha_state(&self, vmid: VmId, state: &str) -> Result<(), Error> {
        self.put(&resource_path(vmid), Params::new().with("state", state)).await
    }

    pub async fn remove_ha_resource(&self, vmid: VmId) -> Result<(), Error> {
        self.delete(&resource_path(vmid), Params::new()).await
    }
}

fn resource_path(vmid: VmId) -> String {
    path(&[&"cluster", &"ha", &"resources", &format!("vm:{vmid}")])
}
