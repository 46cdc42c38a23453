//! Descriptions of clusters.

use std::fmt::Write as _;

use talmox_config::{Files, read_files};
use talmox_types::desired::Desired;

/// Three hosts and a description of so many nodes on them, with more lines.
pub fn described(controllers: usize, workers: usize, more: &str) -> Desired {
    let mut nodes = String::new();
    for number in 1..=controllers + workers {
        let controller = number <= controllers;
        let name =
            if controller { format!("cp-{number}") } else { format!("worker-{}", number - controllers) };
        let _ = writeln!(
            nodes,
            "  - {{name: {name}, address: 10.0.7.{}, controller: {controller}}}",
            10 + number
        );
    }
    desired(&format!("{more}\nnodes:\n{nodes}"))
}

pub fn desired(more: &str) -> Desired {
    let cidr =
        if more.contains("node_cidr") { "" } else { "node_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\n" };
    let versions = if more.contains("talos_version") {
        ""
    } else {
        "talos_version: 1.13.9\nkubernetes_version: 1.36.3\ntalos_contract: \"1.13\"\n"
    };
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"8c1f6a2b90d347e5\"\nproxmox_endpoint: https://pve1:8006\n\
         proxmox_storage: local-zfs\nproxmox_bridge: vmbr0\nproxmox_pool: none\netcd_backup: {{dir: backup}}\ncluster_api_addr: 10.0.7.10\n{cidr}\
         {versions}{more}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

/// Two copies of a program that must both be there, so that neither ever may go.
pub const STUBBORN: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: stubborn, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: stubborn}}
  template:
    metadata: {labels: {app: stubborn}}
    spec: {containers: [{name: stubborn, image: registry.example/stubborn}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: stubborn, namespace: default}
spec:
  minAvailable: 2
  selector: {matchLabels: {app: stubborn}}
";
