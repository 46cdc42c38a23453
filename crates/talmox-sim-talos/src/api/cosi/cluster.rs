//! Resources about the cluster a node is part of: members, etcd.

use talmox_machine::{Map, Value};
use talmox_proto::common::NetIp;
use talmox_proto::definitions::{ControlPlane, EtcdMember, MachineType, Member};

use super::View;
use super::network::octets;
use super::resource::{Resource, texts};
use crate::hardware::MachineId;
use crate::machine::Run;
use crate::machine::settings::{Role, Settings};

impl View<'_> {
    pub(super) fn cluster_resources(&self, kind: &str) -> Vec<Resource> {
        let Some(settings) = self.run.settings() else { return Vec::new() };
        match kind {
            "Members.cluster.talos.dev" => self.members(settings),
            "Affiliates.cluster.talos.dev" => self.affiliates(settings),
            "Infos.cluster.talos.dev" => vec![self.info(settings)],
            "EtcdMembers.etcd.talos.dev" => self.etcd_member().into_iter().collect(),
            "EtcdConfigs.etcd.talos.dev" if settings.role == Role::ControlPlane => vec![self.etcd_config()],
            _ => Vec::new(),
        }
    }

    /// Nodes of the same cluster that find each other: with the discovery service everybody, else only the node itself,
    /// because it may not list nodes of Kubernetes.
    fn found(&self, settings: &Settings) -> Vec<(MachineId, &Run)> {
        let all = self.nodes.machines.iter().filter_map(|(id, machine)| Some((*id, machine.run.as_ref()?)));
        let found = |run: &Run| run.settings().is_some_and(|other| self.nodes.discovers(settings, other));
        all.filter(|(id, run)| *id == self.machine || found(run)).collect()
    }

    fn members(&self, settings: &Settings) -> Vec<Resource> {
        if !settings.discovery {
            return Vec::new();
        }
        self.found(settings).into_iter().filter_map(|(id, run)| self.member(id, run)).collect()
    }

    fn member(&self, id: MachineId, run: &Run) -> Option<Resource> {
        let settings = run.settings()?;
        let hostname = run.network.hostname.clone();
        let system = format!("Talos (v{})", run.image.version);
        let control_plane = settings.role == Role::ControlPlane;
        let (number, words) = if control_plane {
            (MachineType::TypeControlPlane, "controlplane")
        } else {
            (MachineType::TypeWorker, "worker")
        };
        let node = self.node_id(id);
        let proto = Member {
            node_id: node.clone(),
            addresses: run.network.ips().into_iter().map(|ip| NetIp { ip: octets(ip) }).collect(),
            hostname: hostname.clone(),
            machine_type: number.into(),
            operating_system: system.clone(),
            control_plane: control_plane.then_some(ControlPlane { api_server_port: 6443 }),
        };
        let mut map = Map::new()
            .with("nodeId", node)
            .with("addresses", texts(run.network.ips()))
            .with("hostname", hostname.clone())
            .with("machineType", words)
            .with("operatingSystem", system);
        if control_plane {
            map.set("controlPlane", Map::new().with("port", 6443_u16));
        }
        let place = ("cluster", "Members.cluster.talos.dev");
        Some(Resource::new(place, hostname, "cluster.MemberController", run.started).proto(&proto).yaml(map))
    }

    /// What a node is known by in its cluster: drawn once, and kept.
    fn node_id(&self, id: MachineId) -> String {
        let state = self.nodes.system_disk(id).and_then(|disk| disk.state.as_ref());
        let identity = state.map(|state| state.identity.clone()).unwrap_or_default();
        // As long as those of genuine nodes.
        identity.chars().cycle().take(if identity.is_empty() { 0 } else { 43 }).collect()
    }

    fn affiliates(&self, settings: &Settings) -> Vec<Resource> {
        self.found(settings)
            .into_iter()
            .map(|(id, run)| {
                let owner = "cluster.LocalAffiliateController";
                let node = self.node_id(id);
                let map = Map::new()
                    .with("nodeId", node.clone())
                    .with("addresses", texts(run.network.ips()))
                    .with("hostname", run.network.hostname.clone());
                Resource::new(("cluster", "Affiliates.cluster.talos.dev"), node, owner, run.started).yaml(map)
            })
            .collect()
    }

    fn info(&self, settings: &Settings) -> Resource {
        let map = Map::new()
            .with("clusterId", settings.cluster_id.clone())
            .with("clusterName", settings.cluster_name.clone());
        let place = ("cluster", "Infos.cluster.talos.dev");
        Resource::new(place, "current", "cluster.InfoController", self.run.started).yaml(map)
    }

    /// There once etcd's process runs and knows who it is.
    fn etcd_member(&self) -> Option<Resource> {
        let running = self.run.services.get("etcd").is_some_and(crate::services::Service::is_running);
        let data = self.nodes.system_disk(self.machine)?.ephemeral.as_ref()?.etcd.filter(|_| running)?;
        let id = format!("{:016x}", data.member);
        let place = ("etcd", "EtcdMembers.etcd.talos.dev");
        Some(
            Resource::new(place, "local", "etcd.MemberController", self.run.started)
                .proto(&EtcdMember { member_id: id.clone() })
                .yaml(Map::new().with("memberID", id)),
        )
    }

    fn etcd_config(&self) -> Resource {
        let map = Map::new().with("extraArgs", Value::Map(Map::new()));
        let place = ("etcd", "EtcdConfigs.etcd.talos.dev");
        Resource::new(place, "etcd", "etcd.ConfigController", self.run.started).yaml(map)
    }
}
