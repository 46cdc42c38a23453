//! Which host a new VM goes to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::VmConfig;
use talmox_types::desired::{Desired, Image, Node, Role, Spread, Template};
use talmox_types::{AwayWord, HostName, NodeName, StorageId};

use super::capacity::Capacity;
use super::source::Sources;
use super::templates::{NoSite, Site, Templates};
use crate::identity::by_name;
use crate::{CloneKind, FileKind, Guest, Identities, Observed, Storage, TemplateSource};

/// Where a VM is made, and from what.
pub(super) struct Place {
    pub host: HostName,
    pub origin: Origin,
    /// Why there, in a few words.
    pub reason: String,
    /// What people should know of the choice.
    pub note: Option<String>,
}

/// What a VM is made from.
pub(super) enum Origin {
    Template {
        source: TemplateSource,
        clone: CloneKind,
        config: Box<VmConfig>,
    },
    /// A template that is yet to be built.
    Build {
        template: Box<Template>,
        site: Site,
        clone: CloneKind,
    },
    /// An image on a storage: an ISO to boot from, or what the disk is a copy of.
    Image {
        content: FileKind,
        image: Box<Image>,
        storage: StorageId,
    },
}

/// Why there is no place, and what can be done.
pub(super) struct NoPlace {
    pub problem: String,
    pub choices: Vec<String>,
    /// Whether all it lacks is a storage that takes disk images: then an ISO may do.
    pub for_want_of_import: bool,
}

impl NoPlace {
    pub(super) fn new(problem: String, choices: Vec<String>) -> Self {
        Self { problem, choices, for_want_of_import: false }
    }
}

/// Who is where already, and how much room there is.
#[derive(Clone)]
pub(super) struct Places {
    hosts: BTreeMap<HostName, Vec<(NodeName, Role)>>,
    /// Hosts somebody works on: a node is away from them, as its mark says.
    drained: BTreeSet<HostName>,
    capacity: Capacity,
}

impl Places {
    pub(super) fn new(desired: &Desired, observed: &Observed, identities: &Identities) -> Self {
        let mut hosts: BTreeMap<HostName, Vec<(NodeName, Role)>> = BTreeMap::new();
        let names = by_name(desired);
        let mut drained = BTreeSet::new();
        for owned in identities.ours() {
            drained.extend(owned.mark.away.iter().flat_map(AwayWord::drained).cloned());
            if let Some(node) = names.get(owned.mark.node.as_str()) {
                hosts.entry(owned.host.clone()).or_default().push((node.name.clone(), node.role));
            }
        }
        Self { hosts, drained, capacity: Capacity::new(desired, observed, identities) }
    }

    /// Counts a node that is going to be made.
    pub(super) fn add(&mut self, observed: &Observed, host: &HostName, node: &Node) {
        self.hosts.entry(host.clone()).or_default().push((node.name.clone(), node.role));
        self.capacity.add(observed, host, node);
    }

    /// Takes out a node whose VM is going to be removed.
    pub(super) fn remove(&mut self, observed: &Observed, guest: &Guest, node: &NodeName) {
        if let Some(nodes) = self.hosts.get_mut(&guest.host) {
            nodes.retain(|(name, _)| name != node);
        }
        self.capacity.forget(observed, guest);
    }

    /// Whether a host bears what a node takes while it runs, or the sum it would not.
    pub(super) fn bears_load(&self, host: &HostName, node: &Node) -> Result<(), String> {
        self.capacity.bears_load(host, node)
    }

    fn on(&self, host: &HostName) -> &[(NodeName, Role)] {
        self.hosts.get(host).map_or(&[], Vec::as_slice)
    }

    /// Whether somebody works on a host, and nobody has brought back what was on it.
    pub(super) fn is_drained(&self, host: &HostName) -> bool {
        self.drained.contains(host)
    }

    /// Where nobody works, control planes apart from each other, then where most memory stays free, then evenly, then by name.
    pub(super) fn load(&self, host: &HostName, node: &Node) -> (bool, usize, Reverse<u64>, usize) {
        let apart = if node.role == Role::Controller { self.control_planes(host) } else { 0 };
        let left = self.capacity.left(host, node).unwrap_or_default();
        (self.is_drained(host), apart, Reverse(left), self.on(host).len())
    }

    fn control_planes(&self, host: &HostName) -> usize {
        self.on(host).iter().filter(|(_, role)| *role == Role::Controller).count()
    }

    /// Why a node goes to this host and to none of the others that could carry it.
    fn why(&self, host: &HostName, node: &Node, others: usize) -> String {
        let chosen = match (&node.vm.host, others) {
            (Some(_), _) => "the description names the host".to_owned(),
            (None, 0) => "no other host can carry it".to_owned(),
            (None, _) if node.role == Role::Controller && self.control_planes(host) == 0 => {
                "no control plane is there yet".to_owned()
            }
            (None, _) => format!("of {} hosts it is the emptiest", others + 1),
        };
        match self.capacity.left_in_words(host, node) {
            Some(left) => format!("{chosen}, {left}"),
            None => chosen,
        }
    }
}

/// Finds a place for a node that has none.
pub(super) fn find(
    desired: &Desired,
    observed: &Observed,
    (places, templates): (&Places, &Templates),
    node: &Node,
) -> Result<Place, NoPlace> {
    let sources = Sources::of(desired, observed, templates, node)?;
    let hosts = candidates(desired, observed, node)?;
    let (mut reasons, mut possible) = (Vec::new(), Vec::new());
    for host in &hosts {
        match fits(observed, places, node, host).and_then(|()| sources.on_host(observed, node, host)) {
            Ok(origin) => {
                possible.push(Place { host: host.clone(), origin, reason: String::new(), note: None });
            }
            Err(reason) => reasons.push(reason),
        }
    }
    let others = possible.len().saturating_sub(1);
    let best = possible.into_iter().min_by_key(|place| places.load(&place.host, node));
    let Some(mut place) = best else {
        let for_want_of_import = reasons.iter().all(|reason| matches!(reason, NoSite::NoImport(_)));
        let reasons: Vec<&str> = reasons.iter().map(NoSite::reason).collect();
        let problem = format!("there is no host for it: {}", reasons.join("; "));
        let choices = vec!["talmox status shows what is there".to_owned()];
        return Err(NoPlace { problem, choices, for_want_of_import });
    };
    place.reason = places.why(&place.host, node, others);
    let only_one = observed.hosts.len() == 1;
    spread(desired, places, node, (hosts.len(), only_one), &mut place)?;
    Ok(place)
}

fn spread(
    desired: &Desired,
    places: &Places,
    node: &Node,
    (hosts, only_one): (usize, bool),
    place: &mut Place,
) -> Result<(), NoPlace> {
    if node.role != Role::Controller {
        return Ok(());
    }
    let beside = places.on(&place.host).iter().find(|(_, role)| *role == Role::Controller);
    let Some((other, _)) = beside else { return Ok(()) };
    let why = match (&node.vm.host, hosts) {
        _ if only_one => "only one host".to_owned(),
        (Some(_), _) => "the description says so".to_owned(),
        (None, 1) => "only one host may carry it".to_owned(),
        (None, count) => format!("{count} hosts carry control planes already"),
    };
    let text = format!("same host as {other} ({why})");
    if desired.proxmox.control_plane_spread == Spread::Required {
        let choices = vec![
            "add a host, or name another one for it".to_owned(),
            "control_plane_spread: preferred allows it".to_owned(),
        ];
        return Err(NoPlace::new(text, choices));
    }
    place.note = Some(text);
    Ok(())
}

/// Hosts that may carry the node, whatever is on them.
fn candidates(desired: &Desired, observed: &Observed, node: &Node) -> Result<Vec<HostName>, NoPlace> {
    match &node.vm.host {
        Some(host) => online(observed, vec![host.clone()]),
        None => allowed_hosts(desired, observed),
    }
}

/// Hosts that may carry VMs of the cluster and are there.
pub(super) fn allowed_hosts(desired: &Desired, observed: &Observed) -> Result<Vec<HostName>, NoPlace> {
    if desired.proxmox.hosts.is_empty() {
        online(observed, observed.hosts.keys().cloned().collect())
    } else {
        online(observed, desired.proxmox.hosts.clone())
    }
}

fn online(observed: &Observed, wanted: Vec<HostName>) -> Result<Vec<HostName>, NoPlace> {
    let known = || observed.hosts.keys().map(HostName::as_str).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = wanted.iter().find(|host| !observed.hosts.contains_key(*host)) {
        let problem = format!("Proxmox has no host {unknown}");
        return Err(NoPlace::new(problem, vec![format!("its hosts are {}", known())]));
    }
    let online = |host: &HostName| observed.hosts.get(host).is_some_and(|host| host.online);
    let (up, down): (Vec<HostName>, Vec<HostName>) = wanted.into_iter().partition(online);
    if up.is_empty() {
        let down = down.iter().map(HostName::as_str).collect::<Vec<_>>().join(", ");
        let choices = vec!["wait until it is back, or name another host".to_owned()];
        return Err(NoPlace::new(format!("{down} is down"), choices));
    }
    Ok(up)
}

/// Whether a host has the storages and devices a node needs, room included, whatever it is made from.
fn fits(observed: &Observed, places: &Places, node: &Node, host: &HostName) -> Result<(), NoSite> {
    let own = std::iter::once(&node.vm.storage);
    for storage in own.chain(node.vm.extra_disks.iter().map(|disk| &disk.storage)) {
        usable(observed, host, storage).map_err(NoSite::NoDisk)?;
    }
    places.capacity.bears(observed, host, node).map_err(NoSite::NoDisk)
}

pub(super) fn usable<'a>(
    observed: &'a Observed,
    host: &HostName,
    id: &StorageId,
) -> Result<&'a Storage, String> {
    let Some(storage) = observed.storage(host, id) else {
        return Err(format!("{host} has no storage {id}, or the token may not see it"));
    };
    if !storage.available {
        return Err(format!("storage {id} is not available on {host}"));
    }
    if !storage.content.contains("images") {
        return Err(format!("storage {id} does not take disk images"));
    }
    Ok(storage)
}
