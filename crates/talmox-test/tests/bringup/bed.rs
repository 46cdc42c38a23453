//! A cluster in memory from the hypervisor up to etcd, and runs of the engine on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::Either;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_config::{Files, read_files};
use talmox_exec::{
    Answer, Clock, Event, Gate, GateFuture, Handout, Interruption, Limits, MachineConfig, Machines,
    MachinesFuture, Manifest, Pieces, Reach, Reporter, Run, SnapshotSink, Summary, Whereabouts, apply,
    observe_whole,
};
use talmox_image::install::InstallImages;
use talmox_machine::client::TalosRole;
use talmox_machine::{Bundle, Config, Source, SystemRandom, Time};
use talmox_plan::{Nonce, Observed, Plan, Request, SeenEtcd, SeenKubernetes, Until, check, plan};
use talmox_render::{Inputs, PatchText, Variables, render};
use talmox_sim::{AclEntry, World};
use talmox_sim_talos::Fetched;
use talmox_talos::Identity;
use talmox_test::{Lab, MemoryTransport, TOKEN};
use talmox_types::desired::{ConfigDelivery, Desired, NodeAddress, Role};
use talmox_types::{Contract, NodeName, Phases, Realm};
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
    pub(crate) bundle: Bundle,
    identity: Arc<Identity>,
    kubernetes: Arc<talmox_k8s::Identity>,
}

impl Secrets {
    fn generate() -> Self {
        let now = Time::from_unix(EPOCH);
        Self::of(Bundle::generate(Contract::new(1, 13), now, &mut SystemRandom).unwrap())
    }

    pub(crate) fn of(bundle: Bundle) -> Self {
        let trusted = |realm: Realm| {
            let next = bundle.next(realm).map(|next| next.certificate.pem()).unwrap_or_default();
            format!("{}{next}", bundle.present(realm).certificate.pem())
        };
        let (talos, kubernetes) = (trusted(Realm::Talos), trusted(Realm::Kubernetes));
        let (identity, admin) = (as_administrator(&bundle, &talos), as_admin(&bundle, &kubernetes));
        let later = Realm::ALL.into_iter().fold(bundle.clone(), |bundle, realm| bundle.settled(realm));
        let identity = match bundle.next(Realm::Talos) {
            Some(_) => as_administrator(&later, &talos).or_earlier(Arc::new(identity)),
            None => identity,
        };
        let admin = match bundle.next(Realm::Kubernetes) {
            Some(_) => as_admin(&later, &kubernetes).or_earlier(Arc::new(admin)),
            None => admin,
        };
        Self { bundle, identity: Arc::new(identity), kubernetes: Arc::new(admin) }
    }
}

impl Secrets {
    /// Whoever administers the machine at an address with these.
    pub(crate) fn client(&self, bed: &Bed, address: &str) -> talmox_talos::Client {
        let access = talmox_talos::Access::Secure(Arc::clone(&self.identity));
        talmox_talos::Client::new(bed.lab.talos(), address.parse().unwrap(), access)
    }

    /// Whoever administers Kubernetes with these, asked at an address.
    pub(crate) fn kubernetes_at(&self, bed: &Bed, address: &str) -> talmox_k8s::Client {
        let server = talmox_k8s::Server::new(address.to_owned(), 6443);
        let access = talmox_k8s::Access { server, identity: Arc::clone(&self.kubernetes) };
        talmox_k8s::Client::new(bed.lab.kubernetes(), access)
    }
}

fn as_administrator(bundle: &Bundle, trusted: &str) -> Identity {
    let now = Time::from_unix(EPOCH);
    let made = bundle.talos_client(&[TalosRole::Admin], now, 8_640_000, &mut SystemRandom).unwrap();
    Identity::from_pem(trusted, made.certificate.pem(), made.key.pem()).unwrap()
}

fn as_admin(bundle: &Bundle, trusted: &str) -> talmox_k8s::Identity {
    let made = bundle.kubernetes_admin(Time::from_unix(EPOCH), 8_640_000, &mut SystemRandom).unwrap();
    talmox_k8s::Identity::from_pem(trusted, made.certificate.pem(), made.key.pem()).unwrap()
}

/// Secrets are made once for all tests: it takes a while.
fn ours() -> &'static Arc<Secrets> {
    static SECRETS: OnceLock<Arc<Secrets>> = OnceLock::new();
    SECRETS.get_or_init(|| Arc::new(Secrets::generate()))
}

/// Texts that nobody may be shown: of the cluster's secrets, and of the token for Proxmox.
pub(crate) fn unspeakable() -> Vec<String> {
    let bundle = &ours().bundle;
    let secrets = [&bundle.cluster_secret, &bundle.bootstrap_token, &bundle.trustd_token];
    let secrets = secrets.map(|secret| secret.expose_secret().to_owned());
    secrets.into_iter().chain([talmox_test::SECRET.to_owned()]).collect()
}

/// Whoever has the secrets.
struct Keeper<'a> {
    desired: &'a Desired,
    secrets: &'a Mutex<Arc<Secrets>>,
    handed: &'a Handed,
    rendered: Mutex<BTreeMap<String, SecretString>>,
}

impl<'a> Keeper<'a> {
    fn new(bed: &'a Bed) -> Self {
        Self { desired: &bed.desired, secrets: &bed.secrets, handed: &bed.handed, rendered: Mutex::default() }
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.secrets.lock().unwrap())
    }

    fn render(&self, node: &NodeName, at: &Whereabouts) -> Result<SecretString, String> {
        let declared = self.desired.nodes.iter().find(|one| one.name == *node).ok_or("no such node")?;
        let Whereabouts { address, vmid, host, uuid, phases } = at.clone();
        let bundle = &self.secrets().bundle;
        let rendered = render(&Inputs {
            desired: self.desired,
            node: declared,
            bundle: &bundle.issuing(phases),
            whereabouts: &talmox_render::Whereabouts { address, vmid, host, uuid },
            install_images: &InstallImages::new(&BTreeMap::new(), |_| None),
            patches: &self.handed.patches,
            cni_manifest: None,
            variables: &Variables::default(),
        });
        let config = rendered.map_err(|error| error.to_string())?.config;
        let config = bundle.accept(config, phases).map_err(|error| error.to_string())?;
        Ok(SecretString::from(config.to_yaml()))
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
        Some(Arc::clone(&self.secrets().identity))
    }

    fn kubernetes(&self) -> Option<talmox_k8s::Access> {
        let server = talmox_k8s::Server::from_url(&self.desired.network.endpoint).unwrap();
        Some(talmox_k8s::Access { server, identity: Arc::clone(&self.secrets().kubernetes) })
    }

    fn rotating(&self) -> Vec<Realm> {
        self.secrets().bundle.rotating().collect()
    }

    fn phases_of(&self, config: &SecretString) -> Phases {
        let config = Config::parse(Source { name: "config", text: config.expose_secret() }).unwrap();
        self.secrets().bundle.phases_of(&config)
    }

    fn settle(&self, realm: Realm) -> Result<(), String> {
        let mut secrets = self.secrets.lock().unwrap();
        *secrets = Arc::new(Secrets::of(secrets.bundle.settled(realm)));
        self.rendered.lock().unwrap().clear();
        Ok(())
    }

    fn manifests(&self) -> MachinesFuture<'_, Vec<Manifest>> {
        let texts = self.desired.kubernetes.bootstrap_manifests.iter().map(|name| Manifest {
            name: name.clone(),
            text: SecretString::from(self.handed.manifests[name].clone()),
        });
        let texts = texts.collect();
        Box::pin(async move { Ok(texts) })
    }

    fn post_bootstrap<'b>(&'b self, command: &'b [String]) -> MachinesFuture<'b, ()> {
        self.handed.ran.lock().unwrap().push(command.join(" "));
        Box::pin(async { Ok(()) })
    }

    fn snapshot_sink(&self) -> Result<Box<dyn SnapshotSink + '_>, String> {
        Ok(Box::new(Sink { kept: &self.handed.snapshots, bytes: Vec::new() }))
    }

    fn snapshot(&self, path: &str) -> Result<Pieces, String> {
        let kept = self.handed.snapshots.lock().unwrap();
        let bytes = kept.get(path).ok_or_else(|| format!("there is no file {path}"))?.clone();
        let pieces: Vec<_> = bytes.chunks(10_000).map(|piece| Ok(piece.to_vec().into())).collect();
        Ok(Box::new(pieces.into_iter()))
    }
}

/// A snapshot that is kept in memory.
struct Sink<'a> {
    kept: &'a Mutex<BTreeMap<String, Vec<u8>>>,
    bytes: Vec<u8>,
}

impl SnapshotSink for Sink<'_> {
    fn write(&mut self, piece: &[u8]) -> Result<(), String> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn keep(self: Box<Self>) -> Result<String, String> {
        let mut kept = self.kept.lock().unwrap();
        let name = format!("snapshot-{}", kept.len() + 1);
        kept.insert(name.clone(), self.bytes);
        Ok(name)
    }
}

/// What a cluster is handed when it is bootstrapped.
#[derive(Default)]
pub(crate) struct Handed {
    /// Patches on top of what the description says.
    pub(crate) patches: Vec<PatchText>,
    /// By the names of the description.
    pub(crate) manifests: BTreeMap<String, String>,
    /// Programs that were run.
    pub(crate) ran: Mutex<Vec<String>>,
    /// Snapshots of etcd, by name.
    pub(crate) snapshots: Mutex<BTreeMap<String, Vec<u8>>>,
}

/// Why a run ended early: every word of it, and what to do next.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) words: String,
    pub(crate) hints: Vec<String>,
}

/// A description, the lab it is carried out in.
pub(crate) struct Bed {
    pub(crate) handed: Handed,
    /// What the file with the secrets holds.
    pub(crate) secrets: Mutex<Arc<Secrets>>,
    pub(crate) lab: Lab,
    pub(crate) desired: Desired,
    pub(crate) told: Told,
    /// Where machines fetch their configuration, if they do.
    pub(crate) base: String,
    /// Whether others' leases are taken over.
    pub(crate) take_over: bool,
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
         proxmox_storage: local-zfs\nproxmox_bridge: vmbr0\nproxmox_pool: none\netcd_backup: {{dir: backup}}\ncluster_api_addr: 10.0.7.10\n{cidr}\
         {versions}{more}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

/// Whoever delivers configurations on a drive must be able to delete it.
fn may_delete_drives(world: &mut World) {
    let role = "TalmoxSeeds";
    world.access.roles.insert(role.to_owned(), ["Datastore.Allocate".to_owned()].into());
    let (user, _) = TOKEN.split_once('!').unwrap();
    world.access.acl.extend([("user", user), ("token", TOKEN)].map(|(kind, subject)| AclEntry {
        path: "/".to_owned(),
        kind: kind.to_owned(),
        subject: subject.to_owned(),
        role: role.to_owned(),
        propagate: true,
    }));
}

impl Bed {
    pub(crate) fn new(seed: u64, desired: Desired) -> Self {
        Self::in_lab(Lab::one_host(seed).with_nodes(), desired)
    }

    pub(crate) fn in_lab(lab: Lab, desired: Desired) -> Self {
        lab.world(may_delete_drives);
        let base = "https://config.lab.example:8443".to_owned();
        let (handed, secrets) = (Handed::default(), Mutex::new(Arc::clone(ours())));
        Self { handed, secrets, lab, desired, told: Told::default(), base, take_over: false }
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
            handout: None,
            clock,
            holder: format!("test-{number}"),
            take_over: self.take_over,
        }
    }

    /// Looks, plans, has the plan checked and carries it out.
    pub(crate) async fn converge(&self, request: &Request, number: u32) -> Result<Summary, String> {
        self.attempt(request, number).await.map_err(|stopped| stopped.words)
    }

    /// The same, with what to do next if it did not get there.
    pub(crate) async fn attempt(&self, request: &Request, number: u32) -> Result<Summary, Stopped> {
        let handout = self.hands_out(number);
        let end = self.attempt_with(request, number, handout.as_deref()).await;
        self.lab.transport().serve_web(None);
        end
    }

    async fn attempt_with(
        &self,
        request: &Request,
        number: u32,
        handout: Option<&Handout>,
    ) -> Result<Summary, Stopped> {
        let keeper = Keeper::new(self);
        let clock = LabClock(self.lab.shared());
        let reach = Reach { handout, ..self.reach(&keeper, &clock, number) };
        let observed = observe_whole(&self.lab.client(), &self.desired, request, Some(&reach)).await;
        let observed = observed.map_err(|error| Stopped { words: told(&error), hints: error.hints() })?;
        let made = plan(&self.desired, &observed, request, &Nonce::new(number));
        let violations = check(&made, &self.desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        self.carry(&reach, &made, request, number).await
    }

    /// Carries out a plan, whoever made it, and what follows from it.
    pub(crate) async fn carry_out(
        &self,
        made: &Plan,
        request: &Request,
        number: u32,
    ) -> Result<Summary, String> {
        let keeper = Keeper::new(self);
        let clock = LabClock(self.lab.shared());
        let reach = self.reach(&keeper, &clock, number);
        self.carry(&reach, made, request, number).await.map_err(|stopped| stopped.words)
    }

    async fn carry(
        &self,
        reach: &Reach<'_>,
        made: &Plan,
        request: &Request,
        number: u32,
    ) -> Result<Summary, Stopped> {
        let (client, nonce, stop) = (self.lab.client(), Nonce::new(number), CancellationToken::new());
        let images = self.lab.images();
        let run = Run {
            client: &client,
            images: &images,
            desired: &self.desired,
            request,
            nonce: &nonce,
            gate: &Open,
            reporter: &self.told,
            stop: &stop,
            reach: Some(reach),
            limits: Limits::default(),
        };
        apply(&run, made).await.map_err(|error| Stopped { words: told(&error), hints: error.hints() })
    }

    /// Whoever administers Kubernetes on the first control plane.
    pub(crate) fn kubernetes(&self) -> talmox_k8s::Client {
        let access = Keeper::new(self).kubernetes().unwrap();
        talmox_k8s::Client::new(self.lab.kubernetes(), access)
    }

    /// The machine at an address.
    pub(crate) fn machine(&self, address: &str) -> talmox_sim_talos::MachineId {
        let address: std::net::IpAddr = address.parse().unwrap();
        let all = self.lab.nodes(|nodes| nodes.addresses());
        all.into_iter().find(|(one, _)| *one == address).unwrap().1
    }

    /// Whoever administers the machine at an address.
    pub(crate) fn client(&self, address: &str) -> talmox_talos::Client {
        self.secrets.lock().unwrap().client(self, address)
    }

    /// What every member of etcd says.
    pub(crate) async fn etcd(&self) -> talmox_exec::etcd::Etcd {
        let (keeper, clock) = (Keeper::new(self), LabClock(self.lab.shared()));
        talmox_exec::etcd::look(&self.reach(&keeper, &clock, 1), &self.control_planes()).await
    }

    /// Defragments all members; gives them in order.
    pub(crate) async fn defragment(&self) -> Result<Vec<String>, String> {
        let (keeper, clock) = (Keeper::new(self), LabClock(self.lab.shared()));
        let reach = self.reach(&keeper, &clock, 1);
        let mut order = Vec::new();
        let done = &mut |one: &talmox_exec::etcd::Defragmented| order.push(one.node.to_string());
        let end = talmox_exec::etcd::defragment(&reach, &self.control_planes(), done).await;
        end.map_err(|error| told(&error)).map(|()| order)
    }

    pub(crate) fn control_planes(&self) -> BTreeMap<NodeName, std::net::IpAddr> {
        let controllers = self.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        let address = |node: &talmox_types::desired::Node| match &node.address {
            talmox_types::desired::NodeAddress::Declared(address) => address.primary(),
            talmox_types::desired::NodeAddress::FromPool(_) => panic!("{} has no address yet", node.name),
        };
        controllers.map(|node| (node.name.clone(), address(node))).collect()
    }

    /// Serves configurations to machines that fetch them, for as long as the run goes.
    fn hands_out(&self, number: u32) -> Option<Arc<Handout>> {
        if self.desired.talos.config_delivery != ConfigDelivery::Url {
            return None;
        }
        let drawn = AtomicU32::new(0);
        let tokens = move || {
            let mut token = [0; 16];
            token[..4].copy_from_slice(&number.to_be_bytes());
            token[4..8].copy_from_slice(&drawn.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            Some(token)
        };
        let handout = Arc::new(Handout::new(&self.base, tokens).unwrap());
        let (served, authority) = (Arc::clone(&handout), self.base.clone());
        let web = move |url: &str| match url.strip_prefix(&authority) {
            None => Fetched::Failed("no such host".to_owned()),
            Some(path) => match served.answer("GET", path) {
                Answer::File(file) => Fetched::File(file.expose_secret().to_vec()),
                Answer::Unknown | Answer::NoSuchMethod => Fetched::Failed("status 503".to_owned()),
            },
        };
        self.lab.transport().serve_web(Some(Arc::new(web)));
        Some(handout)
    }

    /// Gives every node that asks by DHCP its reservation.
    pub(crate) fn reserve(&self) {
        let reservations: Vec<(String, IpAddr)> = self
            .desired
            .nodes
            .iter()
            .filter_map(|node| {
                let NodeAddress::Declared(address) = &node.address else { return None };
                Some((node.vm.nics.first()?.mac.to_string().to_lowercase(), address.primary()))
            })
            .collect();
        self.lab.nodes(|nodes| nodes.leases.extend(reservations));
    }

    /// The same by a client that may be killed: then nothing of it goes on.
    pub(crate) async fn converge_mortally(&self, request: &Request, number: u32) -> Result<Summary, String> {
        let death = async {
            while !self.lab.died() {
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

    /// The plan of somebody who has other secrets.
    pub(crate) async fn with_other_secrets(&self, request: &Request) -> Plan {
        let secrets = Mutex::new(Arc::new(Secrets::generate()));
        let keeper = Keeper { secrets: &secrets, ..Keeper::new(self) };
        let clock = LabClock(self.lab.shared());
        let reach = self.reach(&keeper, &clock, 98);
        let observed = observe_whole(&self.lab.client(), &self.desired, request, Some(&reach)).await.unwrap();
        plan(&self.desired, &observed, request, &Nonce::new(98))
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

    /// A client of the cluster's Kubernetes, asked at an address.
    pub(crate) fn kubernetes_at(&self, address: &str) -> talmox_k8s::Client {
        self.secrets.lock().unwrap().kubernetes_at(self, address)
    }

    /// Seconds since 1970, by the lab's clock.
    pub(crate) fn now(&self) -> u64 {
        LabClock(self.lab.shared()).now()
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
