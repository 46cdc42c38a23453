//! The cluster as a whole.

use serde::Deserialize;
use serde_json::Value;
use talmox_types::{HostName, MappingName, PoolName, StorageId, VmId};

use crate::client::{Client, Error, Params, VersionNumber, scalar};

/// `/version`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// `9.2.11`.
    #[serde(deserialize_with = "scalar::scalar")]
    pub version: VersionNumber,
    /// `9.2`.
    #[serde(deserialize_with = "scalar::scalar")]
    pub release: VersionNumber,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub repoid: String,
}

impl Version {
    /// The numbers of the release, for comparing: `(9, 2)`.
    pub fn numbers(&self) -> (u32, u32) {
        let mut parts = self.release.as_str().split('.').map(|part| part.parse().unwrap_or_default());
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}

/// A backup job: when what is saved where.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BackupJob {
    pub id: String,
    /// The guests it lists; empty where it takes all, or a pool's.
    #[serde(default, rename = "vmid", deserialize_with = "scalar::or_default")]
    guests: String,
}

impl BackupJob {
    /// The guests it names.
    pub fn guests(&self) -> impl Iterator<Item = VmId> {
        let ids = self.guests.split([',', ';', ' ']).filter_map(|id| id.parse().ok());
        ids.filter_map(|id: u32| VmId::try_from(id).ok())
    }
}

/// A job that copies a guest's disks to another host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReplicationJob {
    pub id: String,
    #[serde(deserialize_with = "scalar::scalar")]
    pub guest: VmId,
}

/// Whether a host is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    Online,
    Offline,
    #[default]
    #[serde(other)]
    Unknown,
}

/// An entry of `/cluster/resources`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Resource {
    Qemu(VmResource),
    /// A container: it holds an id and memory, and is never ours.
    Lxc(VmResource),
    Node(NodeResource),
    Storage(StorageResource),
    Pool(PoolResource),
    #[serde(other)]
    Other,
}

/// A guest. The list, `node`, `lock` and `tags` are immediate; name, status and numbers are up to ten seconds old, and
/// a new guest has none of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct VmResource {
    #[serde(deserialize_with = "scalar::scalar")]
    pub vmid: VmId,
    pub node: HostName,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub name: Option<String>,
    /// `running`, `stopped` or `unknown`.
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub template: bool,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub lock: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub tags: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub pool: Option<PoolName>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub hastate: Option<String>,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub uptime: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub maxcpu: f64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub cpu: f64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub maxmem: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub mem: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub maxdisk: u64,
}

/// A host. The numbers need `Sys.Audit` and are absent without it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodeResource {
    pub node: HostName,
    #[serde(default)]
    pub status: NodeState,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub maxcpu: Option<f64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub cpu: Option<f64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub maxmem: Option<u64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub mem: Option<u64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub uptime: Option<u64>,
}

/// A storage as one host sees it; a shared one is listed once for each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StorageResource {
    pub storage: StorageId,
    pub node: HostName,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub plugintype: String,
    /// `available` or `unknown`.
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub shared: bool,
    #[serde(default, deserialize_with = "scalar::words")]
    pub content: Vec<String>,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub disk: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub maxdisk: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PoolResource {
    pub pool: PoolName,
}

/// `/cluster/status`, sorted into its two kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The cluster's name; none on a host that stands alone.
    pub name: Option<String>,
    /// Whether there is a majority. A host that stands alone is its own.
    pub quorate: bool,
    pub nodes: Vec<ClusterNode>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClusterNode {
    pub name: HostName,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub ip: Option<String>,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub online: bool,
    /// The host that answered.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub local: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum StatusEntry {
    Cluster {
        name: String,
        #[serde(default, deserialize_with = "scalar::flag")]
        quorate: bool,
    },
    Node(ClusterNode),
    #[serde(other)]
    Other,
}

/// What of `/cluster/options` matters here. Without `Sys.Audit` on `/` most of it is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ClusterOptions {
    #[serde(default, deserialize_with = "scalar::optional")]
    pub mac_prefix: Option<String>,
    #[serde(rename = "tag-style", default)]
    pub tag_style: Option<TagStyle>,
    #[serde(rename = "registered-tags", default, deserialize_with = "scalar::words")]
    pub registered_tags: Vec<String>,
    #[serde(rename = "allowed-tags", default, deserialize_with = "scalar::words")]
    pub allowed_tags: Vec<String>,
    #[serde(rename = "next-id", default)]
    pub next_id: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TagStyle {
    /// `config` keeps the order tags were given in; else they are sorted.
    #[serde(default, deserialize_with = "scalar::optional")]
    pub ordering: Option<String>,
    #[serde(rename = "case-sensitive", default, deserialize_with = "scalar::flag")]
    pub case_sensitive: bool,
}

/// A PCI mapping: one name for devices of several hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PciMapping {
    pub id: MappingName,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub description: Option<String>,
    /// One property string for each device: `node=pve1,path=0000:01:00.0,id=10de:2204,…`.
    #[serde(default)]
    pub map: Vec<String>,
    /// What the host that was asked has to say of it.
    #[serde(default)]
    pub checks: Vec<MappingCheck>,
}

/// A fault of a mapping on one host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MappingCheck {
    /// `warning` or `error`.
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub severity: String,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub message: String,
}

/// A virtual network of Proxmox's own, which VMs use like a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VirtualNetwork {
    pub vnet: String,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub zone: Option<String>,
}

impl PciMapping {
    /// The hosts that have a device of this mapping.
    pub fn nodes(&self) -> Vec<HostName> {
        let node = |entry: &String| {
            entry
                .split(',')
                .find_map(|part| part.strip_prefix("node="))
                .and_then(|node| HostName::parse(node).ok())
        };
        self.map.iter().filter_map(node).collect()
    }
}

impl Client {
    pub async fn version(&self) -> Result<Version, Error> {
        self.get("/version", Params::new()).await
    }

    pub async fn backup_jobs(&self) -> Result<Vec<BackupJob>, Error> {
        self.get("/cluster/backup", Params::new()).await
    }

    /// Those of guests the credentials may see.
    pub async fn replication_jobs(&self) -> Result<Vec<ReplicationJob>, Error> {
        self.get("/cluster/replication", Params::new()).await
    }

    /// Guests, hosts, storages and pools, as far as the credentials may see them.
    pub async fn resources(&self) -> Result<Vec<Resource>, Error> {
        self.get("/cluster/resources", Params::new()).await
    }

    /// Guests only, containers included.
    pub async fn vm_resources(&self) -> Result<Vec<Resource>, Error> {
        self.get("/cluster/resources", Params::new().with("type", "vm")).await
    }

    pub async fn cluster_status(&self) -> Result<ClusterStatus, Error> {
        let entries: Vec<StatusEntry> = self.get("/cluster/status", Params::new()).await?;
        let mut status = ClusterStatus { quorate: true, ..ClusterStatus::default() };
        for entry in entries {
            match entry {
                StatusEntry::Cluster { name, quorate } => {
                    status.name = Some(name);
                    status.quorate = quorate;
                }
                StatusEntry::Node(node) => status.nodes.push(node),
                StatusEntry::Other => {}
            }
        }
        Ok(status)
    }

    pub async fn cluster_options(&self) -> Result<ClusterOptions, Error> {
        self.get("/cluster/options", Params::new()).await
    }

    /// Whether an id is free now. Nothing is reserved: another may take it in the next moment.
    pub async fn is_free(&self, vmid: VmId) -> Result<bool, Error> {
        match self.get::<Value>("/cluster/nextid", Params::new().with("vmid", vmid)).await {
            Ok(_) => Ok(true),
            Err(error) if *error.kind() == crate::client::ErrorKind::Exists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub async fn pci_mappings(&self) -> Result<Vec<PciMapping>, Error> {
        self.get("/cluster/mapping/pci", Params::new()).await
    }
    /// The mappings, each with what this host finds wrong with it.
    pub async fn pci_mappings_on(&self, node: &HostName) -> Result<Vec<PciMapping>, Error> {
        self.get("/cluster/mapping/pci", Params::new().with("check-node", node)).await
    }

    pub async fn virtual_networks(&self) -> Result<Vec<VirtualNetwork>, Error> {
        self.get("/cluster/sdn/vnets", Params::new()).await
    }
}
