//! A cluster in memory, a factory, and runs of the engine on it.

use secrecy::SecretString;
use talmox_config::{Files, read_files};
use talmox_exec::{
    ApplyError, Event, Gate, GateFuture, Interruption, Limits, ObserveError, Reporter, Run, Summary, apply,
    observe_for,
};
use talmox_plan::{Nonce, Plan, Request, boot_iso, check, managed_template, plan};
use talmox_pve::client::{Client, Credentials, Settings};
use talmox_sim::{Reach, Starter, World};
use talmox_test::{Lab, Latency, Shelf};
use talmox_types::desired::Desired;
use tokio_util::sync::CancellationToken;

pub(crate) const UID: &str = "8c1f6a2b90d347e5";
pub(crate) const POOL: &str = "talmox-lab";
/// A running VM that is nobody's business, beside those of the cluster.
pub(crate) const FOREIGN: u32 = 150;
const SEED: u64 = 5;
/// Unix milliseconds at which the hosts booted.
const EPOCH: u64 = 1_767_225_600_000;

struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, _interruption: Interruption<'a>) -> GateFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

struct Deaf;

impl Reporter for Deaf {
    fn event(&self, _event: Event<'_>) {}
}

/// Two hosts with nothing on them but somebody else's VM.
pub(crate) fn world() -> World {
    let mut world = Starter::new(2, SEED, EPOCH).release("9.2").unwrap().build().world;
    let config =
        [("name", "web"), ("scsi0", "local-zfs:vm-150-disk-0,size=8G"), ("tags", "talos"), ("onboot", "1")];
    world.add_vm("pve1", FOREIGN, config.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), true);
    let now = world.clock();
    world.advance_to(now + 20_000);
    world
}

pub(crate) fn described(more: &str) -> Desired {
    let text = format!(
        "cluster_name: lab\ncluster_uid: \"{UID}\"\nproxmox_endpoint: https://pve1:8006\nproxmox_storage: local-zfs\n\
         proxmox_bridge: vmbr0\nnode_cidr: 10.0.7.0/24\nnode_gateway: 10.0.7.1\ncluster_api_addr: 10.0.7.10\n\
         talos_version: 1.13.9\nkubernetes_version: 1.36.3\nfactory_url: https://images.example\n{more}"
    );
    let outcome = read_files(Files::from_texts(&text, None));
    assert!(!outcome.has_errors(), "{:#?}\n{text}", outcome.problems);
    outcome.desired.unwrap()
}

/// Why a run ended early: every word of it, and what to do next.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) words: String,
    pub(crate) hints: Vec<String>,
}

impl Stopped {
    fn of(error: &dyn std::error::Error, hints: Vec<String>) -> Self {
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            words.push_str(&format!("\n  because: {error}"));
            cause = error.source();
        }
        Self { words, hints }
    }

    fn observing(error: &ObserveError) -> Self {
        Self::of(error, error.hints())
    }

    fn applying(error: &ApplyError) -> Self {
        Self::of(error, error.hints())
    }
}

pub(crate) struct Bed {
    pub(crate) lab: Lab,
    shelf: Shelf,
    token: SecretString,
    /// The part of the token nobody may see.
    pub(crate) secret: String,
}

impl Bed {
    pub(crate) fn new(mut world: World, desired: &Desired) -> Self {
        let token = world.starter_token().unwrap();
        let secret = token.split_once('=').unwrap().1.to_owned();
        let shelf = Shelf::default();
        shelf.offer(&["siderolabs/qemu-guest-agent"]);
        for node in &desired.nodes {
            shelf.put(&managed_template(desired, node).image.url, image());
            shelf.put(&boot_iso(desired, node).url, vec![0; 4096]);
        }
        shelf.serve(&mut world);
        let lab = Lab::of(world, SEED, Latency::RECORDED);
        Self { lab, shelf, token: SecretString::from(token), secret }
    }

    fn client(&self) -> Client {
        self.lab.client_as(&Credentials::token(&self.token).unwrap(), Settings::default())
    }

    /// Looks and plans; the plan must be a sound one.
    pub(crate) async fn plan(
        &self,
        desired: &Desired,
        request: &Request,
        nonce: u32,
    ) -> Result<Plan, Stopped> {
        let observed = observe_for(&self.client(), desired, request.goal).await;
        let observed = observed.map_err(|error| Stopped::observing(&error))?;
        let made = plan(desired, &observed, request, &Nonce::new(nonce));
        let violations = check(&made, desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        Ok(made)
    }

    /// Looks, plans and carries out.
    pub(crate) async fn apply(
        &self,
        desired: &Desired,
        request: &Request,
        nonce: u32,
    ) -> Result<Summary, Stopped> {
        let approved = self.plan(desired, request, nonce).await?;
        let (client, nonce, stop) = (self.client(), Nonce::new(nonce), CancellationToken::new());
        let run = Run {
            client: &client,
            images: &self.shelf,
            desired,
            request,
            nonce: &nonce,
            gate: &Open,
            reporter: &Deaf,
            stop: &stop,
            reach: None,
            limits: Limits::default(),
        };
        apply(&run, &approved).await.map_err(|error| Stopped::applying(&error))
    }

    /// What an administrator does about an error: hosts are switched on, and lines to type are typed.
    pub(crate) fn repair(&self, hints: &[String]) {
        self.lab.world(|world| {
            let down: Vec<String> = world.nodes.keys().cloned().collect();
            for host in down {
                world.boot_host(&host);
                if let Some(node) = world.nodes.get_mut(&host) {
                    node.reach = Reach::Up;
                }
            }
            for hint in hints {
                type_in(world, hint);
            }
        });
    }
}

/// Types a line that a hint consists of, or quotes, at the console of the right host.
fn type_in(world: &mut World, hint: &str) {
    let line = hint.split('`').find(|part| part.starts_with("qm ") || part.starts_with("pvesm free "));
    let Some(line) = line else { return };
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["qm", "unlock", id] => world.set_lock(id.parse().unwrap(), None),
        ["qm", "destroy", id] => {
            if let Some(vm) = world.dump().vms.get(&id.parse().unwrap()) {
                let path = format!("/nodes/{}/qemu/{id}", vm.node);
                world.root_call("DELETE", &path, &[]).unwrap();
            }
        }
        _ => {}
    }
}

/// A qcow2 image of a disk of 2 GiB.
fn image() -> Vec<u8> {
    let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
    bytes.extend([0; 16]);
    bytes.extend((2_u64 << 30).to_be_bytes());
    bytes.resize(20_000, b'x');
    bytes
}
