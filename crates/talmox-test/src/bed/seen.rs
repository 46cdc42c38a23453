//! Looking at a cluster: what the engine sees, what its parts say, and whether it is well.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_exec::health::{Cluster, Member, expects_network};
use talmox_exec::{Clock as _, Machines as _, Writer, observe_whole};
use talmox_plan::{
    Nonce, Observed, Plan, Request, SeenEtcd, SeenKubernetes, SeenMachine, SeenNode, check, plan,
};
use talmox_types::NodeName;
use talmox_types::desired::{Node, NodeAddress, Role};
use tokio_util::sync::CancellationToken;

use super::{Bed, Keeper, Secrets, healthy, told};

/// Talos by node: `v1.13.9`, or `silent`.
pub fn versions(observed: &Observed) -> BTreeMap<String, String> {
    let version = |machine: &SeenMachine| {
        machine.configured().map_or_else(|| "silent".to_owned(), |seen| seen.version.clone())
    };
    observed.talos.iter().map(|(node, machine)| (node.to_string(), version(machine))).collect()
}

/// Nodes that take no pods, or are not ready.
pub fn unwell(observed: &Observed) -> Vec<String> {
    let SeenKubernetes::Answers(cluster) = &observed.kubernetes else { panic!("{:?}", observed.kubernetes) };
    let bad = cluster
        .nodes
        .iter()
        .filter(|(_, node)| !node.ready || !node.schedulable || node.cordoned_for.is_some());
    bad.map(|(name, node)| format!("{name}: {node:?}")).collect()
}

impl Bed {
    pub async fn look(&self, request: &Request) -> Observed {
        let keeper = Keeper::new(self);
        let clock = self.clock(1);
        let reach = self.reach(&keeper, &clock, 1);
        observe_whole(&self.lab.client(), &self.desired, request, Some(&reach)).await.unwrap()
    }

    /// The plan as it is now, which must be sound.
    pub async fn plan(&self, request: &Request) -> Plan {
        let observed = self.look(request).await;
        let made = plan(&self.desired, &observed, request, &Nonce::new(99));
        let violations = check(&made, &self.desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        made
    }

    /// The plan of somebody who has other secrets.
    pub async fn with_other_secrets(&self, request: &Request) -> Plan {
        let secrets = Mutex::new(Arc::new(Secrets::generate()));
        let keeper = Keeper::with(self, &secrets);
        let clock = self.clock(1);
        let reach = self.reach(&keeper, &clock, 98);
        let observed = observe_whole(&self.lab.client(), &self.desired, request, Some(&reach)).await.unwrap();
        plan(&self.desired, &observed, request, &Nonce::new(98))
    }

    /// Every machine is up and ready, every control plane a member and nobody else.
    pub async fn is_healthy(&self) {
        let observed = self.look(&healthy()).await;
        assert_eq!(observed.talos.len(), self.desired.nodes.len());
        let controllers: BTreeSet<String> = self
            .desired
            .nodes
            .iter()
            .filter(|node| node.role == Role::Controller)
            .map(|node| node.name.to_string())
            .collect();
        for (node, machine) in &observed.talos {
            let seen = machine.configured().unwrap_or_else(|| panic!("{node}: {machine:?}"));
            assert!(seen.is_well(), "{node}: {seen:?}");
            assert_eq!(seen.config, Some(Vec::new()), "{node}");
            if let Some(SeenEtcd::Member { members, .. }) = &seen.etcd {
                let members: BTreeSet<String> = members.iter().flatten().cloned().collect();
                assert_eq!(members, controllers, "{node}");
            }
        }
        let SeenKubernetes::Answers(cluster) = &observed.kubernetes else {
            panic!("{:?}", observed.kubernetes)
        };
        assert_eq!(cluster.nodes.len(), self.desired.nodes.len());
        assert!(cluster.nodes.values().all(|node| node.ready && node.schedulable), "{cluster:?}");
    }

    /// What every member of etcd says.
    pub async fn etcd(&self) -> talmox_exec::etcd::Etcd {
        let (keeper, clock) = (Keeper::new(self), self.clock(1));
        talmox_exec::etcd::look(&self.reach(&keeper, &clock, 1), &self.control_planes()).await
    }

    /// Defragments all members; gives them in order.
    pub async fn defragment(&self, number: u32) -> Result<Vec<String>, String> {
        let (keeper, clock) = (Keeper::new(self), self.clock(number));
        let reach = self.reach(&keeper, &clock, number);
        let (client, stop) = (self.lab.client(), CancellationToken::new());
        let writer = Writer { client: &client, desired: &self.desired, reporter: &self.told, stop: &stop };
        let mut order = Vec::new();
        let done = &mut |one: &talmox_exec::etcd::Defragmented| order.push(one.node.to_string());
        let end = talmox_exec::etcd::defragment(writer, &reach, &self.control_planes(), done).await;
        end.map_err(|error| told(&error)).map(|()| order)
    }

    /// Whoever administers Kubernetes on the first control plane.
    pub fn kubernetes(&self) -> talmox_k8s::Client {
        let access = Keeper::new(self).kubernetes().unwrap();
        talmox_k8s::Client::new(self.lab.kubernetes(), access)
    }

    /// Every node runs the described Talos from the described image, nobody is kept from pods, and nothing is left to do.
    pub async fn is_upgraded(&self, request: &Request) {
        let observed = self.look(request).await;
        let (wanted, log) = (format!("v{}", self.desired.talos.version), self.told.lines().join("\n"));
        let has = versions(&observed);
        assert!(has.values().all(|has| *has == wanted), "{has:?}\n{log}");
        assert_eq!(unwell(&observed), Vec::<String>::new());
        let schematic = talmox_image::Schematic::from(&self.desired.talos.schematic).id().to_string();
        for (node, machine) in &observed.talos {
            assert_eq!(
                machine.configured().unwrap().schematic.as_deref(),
                Some(schematic.as_str()),
                "{node}"
            );
        }
        self.is_healthy().await;
        let plan = self.plan(request).await;
        assert!(plan.is_empty(), "{:#?}", plan.steps);
    }

    /// The cluster as its health is asked.
    pub fn cluster(&self) -> Cluster {
        let member = |node: &Node| {
            let NodeAddress::Declared(addresses) = &node.address else {
                panic!("{} has no address", node.name)
            };
            Member { name: node.name.clone(), role: node.role, addresses: *addresses }
        };
        let planes = self.control_planes().into_values();
        Cluster {
            members: self.desired.nodes.iter().map(member).collect(),
            off: Vec::new(),
            talos: self.lab.talos(),
            identity: Keeper::new(self).identity().unwrap(),
            kubernetes: planes.map(|address| self.kubernetes_at(&address.to_string())).collect(),
            has_network: expects_network(&self.desired),
        }
    }

    /// A client of the cluster's Kubernetes, asked at an address.
    pub fn kubernetes_at(&self, address: &str) -> talmox_k8s::Client {
        self.secrets.lock().unwrap().kubernetes_at(self, address)
    }

    /// Whoever administers the machine at an address.
    pub fn client(&self, address: &str) -> talmox_talos::Client {
        self.secrets.lock().unwrap().client(self, address)
    }

    /// The machine at an address.
    pub fn machine(&self, address: &str) -> talmox_sim_talos::MachineId {
        let address: IpAddr = address.parse().unwrap();
        let all = self.lab.nodes(|nodes| nodes.addresses());
        all.into_iter().find(|(one, _)| *one == address).unwrap().1
    }

    pub fn control_planes(&self) -> BTreeMap<NodeName, IpAddr> {
        let controllers = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let address = |node: &Node| match &node.address {
            NodeAddress::Declared(address) => address.primary(),
            NodeAddress::FromPool(_) => panic!("{} has no address yet", node.name),
        };
        controllers.map(|node| (node.name.clone(), address(node))).collect()
    }

    /// Seconds since 1970, by the lab's clock.
    pub fn now(&self) -> u64 {
        self.clock(1).now()
    }

    /// How many clusters of etcd were ever made.
    pub fn etcd_clusters(&self) -> usize {
        let nodes = self.lab.nodes(|nodes| serde_json::to_value(&*nodes).unwrap());
        nodes["clusters"].as_object().map_or(0, serde_json::Map::len)
    }

    /// How often nodes took a call of this name: those that were answered well.
    pub fn accepted(&self, name: &str) -> usize {
        self.lab.calls().asking("CALL", name).filter(|call| call.status() == Some(200)).count()
    }

    /// Waits until nothing comes and goes any more: a control plane that joined is ready, then is not, then is, and a run
    /// that looked in the moment between had nothing to do.
    pub async fn settles(&self) {
        let mut in_a_row = 0;
        for _ in 0..24 {
            let observed = self.look(&healthy()).await;
            let is_well = |machine: &SeenMachine| machine.configured().is_some_and(SeenNode::is_well);
            in_a_row = if observed.talos.values().all(is_well) { in_a_row + 1 } else { 0 };
            // One that joins is ready for a moment before its pods are.
            if in_a_row > 3 {
                return;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    /// Nodes that are closed to pods.
    pub async fn cordoned(&self) -> Vec<String> {
        let address = self.control_planes().into_values().next().unwrap();
        let nodes = self.kubernetes_at(&address.to_string()).nodes().await.unwrap();
        let closed = nodes.into_iter().filter(|node| node.spec.unschedulable);
        closed.map(|node| node.name().to_owned()).collect()
    }
}
