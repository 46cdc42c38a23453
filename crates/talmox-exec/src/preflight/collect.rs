//! Asking Proxmox, by reads alone.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all, join4};
use futures_util::stream::{self, StreamExt as _};
use talmox_plan::{Depth, Observed, Power, identify};
use talmox_pve::client::{
    BoxFuture, Client, ClusterNode, DEFAULT_PORT, Endpoint, Error, Node, NodeState, Resource,
};
use talmox_types::desired::Desired;
use talmox_types::{Fingerprint, HostName, VmId};

use super::facts::{EndpointFacts, Facts, HostFacts, Login, Told, Trusted};
use super::needs::needs;
use crate::observe::configs::Looker;
use crate::observe::inventory::Inventory;
use crate::observe::observe;

/// Requests under way at a time. The client itself allows four for each endpoint.
const READS_AT_ONCE: usize = 12;

/// Shows certificates without believing them.
pub trait Certificates: Send + Sync {
    /// The certificate an endpoint shows. No credentials are sent.
    fn of<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, Told<Fingerprint>>;
}

/// What a preflight works with.
pub struct Preflight<'a> {
    pub desired: &'a Desired,
    pub client: &'a Client,
    /// A client for each endpoint that asks it alone.
    pub each: &'a [(Endpoint, Client)],
    pub certificates: &'a dyn Certificates,
    pub trusted: Trusted,
    /// Our own clock in Unix seconds.
    pub now: &'a (dyn Fn() -> u64 + Send + Sync),
}

/// Asks whatever the verdicts on this description need.
pub async fn collect(preflight: &Preflight<'_>) -> Facts {
    let (name, root) = (preflight.client.login().to_owned(), preflight.client.is_root());
    let login = Login { name, token: None, root };
    let mut facts = Facts::unasked(login, preflight.trusted.clone(), (preflight.now)());
    facts.endpoints =
        join_all(preflight.each.iter().map(|(endpoint, client)| ask_endpoint(preflight, endpoint, client)))
            .await;
    let client = preflight.client;
    let (version, nodes, resources, pools) =
        join4(client.version(), client.nodes(), client.resources(), client.pools()).await;
    facts.version = match &version {
        Ok(version) => version.version.to_string(),
        Err(error) => {
            facts.reached = Err(error.words().to_owned());
            return facts;
        }
    };
    facts.pools = pools.unwrap_or_default().into_iter().map(|pool| pool.poolid).collect();
    add_hosts(preflight, &mut facts, nodes.unwrap_or_default()).await;
    add_cluster(preflight, &mut facts).await;
    add_guests(preflight, &mut facts, resources.unwrap_or_default()).await;
    facts.observed = observe(client, preflight.desired).await.map_err(|error| {
        let words = error.source.words();
        format!("could not {}: {words}", error.doing)
    });
    add_token(client, &mut facts).await;
    add_rights(preflight, &mut facts).await;
    facts
}

fn words(error: &Error) -> String {
    error.words().to_owned()
}

async fn ask_endpoint(preflight: &Preflight<'_>, endpoint: &Endpoint, client: &Client) -> EndpointFacts {
    let (version, certificate) = join(client.version(), preflight.certificates.of(endpoint)).await;
    let version = version.map(|version| version.version.into()).map_err(|error| words(&error));
    EndpointFacts { name: endpoint.to_string(), version, certificate }
}

async fn add_hosts(preflight: &Preflight<'_>, facts: &mut Facts, nodes: Vec<Node>) {
    let wants_devices = preflight.desired.nodes.iter().any(|node| !node.vm.pci.is_empty());
    let asked = nodes.into_iter().map(async |node| {
        let host = ask_host(preflight, &node, wants_devices).await;
        (node.node, host)
    });
    facts.hosts = join_all(asked).await.into_iter().collect();
}

async fn ask_host(preflight: &Preflight<'_>, node: &Node, wants_devices: bool) -> HostFacts {
    let (client, name) = (preflight.client, &node.node);
    if node.status == NodeState::Offline {
        return silent(node);
    }
    let (version, clock, bridges, storages) =
        join4(client.node_version(name), clock(preflight, name), client.bridges(name), client.storages(name))
            .await;
    let mut host = HostFacts {
        online: true,
        fingerprint: node.ssl_fingerprint,
        shown: None,
        version: version.map(|version| version.version.into()).map_err(|error| words(&error)),
        clock,
        bridges: bridges.map_err(|error| words(&error)),
        storages: storages.map_err(|error| words(&error)),
        devices: None,
        mappings: None,
    };
    if wants_devices {
        let (devices, mappings) = join(client.pci_hardware(name), client.pci_mappings_on(name)).await;
        host.devices = Some(devices.map_err(|error| words(&error)));
        host.mappings = Some(mappings.map_err(|error| words(&error)));
    }
    host
}

/// A host the others have lost.
fn silent(node: &Node) -> HostFacts {
    let down = || format!("host {} is offline", node.node);
    HostFacts {
        online: false,
        fingerprint: node.ssl_fingerprint,
        shown: None,
        version: Err(down()),
        clock: Err(down()),
        bridges: Err(down()),
        storages: Err(down()),
        devices: None,
        mappings: None,
    }
}

/// By how much a host's clock is ahead of ours. Its answer is from some moment between question and answer, so only
/// what lies outside of that is a difference.
async fn clock(preflight: &Preflight<'_>, host: &HostName) -> Told<i64> {
    let before = (preflight.now)();
    let theirs = preflight.client.node_time(host).await.map_err(|error| words(&error))?;
    let after = (preflight.now)();
    let apart = |ours: u64| theirs.cast_signed() - ours.cast_signed();
    Ok(if theirs < before {
        apart(before)
    } else if theirs > after {
        apart(after)
    } else {
        0
    })
}

async fn add_cluster(preflight: &Preflight<'_>, facts: &mut Facts) {
    let client = preflight.client;
    let (status, networks, options) = futures_util::future::join3(
        client.cluster_status(),
        client.virtual_networks(),
        client.cluster_options(),
    )
    .await;
    if let Ok(status) = &status {
        add_certificates(preflight, facts, &status.nodes).await;
    }
    facts.quorate = status.map(|status| status.quorate).map_err(|error| words(&error));
    let zones = networks.unwrap_or_default().into_iter().filter_map(|net| Some((net.vnet, net.zone?)));
    facts.zones = zones.collect();
    facts.registered_tags = options.unwrap_or_default().registered_tags.into_iter().collect();
}

/// Looks at the certificates of hosts that no endpoint is. Hosts that share an address are left out: behind one forwarded
/// address nobody can say whose certificate is to be expected.
async fn add_certificates(preflight: &Preflight<'_>, facts: &mut Facts, members: &[ClusterNode]) {
    let port = preflight.client.endpoints().first().map_or(DEFAULT_PORT, Endpoint::port);
    let seen: BTreeSet<Fingerprint> =
        facts.endpoints.iter().filter_map(|endpoint| endpoint.certificate.as_ref().ok().copied()).collect();
    let alone = |member: &&ClusterNode| {
        members.iter().filter(|other| other.ip == member.ip).count() == 1 && member.online
    };
    for member in members.iter().filter(alone) {
        let Some(host) = facts.hosts.get_mut(&member.name) else { continue };
        let is_open = host.fingerprint.is_some_and(|fingerprint| !seen.contains(&fingerprint));
        let endpoint = member.ip.as_deref().and_then(|ip| Endpoint::new(ip, port).ok());
        if let Some(endpoint) = endpoint.filter(|_| is_open) {
            host.shown = Some(preflight.certificates.of(&endpoint).await);
        }
    }
}

/// Reads every VM, and asks the agents of those that are ours and run.
async fn add_guests(preflight: &Preflight<'_>, facts: &mut Facts, resources: Vec<Resource>) {
    let client = preflight.client;
    let Inventory { hosts, storages, guests, pools: _ } = Inventory::of(resources);
    let mut looker = Looker::new(client, hosts, guests);
    // What cannot be read is there without its configuration.
    let _ = looker.list_hosts(looker.all_hosts()).await;
    let _ = looker.read(looker.unread()).await;
    let (hosts, guests) = looker.into_parts();
    let version = facts.version.clone();
    facts.seen =
        Observed { version, hosts, storages, guests, depth: Depth::Everything, ..Observed::default() };
    let running: Vec<(VmId, HostName)> = identify(preflight.desired, &facts.seen)
        .ours()
        .filter(|owned| facts.guest(owned.mark.vmid).is_some_and(|guest| guest.power == Power::Running))
        .map(|owned| (owned.mark.vmid, owned.host.clone()))
        .collect();
    let asked = stream::iter(running).map(async |(vmid, host): (VmId, HostName)| {
        let interfaces = client.agent_interfaces(&host, vmid).await;
        (vmid, interfaces.map_err(|error| words(&error)))
    });
    facts.agents = asked.buffer_unordered(READS_AT_ONCE).collect::<Vec<_>>().await.into_iter().collect();
}

async fn add_token(client: &Client, facts: &mut Facts) {
    let Some((user, name)) = facts.login.name.split_once('!') else { return };
    let info = client.token_info(user, name).await;
    facts.login.token = Some(info.map_err(|error| words(&error)));
}

async fn add_rights(preflight: &Preflight<'_>, facts: &mut Facts) {
    let needs = needs(preflight.desired, facts);
    let paths: BTreeSet<String> =
        needs.iter().flat_map(|need| std::iter::once(&need.path).chain(&need.instead)).cloned().collect();
    let client = preflight.client;
    let asked = stream::iter(paths).map(async |path: String| {
        let held = client
            .permissions(Some(&path))
            .await
            .map_err(|error| words(&error))
            .map(|all| all.into_map().remove(&path).unwrap_or_default());
        (path, held)
    });
    facts.rights = asked.buffer_unordered(READS_AT_ONCE).collect::<Vec<_>>().await.into_iter().collect();
}
