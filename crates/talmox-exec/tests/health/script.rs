//! A cluster of one control plane and one worker that answers from tables. A test changes what is in them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use talmox_exec::health::{Cluster, Member};
use talmox_k8s as k8s;
use talmox_proto::common::Data;
use talmox_proto::resource::{GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource, Spec};
use talmox_proto::{Message, definitions, machine};
use talmox_talos::{self as talos, BoxFuture, Call, Code, Messages, Replies, Status, TransportError};
use talmox_types::desired::Role;
use talmox_types::{FamilyPair, NodeName};

pub(crate) const CONTROL_PLANE: &str = "10.0.7.11";
pub(crate) const WORKER: &str = "10.0.7.14";

/// What a node says of itself.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) answers: bool,
    pub(crate) stage: definitions::MachineStage,
    pub(crate) unmet: Vec<(&'static str, &'static str)>,
    pub(crate) memory_mib: u64,
    pub(crate) ephemeral_mib: u64,
    /// State and health of its services.
    pub(crate) services: BTreeMap<&'static str, (&'static str, bool)>,
    pub(crate) members: Vec<(u64, &'static str, &'static str)>,
    pub(crate) diagnostics: Vec<(&'static str, &'static str)>,
    pub(crate) static_pods: Vec<&'static str>,
}

/// The whole of it.
pub(crate) struct World {
    pub(crate) machines: BTreeMap<IpAddr, Machine>,
    /// Kubernetes' answers by path; `None` while nobody listens.
    pub(crate) kubernetes: Option<BTreeMap<String, Value>>,
    /// Looks so far, so that something can change at one.
    pub(crate) calls: usize,
}

pub(crate) type Shared = Arc<Mutex<World>>;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Everything is as it should be.
pub(crate) fn healthy() -> Shared {
    let machine = |services: &[&'static str]| Machine {
        answers: true,
        stage: definitions::MachineStage::StageRunning,
        unmet: Vec::new(),
        memory_mib: 2048,
        ephemeral_mib: 90_000,
        services: services.iter().map(|service| (*service, ("Running", true))).collect(),
        members: vec![(1, "cp-1", "https://10.0.7.11:2380")],
        diagnostics: Vec::new(),
        static_pods: vec!["kube-apiserver", "kube-controller-manager", "kube-scheduler"],
    };
    let machines = BTreeMap::from([
        (address(CONTROL_PLANE), machine(&["apid", "etcd", "kubelet"])),
        (address(WORKER), machine(&["apid", "kubelet"])),
    ]);
    Arc::new(Mutex::new(World { machines, kubernetes: Some(kubernetes()), calls: 0 }))
}

pub(crate) fn node(name: &str, address: &str, ready: bool, control_plane: bool) -> Value {
    let labels = if control_plane { json!({"node-role.kubernetes.io/control-plane": ""}) } else { json!({}) };
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "message": "no network plugin"}],
        },
    })
}

pub(crate) fn pod(name: &str, ready: bool) -> Value {
    json!({
        "metadata": {"namespace": "kube-system", "name": name},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

fn list(items: &[Value]) -> Value {
    json!({ "items": items })
}

fn kubernetes() -> BTreeMap<String, Value> {
    let nodes = [node("cp-1", CONTROL_PLANE, true, true), node("worker-1", WORKER, true, false)];
    let pods = |app: &str| format!("/api/v1/pods?k8s-app={app}");
    BTreeMap::from([
        ("/api/v1/nodes".to_owned(), list(&nodes)),
        (pods("kube-apiserver"), list(&[pod("kube-apiserver-cp-1", true)])),
        (pods("kube-scheduler"), list(&[pod("kube-scheduler-cp-1", true)])),
        (pods("kube-controller-manager"), list(&[pod("kube-controller-manager-cp-1", true)])),
        (pods("kube-proxy"), list(&[pod("kube-proxy-a", true), pod("kube-proxy-b", true)])),
        (pods("kube-dns"), list(&[pod("coredns-a", true), pod("coredns-b", true)])),
        (
            "/apis/apps/v1/daemonsets?k8s-app=kube-proxy".to_owned(),
            list(&[json!({"status": {"desiredNumberScheduled": 2}})]),
        ),
        ("/apis/apps/v1/deployments?k8s-app=kube-dns".to_owned(), list(&[json!({"spec": {"replicas": 2}})])),
    ])
}

/// The cluster as it is asked.
pub(crate) fn cluster(world: &Shared) -> Cluster {
    let member = |name: &str, role, at: &str| Member {
        name: NodeName::parse(name).unwrap(),
        role,
        addresses: FamilyPair::one(address(at)),
    };
    let (authority, certificate, key) = identity();
    let key = key.into();
    let talos_identity = talos::Identity::from_pem(&authority, &certificate, &key).unwrap();
    let access = k8s::Access {
        server: k8s::Server::new("10.0.7.10", 6443),
        identity: Arc::new(k8s::Identity::from_pem(&authority, &certificate, &key).unwrap()),
    };
    Cluster {
        members: vec![
            member("cp-1", Role::Controller, CONTROL_PLANE),
            member("worker-1", Role::Worker, WORKER),
        ],
        off: Vec::new(),
        talos: Arc::new(Talos(Arc::clone(world))),
        identity: Arc::new(talos_identity),
        kubernetes: vec![k8s::Client::new(Arc::new(Kubernetes(Arc::clone(world))), access)],
        has_network: true,
    }
}

/// A certificate nobody looks at, with its key.
fn identity() -> (String, String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    (certificate.pem(), certificate.pem(), key.serialize_pem())
}

struct Talos(Shared);

impl talos::Transport for Talos {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Replies, TransportError>> {
        let Messages::One(message) = call.messages else { panic!("no stream is sent") };
        let mut world = self.0.lock().unwrap();
        world.calls += 1;
        let machine = world.machines[&call.node].clone();
        drop(world);
        let answer = if machine.answers {
            machine.answer(call.path, &message)
        } else {
            Err(TransportError::Connect { reason: "connection refused".to_owned() })
        };
        Box::pin(async move {
            answer.map(|replies| {
                let replies: Vec<Result<Bytes, TransportError>> = replies.into_iter().map(Ok).collect();
                Box::pin(futures_util::stream::iter(replies)) as Replies
            })
        })
    }
}

fn encoded(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

impl Machine {
    fn answer(&self, path: &str, message: &[u8]) -> Result<Vec<Bytes>, TransportError> {
        let one = match path.rsplit('/').next().unwrap() {
            "Version" => encoded(&machine::VersionResponse { messages: vec![machine::Version::default()] }),
            "ServiceList" => encoded(&self.services()),
            "EtcdMemberList" => encoded(&self.members()),
            "Memory" => {
                let meminfo =
                    Some(machine::MemInfo { memtotal: self.memory_mib * 1024, ..Default::default() });
                let memory = machine::Memory { meminfo, ..Default::default() };
                encoded(&machine::MemoryResponse { messages: vec![memory] })
            }
            "Logs" => encoded(&Data { bytes: b"the last line\n".to_vec(), ..Data::default() }),
            "Get" => {
                return self.get(&GetRequest::decode(message).unwrap()).map(|reply| vec![encoded(&reply)]);
            }
            "List" => {
                let found = self.list(&ListRequest::decode(message).unwrap().r#type);
                let reply = |resource| encoded(&ListResponse { resource: Some(resource) });
                return Ok(found.into_iter().map(reply).collect());
            }
            other => panic!("nobody asks for {other}"),
        };
        Ok(vec![one])
    }

    fn services(&self) -> machine::ServiceListResponse {
        let service = |(id, (state, healthy)): (&&str, &(&str, bool))| machine::ServiceInfo {
            id: (*id).to_owned(),
            state: (*state).to_owned(),
            health: Some(machine::ServiceHealth {
                unknown: *state != "Running",
                healthy: *healthy,
                last_message: if *healthy { String::new() } else { "Running pre state".to_owned() },
                ..Default::default()
            }),
            ..Default::default()
        };
        let services = self.services.iter().map(service).collect();
        machine::ServiceListResponse {
            messages: vec![machine::ServiceList { services, ..Default::default() }],
        }
    }

    fn members(&self) -> machine::EtcdMemberListResponse {
        let member = |(id, hostname, url): &(u64, &str, &str)| machine::EtcdMember {
            id: *id,
            hostname: (*hostname).to_owned(),
            peer_urls: vec![(*url).to_owned()],
            ..Default::default()
        };
        let members = self.members.iter().map(member).collect();
        machine::EtcdMemberListResponse {
            messages: vec![machine::EtcdMembers { members, ..Default::default() }],
        }
    }

    fn get(&self, request: &GetRequest) -> Result<GetResponse, TransportError> {
        let spec = match request.r#type.as_str() {
            "MachineStatuses.runtime.talos.dev" => self.status().encode_to_vec(),
            "VolumeStatuses.block.talos.dev" if self.ephemeral_mib > 0 => {
                definitions::VolumeStatus { size: self.ephemeral_mib << 20, ..Default::default() }
                    .encode_to_vec()
            }
            _ => return Err(TransportError::Status(Status::new(Code::NotFound, "doesn't exist"))),
        };
        Ok(GetResponse { resource: Some(resource(&request.id, spec)) })
    }

    fn status(&self) -> definitions::MachineStatus {
        let unmet = |(name, reason): &(&str, &str)| definitions::UnmetCondition {
            name: (*name).to_owned(),
            reason: (*reason).to_owned(),
        };
        definitions::MachineStatus {
            stage: self.stage.into(),
            status: Some(definitions::MachineStatusStatus {
                ready: self.unmet.is_empty(),
                unmet_conditions: self.unmet.iter().map(unmet).collect(),
            }),
        }
    }

    fn list(&self, kind: &str) -> Vec<Resource> {
        match kind {
            "Diagnostics.runtime.talos.dev" => {
                let one = |(id, message): &(&str, &str)| {
                    let spec =
                        definitions::Diagnostic { message: (*message).to_owned(), ..Default::default() };
                    resource(id, spec.encode_to_vec())
                };
                self.diagnostics.iter().map(one).collect()
            }
            "StaticPodStatuses.kubernetes.talos.dev" => {
                let one = |pod: &&str| resource(&format!("kube-system/{pod}-cp-1"), Vec::new());
                self.static_pods.iter().map(one).collect()
            }
            "APIServerConfigs.kubernetes.talos.dev"
            | "ControllerManagerConfigs.kubernetes.talos.dev"
            | "SchedulerConfigs.kubernetes.talos.dev" => vec![resource("config", Vec::new())],
            other => panic!("nobody asks for {other}"),
        }
    }
}

fn resource(id: &str, proto_spec: Vec<u8>) -> Resource {
    let metadata = Metadata { id: id.to_owned(), version: "1".to_owned(), ..Default::default() };
    Resource { metadata: Some(metadata), spec: Some(Spec { proto_spec, ..Default::default() }) }
}

struct Kubernetes(Shared);

impl k8s::Transport for Kubernetes {
    fn send(&self, request: k8s::Request) -> k8s::BoxFuture<'_, Result<k8s::Response, k8s::TransportError>> {
        let mut world = self.0.lock().unwrap();
        world.calls += 1;
        let query: Vec<&str> = request.query.iter().map(|(_, value)| value.as_str()).collect();
        let key =
            if query.is_empty() { request.path } else { format!("{}?{}", request.path, query.join("&")) };
        let answer = match &world.kubernetes {
            None => Err(k8s::TransportError::NotReached { reason: "connection refused".to_owned() }),
            Some(answers) => {
                let body = answers.get(&key).unwrap_or_else(|| panic!("nobody asks for {key}"));
                Ok(k8s::Response { status: 200, date: None, body: Bytes::from(body.to_string()) })
            }
        };
        Box::pin(async move { answer })
    }
}
