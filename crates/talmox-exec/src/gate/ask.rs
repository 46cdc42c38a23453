//! Asking every member of etcd, one by one and each with a deadline: a list of nodes in one call would lose the answers of
//! the living to one that is dead.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;

use futures_util::future::{join, join_all};
use talmox_plan::{Guest, Observed, Power, assigned_addresses, identify};
use talmox_talos::{Client, Member};
use talmox_types::NodeName;
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};

use super::judge::{Asked, Fate, Leaving, Said, Verdict, Voice, judge, peers};
use crate::machine::{Probe, elsewhere, has_data, looking, probe_also};
use crate::{ObserveError, Reach, Run, observe_for};

/// What a member says that has no room left.
const NO_SPACE: &str = "alarm:NOSPACE";

type Asking<'a> = Pin<Box<dyn Future<Output = Asked> + Send + 'a>>;

/// Whom to ask, and what is known of its machine.
struct Place {
    name: String,
    addresses: Vec<IpAddr>,
    /// Where it may be instead.
    elsewhere: Vec<IpAddr>,
    uuid: Option<String>,
    /// Why a machine in maintenance mode at its address is not believed to be this one, without its data.
    doubt: Option<&'static str>,
    machine: Machine,
}

/// It was reset, or another machine answers in its place; what it had of etcd may still be there.
const CONFIGURED_BEFORE: &str =
    "a machine in maintenance mode is at its address, and its mark says that it was configured";
const ANOTHER: &str = "another machine has its address";
const UNPROVEN: &str = "a machine in maintenance mode is at its address, and nothing proves whose it is";

enum Machine {
    None,
    Off,
    Runs,
}

impl Place {
    /// Why a machine in maintenance mode with this SMBIOS uuid may not be the one that belongs here.
    fn doubts(&self, found: &str) -> Option<&'static str> {
        match &self.uuid {
            Some(own) if !own.eq_ignore_ascii_case(found) => Some(ANOTHER),
            Some(_) | None => self.doubt,
        }
    }
}

/// A VM that carries the cluster's mark.
struct OurVm<'a> {
    guest: &'a Guest,
    finished: bool,
    configured: bool,
}

/// What everybody said, and whether a mark says that etcd was ever begun.
pub(super) struct Answers {
    pub(super) asked: Vec<Asked>,
    pub(super) begun: bool,
}

/// Every control plane of the description, the node that is about to go, and whoever else they say is a member.
pub(super) async fn members(
    run: &Run<'_>,
    reach: &Reach<'_>,
    node: &NodeName,
) -> Result<Answers, ObserveError> {
    let observed = observe_for(run.client, run.desired, run.request).await?;
    let begun = identify(run.desired, &observed).marks().any(|mark| mark.bootstrap.is_some());
    let places = places(run, &observed, node);
    let all: Vec<Asking<'_>> = places.into_iter().map(|place| asking(reach, place)).collect();
    let mut asked = join_all(all).await;
    let others: Vec<Asking<'_>> = strangers(&asked).into_iter().map(|place| asking(reach, place)).collect();
    for other in join_all(others).await {
        // Of one that is not described nobody knew the address before.
        asked.retain(|one| one.name != other.name);
        asked.push(other);
    }
    Ok(Answers { asked, begun })
}

/// Whether a member and all beside it are well, by the judgement of the gate: it stays, but will answer nobody for a while. A lack of
/// space is no reason to leave it alone.
pub(crate) async fn others_are_well(
    reach: &Reach<'_>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    node: &NodeName,
) -> Result<(), String> {
    let places = control_planes.iter().map(|(name, address)| Place {
        name: name.to_string(),
        addresses: vec![*address],
        elsewhere: Vec::new(),
        uuid: None,
        doubt: None,
        machine: Machine::Runs,
    });
    let all: Vec<Asking<'_>> = places.map(|place| asking(reach, place)).collect();
    let mut asked = join_all(all).await;
    let others: Vec<Asking<'_>> = strangers(&asked).into_iter().map(|place| asking(reach, place)).collect();
    asked.extend(join_all(others).await);
    for one in &mut asked {
        if let Said::Member(Voice { complaint, .. }) = &mut one.said
            && complaint.as_ref().is_some_and(|text| text.split(", ").all(|part| part.contains(NO_SPACE)))
        {
            *complaint = None;
        }
    }
    let own = asked.iter().find(|one| one.name == node.as_str());
    if let Some(complaint) = own.and_then(Asked::complaint) {
        return Err(complaint);
    }
    let declared = control_planes.len();
    let leaving =
        Leaving { node, declared, is_declared: true, fate: Fate::Busy, all_stop: false, begun: true };
    match judge(&leaving, &asked) {
        Verdict::Pass => Ok(()),
        Verdict::NotYet(reason) | Verdict::Never(reason) => Err(reason),
    }
}

/// What a machine that is described as a worker says of its own part in etcd.
pub(super) enum Own {
    /// It has neither the service nor data, or no configuration at all.
    NoPart,
    HasPart,
    Silent(String),
}

/// Asks the machine of one node. Workers do not have the service, whatever state it is in.
pub(super) async fn own_word(run: &Run<'_>, reach: &Reach<'_>, observed: &Observed, node: &NodeName) -> Own {
    let places = places(run, observed, node);
    let Some(place) = places.into_iter().find(|place| place.name == node.as_str()) else {
        return Own::Silent("it has no place".to_owned());
    };
    let address = match (&place.machine, place.addresses.first()) {
        (Machine::None, _) => return Own::NoPart,
        (Machine::Off, _) => return Own::Silent("its VM does not run".to_owned()),
        (Machine::Runs, None) => return Own::Silent("its address is not known".to_owned()),
        (Machine::Runs, Some(address)) => *address,
    };
    let client = match probe_also(reach, address, &place.elsewhere, place.uuid.as_deref()).await {
        Probe::Unreachable { reason } => return Own::Silent(reason),
        Probe::Stranger { why } => return Own::Silent(why),
        Probe::Maintenance { uuid, .. } if place.uuid.is_some_and(|own| own.eq_ignore_ascii_case(&uuid)) => {
            return Own::NoPart;
        }
        Probe::Maintenance { .. } => return Own::Silent(ANOTHER.to_owned()),
        Probe::Configured(client) => client.with_deadlines(looking()),
    };
    match join(has_data(&client), client.service("etcd")).await {
        (Ok(false), Ok(None)) => Own::NoPart,
        (Ok(_), Ok(_)) => Own::HasPart,
        (Err(error), _) | (_, Err(error)) => Own::Silent(error.to_string()),
    }
}

fn asking<'a>(reach: &'a Reach<'a>, place: Place) -> Asking<'a> {
    Box::pin(async move {
        let said = match place.machine {
            Machine::None => Said::NoMachine,
            Machine::Off => Said::Off,
            Machine::Runs => answer(reach, &place).await,
        };
        Asked { name: place.name, addresses: place.addresses, said }
    })
}

fn places(run: &Run<'_>, observed: &Observed, node: &NodeName) -> Vec<Place> {
    let identities = identify(run.desired, observed);
    let addresses = assigned_addresses(run.desired, observed);
    let owned: BTreeMap<&NodeName, OurVm<'_>> = identities
        .ours()
        .filter_map(|owned| {
            let guest = observed.guests.get(&owned.mark.vmid)?;
            let (finished, configured) = (owned.finished, owned.mark.configured);
            Some((&owned.mark.node, OurVm { guest, finished, configured }))
        })
        .collect();
    let controllers =
        run.desired.nodes.iter().filter(|one| one.role == Role::Controller).map(|one| &one.name);
    let mut names: Vec<&NodeName> = controllers.collect();
    if !names.contains(&node) {
        names.push(node);
    }
    let place = |name: &NodeName| {
        let machine = match owned.get(name) {
            None => Machine::None,
            Some(OurVm { guest, finished, .. }) => match guest.power {
                // It was cloned and never started.
                Power::Stopped if !finished => Machine::None,
                Power::Stopped => Machine::Off,
                Power::Running | Power::Unknown => Machine::Runs,
            },
        };
        let uuid = owned.get(name).and_then(|one| one.guest.seen()?.live.smbios().ok().flatten()?.uuid);
        let assigned = addresses.get(name);
        let elsewhere = owned.get(name).zip(assigned).map(|(one, pair)| elsewhere(one.guest, *pair));
        let addresses = assigned.map(|pair| pair.iter().collect()).unwrap_or_default();
        let elsewhere = elsewhere.unwrap_or_default();
        let configured =
            owned.get(name).is_some_and(|one| one.configured) && !run.request.reconfigure.contains_key(name);
        let doubt = (configured && !sabotaged(Defect::ConfiguredAgain)).then_some(CONFIGURED_BEFORE);
        Place { name: name.to_string(), addresses, elsewhere, uuid, doubt, machine }
    };
    names.into_iter().map(place).collect()
}

/// Members nobody has asked yet, at the addresses the others have them at.
fn strangers(asked: &[Asked]) -> Vec<Place> {
    let lists = asked.iter().filter_map(|one| match &one.said {
        Said::Member(voice) => voice.members.as_ref(),
        Said::NoMachine | Said::Off | Said::Silent(_) | Said::Empty => None,
    });
    let mut found: BTreeMap<Vec<IpAddr>, Place> = BTreeMap::new();
    for member in lists.flatten() {
        let addresses = peers(member);
        let known = |one: &&Asked| {
            let there = addresses.iter().any(|address| one.addresses.contains(address));
            there || (one.name == member.hostname && !one.addresses.is_empty())
        };
        if addresses.is_empty() || asked.iter().any(|one| known(&one)) {
            continue;
        }
        let (name, machine) = (member.hostname.clone(), Machine::Runs);
        found.entry(addresses.clone()).or_insert(Place {
            name,
            addresses,
            elsewhere: Vec::new(),
            uuid: None,
            doubt: Some(UNPROVEN),
            machine,
        });
    }
    found.into_values().collect()
}

async fn answer(reach: &Reach<'_>, place: &Place) -> Said {
    let Some(address) = place.addresses.first() else {
        return Said::Silent("its address is not known".to_owned());
    };
    match probe_also(reach, *address, &place.elsewhere, place.uuid.as_deref()).await {
        Probe::Unreachable { reason } => Said::Silent(reason),
        Probe::Stranger { why } => Said::Silent(why),
        Probe::Maintenance { uuid, .. } => match place.doubts(&uuid) {
            Some(doubt) => Said::Silent(doubt.to_owned()),
            None => Said::Empty,
        },
        Probe::Configured(client) => of_itself(&client.with_deadlines(looking())).await,
    }
}

/// A member's own word. A list of members shows no health: each is asked for its service and its status.
async fn of_itself(client: &Client) -> Said {
    let (data, service) = join(has_data(client), client.service("etcd")).await;
    let (data, service) = match (data, service) {
        (Ok(data), Ok(service)) => (data, service),
        (Err(error), _) | (_, Err(error)) => return Said::Silent(error.to_string()),
    };
    let runs = service.as_ref().is_some_and(|service| service.state == "Running");
    if !runs {
        let state = service.map_or_else(|| "is not there".to_owned(), |one| format!("is {}", one.state));
        let unwell = Voice { complaint: Some(format!("etcd {state}")), members: None };
        return if data { Said::Member(unwell) } else { Said::Empty };
    }
    let (status, members) = join(client.etcd_health(), client.etcd_members(false)).await;
    let complaint = match (service.and_then(|service| service.healthy), &status) {
        (_, Err(error)) => Some(error.to_string()),
        (Some(false), _) => Some("etcd runs and is not healthy".to_owned()),
        (None, _) => Some("etcd runs, and it is not known yet how well".to_owned()),
        (Some(true), Ok(status)) if !status.errors.is_empty() => Some(status.errors.join(", ")),
        (Some(true), Ok(status)) if status.leader.is_none() => Some("etcd has no leader".to_owned()),
        (Some(true), Ok(status)) if status.is_learner => Some("it does not vote yet".to_owned()),
        (Some(true), Ok(_)) => None,
    };
    let members: Option<Vec<Member>> = members.ok();
    Said::Member(Voice { complaint, members })
}
