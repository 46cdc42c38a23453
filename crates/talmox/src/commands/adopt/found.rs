//! Machines of a cluster nobody described yet: who they are, and what they run with.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_exec::{Held, held};
use talmox_machine::client::{ClientFile as _, DEFAULT_LIFETIME, TalosRole, Talosconfig};
use talmox_machine::{Bundle, Config, Source, SystemRandom, Value};
use talmox_talos::{Access, Client, Identity, Kind, Transport, kinds};
use talmox_types::desired::Role;
use talmox_types::{NodeName, Version};

use crate::args::AdoptCluster;
use crate::commands::client_files::default_talosconfig;
use crate::commands::secrets::{Imported, Readers, import};
use crate::failure::Failure;
use crate::secrets_file::now;
use crate::sops;

/// Where Talos listens.
const TALOS_PORT: u16 = 50_000;
/// How often machines are asked for each other that do not answer, or cannot at the moment.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// The list that has a machine's first address alone.
const DEFAULT_ADDRESS: &str = "default";

/// A machine that answered.
pub(super) struct Found {
    pub(super) name: NodeName,
    pub(super) role: Role,
    pub(super) address: IpAddr,
    pub(super) prefix: Option<u8>,
    pub(super) config: Config,
    pub(super) talos: Version,
    /// The SMBIOS uuid it sees.
    pub(super) uuid: String,
    /// Whether another configuration waits for its restart.
    pub(super) waits: bool,
}

/// Who we are to the machines, where they are said to be, and the secrets if somebody gave them.
pub(super) struct Way {
    identity: Arc<Identity>,
    seeds: Vec<String>,
    pub(super) bundle: Option<Bundle>,
    /// Who could read those.
    pub(super) readers: Readers,
}

impl Way {
    pub(super) fn of(args: &AdoptCluster) -> anyhow::Result<Self> {
        let nodes: Vec<String> = args.nodes.iter().map(ToString::to_string).collect();
        if let Some(file) = &args.secrets {
            let Imported { bundle, readers } = import(file)?;
            let client =
                bundle.talos_client(&[TalosRole::Admin], now(), DEFAULT_LIFETIME, &mut SystemRandom)?;
            let key = SecretString::from(client.key.pem().expose_secret().to_owned());
            let identity = Identity::from_pem(bundle.os.certificate.pem(), client.certificate.pem(), &key)
                .context("the secrets make no identity for Talos")?;
            return Ok(Self { identity: Arc::new(identity), seeds: nodes, bundle: Some(bundle), readers });
        }
        let path = args.talosconfig.clone().or_else(default_talosconfig).ok_or_else(|| {
            Failure::new("there is no talosconfig").with_hint("name one with --talosconfig, or --secrets")
        })?;
        let name = path.display().to_string();
        let text = sops::read(&path).map_err(|failure| {
            failure.with_hint("--talosconfig names another; --secrets takes the cluster's secrets instead")
        })?;
        let file = Talosconfig::parse(Source { name: &name, text: &text })
            .map_err(|faults| Failure::new(format!("{name} is not a talosconfig:\n{faults}")))?;
        let context = args.context.as_deref().or_else(|| file.current());
        let context = context.ok_or_else(|| {
            Failure::new(format!("{name} has no current context")).with_hint("name one with --context")
        })?;
        let (authority, certificate, key) = file.identity(context).ok_or_else(|| {
            let known = file.contexts();
            Failure::new(format!("{name} has no context {context} with a certificate"))
                .with_hint(format!("it has {}", known.join(", ")))
        })?;
        let identity = Identity::from_pem(&authority, &certificate, &key)
            .with_context(|| format!("the context {context} of {name} is of no use"))?;
        let (endpoints, listed) = file.places(context);
        let seeds = if nodes.is_empty() { [listed, endpoints].concat() } else { nodes };
        if seeds.is_empty() {
            return Err(Failure::new(format!("the context {context} of {name} names no machine"))
                .with_hint("name them with --nodes")
                .into());
        }
        Ok(Self { identity: Arc::new(identity), seeds, bundle: None, readers: Readers::Anybody })
    }

    /// Everybody: those that were named, and whoever they know as members; and whether they know of nobody. `only` takes the
    /// named ones alone.
    pub(super) async fn machines(
        &self,
        transport: &Arc<dyn Transport>,
        only: bool,
    ) -> anyhow::Result<(Vec<Found>, bool)> {
        let client =
            |address| Client::new(Arc::clone(transport), address, Access::Secure(Arc::clone(&self.identity)));
        let mut named: Vec<IpAddr> = Vec::new();
        for seed in &self.seeds {
            named.extend(resolve(seed).await?);
        }
        // Members first, by their own addresses: one that was named may be an address several share.
        let mut wanted: Vec<Vec<IpAddr>> = Vec::new();
        let mut alone = false;
        if !only {
            wanted = members(&named, client).await?;
            alone = wanted.is_empty();
        }
        for address in named {
            match wanted.iter_mut().find(|addresses| addresses.contains(&address)) {
                // The one somebody named is one that can be reached.
                Some(addresses) => addresses.sort_by_key(|one| *one != address),
                None => wanted.push(vec![address]),
            }
        }
        let mut found: Vec<Found> = Vec::new();
        let mut known = BTreeSet::new();
        for addresses in wanted {
            let machine = read_any(&addresses, client).await?;
            if known.insert(machine.uuid.clone()) {
                found.push(machine);
            }
        }
        found.sort_by(|one, other| (one.role, &one.name).cmp(&(other.role, &other.name)));
        Ok((found, alone))
    }
}

/// The addresses of every member the first machine that answers knows of. None is what it says where discovery is off; a machine
/// that does not say is another matter, and a cluster described without some of its nodes would lose them with the next plan.
async fn members(named: &[IpAddr], client: impl Fn(IpAddr) -> Client) -> Result<Vec<Vec<IpAddr>>, Failure> {
    let mut failed = None;
    for attempt in 1..=TRIES {
        let mut may_pass = false;
        for address in named {
            let error = match client(*address).list::<kinds::Member>().await {
                Ok(members) => {
                    let own = members.iter().map(|member| {
                        let addresses = member.spec.addresses.iter().filter_map(|ip| ip_of(&ip.ip));
                        addresses.collect::<Vec<IpAddr>>()
                    });
                    return Ok(own.filter(|addresses| !addresses.is_empty()).collect());
                }
                Err(error) => error,
            };
            may_pass |= matches!(error.kind(), Kind::NotReached | Kind::Uncertain | Kind::NotReady);
            // What the first one says is told, and the last it said.
            if named.first() == Some(address) {
                failed = Some(error);
            }
        }
        if !may_pass || attempt == TRIES {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(failed.map_or_else(
        || Failure::new("no machine was named").with_hint("--nodes names them"),
        |error| untold(&error),
    ))
}

fn untold(error: &talmox_talos::Error) -> Failure {
    let (node, why) = (error.node, &error.cause);
    if error.kind() == Kind::NotTrusted {
        return stranger(node, &why.to_string());
    }
    Failure::new(format!("the machine at {node} does not say who else is in its cluster: {why}"))
        .with_hint("nothing was written; nodes that are left out of a description are not part of the cluster")
        .with_hint("run this again; --nodes names another machine to ask")
        .with_hint("if none of them says: --secrets FILE and --nodes with every node of the cluster asks nobody for others")
}

/// Reads a machine at the first of its addresses that answers.
async fn read_any(addresses: &[IpAddr], client: impl Fn(IpAddr) -> Client) -> Result<Found, Failure> {
    let mut failed = None;
    for address in addresses {
        match read(&client(*address)).await {
            Ok(machine) => return Ok(machine),
            // What the first one says is told: the others are further away.
            Err(error) => failed = failed.or_else(|| Some(unread(*address, &error))),
        }
    }
    Err(failed.unwrap_or_else(|| Failure::new("a machine without an address could not be read")))
}

/// Asking another machine, or naming all of them, is no remedy where the secrets are the wrong ones.
fn stranger(node: IpAddr, why: &str) -> Failure {
    Failure::new(format!(
        "the machine at {node} could not be read: it is not of the cluster these secrets belong to ({why})"
    ))
    .with_hint("nothing was written; --secrets or --talosconfig names a file of this machine's own cluster")
    .with_hint("one whose authority was rotated since has newer files: those of the rotation")
}

fn unread(address: IpAddr, error: &anyhow::Error) -> Failure {
    let words = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let refusal = error.downcast_ref::<talmox_talos::Error>();
    if let Some(refusal) = refusal.filter(|refusal| refusal.kind() == Kind::NotTrusted) {
        return stranger(address, &refusal.cause.to_string());
    }
    Failure::new(format!("the machine at {address} could not be read: {words}"))
        .with_hint("nothing was written; every machine of the cluster has to answer")
}

/// The addresses of a name; one that is an address already stays so.
async fn resolve(seed: &str) -> Result<Vec<IpAddr>, Failure> {
    let bare = seed.trim_start_matches('[').split(']').next().unwrap_or(seed);
    let failed = |why: String| Failure::new(format!("{seed} is no machine: {why}"));
    if let Ok(address) = bare.parse() {
        return Ok(vec![address]);
    }
    let host = seed.split_once(':').map_or(seed, |(host, _)| host);
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let found =
        tokio::net::lookup_host((host, TALOS_PORT)).await.map_err(|error| failed(error.to_string()))?;
    Ok(found.map(|address| address.ip()).take(1).collect())
}

fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

async fn read(client: &Client) -> anyhow::Result<Found> {
    let release = client.version().await?;
    let talos = Version::parse(release.tag.trim_start_matches('v'))
        .with_context(|| format!("{} is no release of Talos", release.tag))?;
    let (config, waits) = config(client).await?;
    let names = client.list::<kinds::HostnameStatus>().await?;
    let name = names.first().map(|found| found.spec.hostname.clone()).unwrap_or_default();
    let name = NodeName::parse(&name).with_context(|| format!("{name:?} can be no name of a node"))?;
    let role = match config.at(&["machine", "type"]).and_then(Value::as_text) {
        Some("controlplane" | "init") => Role::Controller,
        _ => Role::Worker,
    };
    let system = client.list::<kinds::SystemInformation>().await?;
    let uuid = system.first().map(|found| found.spec.uuid.to_ascii_lowercase()).unwrap_or_default();
    let mut networks = client.list::<kinds::NodeAddress>().await?;
    // The address it has by default comes first, before those of pods and of other networks.
    networks.sort_by_key(|found| found.id != DEFAULT_ADDRESS);
    let networks = networks.iter().flat_map(|found| &found.spec.addresses);
    let networks: Vec<(IpAddr, u8)> = networks
        .filter_map(|network| Some((ip_of(&network.ip)?, u8::try_from(network.prefix_length).ok()?)))
        .collect();
    let (address, prefix) = own_address(client.node(), &networks);
    Ok(Found { name, role, address, prefix, config, talos, uuid, waits })
}

/// The address a machine is described with, and the length of its network's prefix. One that control planes share is in no
/// network: then the machine's own stands for it.
fn own_address(asked: IpAddr, networks: &[(IpAddr, u8)]) -> (IpAddr, Option<u8>) {
    let is_own = |address: IpAddr, length: u8| length < if address.is_ipv4() { 32 } else { 128 };
    let of = |wanted: IpAddr| {
        let all = networks.iter().filter(|(address, _)| *address == wanted);
        all.map(|(_, length)| *length).min().filter(|length| is_own(wanted, *length))
    };
    if let Some(length) = of(asked) {
        return (asked, Some(length));
    }
    let is_shared = networks.iter().any(|(address, _)| *address == asked);
    let own = networks
        .iter()
        .find(|(address, length)| address.is_ipv4() == asked.is_ipv4() && is_own(*address, *length));
    match own {
        Some((address, length)) if is_shared => (*address, Some(*length)),
        Some(_) | None => (asked, None),
    }
}

/// What is on its disk; Talos from before it told them apart has the one in force alone.
async fn config(client: &Client) -> anyhow::Result<(Config, bool)> {
    let Held { kept, active, .. } = held(client).await?;
    let parse = |text: &SecretString| {
        let source = Source { name: "its configuration", text: text.expose_secret() };
        Config::parse(source).map_err(|faults| anyhow::anyhow!("{faults}"))
    };
    let active = active.as_ref().map(parse).transpose()?;
    let kept = kept.as_ref().map(parse).transpose()?;
    let waits = kept.is_some() && active.is_some() && kept != active;
    let config = kept.or(active).context("it has no configuration")?;
    Ok((config, waits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_shared_describes_nobody() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let networks =
            [(ip("10.0.7.11"), 24), (ip("10.0.7.10"), 32), (ip("10.9.0.11"), 24), (ip("fd00::11"), 64)];
        for (asked, described) in [
            ("10.0.7.11", (ip("10.0.7.11"), Some(24))),
            ("10.9.0.11", (ip("10.9.0.11"), Some(24))),
            ("10.0.7.10", (ip("10.0.7.11"), Some(24))),
            // Behind something that translates addresses nobody but the caller knows this one.
            ("192.0.2.1", (ip("192.0.2.1"), None)),
        ] {
            assert_eq!(own_address(ip(asked), &networks), described);
        }
        assert_eq!(own_address(ip("10.0.7.10"), &networks[1..2]), (ip("10.0.7.10"), None));
    }
}
