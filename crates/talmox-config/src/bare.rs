//! What there is where no cluster is described, or only its Proxmox is wanted.

use std::net::IpAddr;
use std::path::Path;

use talmox_types::Cidr;

use crate::Outcome;
use crate::description::Description;
use crate::load::{Files, load};

const BARE: &str = include_str!("bare.yaml");

/// What stands for a description where there is none: Proxmox at its defaults, reached as the environment says, and no
/// cluster on it.
pub fn without_cluster() -> Outcome {
    without_nodes(crate::read_files(Files::from_texts(BARE, None)))
}

/// Reads a description for the sake of its Proxmox: it need not have nodes, and those it has are left out.
pub fn read_settings(path: &Path) -> Outcome {
    settings(|| load(path))
}

fn settings(read: impl Fn() -> Files) -> Outcome {
    let (description, _) = Description::read(read());
    let mut files = read();
    if let Some(node) = stand_in(&description) {
        files.nodes = Some(files.sources.add("nodes.yaml".to_owned(), node, None));
    }
    without_nodes(crate::read_files(files))
}

fn without_nodes(mut outcome: Outcome) -> Outcome {
    if let Some(desired) = &mut outcome.desired {
        desired.nodes.clear();
    }
    outcome
}

/// The node a description has to have, for one that has none: at an address of its network that is hardly ever taken.
fn stand_in(description: &Description) -> Option<String> {
    let broken = ["nodes", "node_pools"].iter().any(|key| description.cluster.file.broken.contains(key));
    let has_nodes = !description.nodes.is_empty() || !description.pools.is_empty();
    if has_nodes || broken || description.nodes_unreadable {
        return None;
    }
    let last = |network: Cidr| network.hosts().last();
    let around = |gateway: IpAddr| Cidr::new(gateway, if gateway.is_ipv4() { 24 } else { 64 });
    let addresses: Vec<IpAddr> = match (description.node_cidr(), description.gateway()) {
        (Some(networks), _) => networks.iter().map(last).collect(),
        (None, Some(gateways)) => gateways.iter().filter_map(around).map(last).collect(),
        (None, None) => vec![IpAddr::from([192, 0, 2, 2])],
    };
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let addresses = addresses.join(", ");
    Some(format!("nodes: [{{name: stand-in, address: [{addresses}], controller: true}}]\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_cluster_is_left() {
        let desired = without_cluster().desired.unwrap();
        assert!(desired.nodes.is_empty() && desired.templates.is_empty());
        assert!(desired.uid.is_none() && desired.proxmox.pool.is_none());
        assert!(desired.proxmox.endpoints.is_empty() && desired.proxmox.api_token.is_none());
        assert_eq!(desired.proxmox.template_vmid_range.start.get(), 9000);
    }

    #[test]
    fn settings_are_read_with_and_without_nodes() {
        let read = |more: &str| {
            let text =
                format!("cluster_uid: 8c1f2ab34d5e6f70\nproxmox_endpoint: https://pve1.lab:8006\n{more}\n");
            settings(|| Files::from_texts(&text, None))
        };
        for more in [
            "",
            "nodes:",
            "node_pools: []",
            "node_cidr: 10.0.7.0/24",
            "node_gateway: 10.9.0.1",
            "node_cidr: [10.0.7.0/24, 'fd00:7::/64']",
            "cluster_name: lab\nnodes: [{name: cp-1, address: 10.0.7.11, controller: true}]",
        ] {
            let outcome = read(more);
            let desired = outcome.desired.unwrap_or_else(|| panic!("{more}: {:#?}", outcome.problems));
            assert!(desired.nodes.is_empty(), "{more}");
            assert_eq!(desired.proxmox.endpoints.len(), 1, "{more}");
        }
        for wrong in ["nodes: 7", "proxmox_pool: [1]", "node_pols: []"] {
            assert!(read(wrong).has_errors(), "{wrong}");
        }
    }
}
