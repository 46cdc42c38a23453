//! High availability.

use serde::Deserialize;
use talmox_types::{HostName, VmId};

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
    #[serde(default, deserialize_with = "scalar::optional")]
    pub comment: Option<String>,
}

/// A group of Proxmox 8: hosts its members run on if they can.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HaGroup {
    pub group: String,
    /// With a priority behind some names: `pve1:2`.
    #[serde(default, deserialize_with = "scalar::words")]
    pub nodes: Vec<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub comment: Option<String>,
}

/// A rule as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHaRule {
    pub rule: String,
    pub resources: Vec<VmId>,
    pub scope: HaRuleScope,
    pub comment: String,
}

/// What a rule says of its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaRuleScope {
    /// They run on these hosts if they can.
    Nodes(Vec<HostName>),
    /// No two of them on one host.
    Apart,
}

impl NewHaRule {
    fn params(&self) -> Params {
        let sids: Vec<String> = self.resources.iter().map(|vmid| format!("vm:{vmid}")).collect();
        let params = Params::new().with("resources", sids.join(",")).with("comment", &self.comment);
        match &self.scope {
            HaRuleScope::Nodes(nodes) => {
                let nodes: Vec<&str> = nodes.iter().map(HostName::as_str).collect();
                params.with("type", "node-affinity").with("nodes", nodes.join(","))
            }
            HaRuleScope::Apart => params.with("type", "resource-affinity").with("affinity", "negative"),
        }
    }
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
    /// Proxmox 8 only.
    pub group: Option<String>,
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

    pub async fn add_ha_rule(&self, rule: &NewHaRule) -> Result<(), Error> {
        let named = Params::new().with("rule", &rule.rule);
        let params = named.iter().chain(rule.params().iter()).collect();
        self.post("/cluster/ha/rules", params).await
    }

    pub async fn change_ha_rule(&self, rule: &NewHaRule) -> Result<(), Error> {
        self.put(&path(&[&"cluster", &"ha", &"rules", &rule.rule]), rule.params()).await
    }

    pub async fn delete_ha_rule(&self, rule: &str) -> Result<(), Error> {
        self.delete(&path(&[&"cluster", &"ha", &"rules", &rule]), Params::new()).await
    }

    /// The groups of Proxmox 8; version 9 has rules.
    pub async fn ha_groups(&self) -> Result<Vec<HaGroup>, Error> {
        self.get("/cluster/ha/groups", Params::new()).await
    }

    pub async fn add_ha_group(&self, group: &str, nodes: &[HostName], comment: &str) -> Result<(), Error> {
        let params = group_params(nodes, comment);
        let named = Params::new().with("group", group);
        self.post("/cluster/ha/groups", named.iter().chain(params.iter()).collect()).await
    }

    pub async fn change_ha_group(&self, group: &str, nodes: &[HostName], comment: &str) -> Result<(), Error> {
        self.put(&path(&[&"cluster", &"ha", &"groups", &group]), group_params(nodes, comment)).await
    }

    pub async fn add_ha_resource(&self, vmid: VmId, resource: &NewHaResource) -> Result<(), Error> {
        let params = Params::new()
            .with("sid", format!("vm:{vmid}"))
            .with_some("state", resource.state.as_ref())
            .with_some("max_restart", resource.max_restart)
            .with_some("max_relocate", resource.max_relocate)
            .with_some("group", resource.group.as_ref())
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

fn group_params(nodes: &[HostName], comment: &str) -> Params {
    let nodes: Vec<&str> = nodes.iter().map(HostName::as_str).collect();
    Params::new().with("nodes", nodes.join(",")).with("comment", comment)
}

fn resource_path(vmid: VmId) -> String {
    path(&[&"cluster", &"ha", &"resources", &format!("vm:{vmid}")])
}
