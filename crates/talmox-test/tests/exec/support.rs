//! Descriptions, marks and VMs for tests of the engine.

use talmox_config::{Files, read_files};
use talmox_pve::client::{Client, CloneKind, CloneVm, CreateVm};
use talmox_pve::property::VmConfig;
use talmox_test::{Lab, host, vmid};
use talmox_types::desired::Desired;
use talmox_types::{Mark, NodeName, PoolName, VmId};

/// The uid of every cluster described here.
pub(crate) const UID: &str = "8c1f6a2b90d347e5";
/// The pool a description gives its VMs unless it says otherwise.
pub(crate) const POOL: &str = "talmox-lab";

/// A description: `cp-1` to `cp-3` and `worker-1` to `worker-3`, as many of each as said, from template 9000.
pub(crate) fn description(controllers: usize, workers: usize, more: &str) -> Desired {
    let node = |name: String, last: usize, rest: &str| {
        format!("  - name: {name}\n    address: 10.0.7.{last}\n{rest}")
    };
    let controllers = (1..=controllers).map(|n| node(format!("cp-{n}"), 10 + n, "    controller: true\n"));
    let workers = (1..=workers).map(|n| node(format!("worker-{n}"), 20 + n, ""));
    let nodes: String = controllers.chain(workers).collect();
    described(&format!("{more}nodes:\n{nodes}"))
}

/// A description from lines of its own after those every cluster has.
pub(crate) fn described(more: &str) -> Desired {
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"{UID}\"\nproxmox_endpoint: https://pve1:8006\nproxmox_storage: local-zfs\n\
         proxmox_bridge: vmbr0\nnode_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\ncluster_api_addr: 10.0.7.10\n\
         talos_version: 1.13.9\nkubernetes_version: 1.36.3\ntalos_template: 9000\n{more}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::parse(name).unwrap()
}

pub(crate) fn pool() -> PoolName {
    PoolName::parse(POOL).unwrap()
}

/// The mark of a node's VM.
pub(crate) fn mark(name: &str, id: u32, incarnation: &str) -> Mark {
    let line = format!("talmox:v1 uid={UID} cluster=lab node={name} vmid={id} incarnation={incarnation}");
    Mark::parse(&line).unwrap()
}

/// Makes the pool of the cluster.
pub(crate) async fn make_pool(lab: &Lab) {
    lab.root().create_pool(&pool(), None).await.unwrap();
}

/// Clones the template to a VM that carries a mark, in the pool of the cluster.
pub(crate) async fn make_node(lab: &Lab, client: &Client, mark: &Mark) {
    let clone = CloneVm {
        newid: mark.vmid,
        name: Some(mark.node.to_string()),
        description: Some(mark.to_string()),
        pool: Some(pool()),
        target: None,
        kind: CloneKind::Linked,
    };
    let task = client.clone_vm(&host(1), vmid(9000), &clone).await.unwrap();
    lab.done(client, &task).await.unwrap();
}

/// Makes a VM that is nobody's.
pub(crate) async fn make_vm(lab: &Lab, client: &Client, number: usize, id: VmId, pairs: &[(&str, &str)]) {
    let config: VmConfig = pairs.iter().copied().collect();
    let vm = CreateVm { vmid: id, config, pool: None, storage: None };
    let task = client.create_vm(&host(number), &vm).await.unwrap();
    lab.done(client, &task).await.unwrap();
}
