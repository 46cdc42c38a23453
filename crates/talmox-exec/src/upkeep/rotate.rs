//! Another authority in the place of the present one, a phase at a time.
//!
//! ```text
//!  every machine has the phase before, every control plane's pods are of it
//!   ─▶ control planes, then workers, one after the other: send ─▶ read back ─▶ its pods are those of the new one ─▶ well
//! ```
//!
//! What a machine is sent is what is described for it in that phase, and nothing but its authorities may be different: anything
//! else is somebody else's step. A machine that has the phase already is only waited for, so a run that was ended anywhere is
//! taken up by the next.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use secrecy::SecretString;
use talmox_talos::{Access, Client};
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{NodeName, Phase, Phases, Realm};
use tokio::time::Instant;

use super::change_node::ChangeOrder;
use super::kubernetes::Servers;
use crate::machine::{Held, Probe, held, last_words, looking, places, probe};
use crate::work::{End, Result, Work};
use crate::{Event, Reach, StepError, Whereabouts, observe_for};

/// How long a machine that does not answer is waited for.
const ANSWER_LIMIT: Duration = Duration::from_mins(5);
/// How long a control plane's pods may take to be those of a phase.
const PODS_LIMIT: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_secs(2);

/// Machines of a cluster, control planes first, and where each is.
type Members = Vec<(NodeName, Whereabouts)>;

struct Rotation<'a> {
    work: &'a Work<'a>,
    reach: &'a Reach<'a>,
    realm: Realm,
    members: Members,
}

/// Brings every machine into a phase.
pub(super) async fn run(
    work: &Work<'_>,
    realm: Realm,
    phase: Phase,
    nodes: [&BTreeMap<NodeName, IpAddr>; 2],
) -> Result {
    let rotation = Rotation::of(work, realm, nodes).await?;
    let seen = match phase.previous() {
        Some(before) if !sabotaged(Defect::PhaseNotAwaited) => rotation.everybody_has(before).await?,
        Some(_) | None => rotation.everybody_has(Phase::Before).await?,
    };
    let mut wrote = false;
    for ((node, at), phases) in rotation.members.iter().zip(seen) {
        if work.run.stop.is_cancelled() {
            return Err(StepError::Interrupted { waiting_for: "the next machine".to_owned() });
        }
        let target = phases.with(realm, phases.of(realm).max(phase));
        rotation.has_nothing_else(node, at, phases).await?;
        let at = Whereabouts { phases: target, ..at.clone() };
        let order = ChangeOrder::new(work, node, &at)?;
        wrote |= match realm {
            // Talos takes another of its own over without restarting anything.
            Realm::Talos => order.taken_over().await?.wrote(),
            Realm::Kubernetes => order.at_once().await?.wrote(),
        };
    }
    Ok(if wrote { End::Changed } else { End::Unchanged })
}

/// Puts the new authority in its place where the secrets are kept, once no machine knows the old one.
pub(super) async fn settle(work: &Work<'_>, realm: Realm, nodes: [&BTreeMap<NodeName, IpAddr>; 2]) -> Result {
    let rotation = Rotation::of(work, realm, nodes).await?;
    if !rotation.reach.machines.rotating().contains(&realm) {
        return Ok(End::Unchanged);
    }
    rotation.everybody_has(Phase::Alone).await?;
    rotation.reach.machines.settle(realm).map_err(|reason| StepError::Rotation { realm, reason })?;
    Ok(End::Changed)
}

impl<'a> Rotation<'a> {
    async fn of(work: &'a Work<'a>, realm: Realm, nodes: [&BTreeMap<NodeName, IpAddr>; 2]) -> Result<Self> {
        let (run, reach) = (work.run, work.reach()?);
        let observed = observe_for(run.client, run.desired, run.request)
            .await
            .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
        let mut places: BTreeMap<_, _> =
            places(run.desired, &observed).into_iter().map(|(node, at)| (node.name.clone(), at)).collect();
        let mut members = Vec::new();
        for (name, address) in nodes.into_iter().flatten() {
            let at = places.remove(name).filter(|at| at.address.primary() == *address);
            members.push((name.clone(), at.ok_or_else(|| StepError::Changed { what: name.to_string() })?));
        }
        Ok(Self { work, reach, realm, members })
    }

    /// Looks until every machine answers and has at least this phase, and what the control planes run is of it too; gives the
    /// phases of each.
    async fn everybody_has(&self, phase: Phase) -> Result<Vec<Phases>> {
        let begun = Instant::now();
        let seen = loop {
            let asked = self.members.iter().map(|(_, at)| self.phases(at));
            let seen: std::result::Result<Vec<Phases>, (usize, String)> = join_all(asked)
                .await
                .into_iter()
                .enumerate()
                .map(|(index, answer)| answer.map_err(|reason| (index, reason)))
                .collect();
            match seen {
                Ok(seen) => break seen,
                Err((index, reason)) => self.wait((index, "an answer"), &reason, begun, ANSWER_LIMIT).await?,
            }
        };
        let behind = self.members.iter().zip(&seen).find(|(_, seen)| seen.of(self.realm) < phase);
        if let Some(((node, _), _)) = behind {
            let reason = format!("{node} does not {} yet", known(phase));
            return Err(StepError::Rotation { realm: self.realm, reason });
        }
        self.pods_are_renewed(&seen).await?;
        Ok(seen)
    }

    /// How far a machine is; the error says why nobody knows.
    async fn phases(&self, at: &Whereabouts) -> std::result::Result<Phases, String> {
        let client = match probe(self.reach, at.address.primary(), at.uuid.as_deref()).await {
            Probe::Configured(client) => client.with_deadlines(looking()),
            Probe::Unreachable { reason } => return Err(reason),
            Probe::Stranger { why } => return Err(why),
            Probe::Maintenance { .. } => return Err("it is in maintenance mode".to_owned()),
        };
        let Held { kept, active, .. } = held(&client).await.map_err(|error| error.to_string())?;
        let config: Option<SecretString> = active.or(kept);
        let config = config.ok_or("it does not say what it is configured with")?;
        let phases = self.reach.machines.phases_of(&config);
        if self.realm == Realm::Talos && phases.talos >= Phase::Accepted {
            self.knows_us(at.address.primary()).await?;
        }
        Ok(phases)
    }

    /// Whether a machine lets somebody in who shows a certificate of the new authority and has no connection yet.
    async fn knows_us(&self, address: IpAddr) -> std::result::Result<(), String> {
        let identity = self.reach.machines.identity().ok_or("the cluster's secrets are not at hand")?;
        let access = Access::Secure(Arc::new(identity.afresh()));
        let client = Client::new(Arc::clone(&self.reach.talos), address, access).with_deadlines(looking());
        client.version().await.map(drop).map_err(|error| error.to_string())
    }

    /// Waits until the pods of every control plane are made with the certificates it has now.
    async fn pods_are_renewed(&self, seen: &[Phases]) -> Result<()> {
        if self.realm != Realm::Kubernetes || sabotaged(Defect::PhaseNotAwaited) {
            return Ok(());
        }
        let servers = Servers::of(self.work).await?;
        for (index, (node, at)) in self.members.iter().enumerate() {
            if self.work.run.role(node) != Some(Role::Controller) {
                continue;
            }
            let at = Whereabouts { phases: seen[index], ..at.clone() };
            let order = ChangeOrder::new(self.work, node, &at)?;
            let begun = Instant::now();
            while let Some(stale) = order.stale_pods(&servers).await {
                let name = "its pods with the certificates it has";
                self.wait((index, name), &stale, begun, PODS_LIMIT).await?;
            }
        }
        Ok(())
    }

    /// Nothing of a machine's configuration is different but for the phase.
    async fn has_nothing_else(&self, node: &NodeName, at: &Whereabouts, phases: Phases) -> Result<()> {
        let at = Whereabouts { phases, ..at.clone() };
        let seen = ChangeOrder::new(self.work, node, &at)?.look().await?;
        match seen.difference() {
            None => Ok(()),
            Some(key) => Err(StepError::Changed { what: format!("{key} of {node}") }),
        }
    }

    async fn wait(
        &self,
        (index, name): (usize, &str),
        detail: &str,
        begun: Instant,
        limit: Duration,
    ) -> Result<()> {
        let (node, at) = &self.members[index];
        let elapsed = begun.elapsed();
        if elapsed > limit {
            let address = at.address.primary();
            let said = last_words(self.reach, address).await;
            return Err(StepError::NotThere {
                node: node.clone(),
                address,
                waiting_for: name.to_owned(),
                limit,
                last_words: format!("{detail}; {said}"),
            });
        }
        let detail = format!("{node}: {detail}");
        let step = self.work.planned;
        self.work.event(Event::Waiting { step, name, detail: &detail, elapsed, limit });
        self.work.pause(name, PAUSE).await
    }
}

/// What a machine does from a phase on.
fn known(phase: Phase) -> &'static str {
    match phase {
        Phase::Before => "know the old one",
        Phase::Accepted => "accept the new one",
        Phase::Issuing => "sign with the new one",
        Phase::Alone => "refuse the old one",
    }
}
