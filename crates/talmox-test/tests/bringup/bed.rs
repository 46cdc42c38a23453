//! A cluster in memory from the hypervisor up to etcd, and runs of the engine on it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock};

use secrecy::SecretString;
use talmox_config::{Files, read_files};
use talmox_exec::{
    Clock, Event, Gate, GateFuture, Interruption, Limits, MachineConfig, Machines, Reach, Reporter, Run,
    Summary, Whereabouts, apply, observe_whole,
};
use talmox_image::install::InstallImages;
use talmox_machine::client::TalosRole;
use talmox_machine::{Bundle, SystemRandom, Time};
use talmox_plan::{Nonce, Observed, Plan, Request, Until, check, plan};
use talmox_render::{Inputs, Variables, render};
use talmox_talos::Identity;
use talmox_test::{Lab, MemoryTransport};
use talmox_types::desired::Desired;
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

/// Secrets are made once for all tests: it takes a while.
fn bundle() -> &'static Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        Bundle::generate(Contract::new(1, 13), Time::from_unix(EPOCH), &mut SystemRandom).unwrap()
    })
}

fn identity() -> Arc<Identity> {
    static IDENTITY: OnceLock<Arc<Identity>> = OnceLock::new();
    let make = || {
        let bundle = bundle();
        let now = Time::from_unix(EPOCH);
        let made = bundle.talos_client(&[TalosRole::Admin], now, 864_000, &mut SystemRandom).unwrap();
        let (authority, certificate) = (bundle.os.certificate.pem(), made.certificate.pem());
        Arc::new(Identity::from_pem(authority, certificate, made.key.pem()).unwrap())
    };
    Arc::clone(IDENTITY.get_or_init(make))
}

/// Whoever has the secrets.
struct Keeper<'a> {
    desired: &'a Desired,
    rendered: Mutex<BTreeMap<String, SecretString>>,
}

impl<'a> Keeper<'a> {
    fn new(desired: &'a Desired) -> Self {
        Self { desired, rendered: Mutex::default() }
    }

    fn render(&self, node: &NodeName, at: &Whereabouts) -> Result<SecretString, String> {
        let declared = self.desired.nodes.iter().find(|one| one.name == *node).ok_or("no such node")?;
        let Whereabouts { address, vmid, host, uuid } = at.clone();
        let rendered = render(&Inputs {
            desired: self.desired,
            node: declared,
            bundle: bundle(),
            whereabouts: &talmox_render::Whereabouts { address, vmid, host, uuid },
            install_images: &InstallImages::new(&BTreeMap::new(), |_| None),
            patches: &[],
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
        Some(identity())
    }
}

/// A description, the lab it is carried out in.
pub(crate) struct Bed {
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
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"8c1f6a2b90d347e5\"\nproxmox_endpoint: https://pve1:8006\n\
         proxmox_storage: local-zfs\nproxmox_bridge: vmbr0\nproxmox_pool: none\n{cidr}\
         talos_version: 1.13.9\nkubernetes_version: 1.36.3\ntalos_contract: \"1.13\"\n{more}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

impl Bed {
    pub(crate) fn new(seed: u64, desired: Desired) -> Self {
        Self { lab: Lab::one_host(seed).with_nodes(), desired, told: Told::default() }
    }

    pub(crate) async fn look(&self, request: &Request) -> Observed {
        let keeper = Keeper::new(&self.desired);
        let clock = LabClock(self.lab.shared());
        let reach = self.reach(&keeper, &clock, 1);
        observe_whole(&self.lab.root(), &self.desired, request, Some(&reach)).await.unwrap()
    }

    fn reach<'a>(&self, keeper: &'a Keeper<'a>, clock: &'a LabClock, number: u32) -> Reach<'a> {
        Reach {
            machines: keeper,
            talos: self.lab.talos(),
            kubernetes: None,
            clock,
            holder: format!("test-{number}"),
            take_over: false,
        }
    }

    /// Looks, plans, has the plan checked and carries it out.
    pub(crate) async fn converge(&self, request: &Request, number: u32) -> Result<Summary, String> {
        let keeper = Keeper::new(&self.desired);
        let clock = LabClock(self.lab.shared());
        let reach = self.reach(&keeper, &clock, number);
        let (client, nonce, stop) = (self.lab.root(), Nonce::new(number), CancellationToken::new());
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

    /// The plan as it is now, which must be sound.
    pub(crate) async fn plan(&self, request: &Request) -> Plan {
        let observed = self.look(request).await;
        let made = plan(&self.desired, &observed, request, &Nonce::new(99));
        let violations = check(&made, &self.desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        made
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
