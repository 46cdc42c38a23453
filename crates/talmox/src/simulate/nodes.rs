//! Talos nodes in the machines of a simulated Proxmox.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use talmox_sim::World;
use talmox_sim_talos::serve::Beside;
use talmox_types::desired::{Desired, NetworkMode, Node, NodeAddress};

/// How many addresses of a pool can be reached: more nodes than anybody simulates.
const OF_A_POOL: usize = 64;

/// The nodes kept with a world, or none yet. The description's network knows whose address is whose.
pub(super) fn beside(world: &World, desired: Option<&Desired>, seed: u64) -> Arc<Beside> {
    let beside = Beside::of_world(world, seed);
    if let Some(desired) = desired {
        beside.nodes().leases.extend(leases(desired));
    }
    Arc::new(beside)
}

/// DHCP reservations: of each node that asks for its address, by its first NIC.
fn leases(desired: &Desired) -> BTreeMap<String, IpAddr> {
    let asks = |node: &&Node| node.vm.network_mode == NetworkMode::Dhcp;
    let lease = |node: &Node| {
        let mac = node.vm.nics.first()?.mac.to_string().to_lowercase();
        Some((mac, addresses(node).into_iter().next()?))
    };
    desired.nodes.iter().filter(asks).filter_map(lease).collect()
}

/// Every address a node of the description may have, and the one control planes share.
pub(super) fn reachable(desired: &Desired) -> Vec<IpAddr> {
    let own = desired.nodes.iter().flat_map(addresses);
    let shared = desired.network.vip.iter().flat_map(talmox_types::FamilyPair::iter);
    own.chain(shared).collect()
}

fn addresses(node: &Node) -> Vec<IpAddr> {
    match &node.address {
        NodeAddress::Declared(pair) => pair.iter().collect(),
        NodeAddress::FromPool(ranges) => {
            ranges.iter().flat_map(|range| range.iter().take(OF_A_POOL)).collect()
        }
    }
}
