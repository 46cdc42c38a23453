//! Whole clusters that others made: from what machines run with to description files that render the same.
//!
//! ```text
//!  live configs ─▶ facts ─▶ cluster.yaml, nodes.yaml ─▶ render ─▶ base of each node
//!                              ▲   (VMs: propose)                    │
//!                              │                        between base and live, field by field
//!                              │                                     │
//!                              └── patches of cluster, roles, nodes ◀┘      proof: render again, compare
//! ```
//!
//! Keys of the description say what they have words for; what is left becomes patches: what all nodes share is the
//! cluster's, what a role shares the role's, the rest the node's. Secrets are in none of them. Nothing here does I/O.

mod addresses;
mod draft;
mod facts;
mod marks;
mod patches;
mod proof;
mod settings;

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_config::{Outcome, Severity};
use talmox_machine::secrets::Accepted;
use talmox_machine::{Bundle, Config, Difference, Source, read_values};
use talmox_plan::{Guest, Nonce, Observed, macs};
use talmox_pve::property::{IpConfig, Ipv4Setting, Ipv6Setting};
use talmox_types::desired::Role;
use talmox_types::{Cidr, ClusterName, ClusterUid, Contract, HostName, MacAddress, NodeName, Version, VmId};

use crate::{Proposal, ProposeError};
use addresses::Addresses;
use draft::Draft;
use facts::Facts;

/// A machine, and what it runs with. `Debug` shows no configuration.
#[derive(Clone, Debug)]
pub struct LiveNode {
    pub name: NodeName,
    pub role: Role,
    pub address: IpAddr,
    /// How long the prefix of its network is, where that is known.
    pub prefix: Option<u8>,
    pub config: Config,
    pub vm: Option<LiveVm>,
}

/// The VM a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveVm {
    pub vmid: VmId,
    pub host: HostName,
    pub uuid: Option<String>,
    pub mac: Option<MacAddress>,
    /// What its cloud-init drive says: addresses with the length of their prefix, and gateways, of either family.
    pub addresses: Vec<(IpAddr, u8)>,
    pub gateways: Vec<IpAddr>,
    /// The name it has in Proxmox, if that is not the node's.
    pub other_name: Option<String>,
}

impl LiveVm {
    /// What is known of a VM that is a node of this name.
    pub fn of(guest: &Guest, name: &NodeName) -> Self {
        let config = guest.seen().map(|seen| &seen.next);
        let first = config.and_then(|config| {
            let configs = config.ip_configs().unwrap_or_default();
            configs.iter().find(|(slot, _)| slot.index() == 0).map(|(_, first)| first.clone())
        });
        let (addresses, gateways) = first.map(|first| said_by(&first)).unwrap_or_default();
        Self {
            vmid: guest.vmid,
            host: guest.host.clone(),
            uuid: config.and_then(|config| config.smbios().ok()??.uuid),
            mac: config.and_then(|config| macs(config).first().copied()),
            addresses,
            gateways,
            other_name: guest.name.clone().filter(|other| other != name.as_str()),
        }
    }
}

/// Static addresses and gateways of a device.
fn said_by(device: &IpConfig) -> (Vec<(IpAddr, u8)>, Vec<IpAddr>) {
    let mut networks: Vec<Cidr> = Vec::new();
    if let Some(Ipv4Setting::Static(network)) = device.ip {
        networks.push(network);
    }
    if let Some(Ipv6Setting::Static(network)) = device.ip6 {
        networks.push(network);
    }
    let gateways = device.gateway.map(IpAddr::V4).into_iter().chain(device.gateway6.map(IpAddr::V6));
    (networks.iter().map(|network| (network.address(), network.prefix())).collect(), gateways.collect())
}

/// A cluster as it was found.
#[derive(Debug)]
pub struct LiveCluster<'a> {
    /// None: the name its configuration has.
    pub name: Option<ClusterName>,
    pub uid: ClusterUid,
    /// What its machines run.
    pub talos: Version,
    pub bundle: &'a Bundle,
    pub nodes: Vec<LiveNode>,
    /// What `cluster.yaml` says of Proxmox, as lines of it.
    pub proxmox: String,
    /// What Proxmox has, if it could be asked.
    pub observed: Option<&'a Observed>,
}

/// A file that does not exist yet. `Debug` does not show what is in it.
#[derive(Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Relative to the folder of the description.
    pub name: String,
    pub text: String,
    /// Whether it holds secrets.
    pub secret: bool,
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How many places patches touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub cluster: usize,
    pub roles: usize,
    pub nodes: usize,
}

/// The description of a cluster that runs, proven.
#[derive(Debug)]
pub struct Described {
    pub name: ClusterName,
    pub talos: Version,
    pub kubernetes: Version,
    pub contract: Contract,
    /// `cluster.yaml`, `nodes.yaml`, patches, and what variables in them stand for.
    pub files: Vec<NewFile>,
    /// Names of the variables that stand for secrets.
    pub variables: Vec<String>,
    pub patches: Counts,
    /// Authorities machines accept and that are not the cluster's, by the patch that goes on with it.
    pub strangers: Vec<Stranger>,
    /// What rendering it would still change, node by node; secrets masked.
    pub remaining: BTreeMap<NodeName, Vec<Difference>>,
    /// What became of the VMs.
    pub vms: Option<Proposal>,
}

/// An authority somebody left behind: whoever has its key is let in as long as the patch names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    pub accepted: Accepted,
    /// The patch, relative to the folder of the description.
    pub file: String,
}

/// Why there is no description.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    #[error("there is no control plane among the machines that were read")]
    NoControlPlane,
    #[error("the configuration of {0} has no {1}")]
    Missing(NodeName, &'static str),
    #[error("a description of this cluster would not be valid: {}", .0.join("; "))]
    Invalid(Vec<String>),
    #[error("what a description makes of {node} cannot be told: {why}")]
    Render { node: NodeName, why: String },
    #[error(transparent)]
    Vms(#[from] ProposeError),
}

/// Describes a cluster. What cannot be said is in `remaining`; nothing is written.
pub fn describe(live: &LiveCluster<'_>, nonce: &Nonce) -> Result<Described, DescribeError> {
    let mut draft = drafted(live)?;
    let vms = match live.observed {
        Some(observed) => {
            let (unmarked, marked) = marks::taken_off(observed, &live.uid);
            let mut proposal = draft.take_vms(&unmarked, nonce)?;
            marks::put_back(&mut proposal, &marked);
            Some(proposal)
        }
        None => None,
    };
    let contract = proof::contract(live, &draft)?;
    draft.set_contract(contract)?;
    settings::add(live, &mut draft, contract)?;
    let scopes = patches::between(live, &proof::bases(live, &draft, contract)?);
    let written = patches::write(&scopes);
    draft.refer(&written)?;
    let remaining = proof::prove(live, &draft, &written)?;
    let patches::Written { files, variables, .. } = &written;
    let (cluster, nodes) = draft.texts();
    let plain = |name: &str, text: String| NewFile { name: name.to_owned(), text, secret: false };
    let mut all = vec![plain("cluster.yaml", cluster), plain("nodes.yaml", nodes)];
    all.extend(files.iter().map(|(name, text)| plain(name, text.clone())));
    all.extend(patches::variables_file(variables));
    let desired = draft.desired();
    Ok(Described {
        name: desired.name.clone(),
        talos: desired.talos.version.clone(),
        kubernetes: desired.kubernetes.version.clone(),
        contract,
        files: all,
        variables: variables.iter().map(|(name, _)| name.clone()).collect(),
        patches: scopes.counts(),
        strangers: strangers(live.bundle, files),
        remaining,
        vms,
    })
}

/// Authorities that patches have machines accept though nobody here has their keys. They are described, because what is described is
/// what runs; that somebody wants them is another matter.
fn strangers(bundle: &Bundle, patches: &BTreeMap<String, String>) -> Vec<Stranger> {
    let in_file = |(file, text): (&String, &String)| {
        let documents = read_values(Source { name: file, text }).unwrap_or_default();
        let accepted = bundle.strangers_in(&documents).into_iter();
        accepted.map(|accepted| Stranger { accepted, file: file.clone() }).collect::<Vec<_>>()
    };
    patches.iter().flat_map(in_file).collect()
}

/// The first draft: with addresses of both families where machines have them, and with those they were asked at where the rules
/// do not have that.
fn drafted(live: &LiveCluster<'_>) -> Result<Draft, DescribeError> {
    let both: Vec<Addresses> = live.nodes.iter().map(addresses::of).collect();
    let draft = Draft::new(live, &Facts::of(live, &both)?, &both);
    if draft.is_ok() || both.iter().all(|addresses| addresses.len() == 1) {
        return draft;
    }
    let single: Vec<Addresses> = live.nodes.iter().map(|node| vec![(node.address, node.prefix)]).collect();
    Draft::new(live, &Facts::of(live, &single)?, &single)
}

/// What is wrong with a description, in words.
fn errors(outcome: &Outcome) -> Vec<String> {
    let errors = outcome.problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.map(|problem| problem.message.clone()).collect()
}
