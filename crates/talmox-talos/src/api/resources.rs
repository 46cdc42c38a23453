//! Resources: what a machine knows of itself.

use std::time::Duration;

use futures_util::StreamExt as _;
use talmox_proto::Message;
use talmox_proto::definitions;
use talmox_proto::resource::{
    self as wire, EventType, GetOptions, GetRequest, ListOptions, ListRequest, WatchOptions, WatchRequest,
    state,
};
use talmox_types::excerpt;

use crate::{BoxStream, Client, Code, Error, Kind, Status};

/// Where resources about control planes are.
const CONTROL_PLANE: &str = "controlplane";

/// A kind of resource: its names, and what it holds.
pub trait Specification: Message + Default + 'static {
    const TYPE: &'static str;
    const NAMESPACE: &'static str;
}

/// The kinds talmox reads.
pub mod kinds {
    pub use talmox_proto::definitions::{
        Diagnostic, Disk, EtcdMember, ExtensionStatus, HostnameStatus, KubeletSpec, MachineConfig,
        MachineStatus, Member, NodeAddress, NodeStatus, Nodename, SecurityState, Service, SystemInformation,
        TimeStatus, VolumeStatus,
    };
}

macro_rules! specifications {
    ($($kind:ident: $type:literal in $namespace:literal),* $(,)?) => {$(
        impl Specification for definitions::$kind {
            const TYPE: &'static str = $type;
            const NAMESPACE: &'static str = $namespace;
        }
    )*};
}

specifications! {
    Diagnostic: "Diagnostics.runtime.talos.dev" in "runtime",
    Disk: "Disks.block.talos.dev" in "runtime",
    EtcdMember: "EtcdMembers.etcd.talos.dev" in "etcd",
    ExtensionStatus: "ExtensionStatuses.runtime.talos.dev" in "runtime",
    HostnameStatus: "HostnameStatuses.net.talos.dev" in "network",
    KubeletSpec: "KubeletSpecs.kubernetes.talos.dev" in "k8s",
    MachineConfig: "MachineConfigs.config.talos.dev" in "config",
    MachineStatus: "MachineStatuses.runtime.talos.dev" in "runtime",
    Member: "Members.cluster.talos.dev" in "cluster",
    NodeAddress: "NodeAddresses.net.talos.dev" in "network",
    Nodename: "Nodenames.kubernetes.talos.dev" in "k8s",
    NodeStatus: "NodeStatuses.kubernetes.talos.dev" in "k8s",
    SecurityState: "SecurityStates.talos.dev" in "runtime",
    Service: "Services.v1alpha1.talos.dev" in "runtime",
    SystemInformation: "SystemInformations.hardware.talos.dev" in "hardware",
    TimeStatus: "TimeStatuses.v1alpha1.talos.dev" in "runtime",
    VolumeStatus: "VolumeStatuses.block.talos.dev" in "runtime",
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Running,
    TearingDown,
}

/// One resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource<Spec> {
    pub id: String,
    /// A number, or `undefined`.
    pub version: String,
    pub phase: Phase,
    /// When its content was changed last, since 1970, if it says so.
    pub updated: Option<Duration>,
    pub spec: Spec,
}

/// What a control plane runs as pods of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlPlanePod {
    ApiServer,
    ControllerManager,
    Scheduler,
}

/// What Talos makes such a pod from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodConfig {
    /// The pod made from it says the same number in `talos.dev/config-version`.
    pub version: String,
    pub image: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Created,
    Updated,
    Destroyed,
    /// Everything that was there when the watch began has been told.
    Complete,
}

/// Something a watch saw. Of what is gone, or is told to be complete, there is no content.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched<Spec> {
    pub change: Change,
    pub resource: Option<Resource<Spec>>,
}

/// What a machine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    Unknown,
    Booting,
    Installing,
    Maintenance,
    Running,
    Rebooting,
    ShuttingDown,
    Resetting,
    Upgrading,
}

/// Something a machine still waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    pub name: String,
    pub reason: String,
}

/// Stage and readiness. `Running` says nothing of etcd, and readiness comes and goes while a node joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineState {
    pub stage: Stage,
    pub ready: bool,
    pub unmet: Vec<Unmet>,
}

impl From<definitions::MachineStatus> for MachineState {
    fn from(wire: definitions::MachineStatus) -> Self {
        use definitions::MachineStage as Wire;
        let stage = match wire.stage() {
            Wire::StageUnknown => Stage::Unknown,
            Wire::StageBooting => Stage::Booting,
            Wire::StageInstalling => Stage::Installing,
            Wire::StageMaintenance => Stage::Maintenance,
            Wire::StageRunning => Stage::Running,
            Wire::StageRebooting => Stage::Rebooting,
            Wire::StageShuttingDown => Stage::ShuttingDown,
            Wire::StageResetting => Stage::Resetting,
            Wire::StageUpgrading => Stage::Upgrading,
        };
        let status = wire.status.unwrap_or_default();
        let unmet = |one: definitions::UnmetCondition| Unmet {
            name: excerpt(&one.name),
            reason: excerpt(&one.reason),
        };
        Self { stage, ready: status.ready, unmet: status.unmet_conditions.into_iter().map(unmet).collect() }
    }
}

impl Client {
    /// One resource; none if there is no such id.
    pub async fn get<Spec: Specification>(&self, id: &str) -> Result<Option<Resource<Spec>>, Error> {
        self.get_of(Spec::NAMESPACE, Spec::TYPE, id).await
    }

    /// What a control plane's pod is made from now; none if it has no such pod.
    pub async fn pod_config(&self, pod: ControlPlanePod) -> Result<Option<PodConfig>, Error> {
        let (kind, id) = match pod {
            ControlPlanePod::ApiServer => ("APIServerConfigs.kubernetes.talos.dev", "kube-apiserver"),
            ControlPlanePod::ControllerManager => {
                ("ControllerManagerConfigs.kubernetes.talos.dev", "kube-controller-manager")
            }
            ControlPlanePod::Scheduler => ("SchedulerConfigs.kubernetes.talos.dev", "kube-scheduler"),
        };
        if pod == ControlPlanePod::ApiServer {
            let found = self.get_of::<definitions::ApiServerConfig>(CONTROL_PLANE, kind, id).await?;
            return Ok(found.map(|found| PodConfig { version: found.version, image: found.spec.image }));
        }
        let found = self.get_of::<definitions::ComponentConfig>(CONTROL_PLANE, kind, id).await?;
        let enabled = found.filter(|found| found.spec.enabled);
        Ok(enabled.map(|found| PodConfig { version: found.version, image: found.spec.image }))
    }

    /// An annotation of a static pod as Talos hands it to the kubelet; none if it has no such pod, or that no such annotation.
    pub async fn static_pod_annotation(&self, id: &str, name: &str) -> Result<Option<String>, Error> {
        let request = GetRequest {
            namespace: "k8s".to_owned(),
            r#type: "StaticPods.kubernetes.talos.dev".to_owned(),
            id: id.to_owned(),
            options: Some(GetOptions {}),
        };
        let text = match self.ask(state::GET, request, self.deadlines().quick).await {
            Ok(reply) => reply.resource.and_then(|resource| resource.spec).unwrap_or_default().yaml_spec,
            Err(error) if error.kind() == Kind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let value = |line: &str| {
            let value = line.trim_start().strip_prefix(name)?.strip_prefix(':')?;
            Some(value.trim().trim_matches(['"', '\'']).to_owned())
        };
        Ok(text.lines().find_map(value))
    }

    /// The manifests Talos keeps a cluster with, each as YAML text, in the order they are applied.
    pub async fn manifests(&self) -> Result<Vec<secrecy::SecretString>, Error> {
        let request = ListRequest {
            namespace: CONTROL_PLANE.to_owned(),
            r#type: "Manifests.kubernetes.talos.dev".to_owned(),
            options: Some(ListOptions::default()),
        };
        let mut stream = self.bounded_stream(state::LIST, request, self.deadlines().quick).await?;
        let mut texts = std::collections::BTreeMap::new();
        while let Some(reply) = stream.next().await {
            let resource = reply?.resource.unwrap_or_default();
            let (metadata, spec) = (resource.metadata.unwrap_or_default(), resource.spec.unwrap_or_default());
            texts.insert(metadata.id, secrecy::SecretString::from(spec.yaml_spec));
        }
        Ok(texts.into_values().collect())
    }

    async fn get_of<Spec: Message + Default>(
        &self,
        namespace: &str,
        kind: &'static str,
        id: &str,
    ) -> Result<Option<Resource<Spec>>, Error> {
        let request = GetRequest {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            id: id.to_owned(),
            options: Some(GetOptions {}),
        };
        match self.ask(state::GET, request, self.deadlines().quick).await {
            Ok(reply) => self.read(state::GET.name(), kind, reply.resource).map(Some),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every resource of a kind.
    pub async fn list<Spec: Specification>(&self) -> Result<Vec<Resource<Spec>>, Error> {
        let request = ListRequest {
            namespace: Spec::NAMESPACE.to_owned(),
            r#type: Spec::TYPE.to_owned(),
            options: Some(ListOptions::default()),
        };
        let mut stream = self.bounded_stream(state::LIST, request, self.deadlines().quick).await?;
        let mut all = Vec::new();
        while let Some(reply) = stream.next().await {
            all.push(self.read(state::LIST.name(), Spec::TYPE, reply?.resource)?);
        }
        Ok(all)
    }

    /// The ids of all resources of a kind whose content is of no interest.
    pub async fn list_ids(&self, namespace: &str, kind: &str) -> Result<Vec<String>, Error> {
        let request = ListRequest {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            options: Some(ListOptions::default()),
        };
        let mut stream = self.bounded_stream(state::LIST, request, self.deadlines().quick).await?;
        let mut ids = Vec::new();
        while let Some(reply) = stream.next().await {
            let metadata = reply?.resource.and_then(|resource| resource.metadata);
            ids.extend(metadata.map(|metadata| metadata.id));
        }
        Ok(ids)
    }

    /// The version of a resource whose content is of no interest; none if there is no such id.
    pub async fn version_of(&self, namespace: &str, kind: &str, id: &str) -> Result<Option<String>, Error> {
        let request = GetRequest {
            namespace: namespace.to_owned(),
            r#type: kind.to_owned(),
            id: id.to_owned(),
            options: Some(GetOptions {}),
        };
        match self.ask(state::GET, request, self.deadlines().quick).await {
            Ok(reply) => Ok(reply.resource.and_then(|resource| resource.metadata).map(|one| one.version)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Follows one resource. Drop it before a first configuration is applied: a stream that is open keeps the node's port
    /// closed for ten seconds.
    pub async fn watch<Spec: Specification>(
        &self,
        id: &str,
    ) -> Result<BoxStream<Result<Watched<Spec>, Error>>, Error> {
        let request = WatchRequest {
            namespace: Spec::NAMESPACE.to_owned(),
            r#type: Spec::TYPE.to_owned(),
            id: Some(id.to_owned()),
            // Without any, Talos 1.12 fails.
            options: Some(WatchOptions::default()),
            api_version: 1,
        };
        let stream = self.stream(state::WATCH, request, None).await?;
        let client = self.clone();
        let events = stream.flat_map(move |reply| {
            let seen = match reply {
                Ok(reply) => reply.event.into_iter().filter_map(|event| client.seen(event)).collect(),
                Err(error) => vec![Err(error)],
            };
            futures_util::stream::iter(seen)
        });
        Ok(Box::pin(events))
    }

    /// What the machine is doing; none before it knows.
    pub async fn machine_state(&self) -> Result<Option<MachineState>, Error> {
        let found = self.get::<definitions::MachineStatus>("machine").await?;
        Ok(found.map(|resource| resource.spec.into()))
    }

    fn seen<Spec: Specification>(&self, event: wire::Event) -> Option<Result<Watched<Spec>, Error>> {
        let name = state::WATCH.name();
        let change = match event.event_type() {
            EventType::Created => Change::Created,
            EventType::Updated => Change::Updated,
            EventType::Destroyed => Change::Destroyed,
            EventType::Bootstrapped => Change::Complete,
            EventType::Errored => {
                let words = event.error.unwrap_or_default();
                return Some(Err(self.error(name, Status::new(Code::Unknown, words))));
            }
            EventType::Noop => return None,
        };
        let has_content = matches!(change, Change::Created | Change::Updated);
        let resource = has_content.then(|| self.read(name, Spec::TYPE, event.resource)).transpose();
        Some(resource.map(|resource| Watched { change, resource }))
    }

    fn read<Spec: Message + Default>(
        &self,
        name: &'static str,
        kind: &'static str,
        resource: Option<wire::Resource>,
    ) -> Result<Resource<Spec>, Error> {
        let wrong = |words: String| self.error(name, Status::new(Code::DataLoss, words));
        let (metadata, spec) = resource
            .and_then(|resource| Some((resource.metadata?, resource.spec?)))
            .ok_or_else(|| wrong("a resource without content".to_owned()))?;
        let spec = Spec::decode(spec.proto_spec.as_slice())
            .map_err(|error| wrong(format!("{kind} {} makes no sense: {error}", metadata.id)))?;
        let phase = if metadata.phase == "tearingDown" { Phase::TearingDown } else { Phase::Running };
        let updated = metadata.updated.and_then(|at| {
            Some(Duration::new(u64::try_from(at.seconds).ok()?, u32::try_from(at.nanos).ok()?))
        });
        Ok(Resource { id: metadata.id, version: metadata.version, phase, updated, spec })
    }
}
