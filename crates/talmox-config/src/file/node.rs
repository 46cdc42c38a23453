//! Nodes and node pools.

use std::net::IpAddr;

use talmox_types::{AddressRange, FamilyPair, MacAddress, NodeName, NodePoolName};

use super::Settings;
use crate::read::{Int, OneOrMore, block};

block! {
    /// One node.
    pub struct NodeBlock as "nodes" {
        /// Name of VM, host and Kubernetes node at once. Required.
        name: NodeName = "name",
        /// Address, inside `node_cidr`. Required. A pair makes the node dual stack.
        address: FamilyPair<IpAddr> = "address",
        /// MAC address of the first network device. Default: derived from cluster uid and name.
        mac_addr: MacAddress = "mac_addr",
        /// Whether it is a control plane. Default: false.
        controller: bool = "controller",
        /// VMID. Default: the next free one of `proxmox_vmid_range`.
        vm_id: Int<100, 999_999_999> = "vm_id",
        ..settings: Settings,
    }
}

block! {
    /// Nodes that differ in nothing but name and address. They are called `<name>-1`, `<name>-2` and so on.
    pub struct PoolBlock as "node_pools" {
        /// Name of the pool. Required.
        name: NodePoolName = "name",
        /// Whether its nodes are control planes. Default: false.
        controller: bool = "controller",
        /// How many nodes there are. Required.
        count: Int<0, 1000> = "count",
        /// Networks (10.0.7.32/28) or ranges (10.0.7.20-10.0.7.29) its addresses are taken from. Required.
        addresses: OneOrMore<AddressRange> = "addresses",
        ..settings: Settings,
    }
}
