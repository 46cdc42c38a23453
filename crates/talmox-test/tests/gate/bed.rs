//! A cluster in memory that lives, and runs of the engine on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::Either;
use secrecy::SecretString;
use talmox_config::{Files, read_files};
use talmox_exec::{
    Clock, Event, Gate, GateFuture, Interruption, Limits, MachineConfig, Machines, Reach, Reporter, Run,
    Summary, Whereabouts, apply, observe_whole,
};
use talmox_image::install::InstallImages;
use talmox_machine::client::TalosRole;
use talmox_machine::{Bundle, SystemRandom, Time};
use talmox_plan::{
    Nonce, Observed, Plan, Request, SeenEtcd, SeenKubernetes, SeenMachine, SeenNode, Until, check, plan,
};
use talmox_render::{Inputs, PatchText, Variables, render};
use talmox_talos::Identity;
use talmox_test::{Lab, MemoryTransport};
use talmox_types::desired::{Desired, Role};
use talmox_types::{Contract, NodeName};
use tokio_util::sync::CancellationToken;

/// Unix seconds at which the hosts of every lab booted.
const EPOCH: i64 = 1_767_225_600;

struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, _interruption: Interruption<'a>) -> GateFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

/// Hears everything, a line for each.
#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<String>>);

impl Told {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Reporter for Told {
    fn event(&self, event: Event<'_>) {
        let line = match event {
            Event::Started { step } => format!("{} begins", step.id),
            Event::Done { step, .. } => format!("{} done", step.id),
            Event::Failed { step, error } => format!("{} failed: {}", step.id, told(error)),
            Event::Skipped { step, because } => format!("{} skipped: {because}", step.id),
            Event::Warned { step, words } => format!("{} warns: {words}", step.id),
            Event::Waiting { step, name, detail, .. } => format!("{} waits for {name}: {detail}", step.id),
            Event::Task { .. } | Event::OtherId { .. } => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

/// The lab's own clock.
struct LabClock(Arc<MemoryTransport>);

impl Clock for LabClock {
    fn now(&self) -> u64 {
        self.0.world(|world| world.epoch() + world.clock()) / 1000
    }
}

/// Secrets of a cluster, and who an administrator with them is.
pub(crate) struct Secrets {
    bundle: Bundle,
    identity: Arc<Identity>,
    kubernetes: Arc<talmox_k8s::Identity>,
}

impl Secrets {
    fn generate() -> Self {
        let now = Time::from_unix(EPOCH);
        let bundle = Bundle::generate(Contract::new(1, 13), now, &mut SystemRandom).unwrap();
        let made = bundle.talos_client(&[TalosRole::Admin], now, 8_640_000, &mut SystemRandom).unwrap();
        let (authority, certificate) = (bundle.os.certificate.pem(), made.certificate.pem());
        let identity = Arc::new(Identity::from_pem(authority, certificate, made.key.pem()).unwrap());
        let made = bundle.kubernetes_admin(now, 8_640_000, &mut SystemRandom).unwrap();
        let (authority, certificate) = (bundle.kubernetes.certificate.pem(), made.certificate.pem());
        let kubernetes = talmox_k8s::Identity::from_pem(authority, certificate, made.key.pem()).unwrap();
        Self { bundle, identity, kubernetes: Arc::new(kubernetes) }
    }
}

/// Secrets are made once for all tests: it takes a while.
fn ours() -> &'static Secrets {
    static SECRETS: OnceLock<Secrets> = OnceLock::new();
    SECRETS.get_or_init(Secrets::generate)
}

/// Whoever has the secrets.
struct Keeper<'a> {
    desired: &'a Desired,
    secrets: &'a Secrets,
    patches: &'a [PatchText],
    rendered: Mutex<BTreeMap<String, SecretString>>,
}

impl<'a> Keeper<'a> {
    fn new(bed: &'a Bed) -> Self {
        let (desired, patches) = (&bed.desired, bed.patches.as_slice());
        Self { desired, secrets: ours(), patches, rendered: Mutex::default() }
    }

    fn render(&self, node: &NodeName, at: &Whereabouts) -> Result<SecretString, String> {
        let declared = self.desired.nodes.iter().find(|one| one.name == *node).ok_or("no such node")?;
        let Whereabouts { address, vmid, host, uuid, phases: _ } = at.clone();
        let rendered = render(&Inputs {
            desired: self.desired,
            node: declared,
            bundle: &self.secrets.bundle,
            whereabouts: &talmox_render::Whereabouts { address, vmid, host, uuid },
            install_images: &InstallImages::new(&BTreeMap::new(), |_| None),
            patches: self.patches,
            cni_manifest: None,
            variables: &Variables::default(),
        });
        Ok(SecretString::from(rendered.map_err(|error| error.to_string())?.config.to_yaml()))
    }
}

impl Machines for Keeper<'_> {
    fn config(&self, node: &NodeName, at: &Whereabouts) -> Result<MachineConfig, String> {
        let mut rendered = self.rendered.lock().unwrap();
        let key = format!("{node} {at:?}");
        if let Some(text) = rendered.get(&key) {
            return Ok(MachineConfig { text: text.clone() });
        }
        let text = self.render(node, at)?;
        rendered.insert(key, text.clone());
        Ok(MachineConfig { text })
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        Some(Arc::clone(&self.secrets.identity))
    }

    fn kubernetes(&self) -> Option<talmox_k8s::Access> {
        let server = talmox_k8s::Server::from_url(&self.desired.network.endpoint).unwrap();
        Some(talmox_k8s::Access { server, identity: Arc::clone(&self.secrets.kubernetes) })
    }
}

/// A description, the lab it is carried out in.
pub(crate) struct Bed {
    /// On top of what the description says.
    pub(crate) patches: Vec<PatchText>,
    pub(crate) lab: Lab,
    pub(crate) desired: Desired,
    pub(crate) told: Told,
}

pub(crate) fn healthy() -> Request {
    until(Until::Healthy)
}

pub(crate) fn until(until: Until) -> Request {
    Request { until, allow_reboot: true, ..Request::default() }
}

/// Three hosts and a description of so many nodes on them, with more lines.
pub(crate) fn described(controllers: usize, workers: usize, more: &str) -> Desired {
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

pub(crate) fn desired(more: &str) -> Desired {
    let cidr =
        if more.contains("node_cidr") { "" } else { "node_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\n" };
    let versions = if more.contains("talos_version") {
        ""
    } else {
        "talos_version: 1.13.9\nkubernetes_version: 1.36.3\ntalos_contract: \"1.13\"\n"
    };
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"8c1f6a2b90d347e5\"\nproxmox_endpoint: https://pve1:8006\n\
         proxmox_storage: local-zfs\nproxmox_bridge: vmbr0\nproxmox_pool: none\ncluster_api_addr: 10.0.7.10\n{cidr}\
         {versions}{more}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

impl Bed {
    pub(crate) fn new(seed: u64, desired: Desired) -> Self {
        Self::in_lab(Lab::one_host(seed).with_nodes(), desired)
    }

    pub(crate) fn in_lab(lab: Lab, desired: Desired) -> Self {
        Self { patches: Vec::new(), lab, desired, told: Told::default() }
    }

    pub(crate) async fn look(&self, request: &Request) -> Observed {
        let keeper = Keeper::new(self);
        let clock = LabClock(self.lab.shared());
        let reach = self.reach(&keeper, &clock, 1);
        observe_whole(&self.lab.client(), &self.desired, request, Some(&reach)).await.unwrap()
    }

    fn reach<'a>(&self, keeper: &'a Keeper<'a>, clock: &'a LabClock, number: u32) -> Reach<'a> {
        Reach {
            machines: keeper,
            talos: self.lab.talos(),
            kubernetes: Some(self.lab.kubernetes()),
            clock,
            holder: format!("test-{number}"),
            take_over: false,
            handout: None,
        }
    }

    /// The same cluster in the hands of somebody else.
    pub(crate) fn beside(&self) -> Self {
        let (desired, patches) = (self.desired.clone(), self.patches.clone());
        Self { patches, lab: self.lab.through(1), desired, told: Told::default() }
    }

    /// Something the story of this bed should tell.
    pub(crate) fn story(&self, line: &str) {
        self.told.0.lock().unwrap().push(line.to_owned());
    }

    /// Looks, plans, has the plan checked and carries it out.
    pub(crate) async fn converge(&self, request: &Request, number: u32) -> Result<Summary, String> {
        let keeper = Keeper::new(self);
        let clock = LabClock(self.lab.shared());
        let reach = self.reach(&keeper, &clock, number);
        let (client, nonce, stop) = (self.lab.client(), Nonce::new(number), CancellationToken::new());
        let images = self.lab.images();
        let observed = observe_whole(&client, &self.desired, request, Some(&reach)).await;
        let observed = observed.map_err(|error| told(&error))?;
        let made = plan(&self.desired, &observed, request, &nonce);
        let violations = check(&made, &self.desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        let run = Run {
            client: &client,
            images: &images,
            desired: &self.desired,
            request,
            nonce: &nonce,
            gate: &Open,
            reporter: &self.told,
            stop: &stop,
            reach: Some(&reach),
            limits: Limits::default(),
        };
        apply(&run, &made).await.map_err(|error| told(&error))
    }

    /// The same by a client that may be killed: then nothing of it goes on.
    pub(crate) async fn converge_mortally(&self, request: &Request, number: u32) -> Result<Summary, String> {
        let death = async {
            while !self.lab.transport().client_died() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let (work, death) = (std::pin::pin!(self.converge(request, number)), std::pin::pin!(death));
        match futures_util::future::select(work, death).await {
            Either::Left((end, _)) => end,
            Either::Right(_) => Err("killed".to_owned()),
        }
    }

    /// The plan as it is now, which must be sound.
    pub(crate) async fn plan(&self, request: &Request) -> Plan {
        let observed = self.look(request).await;
        let made = plan(&self.desired, &observed, request, &Nonce::new(99));
        let violations = check(&made, &self.desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        made
    }

    /// Waits until nothing comes and goes any more: a control plane that joined is ready, then is not, then is, and a run
    /// that looked in the moment between had nothing to do.
    pub(crate) async fn settles(&self) {
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

    /// Every machine is up and ready, every control plane a member and nobody else.
    pub(crate) async fn is_healthy(&self) {
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

    /// Kubernetes, by the address of a control plane.
    pub(crate) fn kubernetes(&self, address: &str) -> talmox_k8s::Client {
        let server = talmox_k8s::Server::new(address.to_owned(), 6443);
        let access = talmox_k8s::Access { server, identity: Arc::clone(&ours().kubernetes) };
        talmox_k8s::Client::new(self.lab.kubernetes(), access)
    }

    /// Nodes that are closed to pods.
    pub(crate) async fn cordoned(&self) -> Vec<String> {
        let nodes = self.kubernetes("10.0.7.11").nodes().await.unwrap();
        let closed = nodes.into_iter().filter(|node| node.spec.unschedulable);
        closed.map(|node| node.name().to_owned()).collect()
    }

    /// How many clusters of etcd were ever made.
    pub(crate) fn etcd_clusters(&self) -> usize {
        let nodes = self.lab.nodes(|nodes| serde_json::to_value(&*nodes).unwrap());
        nodes["clusters"].as_object().map_or(0, serde_json::Map::len)
    }

    /// How often nodes took a call of this name: those that were answered well.
    pub(crate) fn accepted(&self, name: &str) -> usize {
        self.lab.calls().asking("CALL", name).filter(|call| call.status() == Some(200)).count()
    }
}

/// An error and everything that led to it.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, "\nbecause: {error}");
        cause = error.source();
    }
    text
}
