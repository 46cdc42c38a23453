//! How a node becomes a member of etcd, and stops being one.

use super::snapshot::STORE;
use super::{Cluster, Member, snapshot};
use crate::disk::EtcdData;
use crate::hardware::MachineId;
use crate::kube::Store;
use crate::machine::{Bootstrap, EtcdRun};
use crate::nodes::{Event, Nodes, Step};
use crate::services::{Health, State};

/// What a member says whose data is of a cluster that put it out.
const REMOVED: &str = "Failed to run: the member has been permanently removed from the cluster";

/// What a member says whose data is older than what it acknowledged before.
const STALE: &str =
    "Failed to run: tocommit is out of range of lastIndex. Was the raft log corrupted, truncated, or lost?";

impl Nodes {
    /// Lets etcd go on: begin, join, or see how its cluster is.
    pub(crate) fn settle_etcd(&mut self, id: MachineId) {
        let Some(run) = self.run(id) else { return };
        let Some(service) = run.services.get("etcd") else { return };
        if service.state == State::Preparing && !run.etcd.starting {
            self.start_etcd(id);
        } else if service.is_running() && run.etcd.checked {
            self.check_etcd(id);
        }
    }

    fn start_etcd(&mut self, id: MachineId) {
        match self.etcd_data(id) {
            Some(data) if self.is_stale(id, data) => self.say(id, "etcd", State::Failed, STALE),
            Some(data) if self.is_member(data) => self.launch_etcd(id),
            Some(_) => self.say(id, "etcd", State::Failed, REMOVED),
            None => {
                if self.run(id).is_some_and(|run| run.bootstrap.is_some()) || self.join_etcd(id) {
                    self.launch_etcd(id);
                }
            }
        }
    }

    /// Whether the others have heard more of this member than its disk knows: somebody put an older one in its place.
    fn is_stale(&self, id: MachineId, data: EtcdData) -> bool {
        let as_of = self.system_disk(id).and_then(|disk| disk.ephemeral.as_ref()?.as_of);
        let Some(known) = self.clusters.get(&data.cluster).filter(|known| known.members.len() > 1) else {
            return false;
        };
        let heard = known.heard.get(&data.member).copied().unwrap_or_default();
        as_of.is_some_and(|as_of| as_of < heard)
    }

    fn is_member(&self, data: EtcdData) -> bool {
        self.clusters.get(&data.cluster).is_some_and(|known| known.members.contains_key(&data.member))
    }

    fn launch_etcd(&mut self, id: MachineId) {
        if let Some(run) = self.run_mut(id) {
            run.etcd.starting = true;
        }
        let after = self.timing.service + self.timing.pull;
        self.schedule_step(id, "etcd", after, Step::Process);
    }

    fn member_of(&self, id: MachineId, name: String, learner: bool) -> Member {
        let address = self.run(id).and_then(|run| run.network.main());
        let url = |port: u16| match address {
            Some(std::net::IpAddr::V6(ip)) => vec![format!("https://[{ip}]:{port}")],
            Some(ip) => vec![format!("https://{ip}:{port}")],
            None => Vec::new(),
        };
        let client_urls = if name.is_empty() { Vec::new() } else { url(2379) };
        Member { name, peer_urls: url(2380), client_urls, learner }
    }

    /// Asks a living cluster to be taken in as a learner. There is one learner at a time; a member of the same name, whose
    /// data is gone, makes room.
    fn join_etcd(&mut self, id: MachineId) -> bool {
        let Some(cluster) = self.reachable_cluster(id).filter(|cluster| self.has_quorum(*cluster)) else {
            return false;
        };
        let Some(name) = self.run(id).map(|run| run.network.hostname.clone()) else { return false };
        let member = self.member_of(id, String::new(), true);
        let drawn = self.random.next();
        let Some(known) = self.clusters.get_mut(&cluster) else { return false };
        if known.members.values().any(|member| member.learner && member.name != name) {
            return false;
        }
        known.members.retain(|_, member| member.name != name);
        known.members.insert(drawn, member);
        if let Some(run) = self.run_mut(id) {
            run.etcd.joining = Some(EtcdData { cluster, member: drawn });
        }
        self.elect(cluster);
        true
    }

    /// The process starts: now there is data.
    pub(crate) fn start_etcd_process(&mut self, id: MachineId) -> bool {
        let hostname = self.run(id).map(|run| run.network.hostname.clone()).unwrap_or_default();
        let joining = self.run_mut(id).and_then(|run| run.etcd.joining.take());
        let bootstrap = self.run_mut(id).and_then(|run| run.bootstrap.take());
        let data = match (self.etcd_data(id), joining, bootstrap) {
            (Some(data), _, _) | (None, Some(data), _) => data,
            (None, None, Some(bootstrap)) => match self.found_cluster(id, bootstrap) {
                Ok(data) => data,
                Err(reason) => {
                    self.say(id, "etcd", State::Failed, &format!("Failed to run pre stage: {reason}"));
                    return false;
                }
            },
            (None, None, None) => return false,
        };
        let named = self.member_of(id, hostname, false);
        if let Some(member) =
            self.clusters.get_mut(&data.cluster).and_then(|known| known.members.get_mut(&data.member))
        {
            *member = Member { learner: member.learner, ..named };
        }
        if let Some(ephemeral) = self.system_disk_mut(id).and_then(|disk| disk.ephemeral.as_mut()) {
            ephemeral.etcd = Some(data);
            ephemeral.etcd_folder_gone = false;
            ephemeral.as_of = None;
        }
        true
    }

    /// A new cluster of one member, empty or from a snapshot.
    fn found_cluster(&mut self, id: MachineId, bootstrap: Bootstrap) -> Result<EtcdData, String> {
        let mut kept: Option<Store> = None;
        if bootstrap.recover {
            let snapshot = self.system_disk(id).and_then(|disk| disk.ephemeral.as_ref()?.snapshot.clone());
            let snapshot = snapshot.unwrap_or_default();
            snapshot::verify(&snapshot, bootstrap.skip_hash_check)
                .map_err(|reason| format!("error verifying snapshot: {reason}"))?;
            kept = snapshot::value(&snapshot, STORE).and_then(|value| serde_json::from_slice(value).ok());
        }
        let data = EtcdData { cluster: self.random.next(), member: self.random.next() };
        let name = self.run(id).map(|run| run.network.hostname.clone()).unwrap_or_default();
        let authority =
            self.run(id).and_then(|run| run.settings()?.etcd_authority.clone()).unwrap_or_default();
        let cluster = Cluster {
            members: [(data.member, self.member_of(id, name, false))].into(),
            leader: Some(data.member),
            term: 2,
            authority,
            alarms: Vec::new(),
            waste: std::collections::BTreeMap::new(),
            began: self.clock,
            index: 10,
            heard: std::collections::BTreeMap::new(),
        };
        self.clusters.insert(data.cluster, cluster);
        self.founded += 1;
        if let Some(store) = kept {
            self.kube.insert(data.cluster, store.recovered(self.epoch + self.clock));
        }
        Ok(data)
    }

    /// The first health check, and with it the wait of a learner.
    pub(crate) fn first_etcd_check(&mut self, id: MachineId) {
        if let Some(run) = self.run_mut(id) {
            run.etcd.checked = true;
        }
        self.check_etcd(id);
        let learner = self.running_member(id).is_some_and(|data| self.is_learner(data));
        if learner {
            let promotion = self.timing.promotion;
            self.schedule_about(id, promotion, Event::Promote);
        }
    }

    fn is_learner(&self, data: EtcdData) -> bool {
        let known = self.clusters.get(&data.cluster);
        known.and_then(|known| known.members.get(&data.member)).is_some_and(|member| member.learner)
    }

    pub(crate) fn promote(&mut self, id: MachineId) {
        let Some(data) = self.running_member(id) else { return };
        if !self.has_quorum(data.cluster) {
            let retry = self.timing.retry;
            self.schedule_about(id, retry, Event::Promote);
            return;
        }
        let member =
            self.clusters.get_mut(&data.cluster).and_then(|known| known.members.get_mut(&data.member));
        if let Some(member) = member {
            member.learner = false;
        }
        self.elect(data.cluster);
        self.lose_etcd_as_told();
        self.wake_all();
    }

    /// Healthy is who may vote in a cluster that can decide.
    fn check_etcd(&mut self, id: MachineId) {
        let Some(data) = self.running_member(id) else {
            self.say(id, "etcd", State::Failed, REMOVED);
            if let Some(run) = self.run_mut(id) {
                run.etcd = EtcdRun::default();
            }
            self.elect_everywhere();
            self.wake_all();
            return;
        };
        let (health, message) = if self.is_learner(data) {
            (Health::Failed, "Health check failed: etcdserver: rpc not supported for learner")
        } else if self.has_quorum(data.cluster) {
            (Health::Healthy, "Health check successful")
        } else {
            (Health::Failed, "Health check failed: context deadline exceeded")
        };
        let before = self.run(id).and_then(|run| run.services.get("etcd")).map(|service| service.health);
        if before != Some(health) {
            self.set_health(id, "etcd", health, message);
            self.say(id, "etcd", State::Running, message);
            self.wake_all();
        }
    }

    /// The member leaves its cluster and takes its data along.
    pub(crate) fn leave_etcd(&mut self, id: MachineId) {
        let data = self.etcd_data(id);
        if let Some(data) = data
            && let Some(known) = self.clusters.get_mut(&data.cluster)
        {
            known.members.remove(&data.member);
            if known.members.is_empty() {
                self.clusters.remove(&data.cluster);
            }
        }
        self.forget_etcd(id);
        self.stop_service(id, "etcd");
        let after = self.timing.leave * 3 / 2;
        self.schedule_about(id, after, Event::PodsWithdrawn);
        self.elect_everywhere();
        self.wake_all();
    }

    fn forget_etcd(&mut self, id: MachineId) {
        if let Some(ephemeral) = self.system_disk_mut(id).and_then(|disk| disk.ephemeral.as_mut()) {
            ephemeral.etcd = None;
            ephemeral.etcd_folder_gone = true;
        }
        if let Some(run) = self.run_mut(id) {
            run.etcd = EtcdRun::default();
            run.bootstrap = None;
        }
    }

    /// etcd's data on a machine is lost, and its service with it; the others still count the member.
    pub fn lose_etcd(&mut self, machine: MachineId) {
        let disk = self.machines.get(&machine).and_then(|one| {
            let run = one.run.as_ref().and_then(|run| run.system);
            run.or_else(|| one.hardware.drives.iter().find_map(crate::hardware::Drive::disk))
        });
        let written = disk.and_then(|disk| self.disks.get_mut(&disk));
        if let Some(ephemeral) = written.and_then(|written| written.ephemeral.as_mut()) {
            ephemeral.etcd = None;
        }
        if let Some(run) = self.run_mut(machine) {
            run.etcd = EtcdRun::default();
        }
        self.say(machine, "etcd", State::Failed, "Failed to run: the data directory is lost");
        self.elect_everywhere();
        self.wake_all();
    }

    /// A member's database is as large as it may be.
    pub fn raise_alarm(&mut self, machine: MachineId) {
        let Some(data) = self.running_member(machine) else { return };
        if let Some(known) = self.clusters.get_mut(&data.cluster)
            && !known.alarms.contains(&data.member)
        {
            known.alarms.push(data.member);
        }
    }

    /// Lets those lose their data who are to, once the others can do without: before that the cluster itself would be lost.
    pub(crate) fn lose_etcd_as_told(&mut self) {
        let ready = |id: &MachineId| self.run(*id).is_some_and(|run| run.kubernetes.pods_are_ready());
        let spare = |id: &MachineId| {
            let data = self.running_member(*id);
            data.and_then(|data| self.clusters.get(&data.cluster)).is_some_and(|known| known.voters() > 2)
        };
        let all: Vec<MachineId> = self.machines.keys().filter(|id| ready(id) && spare(id)).copied().collect();
        for id in all {
            if self.faults.loses_etcd(id) {
                self.lose_etcd(id);
            }
        }
    }

    /// Takes a member out; its machine, if there is one, finds out by itself.
    pub(crate) fn remove_member(&mut self, cluster: u64, member: u64) {
        if let Some(known) = self.clusters.get_mut(&cluster) {
            known.members.remove(&member);
        }
        self.elect(cluster);
        self.wake_all();
    }

    /// etcd starts anew, as the first member there is.
    pub(crate) fn begin_bootstrap(&mut self, id: MachineId, bootstrap: Bootstrap) {
        if let Some(run) = self.run_mut(id) {
            run.bootstrap = Some(bootstrap);
            run.etcd = EtcdRun::default();
        }
        self.say(id, "etcd", State::Finished, "Service finished successfully");
        self.say(id, "etcd", State::Finished, "Bootstrap requested");
        // The service is another one now, which knows nothing of what the old one said. The boot sequence waits for it no more.
        if let Some(run) = self.run_mut(id) {
            run.etcd_excused = true;
            if let Some(service) = run.services.get_mut("etcd") {
                service.said.clear();
            }
        }
        self.start_service(id, "etcd");
        self.settle(id);
    }
}
