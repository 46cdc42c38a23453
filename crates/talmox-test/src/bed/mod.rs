//! A cluster in memory from the hypervisor up to Kubernetes, and runs of the engine on it.
//!
//! A [`Bed`] is a [`Lab`] with nodes, a description, and what the command line would bring along: secrets, manifests, a
//! place for snapshots. Secrets are drawn from the system; everything else of a run follows from its seed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "only tests use it, and a test fails by panicking")]

mod described;
mod keeper;
mod processes;
mod rotation;
mod secrets;
mod seen;
mod snapshot;
mod told;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::Either;
use secrecy::ExposeSecret as _;
use talmox_exec::{
    Answer, Clock, Gate, GateFuture, Handout, Interruption, LeaseHolder, Limits, Pace, Reach, Run, Summary,
    apply, observe_whole,
};
use talmox_plan::{Nonce, Plan, Request, Until, check, plan};
use talmox_sim::{AclEntry, World};
use talmox_sim_talos::Fetched;
use talmox_types::desired::{ConfigDelivery, Desired, NodeAddress};
use tokio_util::sync::CancellationToken;

use crate::{Lab, MemoryTransport, TOKEN};
pub use described::{STUBBORN, described, desired};
pub use keeper::Handed;
use keeper::Keeper;
pub use processes::ProcessTable;
pub use rotation::Watch;
use secrets::ours;
pub use secrets::{EPOCH, Secrets, unspeakable};
pub use seen::{unwell, versions};
pub use snapshot::snapshot_plan;
pub use told::{Told, told};

struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, _interruption: Interruption<'a>) -> GateFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

/// The lab's own clock, or one that is off by some seconds.
struct LabClock(Arc<MemoryTransport>, i64);

impl Clock for LabClock {
    fn now(&self) -> u64 {
        let now = self.0.world(|world| world.epoch() + world.clock()) / 1000;
        now.saturating_add_signed(self.1)
    }
}

/// Why a run ended early: every word of it, and what to do next.
#[derive(Debug)]
pub struct Stopped {
    pub words: String,
    pub hints: Vec<String>,
}

/// A description, the lab it is carried out in.
pub struct Bed {
    pub handed: Handed,
    /// What the file with the secrets holds. Who has the same file may have another description.
    pub secrets: Arc<Mutex<Arc<Secrets>>>,
    pub lab: Lab,
    pub desired: Desired,
    pub told: Told,
    /// Where machines fetch their configuration, if they do.
    pub base: String,
    /// Whether others' leases are taken over.
    pub take_over: bool,
    /// By how many seconds the clocks of some runs are off.
    pub clocks: BTreeMap<u32, i64>,
    /// Which processes the runs are, and what they see of each other.
    pub processes: ProcessTable,
}

pub fn healthy() -> Request {
    until(Until::Healthy)
}

pub fn until(until: Until) -> Request {
    Request { until, allow_reboot: true, ..Request::default() }
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
    pub fn new(seed: u64, desired: Desired) -> Self {
        Self::in_lab(Lab::one_host(seed).with_nodes(), desired)
    }

    pub fn in_lab(lab: Lab, desired: Desired) -> Self {
        lab.world(may_delete_drives);
        let base = "https://config.lab.example:8443".to_owned();
        let (handed, secrets) = (Handed::default(), Arc::new(Mutex::new(Arc::clone(ours()))));
        Self {
            handed,
            secrets,
            lab,
            desired,
            told: Told::default(),
            base,
            take_over: false,
            clocks: BTreeMap::new(),
            processes: ProcessTable::default(),
        }
    }

    fn clock(&self, number: u32) -> LabClock {
        LabClock(self.lab.shared(), self.clocks.get(&number).copied().unwrap_or_default())
    }

    fn reach<'a>(&'a self, keeper: &'a Keeper<'a>, clock: &'a LabClock, number: u32) -> Reach<'a> {
        Reach {
            machines: keeper,
            talos: self.lab.talos(),
            kubernetes: Some(self.lab.kubernetes()),
            handout: None,
            clock,
            pace: Pace::REAL,
            holder: LeaseHolder::new(format!("test-{number}"), self.processes.of(number)),
            processes: &self.processes,
            take_over: self.take_over,
        }
    }

    /// Looks, plans, has the plan checked and carries it out.
    pub async fn converge(&self, request: &Request, number: u32) -> Result<Summary, String> {
        self.attempt(request, number).await.map_err(|stopped| stopped.words)
    }

    /// The same by a client that may be killed: then nothing of it goes on.
    pub async fn converge_mortally(&self, request: &Request, number: u32) -> Result<Summary, String> {
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

    /// The same, with what to do next if it did not get there.
    pub async fn attempt(&self, request: &Request, number: u32) -> Result<Summary, Stopped> {
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
        let clock = self.clock(number);
        let reach = Reach { handout, ..self.reach(&keeper, &clock, number) };
        let observed = observe_whole(&self.lab.client(), &self.desired, request, Some(&reach)).await;
        let observed = observed.map_err(|error| Stopped { words: told(&error), hints: error.hints() })?;
        let made = plan(&self.desired, &observed, request, &Nonce::new(number));
        let violations = check(&made, &self.desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        self.carry(&reach, &made, request, number).await
    }

    /// Everything a run reaches machines with, for whoever makes runs of its own.
    pub async fn reached<T>(&self, number: u32, work: impl AsyncFnOnce(&Reach<'_>) -> T) -> T {
        let keeper = Keeper::new(self);
        let clock = self.clock(number);
        let reach = self.reach(&keeper, &clock, number);
        work(&reach).await
    }

    /// Carries out a plan, whoever made it, and what follows from it.
    pub async fn carry_out(&self, made: &Plan, request: &Request, number: u32) -> Result<Summary, String> {
        let keeper = Keeper::new(self);
        let clock = self.clock(number);
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
    pub fn reserve(&self) {
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
}
