//! What a transport keeps: the simulated cluster, what is to go wrong with it, and what was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use talmox_sim::{FaultPlan, World};
use talmox_sim_talos::{Fetched, MachineId, Nodes, proxmox};

use super::{ClientId, Web};
use crate::{Call, CallLog, Fault, Watched};

pub(super) struct State {
    pub(super) world: World,
    /// The web server of the client; without one nobody answers machines.
    pub(super) web: Option<Web>,
    /// What runs in its machines, if anybody asked for that.
    pub(super) nodes: Option<Nodes>,
    pub(super) plan: FaultPlan<Fault>,
    pub(super) log: CallLog,
    /// What befalls workers, by time.
    pub(super) later: BTreeMap<u64, Vec<(String, Fate)>>,
    /// Clients a fault killed.
    pub(super) dead: BTreeSet<ClientId>,
    pub(super) struck: usize,
    /// If somebody watches over etcd.
    pub(super) watched: Option<Watched>,
    /// How many calls each client made.
    pub(super) asked: BTreeMap<ClientId, usize>,
}

/// How a worker ends before its time.
pub(super) enum Fate {
    Dies,
    Fails(String),
}

impl Fate {
    pub(super) fn of(fault: &Fault) -> Option<(Duration, Self)> {
        match fault {
            Fault::KillWorker { after } => Some((*after, Self::Dies)),
            Fault::FailWorker { after, words } => Some((*after, Self::Fails(words.clone()))),
            Fault::Reply { .. }
            | Fault::ReplyLost
            | Fault::BodyCut
            | Fault::ReplyShortened
            | Fault::Hang { .. }
            | Fault::Refused
            | Fault::HostDown { .. }
            | Fault::Simulated(_)
            | Fault::Status { .. }
            | Fault::Node(_)
            | Fault::KillClient { .. } => None,
        }
    }
}

impl State {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            web: None,
            nodes: None,
            plan: FaultPlan::default(),
            log: CallLog::default(),
            later: BTreeMap::new(),
            dead: BTreeSet::new(),
            struck: 0,
            watched: None,
            asked: BTreeMap::new(),
        }
    }

    /// Lets everything happen that is due.
    pub(super) fn catch_up(&mut self, now: u64) {
        while let Some(entry) = self.later.first_entry().filter(|entry| *entry.key() <= now) {
            let (at, befallen) = entry.remove_entry();
            self.advance_to(at);
            for (upid, fate) in befallen {
                self.struck += usize::from(self.world.task_status(&upid) == Some(None));
                match fate {
                    Fate::Dies => self.world.kill_worker(&upid),
                    Fate::Fails(words) => self.world.fail_worker(&upid, &words),
                }
            }
        }
        self.advance_to(now);
        self.answer_machines(now);
    }

    /// Hands machines the files they wait for.
    fn answer_machines(&mut self, now: u64) {
        let (Some(nodes), Some(web)) = (&mut self.nodes, &self.web) else { return };
        for wanted in nodes.wanted() {
            let fetched = if self.dead.is_empty() {
                web(&wanted.url)
            } else {
                Fetched::Failed("connection refused".to_owned())
            };
            nodes.fetched(&wanted, fetched, now);
        }
    }

    fn advance_to(&mut self, now: u64) {
        match &mut self.nodes {
            Some(nodes) => {
                proxmox::advance(&mut self.world, nodes, now);
            }
            None => self.world.advance_to(now),
        }
        if let (Some(watched), Some(nodes)) = (&mut self.watched, &self.nodes) {
            watched.look(nodes);
        }
    }

    /// Notes for whoever watches which machine a call tells to do something.
    pub(super) fn note_order(&mut self, call: &Call) {
        let (Some(watched), Some(nodes)) = (&mut self.watched, &self.nodes) else { return };
        let machine = match call.method {
            "GET" => None,
            "CALL" => {
                let address: Option<std::net::IpAddr> = call.host.parse().ok();
                nodes.addresses().into_iter().find(|(one, _)| Some(*one) == address).map(|(_, id)| id)
            }
            // Notes and leases are written into a VM's configuration while it runs.
            "DELETE" => vm_of(&call.path).map(MachineId),
            _ if call.path.contains("/status/") || call.path.ends_with("/migrate") => {
                vm_of(&call.path).map(MachineId)
            }
            _ => None,
        };
        if let Some(machine) = machine {
            watched.order(machine, nodes.clock());
        }
    }

    /// Machines and what runs in them hear of each other.
    pub(super) fn link(&mut self) {
        if let Some(nodes) = &mut self.nodes {
            proxmox::link(&mut self.world, nodes);
        }
    }
}

/// The VM a path is about.
pub(super) fn vm_of(path: &str) -> Option<u32> {
    path.split_once("/qemu/")?.1.split('/').next()?.parse().ok()
}
