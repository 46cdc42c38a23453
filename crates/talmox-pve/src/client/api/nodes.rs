//! Hosts.

use serde::Deserialize;
use talmox_types::{Fingerprint, HostName};

use crate::client::encode::path;
use crate::client::{Client, Endpoint, Error, NodeState, Params, Target, Version, scalar};

/// An entry of `/nodes`. Numbers need `Sys.Audit`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Node {
    pub node: HostName,
    #[serde(default)]
    pub status: NodeState,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub ssl_fingerprint: Option<Fingerprint>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub maxcpu: Option<u64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub maxmem: Option<u64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub mem: Option<u64>,
}

/// What of `/nodes/{node}/status` matters here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodeStatus {
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub pveversion: String,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub uptime: u64,
    pub memory: Amount,
    #[serde(default)]
    pub cpuinfo: CpuInfo,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Amount {
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub total: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub used: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub free: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CpuInfo {
    /// Threads a VM can use.
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub cpus: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub model: String,
}

/// A device of a host's that could be handed to a VM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PciHardware {
    /// `0000:01:00.0`.
    pub id: String,
    /// Negative where the host has no IOMMU at work.
    #[serde(default = "no_group", deserialize_with = "scalar::scalar")]
    pub iommugroup: i64,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub device_name: Option<String>,
}

fn no_group() -> i64 {
    -1
}

#[derive(Deserialize)]
struct TimeOfDay {
    #[serde(deserialize_with = "scalar::scalar")]
    time: u64,
}

/// A bridge of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Bridge {
    pub iface: String,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub active: bool,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub bridge_vlan_aware: bool,
}

/// Another host of the cluster, as a trusted one reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub node: HostName,
    pub endpoint: Endpoint,
    pub fingerprint: Fingerprint,
    pub online: bool,
}

impl Peer {
    fn target(&self) -> Target {
        Target { endpoint: self.endpoint.clone(), fingerprints: vec![self.fingerprint] }
    }
}

impl Client {
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.get("/nodes", Params::new()).await
    }

    pub async fn node_status(&self, node: &HostName) -> Result<NodeStatus, Error> {
        self.get(&path(&[&"nodes", node, &"status"]), Params::new()).await
    }

    /// The version a host itself runs; during an upgrade of the cluster they differ.
    pub async fn node_version(&self, node: &HostName) -> Result<Version, Error> {
        self.get(&path(&[&"nodes", node, &"version"]), Params::new()).await
    }

    /// A host's time of day in Unix seconds. Needs `Sys.Audit`.
    pub async fn node_time(&self, node: &HostName) -> Result<u64, Error> {
        let TimeOfDay { time } = self.get(&path(&[&"nodes", node, &"time"]), Params::new()).await?;
        Ok(time)
    }

    /// Devices of a host. Needs `Sys.Audit` on `/`.
    pub async fn pci_hardware(&self, node: &HostName) -> Result<Vec<PciHardware>, Error> {
        self.get(&path(&[&"nodes", node, &"hardware", &"pci"]), Params::new()).await
    }

    pub async fn bridges(&self, node: &HostName) -> Result<Vec<Bridge>, Error> {
        self.get(&path(&[&"nodes", node, &"network"]), Params::new().with("type", "any_bridge")).await
    }

    /// Learns the other hosts of the cluster from the one that is trusted already, with the certificates it reports,
    /// and asks them too from now on when an endpoint fails. Needs `Sys.Audit` on `/` for the addresses.
    ///
    /// Hosts at an endpoint the client was given are left out, and so are hosts that share an address: behind one
    /// forwarded address nobody can say whose certificate is to be expected. Credentials bound to other endpoints are not
    /// sent: such peers are in the result but are not asked ([`Credentials::and_their_peers`]).
    ///
    /// [`Credentials::and_their_peers`]: crate::client::Credentials::and_their_peers
    pub async fn learn_peers(&self) -> Result<Vec<Peer>, Error> {
        let status = self.cluster_status().await?;
        let nodes = self.nodes().await?;
        let port = self.endpoints().first().map_or(crate::client::DEFAULT_PORT, Endpoint::port);
        let known = self.targets();
        let peer = |node: &Node| {
            let member = status.nodes.iter().find(|member| member.name == node.node && !member.local)?;
            if status.nodes.iter().any(|other| other.name != member.name && other.ip == member.ip) {
                return None;
            }
            let endpoint = Endpoint::new(member.ip.as_deref()?, port).ok()?;
            let (node, fingerprint) = (node.node.clone(), node.ssl_fingerprint?);
            Some(Peer { node, endpoint, fingerprint, online: member.online })
        };
        // What was learned before is known as just what it is, and no reason to leave it out.
        let is_free =
            |target: &Target| known.iter().all(|known| known.endpoint != target.endpoint || known == target);
        let peers: Vec<Peer> = nodes.iter().filter_map(peer).filter(|peer| is_free(&peer.target())).collect();
        for peer in &peers {
            self.add_target(peer.target());
        }
        Ok(peers)
    }
}
