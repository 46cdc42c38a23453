//! How far machines are when authorities are being replaced. Where none is, nobody is asked.

use std::net::IpAddr;

use talmox_talos::Client;
use talmox_types::desired::Role;
use talmox_types::{NodeName, Phases, Realm};

use super::{Probe, held, looking, places, probe};
use crate::work::{Result, Work};
use crate::{Reach, StepError, observe_for};

/// What the configuration in force says; one that cannot be read says nothing.
pub(super) async fn phases(reach: &Reach<'_>, client: &Client) -> Phases {
    if reach.machines.rotating().is_empty() {
        return Phases::default();
    }
    let held = held(client).await.ok();
    let config = held.and_then(|held| held.active.or(held.kept));
    config.map(|config| reach.machines.phases_of(&config)).unwrap_or_default()
}

/// The same of the machine at an address.
pub(crate) async fn phases_at(reach: &Reach<'_>, address: IpAddr) -> Phases {
    match reach.secure(address) {
        Some(client) => phases(reach, &client.with_deadlines(looking())).await,
        None => Phases::default(),
    }
}

/// The phases a machine joins in: those of whichever control plane is least far. With its neighbours a phase gets on.
pub(crate) async fn phases_of_newcomer(work: &Work<'_>, node: &NodeName) -> Result<Phases> {
    let (run, reach) = (work.run, work.reach()?);
    if reach.machines.rotating().is_empty() {
        return Ok(Phases::default());
    }
    let observed = observe_for(run.client, run.desired, run.request)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    let mut least: Option<Phases> = None;
    for (other, at) in places(run.desired, &observed) {
        if other.name == *node || other.role != Role::Controller {
            continue;
        }
        if let Probe::Configured(client) = probe(reach, at.address.primary(), at.uuid.as_deref()).await {
            let seen = phases(reach, &client).await;
            let before = least.unwrap_or(seen);
            let lower = |realm: Realm| before.of(realm).min(seen.of(realm));
            least = Some(Phases { talos: lower(Realm::Talos), kubernetes: lower(Realm::Kubernetes) });
        }
    }
    Ok(least.unwrap_or_default())
}
