//! What a preflight knows. An answer that did not come is there as the words that explain why.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{Guest, Observed};
use talmox_pve::client::{AgentInterface, Bridge, PciHardware, PciMapping, StorageState, TokenInfo};
use talmox_types::{Fingerprint, HostName, PoolName, VmId};

/// An answer, or in words why there is none.
pub type Told<T> = Result<T, String>;

/// How the certificates of the endpoints are vouched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trusted {
    Fingerprints,
    Authority(String),
    System,
    /// By nobody.
    Insecure,
}

/// Everything verdicts are made from.
#[derive(Clone, Debug)]
pub struct Facts {
    pub login: Login,
    pub trusted: Trusted,
    /// In the order they are asked.
    pub endpoints: Vec<EndpointFacts>,
    /// Everything below is empty unless an endpoint answered.
    pub reached: Told<()>,
    /// Unix seconds when it was looked.
    pub now: u64,
    pub version: String,
    /// Whether the cluster has a majority.
    pub quorate: Told<bool>,
    pub hosts: BTreeMap<HostName, HostFacts>,
    /// Pools the login may see.
    pub pools: BTreeSet<PoolName>,
    /// Zones of virtual networks, by the name VMs use like a bridge.
    pub zones: BTreeMap<String, String>,
    /// Tags that only administrators may use.
    pub registered_tags: BTreeSet<String>,
    /// Everything there is, every VM read.
    pub seen: Observed,
    /// What a plan is made from, as far as the login may see it.
    pub observed: Told<Observed>,
    /// Interfaces that the agents of running VMs report.
    pub agents: BTreeMap<VmId, Told<Vec<AgentInterface>>>,
    /// Privileges by path, each with whether it reaches further down.
    pub rights: BTreeMap<String, Told<BTreeMap<String, bool>>>,
}

#[derive(Clone, Debug)]
pub struct Login {
    /// `talmox@pve!ci`.
    pub name: String,
    /// None: no token.
    pub token: Option<Told<TokenInfo>>,
    /// `root@pam` by password.
    pub root: bool,
}

#[derive(Clone, Debug)]
pub struct EndpointFacts {
    /// `https://pve1.lan:8006`.
    pub name: String,
    /// The version it answered with.
    pub version: Told<String>,
    /// The certificate it shows, whoever vouches for it.
    pub certificate: Told<Fingerprint>,
}

#[derive(Clone, Debug)]
pub struct HostFacts {
    pub online: bool,
    /// What the cluster says its certificate is.
    pub fingerprint: Option<Fingerprint>,
    /// What it shows at its own address; none: an endpoint showed it, or nobody knows an address of its own.
    pub shown: Option<Told<Fingerprint>>,
    pub version: Told<String>,
    /// By how many seconds its clock is ahead of ours.
    pub clock: Told<i64>,
    pub bridges: Told<Vec<Bridge>>,
    pub storages: Told<Vec<StorageState>>,
    /// None: nobody wants a device.
    pub devices: Option<Told<Vec<PciHardware>>>,
    /// The mappings as this host sees them; none as above.
    pub mappings: Option<Told<Vec<PciMapping>>>,
}

impl Facts {
    /// What is known before anybody was asked.
    pub fn unasked(login: Login, trusted: Trusted, now: u64) -> Self {
        Self {
            login,
            trusted,
            endpoints: Vec::new(),
            reached: Ok(()),
            now,
            version: String::new(),
            quorate: Ok(true),
            hosts: BTreeMap::new(),
            pools: BTreeSet::new(),
            zones: BTreeMap::new(),
            registered_tags: BTreeSet::new(),
            seen: Observed::default(),
            observed: Ok(Observed::default()),
            agents: BTreeMap::new(),
            rights: BTreeMap::new(),
        }
    }

    /// A guest by its id.
    pub(crate) fn guest(&self, vmid: VmId) -> Option<&Guest> {
        self.seen.guests.get(&vmid)
    }

    /// Whether a privilege is held on a path; none: nobody could tell.
    pub(crate) fn holds(&self, path: &str, privilege: &str) -> Option<bool> {
        let held = self.rights.get(path)?.as_ref().ok()?;
        // What is granted on all VMs and reaches none of them is no right to any.
        let reach = held.get(privilege);
        Some(if path == "/vms" { reach == Some(&true) } else { reach.is_some() })
    }
}
