//! Moving Kubernetes to another version, in the order of `talosctl upgrade-k8s`.
//!
//! ```text
//!  every node answers, its Talos runs the new version
//!   ─▶ images pulled where they will be needed
//!   ─▶ kube-apiserver on each control plane, one after the other ─▶ kube-controller-manager ─▶ kube-scheduler
//!   ─▶ kube-proxy's image into the configurations
//!   ─▶ kubelets: control planes, then workers
//!   ─▶ Talos' own manifests
//! ```
//!
//! Each part looks first: at the node's configuration, then at what Kubernetes says of the pod or the kubelet. So a run that was
//! ended anywhere is taken up by the next, and a node that is done is not written to again. Of a configuration only the image is
//! changed; everything else in it stays as the node has it.

mod config;
mod kubelet;
mod manifests;
mod pods;
mod pull;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use talmox_k8s::Client as Kubernetes;
use talmox_plan::{Component, Upkeep};
use talmox_talos::Client;
use talmox_types::desired::Role;
use talmox_types::support::line_of;
use talmox_types::{NodeName, Version};
use tokio::time::Instant;

use crate::machine::{last_words, looking, phases_at, places};
use crate::work::{End, Result, Work};
use crate::{Event, Reach, StepError, Whereabouts, observe_for};

use config::Described;

/// How often something that is waited for is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// A node of the cluster.
struct Member {
    name: NodeName,
    role: Role,
    address: IpAddr,
    client: Client,
    described: Described,
}

/// An upgrade under way.
struct Upgrade<'a> {
    work: &'a Work<'a>,
    reach: &'a Reach<'a>,
    /// Control planes first, each group by name.
    members: Vec<Member>,
    kubernetes: Vec<Kubernetes>,
}

pub(super) async fn run(work: &Work<'_>, upkeep: &Upkeep) -> Result {
    let Upkeep::UpgradeKubernetes { to, control_planes, workers, .. } = upkeep else {
        return Ok(End::Unchanged);
    };
    let reach = work.reach()?;
    let upgrade = Upgrade {
        work,
        reach,
        members: members(work, reach, control_planes, workers).await?,
        kubernetes: reach.kubernetes_at(control_planes.values().copied()),
    };
    if upgrade.kubernetes.is_empty() {
        return Err(StepError::NoReach { lacks: "this run was given no way to Kubernetes" });
    }
    upgrade.every_talos_runs(to).await?;
    upgrade.pull().await?;
    let mut wrote = false;
    for component in Component::PODS {
        for member in upgrade.control_planes() {
            upgrade.may_go_on()?;
            wrote |= upgrade.move_pod(member, component).await?;
        }
    }
    for member in upgrade.control_planes() {
        upgrade.may_go_on()?;
        wrote |= upgrade.set_image(member, Component::Proxy).await?;
    }
    wrote |= upgrade.move_kubelets().await?;
    wrote |= upgrade.sync_manifests().await?;
    Ok(if wrote { End::Changed } else { End::Unchanged })
}

/// The nodes the plan names, where they are now, and what is described for them.
async fn members(
    work: &Work<'_>,
    reach: &Reach<'_>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    workers: &BTreeMap<NodeName, IpAddr>,
) -> Result<Vec<Member>> {
    let run = work.run;
    let observed = observe_for(run.client, run.desired, run.request)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    let mut places: BTreeMap<_, _> = places(run.desired, &observed)
        .into_iter()
        .map(|(node, at)| (node.name.clone(), (node, at)))
        .collect();
    let mut members = Vec::new();
    for (name, address) in control_planes.iter().chain(workers) {
        let changed = || StepError::Changed { what: name.to_string() };
        let (node, at) = places.remove(name).ok_or_else(changed)?;
        if at.address.primary() != *address {
            return Err(changed());
        }
        let no_secrets = StepError::NoReach { lacks: "the cluster's secrets are not at hand" };
        let client = reach.secure(*address).ok_or(no_secrets)?;
        let phases = phases_at(work, name, *address).await?;
        let described = Described::of(reach, name, &Whereabouts { phases, ..at })?;
        members.push(Member { name: name.clone(), role: node.role, address: *address, client, described });
    }
    Ok(members)
}

impl Upgrade<'_> {
    fn control_planes(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.role == Role::Controller)
    }

    fn workers(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.role == Role::Worker)
    }

    /// Told to stop, or with the maintenance window over, nothing new is begun; what was begun is taken up by the next run.
    fn may_go_on(&self) -> Result<()> {
        let run = self.work.run;
        if !run.may_interrupt() {
            return Err(StepError::Closed { window: run.request.upkeep.window.to_string() });
        }
        if run.stop.is_cancelled() {
            return Err(StepError::Interrupted { waiting_for: "the next part of Kubernetes".to_owned() });
        }
        Ok(())
    }

    /// Asks all nodes side by side: nothing is begun while one does not answer, or could not run the new version.
    async fn every_talos_runs(&self, to: &str) -> Result<()> {
        let asked = self.members.iter().map(|member| {
            let client = member.client.clone().with_deadlines(looking());
            async move { (member, client.version().await) }
        });
        let kubernetes = Version::parse(to).ok();
        for (member, answer) in join_all(asked).await {
            let doing = format!("ask {} for its version", member.name);
            let release = answer.map_err(StepError::machine(doing))?;
            let line = Version::parse(&release.tag).ok().and_then(|talos| line_of(&talos));
            let runs = line.zip(kubernetes.as_ref()).is_none_or(|(line, to)| line.supports(to));
            if !runs {
                let doing = format!("upgrade Kubernetes to {to}");
                let reason = format!("Talos {} of {} does not run it", release.tag, member.name);
                return Err(StepError::HandOver { doing, reason });
            }
        }
        Ok(())
    }

    /// Asks Kubernetes at one control plane after the other, last at the one whose API server may be down.
    async fn ask<T, F, A>(&self, last: Option<IpAddr>, ask: F) -> std::result::Result<T, talmox_k8s::Error>
    where
        F: Fn(Kubernetes) -> A,
        A: Future<Output = std::result::Result<T, talmox_k8s::Error>>,
    {
        let last = last.map(|address| address.to_string());
        let is_last = |client: &&Kubernetes| last.as_ref() == Some(&client.server().host);
        let (mut order, late): (Vec<_>, Vec<_>) = self.kubernetes.iter().partition(|client| !is_last(client));
        order.extend(late);
        let mut failed = None;
        for client in order {
            match ask(client.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => failed = Some(error),
            }
        }
        // There is one: an upgrade without any does not begin.
        match failed {
            Some(error) => Err(error),
            None => ask(self.kubernetes[0].clone()).await,
        }
    }

    /// Looks until something is so; what it still lacks is told, and told again when time is up.
    async fn until<F, L>(&self, member: &Member, name: &str, limit: Duration, look: F) -> Result<()>
    where
        F: Fn() -> L,
        L: Future<Output = std::result::Result<(), String>>,
    {
        let begun = Instant::now();
        loop {
            let Err(lacks) = look().await else { return Ok(()) };
            let elapsed = begun.elapsed();
            if elapsed > limit {
                let said = last_words(self.reach, member.address).await;
                return Err(StepError::NotThere {
                    node: member.name.clone(),
                    address: member.address,
                    waiting_for: name.to_owned(),
                    limit,
                    last_words: format!("{lacks}; {said}"),
                });
            }
            let step = self.work.planned;
            self.work.event(Event::Waiting { step, name, detail: &lacks, elapsed, limit });
            self.work.pause(name, PAUSE).await?;
        }
    }
}
