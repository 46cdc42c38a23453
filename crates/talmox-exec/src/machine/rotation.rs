//! How far machines are when authorities are being replaced. Where none is, nobody is asked.
//!
//! What is described for a machine depends on it, so a guess would send it back a phase: who does not say is waited for.

use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::identify;
use talmox_talos::Client;
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{NodeName, Phases, Realm};
use tokio::time::Instant;

use super::{Probe, held, last_words, looking, places, probe};
use crate::work::{Result, Work};
use crate::{Event, Reach, StepError, observe_for};

/// How long whoever does not say how far it is is waited for: as long as a restart may take.
const SAYS_LIMIT: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_secs(2);

/// What the configuration in force says; the error says why nobody knows.
async fn told(reach: &Reach<'_>, client: &Client) -> std::result::Result<Phases, String> {
    if reach.machines.rotating().is_empty() {
        return Ok(Phases::default());
    }
    let held = held(client).await.map_err(|error| error.to_string())?;
    let config = held.active.or(held.kept).ok_or("it does not say what it is configured with")?;
    Ok(reach.machines.phases_of(&config))
}

/// The same to be shown; of one that cannot be read it is not known that it has begun.
pub(super) async fn phases(reach: &Reach<'_>, client: &Client) -> Phases {
    told(reach, client).await.unwrap_or_default()
}

/// How far a machine that lives is, to send it something.
pub(crate) async fn phases_at(work: &Work<'_>, node: &NodeName, address: IpAddr) -> Result<Phases> {
    let reach = work.reach()?;
    let no_secrets = StepError::NoReach { lacks: "the cluster's secrets are not at hand" };
    let client = reach.secure(address).ok_or(no_secrets)?.with_deadlines(looking());
    let begun = Instant::now();
    loop {
        let reason = match told(reach, &client).await {
            Ok(phases) => return Ok(phases),
            Err(reason) => reason,
        };
        let waiting_for = "word of how far it is with its authorities";
        if begun.elapsed() > SAYS_LIMIT {
            let said = last_words(reach, address).await;
            return Err(StepError::NotThere {
                node: node.clone(),
                address,
                waiting_for: waiting_for.to_owned(),
                limit: SAYS_LIMIT,
                last_words: format!("{reason}; {said}"),
            });
        }
        wait(work, waiting_for, &format!("{node}: {reason}"), begun).await?;
    }
}

/// The phases a machine joins in: those of whichever control plane is least far. With its neighbours a phase gets on, so one
/// that says is enough; without any, whoever joined could speak to nobody.
pub(crate) async fn phases_of_newcomer(work: &Work<'_>, node: &NodeName) -> Result<Phases> {
    if work.reach()?.machines.rotating().is_empty() {
        return Ok(Phases::default());
    }
    let begun = Instant::now();
    loop {
        let silent = match least_far(work, node).await? {
            Least::Known(phases) => return Ok(phases),
            Least::NoCluster => return Ok(Phases::default()),
            Least::Silent(_) if sabotaged(Defect::NewcomerOfBefore) => return Ok(Phases::default()),
            Least::Silent(silent) => silent,
        };
        if begun.elapsed() > SAYS_LIMIT {
            return Err(StepError::NoPhase { node: node.clone(), silent });
        }
        wait(work, "a control plane that says how far authorities are replaced", &silent, begun).await?;
    }
}

/// What control planes say of how far they are.
enum Least {
    Known(Phases),
    /// There is no cluster yet that could be ahead of a machine.
    NoCluster,
    /// Nobody says, and why.
    Silent(String),
}

async fn least_far(work: &Work<'_>, node: &NodeName) -> Result<Least> {
    let (run, reach) = (work.run, work.reach()?);
    let observed = observe_for(run.client, run.desired, run.request)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    let mut least: Option<Phases> = None;
    let mut silent: Vec<String> = Vec::new();
    for (other, at) in places(run.desired, &observed) {
        if other.name == *node || other.role != Role::Controller {
            continue;
        }
        let seen = match probe(reach, at.address.primary(), at.uuid.as_deref()).await {
            Probe::Configured(client) => told(reach, &client).await,
            Probe::Unreachable { reason } => Err(reason),
            Probe::Stranger { why } => Err(why),
            Probe::Maintenance { .. } => Err("it has no configuration".to_owned()),
        };
        match seen {
            Ok(seen) => {
                let before = least.unwrap_or(seen);
                let lower = |realm: Realm| before.of(realm).min(seen.of(realm));
                least = Some(Phases { talos: lower(Realm::Talos), kubernetes: lower(Realm::Kubernetes) });
            }
            Err(reason) => silent.push(format!("{}: {reason}", other.name)),
        }
    }
    // A cluster that is built from a snapshot begins anew, with whatever its machines are given.
    let begun = identify(run.desired, &observed).marks().any(|mark| mark.bootstrap.is_some());
    let anew = run.request.upkeep.restore.is_some();
    Ok(match least {
        Some(phases) => Least::Known(phases),
        None if !begun || anew => Least::NoCluster,
        None if silent.is_empty() => Least::Silent("no other control plane runs".to_owned()),
        None => Least::Silent(silent.join("; ")),
    })
}

async fn wait(work: &Work<'_>, name: &str, detail: &str, begun: Instant) -> Result<()> {
    let elapsed = begun.elapsed();
    work.event(Event::Waiting { step: work.planned, name, detail, elapsed, limit: SAYS_LIMIT });
    work.pause(name, PAUSE).await
}
