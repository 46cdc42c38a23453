//! Reading hosts and VMs, many at once, while they move, vanish or do not answer.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{self, FutureExt as _};
use futures_util::stream::{self, StreamExt as _};
use talmox_plan::{Guest, GuestConfig, GuestKind, Host, Seen};
use talmox_pve::client::{Client, Error, ErrorKind, PendingItem, Resource, VmStatus};
use talmox_pve::property::VmConfig;
use talmox_types::{HostName, VmId};
use tokio::sync::Semaphore;

use super::ObserveError;
use super::inventory::{Inventory, newcomer, refresh};

/// Requests asked for at a time. The client itself lets a few to each endpoint through; with more waiting for it, no
/// endpoint is idle while another has a queue.
pub(super) const READS_AT_ONCE: usize = 48;
/// VMs that are read of a host before it has answered for the first time. One that is down keeps whoever asks it waiting
/// for half a minute, and what is waited for there must not be all that an endpoint lets through.
const BEFORE_ITS_LIST: usize = 8;
/// How often VMs that are not where they were are looked for again.
const SEARCHES: usize = 3;

/// What is known so far, and the way to know more.
pub(crate) struct Looker<'a> {
    client: &'a Client,
    hosts: BTreeMap<HostName, Host>,
    guests: BTreeMap<VmId, Guest>,
    listed: BTreeSet<HostName>,
    /// Hosts that do not answer, and why.
    down: BTreeMap<HostName, String>,
}

/// What became of one read.
enum Answer {
    Config(GuestConfig),
    /// Not there any more, or not there any longer.
    Missing,
    Unreadable(String),
}

impl<'a> Looker<'a> {
    pub(crate) fn new(
        client: &'a Client,
        hosts: BTreeMap<HostName, Host>,
        guests: BTreeMap<VmId, Guest>,
    ) -> Self {
        let offline = hosts.iter().filter(|(_, host)| !host.online);
        let down = offline.map(|(name, _)| (name.clone(), format!("host {name} is offline"))).collect();
        Self { client, hosts, guests, listed: BTreeSet::new(), down }
    }

    pub(crate) fn into_parts(self) -> (BTreeMap<HostName, Host>, BTreeMap<VmId, Guest>) {
        (self.hosts, self.guests)
    }

    pub(crate) fn guests(&self) -> &BTreeMap<VmId, Guest> {
        &self.guests
    }

    pub(crate) fn host_of(&self, vmid: VmId) -> Option<HostName> {
        self.guests.get(&vmid).map(|guest| guest.host.clone())
    }

    pub(crate) fn all_hosts(&self) -> BTreeSet<HostName> {
        self.hosts.keys().cloned().collect()
    }

    /// VMs nobody has asked for so far.
    pub(crate) fn unread(&self) -> BTreeSet<VmId> {
        let vms = self.guests.values().filter(|guest| guest.kind == GuestKind::Vm);
        vms.filter(|guest| guest.config == Seen::NotAsked).map(|guest| guest.vmid).collect()
    }

    /// Asks hosts for their VMs: power, lock and name as they are, where the cluster's list lags by seconds.
    pub(crate) async fn list_hosts(&mut self, hosts: BTreeSet<HostName>) -> Result<(), ObserveError> {
        let wanted: Vec<HostName> = hosts
            .into_iter()
            .filter(|host| !self.down.contains_key(host) && !self.listed.contains(host))
            .collect();
        let client = self.client;
        let lists = stream::iter(wanted).map(async |host: HostName| {
            let list = client.vms(&host).await;
            (host, list)
        });
        let lists: Vec<_> = lists.buffer_unordered(READS_AT_ONCE).collect().await;
        for (host, list) in lists {
            match list {
                Ok(list) => self.take_list(&host, &list),
                Err(error) if is_everybodys(&error) => {
                    return Err(ObserveError::new(format!("list the VMs of {host}"))(error));
                }
                Err(error) => self.lose_host(&host, &error),
            }
        }
        Ok(())
    }

    /// Asks hosts, those of these VMs among them, for their lists unless that was done, and reads the VMs at the same time.
    /// Those that are not there any more, or are on a host that is down, stay unread.
    pub(crate) async fn look_at(
        &mut self,
        hosts: BTreeSet<HostName>,
        ids: &BTreeSet<VmId>,
    ) -> Result<(), ObserveError> {
        let mut by_host: BTreeMap<HostName, Vec<VmId>> =
            hosts.into_iter().map(|host| (host, Vec::new())).collect();
        for vmid in ids {
            if let Some(host) = self.host_of(*vmid) {
                by_host.entry(host).or_default().push(*vmid);
            }
        }
        by_host.retain(|host, _| !self.down.contains_key(host));
        let (client, listed) = (self.client, &self.listed);
        let looks = stream::iter(by_host).map(async |(host, ids): (HostName, Vec<VmId>)| {
            let seen = look_at_host(client, &host, ids, !listed.contains(&host)).await;
            (host, seen)
        });
        let looks: Vec<_> = looks.buffer_unordered(READS_AT_ONCE).collect().await;
        for (host, seen) in looks {
            let (list, answers) = match seen {
                Ok(seen) => seen,
                Err(error) if is_everybodys(&error) => {
                    return Err(ObserveError::new(format!("list the VMs of {host}"))(error));
                }
                Err(error) => {
                    self.lose_host(&host, &error);
                    continue;
                }
            };
            if let Some(list) = list {
                self.take_list(&host, &list);
            }
            for (vmid, answer) in answers {
                self.take(vmid, answer?);
            }
        }
        Ok(())
    }

    /// Keeps an answer; false if the VM is not where it was.
    fn take(&mut self, vmid: VmId, answer: Answer) -> bool {
        match answer {
            Answer::Config(config) => self.note(vmid, Seen::Read(config)),
            Answer::Unreadable(reason) => self.note(vmid, Seen::Unreadable(reason)),
            Answer::Missing => return false,
        }
        true
    }

    fn take_list(&mut self, host: &HostName, list: &[VmStatus]) {
        self.listed.insert(host.clone());
        for status in list {
            match self.guests.get_mut(&status.vmid) {
                Some(guest) => refresh(guest, host, status),
                None => {
                    self.guests.insert(status.vmid, newcomer(host, status, None));
                }
            }
        }
    }

    fn lose_host(&mut self, host: &HostName, error: &Error) {
        self.down.insert(host.clone(), format!("host {host} does not answer: {}", error.words()));
        if let Some(host) = self.hosts.get_mut(host) {
            host.online = false;
        }
    }

    /// Reads the configuration of these VMs. Those that moved are found again, those that are gone are dropped.
    pub(crate) async fn read(&mut self, ids: BTreeSet<VmId>) -> Result<(), ObserveError> {
        let mut left = ids;
        for _ in 0..SEARCHES {
            let missing = self.read_where_they_were(&left).await?;
            if missing.is_empty() {
                return Ok(());
            }
            left = self.find_again(&missing).await?;
        }
        for vmid in left {
            self.note(vmid, Seen::Unreadable("it moves from host to host".to_owned()));
        }
        Ok(())
    }

    async fn read_where_they_were(&mut self, ids: &BTreeSet<VmId>) -> Result<BTreeSet<VmId>, ObserveError> {
        let mut wanted = Vec::new();
        for vmid in ids {
            let Some(host) = self.host_of(*vmid) else { continue };
            match self.down.get(&host).cloned() {
                Some(reason) => self.note(*vmid, Seen::Unreadable(reason)),
                None => wanted.push((*vmid, host)),
            }
        }
        let client = self.client;
        let reads = stream::iter(wanted).map(async |(vmid, host): (VmId, HostName)| {
            let answer = ask(client, &host, vmid).await;
            (vmid, answer)
        });
        let answers: Vec<_> = reads.buffer_unordered(READS_AT_ONCE).collect().await;
        let mut missing = BTreeSet::new();
        for (vmid, answer) in answers {
            if !self.take(vmid, answer?) {
                missing.insert(vmid);
            }
        }
        Ok(missing)
    }

    /// Looks where VMs are now. What is nowhere is gone.
    async fn find_again(&mut self, missing: &BTreeSet<VmId>) -> Result<BTreeSet<VmId>, ObserveError> {
        let doing = "find VMs that are no longer where they were";
        let resources: Vec<Resource> = self.client.vm_resources().await.map_err(ObserveError::new(doing))?;
        let now = Inventory::of(resources).guests;
        for vmid in missing {
            match now.get(vmid) {
                Some(found) => drop(self.guests.insert(*vmid, found.clone())),
                None => drop(self.guests.remove(vmid)),
            }
        }
        let moved: BTreeSet<VmId> = missing.iter().copied().filter(|vmid| now.contains_key(vmid)).collect();
        for host in moved.iter().filter_map(|vmid| self.host_of(*vmid)).collect::<BTreeSet<_>>() {
            self.listed.remove(&host);
        }
        let hosts = moved.iter().filter_map(|vmid| self.host_of(*vmid)).collect();
        self.list_hosts(hosts).await?;
        Ok(moved)
    }

    fn note(&mut self, vmid: VmId, seen: Seen) {
        let Some(guest) = self.guests.get_mut(&vmid) else { return };
        if let Seen::Read(config) = &seen {
            guest.lock = config.live.lock().map(str::to_owned);
            guest.name = config.live.name().map(str::to_owned);
            guest.template = config.live.is_template();
        }
        guest.config = seen;
    }
}

type Answers = Vec<(VmId, Result<Answer, ObserveError>)>;

/// What a host says of its VMs if it is to be asked, and these VMs of it. A host that does not answer for its list is not
/// waited for any longer.
async fn look_at_host(
    client: &Client,
    host: &HostName,
    ids: Vec<VmId>,
    lists: bool,
) -> Result<(Option<Vec<VmStatus>>, Answers), Error> {
    let (turns, count) = (Semaphore::new(BEFORE_ITS_LIST), ids.len());
    let list = async {
        let list = if lists { Some(client.vms(host).await?) } else { None };
        turns.add_permits(count);
        Ok(list)
    };
    let reads = stream::iter(ids).map(async |vmid| {
        let _turn = turns.acquire().await;
        (vmid, ask(client, host, vmid).await)
    });
    let reads = reads.buffer_unordered(READS_AT_ONCE).collect::<Answers>().map(Ok);
    future::try_join(list, reads).await
}

async fn ask(client: &Client, host: &HostName, vmid: VmId) -> Result<Answer, ObserveError> {
    match client.pending(host, vmid).await {
        Ok(items) => Ok(config(items).map_or_else(
            || Answer::Unreadable("Proxmox sent its configuration without a digest".to_owned()),
            Answer::Config,
        )),
        Err(error) if error.is_not_found() => Ok(Answer::Missing),
        Err(error) if is_everybodys(&error) => {
            Err(ObserveError::new(format!("read VM {vmid} on {host}"))(error))
        }
        Err(error) => Ok(Answer::Unreadable(error.words().to_owned())),
    }
}

/// Whether a failure is not about one host or VM: no other request would fare better.
pub(super) fn is_everybodys(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unauthenticated | ErrorKind::Unreachable | ErrorKind::Certificate(_))
}

/// What holds now, and what will hold after a restart. The digest is an item of its own.
fn config(items: Vec<PendingItem>) -> Option<GuestConfig> {
    let mut live = VmConfig::default();
    let mut next = VmConfig::default();
    for PendingItem { key, value, pending, delete } in items {
        if let Some(value) = &value {
            live.set(&key, value);
        }
        if let Some(value) = pending.or(value).filter(|_| !delete) {
            next.set(&key, &value);
        }
    }
    next.remove("digest");
    let digest = live.remove("digest")?;
    Some(GuestConfig { live, next, digest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str, value: Option<&str>, pending: Option<&str>, delete: bool) -> PendingItem {
        PendingItem {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            pending: pending.map(str::to_owned),
            delete,
        }
    }

    #[test]
    fn what_waits_for_a_restart_is_kept_apart() {
        let items = vec![
            item("digest", Some("abc"), None, false),
            item("cores", Some("2"), Some("4"), false),
            item("agent", Some("1"), None, true),
            item("net1", None, Some("virtio=BC:24:11:00:00:01,bridge=vmbr0"), false),
            item("name", Some("cp-1"), None, false),
        ];
        let seen = config(items).unwrap();
        assert_eq!(seen.digest, "abc");
        assert_eq!(seen.pending().into_iter().collect::<Vec<_>>(), ["agent", "cores", "net1"]);
        assert_eq!((seen.live.get("cores"), seen.next.get("cores")), (Some("2"), Some("4")));
        assert_eq!((seen.next.get("agent"), seen.live.get("net1")), (None, None));
        assert_eq!(config(vec![item("name", Some("x"), None, false)]), None);
    }
}
