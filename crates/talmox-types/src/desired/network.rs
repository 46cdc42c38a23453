//! Addresses, routes and name servers.

use std::net::IpAddr;

use serde::Serialize;

use crate::{Cidr, FamilyPair};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Network {
    /// The network the nodes are in.
    pub node_cidr: FamilyPair<Cidr>,
    pub gateway: FamilyPair<IpAddr>,
    pub dns_servers: Vec<IpAddr>,
    pub ntp_servers: Vec<String>,
    /// A VLAN inside the guest, on top of whatever the NIC is tagged with.
    pub guest_vlan: Option<u16>,
    /// The virtual address control planes share.
    pub vip: Option<FamilyPair<IpAddr>>,
    /// Where the Kubernetes API is reached: an `https://` URL.
    pub endpoint: String,
    pub api_tls_sans: Vec<String>,
    pub pod_cidr: FamilyPair<Cidr>,
    pub service_cidr: FamilyPair<Cidr>,
    pub node_ip_subnets: Vec<Cidr>,
    pub etcd_subnets: Vec<Cidr>,
    pub routes: Vec<Route>,
}

/// How a node gets its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    Static,
    /// By DHCP; the declared address is the reservation.
    Dhcp,
}

/// A route besides the default one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    pub network: Cidr,
    pub gateway: IpAddr,
    pub metric: Option<u32>,
}
