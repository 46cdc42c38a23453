//! Looking at Proxmox: one list of everything, then only what a plan needs.
//!
//! ```text
//!  /cluster/resources                                           beside it, and beside all that follows:
//!      │                                                        /version /access/permissions /pools [/cluster/mapping/pci]
//!  who looks like ours, or is a template in use                 candidates.rs
//!      │
//!  …/pending           for each candidate and template          configs.rs
//!  /nodes/{host}/qemu  for each host that carries one           at the same time: power and locks as they are now
//!      │
//!  a declared node without a VM?  …/pending of every other VM   only then is it really missing
//!      │                          …/content of storages        files.rs: is its image there already?
//! ```
//!
//! Only two things wait for another, so a look takes hardly longer than its requests need to get through.
//!
//! For N candidates, T templates and H hosts that carry them this costs at most N + T + H + 6 requests, a login included.
//! One more asks for quorum where a host is down, and one for the zones of bridges that the credentials cannot use as plain ones.
//! The guest agent is never asked.

pub(crate) mod candidates;
pub(crate) mod configs;
mod files;
mod ha;
pub(crate) mod inventory;
mod jobs;
pub(crate) mod rewound;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, try_join3, try_join4};
use talmox_plan::{
    Depth, Goal, Guest, Host, Observed, Request, Rights, Seen, SeenFile, SeenKubernetes, SeenPool, Storage,
    bridge_path, seed_storage,
};
use talmox_pve::client::{Client, Error, ErrorKind, PciMapping, Pool, Resource};
use talmox_types::desired::{ConfigDelivery, Desired, Nic, PciSource};
use talmox_types::{HostName, MappingName, NodeName, PoolName, StorageId, VmId};

pub(crate) use ha::{seen_groups, seen_rules};

use candidates::{Wanted, node_of};
use configs::Looker;
use inventory::Inventory;

/// Why Proxmox could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing}")]
pub struct ObserveError {
    /// `read the list of guests, hosts and storages`.
    pub doing: String,
    pub source: Error,
}

impl ObserveError {
    fn new(doing: impl Into<String>) -> impl FnOnce(Error) -> Self {
        let doing = doing.into();
        move |source| Self { doing, source }
    }

    /// The next things to look at or do, most useful first.
    pub fn hints(&self) -> Vec<String> {
        self.source.hints()
    }
}

/// Looks at Proxmox as far as a plan for this description needs it. A host that is down or a VM that vanishes meanwhile
/// is part of the picture; wrong credentials or an endpoint that does not answer are errors.
pub async fn observe(client: &Client, desired: &Desired) -> Result<Observed, ObserveError> {
    observe_for(client, desired, Goal::Converge).await
}

/// What a look is for.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    goal: Goal,
    /// Whether a VM may go: then jobs that name it are of interest.
    removes: bool,
}

impl From<Goal> for Look {
    fn from(goal: Goal) -> Self {
        Self { goal, removes: goal == Goal::Destroy }
    }
}

impl From<&Request> for Look {
    fn from(request: &Request) -> Self {
        Self { goal: request.goal, removes: request.removes() }
    }
}

/// The same for a plan with another goal: one about templates needs every VM, since each may stand on one.
pub async fn observe_for(
    client: &Client,
    desired: &Desired,
    look: impl Into<Look>,
) -> Result<Observed, ObserveError> {
    let Look { goal, removes } = look.into();
    let jobs = async { if removes { jobs::jobs(client).await.map(Some) } else { Ok(None) } };
    let version_and_ha = async {
        let version = version(client).await?;
        let ha = ha::ha(client, desired, &version).await?;
        Ok((version, ha))
    };
    // Each on its own: together they would make every future that looks a large one.
    let beside = Box::pin(try_join4(rights(client), pool(client, desired), mappings(client, desired), jobs));
    let (there, (version, ha), (rights, pool, mappings, jobs)) =
        try_join3(Box::pin(there(client, desired, goal)), Box::pin(version_and_ha), beside).await?;
    let pool = unless_denied(pool, desired, &rights)?;
    let There { hosts, storages, guests, pools, files, depth } = there;
    let (quorate, zones) = join(quorate(client, &hosts), zones(client, desired, &rights)).await;
    let (talos, leaving, kubernetes) = (BTreeMap::new(), BTreeMap::new(), SeenKubernetes::NotAsked);
    Ok(Observed {
        version,
        hosts,
        storages,
        guests,
        pool,
        mappings,
        pools,
        files,
        ha,
        jobs,
        rights,
        zones,
        quorate,
        depth,
        talos,
        leaving,
        kubernetes,
        rotating: Vec::new(),
        rewound: BTreeMap::new(),
    })
}

/// Hosts and what is on them.
struct There {
    hosts: BTreeMap<HostName, Host>,
    storages: Vec<Storage>,
    guests: BTreeMap<VmId, Guest>,
    pools: BTreeSet<PoolName>,
    files: BTreeMap<(HostName, StorageId), Vec<SeenFile>>,
    depth: Depth,
}

async fn there(client: &Client, desired: &Desired, goal: Goal) -> Result<There, ObserveError> {
    let Inventory { hosts, storages, guests, pools } = Inventory::of(resources(client).await?);
    let mut looker = Looker::new(client, hosts, guests);
    let depth = look(&mut looker, desired, goal).await?;
    let (hosts, guests) = looker.into_parts();
    let makes_something = depth == Depth::Everything && goal != Goal::Destroy;
    // Whoever destroys a cluster wants nothing of it left, whichever way its configuration came last.
    let by_drive = desired.talos.config_delivery == ConfigDelivery::Cidata || goal == Goal::Destroy;
    let files = if makes_something {
        files::list(client, &hosts, &storages).await?
    } else if by_drive {
        // What a run left behind there holds secrets.
        let storages: Vec<Storage> =
            storages.iter().filter(|storage| storage.id == *seed_storage(desired)).cloned().collect();
        files::list(client, &hosts, &storages).await?
    } else {
        BTreeMap::new()
    };
    Ok(There { hosts, storages, guests, pools, files, depth })
}

/// Reads candidates, and everything else too if that leaves a node without a VM or templates are what it is about.
async fn look(looker: &mut Looker<'_>, desired: &Desired, goal: Goal) -> Result<Depth, ObserveError> {
    let wanted = Wanted::of(desired);
    let ids: BTreeSet<VmId> = looker.guests().values().filter(|g| wanted.covers(g)).map(|g| g.vmid).collect();
    looker.look_at(BTreeSet::new(), &ids).await?;
    // The hosts know names and tags that the cluster's list does not have yet.
    let unread = looker.guests().values().filter(|guest| guest.config == Seen::NotAsked);
    let ids: BTreeSet<VmId> = unread.filter(|guest| wanted.covers(guest)).map(|guest| guest.vmid).collect();
    looker.read(ids).await?;
    let found: BTreeSet<NodeName> = match &desired.uid {
        Some(uid) => looker.guests().values().filter_map(|guest| node_of(guest, uid)).collect(),
        None => BTreeSet::new(),
    };
    let all_found = desired.uid.is_some() && desired.nodes.iter().all(|node| found.contains(&node.name));
    let about_templates = matches!(goal, Goal::Templates | Goal::PruneTemplates);
    if all_found && !about_templates {
        return Ok(Depth::Candidates);
    }
    looker.look_at(looker.all_hosts(), &looker.unread()).await?;
    looker.read(looker.unread()).await?;
    Ok(Depth::Everything)
}

async fn resources(client: &Client) -> Result<Vec<Resource>, ObserveError> {
    client.resources().await.map_err(ObserveError::new("read the list of guests, hosts and storages"))
}

async fn version(client: &Client) -> Result<String, ObserveError> {
    let version = client.version().await.map_err(ObserveError::new("ask for the version of Proxmox"))?;
    Ok(version.version.into())
}

async fn rights(client: &Client) -> Result<Rights, ObserveError> {
    let permissions =
        client.permissions(None).await.map_err(ObserveError::new("ask what the credentials may do"))?;
    Ok(Rights::new(client.login(), client.is_root(), permissions.into_map()))
}

/// Whether a majority of the hosts is there; asked only where a host is down, since without one that is.
async fn quorate(client: &Client, hosts: &BTreeMap<HostName, Host>) -> Option<bool> {
    if hosts.values().all(|host| host.online) {
        return None;
    }
    // Without Sys.Audit it stays unknown, and the first write tells.
    client.cluster_status().await.ok().map(|status| status.quorate)
}

/// The zones of virtual networks; asked only where a bridge may be one of them, since the credentials cannot use it as a
/// plain one.
async fn zones(client: &Client, desired: &Desired, rights: &Rights) -> BTreeMap<String, String> {
    let plain = BTreeMap::new();
    let mut nics = desired.nodes.iter().flat_map(|node| &node.vm.nics);
    let is_used = |nic: &Nic| rights.holds(&bridge_path(&plain, nic.bridge.as_str(), nic.vlan), "SDN.Use");
    if nics.all(is_used) {
        return plain;
    }
    let networks = client.virtual_networks().await.unwrap_or_default();
    networks.into_iter().filter_map(|network| Some((network.vnet, network.zone?))).collect()
}

/// The pool, or how Proxmox refused to show it.
async fn pool(
    client: &Client,
    desired: &Desired,
) -> Result<Result<Option<SeenPool>, ObserveError>, ObserveError> {
    let Some(name) = &desired.proxmox.pool else { return Ok(Ok(None)) };
    let failed = || ObserveError::new(format!("read the pool {name}"));
    let seen = match client.pool(name).await {
        Err(error) if matches!(error.kind(), ErrorKind::Denied(_)) => return Ok(Err(failed()(error))),
        seen => seen.map_err(failed())?,
    };
    let seen = seen.map(|Pool { poolid, comment, members }| SeenPool {
        name: poolid,
        comment,
        members: members.into_iter().map(|member| member.id).collect(),
    });
    Ok(Ok(seen))
}

/// Without the right to look, what the pool holds is unknown, and a plan refuses what depends on that. With it, a refusal is an error.
fn unless_denied(
    pool: Result<Option<SeenPool>, ObserveError>,
    desired: &Desired,
    rights: &Rights,
) -> Result<Option<SeenPool>, ObserveError> {
    let path = desired.proxmox.pool.as_ref().map(|name| format!("/pool/{name}"));
    match pool {
        Err(_) if path.is_some_and(|path| !rights.holds(&path, "Pool.Audit")) => Ok(None),
        pool => pool,
    }
}

/// How many devices of each mapping the hosts have. Nobody asks unless a node wants one.
async fn mappings(
    client: &Client,
    desired: &Desired,
) -> Result<BTreeMap<MappingName, BTreeMap<HostName, usize>>, ObserveError> {
    let mut devices = desired.nodes.iter().flat_map(|node| &node.vm.pci);
    if !devices.any(|device| matches!(device.source, PciSource::Mapping(_))) {
        return Ok(BTreeMap::new());
    }
    let seen = client.pci_mappings().await.map_err(ObserveError::new("read the PCI mappings"))?;
    let hosts = |mapping: &PciMapping| {
        let mut devices: BTreeMap<HostName, usize> = BTreeMap::new();
        for host in mapping.nodes() {
            *devices.entry(host).or_default() += 1;
        }
        devices
    };
    Ok(seen.into_iter().map(|mapping| (mapping.id.clone(), hosts(&mapping))).collect())
}
