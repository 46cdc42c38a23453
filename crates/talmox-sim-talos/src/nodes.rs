//! All nodes, their disks, their clock: the core without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::api::stream::Stream;
use crate::disk::Written;
use crate::etcd::{Cluster, SavedDisks};
use crate::faults::{CallFault, Faults};
use crate::hardware::{DiskId, Drive, Hardware, Image, MachineId};
use crate::kube::Store;
use crate::machine::sequence::{After, SHUTDOWN};
use crate::machine::settings::Settings;
use crate::machine::static_pods::PodStep;
use crate::machine::{Machine, Port, Run};
use crate::random::Random;
use crate::timing::Timing;
use crate::wire::{ApiCall, ApiReply, Listener, StreamId, Streamed};

/// Talos nodes that live in memory. It holds the secrets of their configurations: a saved one is for its owner alone.
#[derive(Clone, Serialize, Deserialize)]
pub struct Nodes {
    pub timing: Timing,
    pub faults: Faults,
    /// The network's DHCP reservations, by hardware address in lower case.
    pub leases: BTreeMap<String, IpAddr>,
    /// What web servers hand out, by URL, without anybody being asked; other files are fetched ([`Nodes::wanted`]).
    pub sites: BTreeMap<String, Vec<u8>>,
    /// Images no registry has, by reference or by repository.
    pub missing_images: BTreeSet<String>,
    /// System extensions by the schematic of an installer.
    pub schematics: BTreeMap<String, Vec<String>>,
    /// The discovery service is out of reach: nodes that would find each other by it do not.
    #[serde(default)]
    discovery_is_away: bool,
    pub(crate) clock: u64,
    /// Unix milliseconds when the clock stood at zero.
    pub(crate) epoch: u64,
    pub(crate) random: Random,
    pub(crate) machines: BTreeMap<MachineId, Machine>,
    pub(crate) disks: BTreeMap<DiskId, Written>,
    /// What snapshots of machines hold, by machine and name.
    #[serde(default)]
    pub(crate) snapshots: BTreeMap<String, SavedDisks>,
    /// Clusters of etcd, by number.
    pub(crate) clusters: BTreeMap<u64, Cluster>,
    /// What Kubernetes keeps in each of them.
    pub(crate) kube: BTreeMap<u64, Store>,
    pub(crate) events: BTreeMap<u64, Vec<Due>>,
    pub(crate) news: Vec<News>,
    #[serde(skip)]
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) next_stream: u64,
    /// How many calls came, to machines or to their Kubernetes, that do more than look.
    #[serde(skip)]
    pub changing_calls: u64,
    /// How many clusters of etcd were begun, however long they lasted and whoever heard of it.
    #[serde(skip)]
    pub founded: u64,
}

/// Something the hypervisor would notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// The machine switched itself off.
    PoweredOff(MachineId),
    /// The machine restarted itself.
    Rebooted(MachineId),
    /// What a guest agent would tell; `agent` says whether there is one.
    Address { machine: MachineId, addresses: Vec<IpAddr>, hostname: String, agent: bool },
}

/// What a machine says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub stage: &'static str,
    /// Conditions that do not hold, with reasons; none is ready.
    pub unmet: Vec<(String, String)>,
}

impl Standing {
    /// Running, and nothing is missing.
    pub fn is_ready(&self) -> bool {
        self.stage == "running" && self.unmet.is_empty()
    }
}

/// Something that happens to a machine, unless it was restarted before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Due {
    pub(crate) machine: MachineId,
    pub(crate) boot: u64,
    pub(crate) event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// Firmware and kernel are through.
    Kernel,
    /// What was booted gave up.
    BootFailed,
    Network,
    /// Whatever may hold a configuration was looked at.
    Config,
    /// The port opens for whom it is due.
    Listen,
    Volumes,
    TimeSynced,
    Installed,
    /// A service takes its next step, if it was not started anew since.
    Service {
        id: String,
        start: u32,
        step: Step,
    },
    /// Something elsewhere may have changed.
    Look,
    TrialEnds(u64),
    /// A learner of etcd has caught up.
    Promote,
    /// Static pods are there, and not ready.
    Pods,
    ApiServer,
    /// A static pod takes its next step, if it is still the same.
    Pod {
        name: String,
        turn: u64,
        step: PodStep,
    },
    /// A node that left etcd takes its static pods away.
    PodsWithdrawn,
    /// A kubelet that started anew is not ready for a moment.
    NodeFlaps,
    Register,
    NodeReady,
    /// The API answers no more, if this is still the way down that was begun.
    Deaf(u64),
    Down {
        descent: u64,
        after: After,
    },
    /// The older call to upgrade was acknowledged: its sequence begins.
    Upgrade {
        image: Image,
        actor: String,
    },
    /// An installer ended.
    Upgraded {
        exit_code: i32,
        image: Image,
    },
    /// Power is lost.
    Dies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Process,
    Healthy,
    /// The process has ended by itself.
    Crash,
}

impl Nodes {
    /// No machines yet. `epoch` is what the clocks show, in Unix milliseconds, when [`Nodes::clock`] stands at zero.
    pub fn new(seed: u64, epoch: u64) -> Self {
        Self {
            timing: Timing::default(),
            faults: Faults::default(),
            leases: BTreeMap::new(),
            sites: BTreeMap::new(),
            missing_images: BTreeSet::new(),
            schematics: BTreeMap::new(),
            discovery_is_away: false,
            clock: 0,
            epoch,
            random: Random::new(seed),
            machines: BTreeMap::new(),
            disks: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            clusters: BTreeMap::new(),
            kube: BTreeMap::new(),
            events: BTreeMap::new(),
            news: Vec::new(),
            streams: BTreeMap::new(),
            next_stream: 1,
            changing_calls: 0,
            founded: 0,
        }
    }

    /// Switches a machine on. One that is on already takes no notice.
    pub fn power_on(&mut self, hardware: Hardware) {
        let id = hardware.id;
        for drive in &hardware.drives {
            let Drive::Disk(disk) = drive else { continue };
            if !self.disks.contains_key(&disk.id) {
                let copied = disk.copy_of.and_then(|original| self.disks.get(&original).cloned());
                self.disks.insert(disk.id, copied.unwrap_or_else(|| Written::new(disk)));
            }
        }
        let machine = self.machines.entry(id).or_insert_with(|| Machine::new(hardware.clone()));
        if machine.on {
            return;
        }
        machine.hardware = hardware;
        machine.on = true;
        self.begin_boot(id);
    }

    /// Whether the discovery service can be reached from now on; at first it can.
    pub fn reach_discovery(&mut self, reachable: bool) {
        self.discovery_is_away = !reachable;
        self.wake_all();
    }

    /// Whether a node hears of another one by the discovery service.
    pub(crate) fn discovers(&self, own: &Settings, other: &Settings) -> bool {
        let both = own.discovery_service && other.discovery_service;
        both && own.cluster_id == other.cluster_id && !self.discovery_is_away
    }

    /// The text of the configuration in force on a machine.
    pub fn configuration(&self, machine: MachineId) -> Option<&str> {
        self.run(machine)?.active.as_ref().map(|active| active.text.as_str())
    }

    /// Pulls the plug.
    pub fn power_off(&mut self, machine: MachineId) {
        self.end_run(machine);
        if let Some(machine) = self.machines.get_mut(&machine) {
            machine.on = false;
        }
    }

    /// Presses the power button: a node that runs begins to shut down. False if nobody reacts.
    pub fn press_power(&mut self, machine: MachineId) -> bool {
        if self.run(machine).is_none() {
            return false;
        }
        self.go(machine, SHUTDOWN, "", After { power_off: true, ..After::default() });
        true
    }

    /// Presses the reset button.
    pub fn reset(&mut self, machine: MachineId) {
        if self.machines.get(&machine).is_some_and(|machine| machine.on) {
            self.end_run(machine);
            self.begin_boot(machine);
        }
    }

    /// A machine that is no more. Its disks are removed one by one.
    pub fn remove_machine(&mut self, machine: MachineId) {
        self.power_off(machine);
        self.machines.remove(&machine);
    }

    pub fn remove_disk(&mut self, disk: DiskId) {
        self.disks.remove(&disk);
    }

    /// Whether a machine has power.
    pub fn is_on(&self, machine: MachineId) -> bool {
        self.machines.get(&machine).is_some_and(|machine| machine.on)
    }

    /// Milliseconds since the beginning.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// When something happens by itself next.
    pub fn next_event(&self) -> Option<u64> {
        self.events.keys().next().copied()
    }

    /// Lets happen what is due until then. The clock never goes back.
    pub fn advance_to(&mut self, now: u64) {
        while let Some(entry) = self.events.first_entry() {
            if *entry.key() > now {
                break;
            }
            let (at, due) = entry.remove_entry();
            self.clock = self.clock.max(at);
            for one in due {
                self.happen(one);
            }
        }
        self.clock = self.clock.max(now);
    }

    /// What the hypervisor has not heard of yet.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Who has which address now. Two may have the same: the first of them answers.
    pub fn addresses(&self) -> Vec<(IpAddr, MachineId)> {
        let mut found: Vec<(IpAddr, MachineId)> = Vec::new();
        for (id, machine) in &self.machines {
            let Some(run) = &machine.run else { continue };
            found.extend(run.network.addresses.iter().map(|address| (address.ip, *id)));
        }
        found.extend(self.shared_addresses());
        found
    }

    /// What a TLS server at port 50000 of an address shows.
    pub fn listener(&self, address: IpAddr) -> Listener {
        let Some(run) = self.at(address).and_then(|id| self.run(id)) else { return Listener::Closed };
        if self.faults.is_flapping(self.clock, address) {
            return Listener::Closed;
        }
        match &run.port {
            Port::Closed => Listener::Closed,
            Port::Maintenance(pair) => {
                Listener::Maintenance { certificate: pair.certificate.clone(), key: pair.key.clone() }
            }
            Port::Secure(pair) => Listener::Secure {
                certificate: pair.certificate.clone(),
                key: pair.key.clone(),
                authorities: run.settings().map(Settings::authorities).unwrap_or_default(),
            },
        }
    }

    /// One call of the Talos API.
    pub fn call(&mut self, call: &ApiCall, now: u64) -> ApiReply {
        self.call_with(call, None, now)
    }

    /// The same with a mishap, whatever [`Nodes::faults`] say.
    pub fn call_with(&mut self, call: &ApiCall, fault: Option<CallFault>, now: u64) -> ApiReply {
        self.advance_to(now);
        self.changing_calls += u64::from(!call.only_looks());
        let reply = crate::api::answer(self, call, fault);
        if let Some(machine) = self.at(call.to) {
            self.tell_watchers(machine);
        }
        reply
    }

    /// What a stream brought since it was last looked at.
    pub fn poll(&mut self, stream: StreamId, now: u64) -> Streamed {
        self.advance_to(now);
        crate::api::stream::poll(self, stream)
    }

    /// The caller is no longer interested.
    pub fn close(&mut self, stream: StreamId) {
        self.streams.remove(&stream.0);
    }

    /// What a machine would say of itself: its stage, and what it waits for. None while nothing runs on it.
    pub fn standing(&self, machine: MachineId) -> Option<Standing> {
        let run = self.run(machine)?;
        let unmet = run.unmet(self.clock).into_iter().map(|unmet| (unmet.name, unmet.reason)).collect();
        Some(Standing { stage: run.stage.name(), unmet })
    }

    pub(crate) fn run(&self, machine: MachineId) -> Option<&Run> {
        self.machines.get(&machine)?.run.as_ref()
    }

    pub(crate) fn run_mut(&mut self, machine: MachineId) -> Option<&mut Run> {
        self.machines.get_mut(&machine)?.run.as_mut()
    }

    /// Who answers at an address.
    pub(crate) fn at(&self, address: IpAddr) -> Option<MachineId> {
        let has = |machine: &Machine| {
            let addresses = machine.run.as_ref().map(|run| &run.network.addresses);
            addresses.into_iter().flatten().any(|one| one.ip == address)
        };
        let own = self.machines.iter().find(|(_, machine)| has(machine)).map(|(id, _)| *id);
        own.or_else(|| self.shared_addresses().into_iter().find(|(ip, _)| *ip == address).map(|(_, id)| id))
    }

    /// The disk a machine has Talos on.
    pub(crate) fn system_disk(&self, machine: MachineId) -> Option<&Written> {
        self.disks.get(&self.run(machine)?.system?)
    }

    pub(crate) fn system_disk_mut(&mut self, machine: MachineId) -> Option<&mut Written> {
        let id = self.run(machine)?.system?;
        self.disks.get_mut(&id)
    }

    pub(crate) fn schedule(&mut self, machine: MachineId, after: u64, event: Event) {
        let Some(boot) = self.machines.get(&machine).map(|machine| machine.boot) else { return };
        let due = Due { machine, boot, event };
        self.events.entry(self.clock + after).or_default().push(due);
    }

    /// The same, a little earlier or later.
    pub(crate) fn schedule_about(&mut self, machine: MachineId, after: u64, event: Event) {
        let after = self.random.about(after);
        self.schedule(machine, after, event);
    }

    fn happen(&mut self, due: Due) {
        let Due { machine, boot, event } = due;
        if self.machines.get(&machine).is_some_and(|machine| machine.on && machine.boot == boot) {
            self.boot_event(machine, event);
            self.settle(machine);
            self.tell_watchers(machine);
        }
    }
}
