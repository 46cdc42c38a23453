//! A cluster in memory and everything that works on it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use secrecy::SecretString;
use talmox_exec::{
    ApplyError, Event, Gate, GateFuture, Interruption, Limits, Reporter, Run, Summary, apply, observe,
};
use talmox_plan::{Goal, Nonce, Observed, Plan, Request, check, plan};
use talmox_pve::client::{Client, Credentials, Settings};
use talmox_sim::{Dump, World};
use talmox_test::{Lab, Latency, Shelf};
use talmox_types::Mark;
use talmox_types::desired::Desired;
use tokio_util::sync::CancellationToken;

/// Lets everybody through.
pub(crate) struct Open;

impl Gate for Open {
    fn pass<'a>(&'a self, _interruption: Interruption<'a>) -> GateFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

/// Hears nothing.
pub(crate) struct Deaf;

impl Reporter for Deaf {
    fn event(&self, _event: Event<'_>) {}
}

pub(crate) struct Bed {
    pub(crate) lab: Lab,
    pub(crate) shelf: Shelf,
    token: SecretString,
}

impl Bed {
    pub(crate) fn new(world: World, seed: u64) -> Self {
        let token = SecretString::from(world.starter_token().unwrap());
        Self { lab: Lab::of(world, seed, Latency::RECORDED), shelf: Shelf::default(), token }
    }

    pub(crate) fn client(&self) -> Client {
        self.lab.client_as(&Credentials::token(&self.token).unwrap(), Settings::default())
    }

    pub(crate) fn dump(&self) -> Dump {
        self.lab.world(|world| world.dump())
    }

    pub(crate) async fn look(&self, desired: &Desired) -> Observed {
        observe(&self.client(), desired).await.unwrap()
    }

    /// Looks, plans and has the plan checked.
    pub(crate) async fn plan(&self, desired: &Desired, request: &Request, nonce: u32) -> Plan {
        let observed = self.look(desired).await;
        let made = plan(desired, &observed, request, &Nonce::new(nonce));
        let violations = check(&made, desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        made
    }

    /// Carries a plan out, round by round.
    pub(crate) async fn apply(
        &self,
        desired: &Desired,
        request: &Request,
        nonce: u32,
        approved: &Plan,
    ) -> Result<Summary, ApplyError> {
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
        apply(&run, approved).await
    }

    /// Looks, plans and applies, with a client that may die while it looks. What went wrong is told in words.
    pub(crate) async fn converge(
        &self,
        desired: &Desired,
        request: &Request,
        nonce: u32,
    ) -> Result<Summary, String> {
        let observed = observe(&self.client(), desired).await.map_err(|error| told(&error))?;
        let made = plan(desired, &observed, request, &Nonce::new(nonce));
        let violations = check(&made, desired, &observed, request);
        assert!(violations.is_empty(), "{violations:#?}\n{made:#?}");
        self.apply(desired, request, nonce, &made).await.map_err(|error| told(&error))
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

/// A request that allows reboots, which is what it takes to become as described.
pub(crate) fn reboots() -> Request {
    Request { allow_reboot: true, ..Request::default() }
}

pub(crate) fn destroy() -> Request {
    Request { goal: Goal::Destroy, ..Request::default() }
}

/// VMs that carry the mark of this cluster.
pub(crate) fn ours(dump: &Dump, uid: &str) -> BTreeSet<u32> {
    let marked = |text: &String| Mark::of_description(text).is_some_and(|mark| mark.uid.as_str() == uid);
    let ours = dump.vms.iter().filter(|(_, vm)| vm.config.get("description").is_some_and(marked));
    ours.map(|(vmid, _)| *vmid).collect()
}

/// Everything that is not this cluster's: VMs, volumes, and pools but for its own.
pub(crate) fn foreign(dump: &Dump, uid: &str, pool: Option<&str>) -> Dump {
    let ours = ours(dump, uid);
    let mut foreign = dump.clone();
    foreign.vms.retain(|vmid, _| !ours.contains(vmid));
    foreign.volumes.retain(|_, volume| volume.owner.is_none_or(|owner| !ours.contains(&owner)));
    foreign.pools.retain(|name, _| Some(name.as_str()) != pool);
    foreign
}
