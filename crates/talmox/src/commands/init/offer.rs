//! What a Proxmox has to choose from, asked before a description is written.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::client::{Client, Endpoint, Error, NodeState, Resource, StorageState};
use talmox_types::{ClusterName, Fingerprint, HostName, PoolName, VmId};

use super::Asker;
use crate::args::{Init, Simulate};
use crate::commands::shared::block_on;
use crate::connect::{Session, visit};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::prompt;

/// How many ids a cluster gets.
const BLOCK: u32 = 1000;
/// The first of them, unless they are taken.
const FIRST: u32 = 2000;

/// What there is.
pub(super) struct Offer {
    /// The certificate that was compared, to be written down.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Hosts that are up.
    pub(super) hosts: Vec<HostName>,
    storages: BTreeMap<HostName, Vec<StorageState>>,
    bridges: BTreeMap<HostName, Vec<String>>,
    taken: BTreeSet<VmId>,
    pub(super) pools: Vec<PoolName>,
}

impl Offer {
    /// Storages of a host that take such content, the roomiest first, each with words about it.
    pub(super) fn storages(&self, host: &HostName, content: &str) -> Vec<(String, String)> {
        let all = self.storages.get(host).map(Vec::as_slice).unwrap_or_default();
        let mut fits: Vec<&StorageState> =
            all.iter().filter(|storage| storage.active && storage.holds(content)).collect();
        fits.sort_by_key(|storage| std::cmp::Reverse(storage.avail));
        let words = |storage: &StorageState| {
            let shared = if storage.shared { ", shared" } else { "" };
            let free = storage.avail >> 30;
            format!("{}, {free} GiB free{shared}, takes {}", storage.kind, storage.content.join(", "))
        };
        fits.into_iter().map(|storage| (storage.storage.to_string(), words(storage))).collect()
    }

    pub(super) fn bridges(&self, host: &HostName) -> Vec<(String, String)> {
        let all = self.bridges.get(host).map(Vec::as_slice).unwrap_or_default();
        all.iter().map(|bridge| (bridge.clone(), String::new())).collect()
    }

    /// The first thousand ids nobody uses.
    pub(super) fn free_ids(&self) -> String {
        let block = |start: u32| (start, start + BLOCK - 1);
        let is_free =
            |(first, last): &(u32, u32)| !self.taken.iter().any(|id| (*first..=*last).contains(&id.get()));
        let blocks = (2..900).map(|number| block(number * BLOCK)).filter(|(first, _)| *first != 9000);
        let (first, last) = blocks.into_iter().find(is_free).unwrap_or(block(FIRST));
        format!("{first}-{last}")
    }

    pub(super) fn taken_ids(&self) -> usize {
        self.taken.len()
    }
}

/// Asks Proxmox, if there is one to ask and somebody vouches for it. What was not asked is said, and defaults decide.
pub(super) fn ask(
    args: &Init,
    name: &ClusterName,
    endpoint: &Endpoint,
    asker: &Asker<'_>,
    printer: &Printer,
) -> anyhow::Result<Option<Offer>> {
    block_on(async {
        if args.connection.simulate != Simulate::Off {
            let session = Session::open_simulated(name, &args.connection, printer).await?;
            let offer = read(&session.client, None).await;
            session.close().await?;
            return Ok(Some(offer.map_err(|error| unanswered(&error))?));
        }
        let Some(fingerprint) = trusted(args, endpoint, asker, printer).await? else { return Ok(None) };
        let Some((credentials, from)) = visit::credentials_for(endpoint)? else {
            printer.say(
                "There is no token, so Proxmox is not asked what it has.\n  \
                 export PROXMOX_VE_API_TOKEN='USER@REALM!NAME=SECRET' and run this again, or go on with the defaults",
            );
            return Ok(None);
        };
        if printer.is_verbose() {
            printer.say(&format!("credentials {} from {from}", credentials.name()));
        }
        let client = visit::client(endpoint.clone(), &credentials.only_for([endpoint.clone()]), fingerprint)?;
        Ok(Some(read(&client, fingerprint).await.map_err(|error| unanswered(&error))?))
    })
}

fn unanswered(error: &Error) -> Failure {
    let mut failure = Failure::new(format!("Proxmox could not be asked what it has: {}", error.words()));
    for hint in error.hints() {
        failure = failure.with_hint(hint);
    }
    failure.with_hint("without a token in the environment, defaults and flags decide")
}

/// The certificate to pin, none inside if the system vouches for it; none at all if nobody does, or nobody answers.
async fn trusted(
    args: &Init,
    endpoint: &Endpoint,
    asker: &Asker<'_>,
    printer: &Printer,
) -> anyhow::Result<Option<Option<Fingerprint>>> {
    let (shown, vouched) = match visit::look(endpoint).await {
        Ok(seen) => seen,
        Err(words) => {
            printer.say(&format!("{endpoint} does not answer ({words}): defaults and flags decide"));
            return Ok(None);
        }
    };
    if !args.connection.fingerprint.is_empty() {
        if args.connection.fingerprint.contains(&shown) {
            return Ok(Some(Some(shown)));
        }
        return Err(Failure::new(format!(
            "{endpoint} shows another certificate than --fingerprint names: {shown}"
        ))
        .with_hint("nothing was sent; somebody may be in between, or the certificate is new")
        .into());
    }
    if vouched {
        printer.say(&format!("{endpoint} shows a certificate this system trusts"));
        return Ok(Some(None));
    }
    printer.say(&visit::to_compare(endpoint, shown));
    if !asker.asks {
        printer.say(&format!(
            "Nobody is here to compare it, so Proxmox is not asked and defaults decide; to trust it:\n  --fingerprint {shown}"
        ));
        return Ok(None);
    }
    let answer = prompt::line("Is it the same? [y/N]: ")?.unwrap_or_default();
    if prompt::is_yes(&answer) {
        return Ok(Some(Some(shown)));
    }
    Err(Failure::new("nothing was sent, and nothing was written")
        .with_hint("a certificate that differs is somebody else's")
        .into())
}

async fn read(client: &Client, fingerprint: Option<Fingerprint>) -> Result<Offer, Error> {
    let nodes = client.nodes().await?;
    let up = nodes.into_iter().filter(|node| node.status != NodeState::Offline);
    let hosts: Vec<HostName> = up.map(|node| node.node).collect();
    let mut offer = Offer {
        fingerprint,
        hosts,
        storages: BTreeMap::new(),
        bridges: BTreeMap::new(),
        taken: BTreeSet::new(),
        pools: client.pools().await?.into_iter().map(|pool| pool.poolid).collect(),
    };
    for host in offer.hosts.clone() {
        offer.storages.insert(host.clone(), client.storages(&host).await?);
        let bridges = client.bridges(&host).await?.into_iter().map(|bridge| bridge.iface);
        offer.bridges.insert(host, bridges.collect());
    }
    for resource in client.vm_resources().await? {
        if let Resource::Qemu(guest) | Resource::Lxc(guest) = resource {
            offer.taken.insert(guest.vmid);
        }
    }
    Ok(offer)
}
