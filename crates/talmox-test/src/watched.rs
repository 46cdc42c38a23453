//! An eye on etcd: which members went, and by whose doing.
//!
//! What is looked at is the simulator's own state, not what anybody says of it, each time anything happens. A member that went is the
//! clients' doing unless others took its machine ([`MemoryTransport::others_take`]). Nobody can be blamed for what others did
//! after the members were last asked: so long a client may take from its look to its call.
//!
//! [`MemoryTransport::others_take`]: crate::MemoryTransport::others_take

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use talmox_sim_talos::{MachineId, Nodes, Quorum};

/// Milliseconds from asking the members to the call that takes one of them down.
const GRACE: u64 = 20_000;

/// What was seen of etcd, each time anything happened.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// How often it was looked at.
    pub looks: u64,
    /// How often a member went.
    pub falls: u64,
    /// How often others took a quorum away.
    pub lost_by_others: u64,
    /// What clients did that must not be done.
    pub faults: Vec<Fall>,
    /// The machine each member was last seen on.
    homes: BTreeMap<u64, MachineId>,
    down: BTreeMap<u64, Down>,
    /// Machines others took, until they are back.
    taken: BTreeMap<MachineId, Taken>,
    /// When a machine was last told to do something.
    orders: BTreeMap<MachineId, u64>,
    quorate: BTreeSet<u64>,
}

/// A member that was taken down though it should not have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fall {
    /// Milliseconds since the cluster's hosts booted.
    pub at: u64,
    /// The machine; none if a member left for good.
    pub machine: Option<MachineId>,
    pub lost_quorum: bool,
    /// Machines whose members were away by then.
    pub away: Vec<MachineId>,
}

impl fmt::Display for Fall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, machine, lost_quorum, away } = self;
        let what = if *lost_quorum { "a quorum was lost" } else { "a second member was taken down" };
        write!(f, "{what} at {at} ms: {machine:?}, while {away:?} were away")
    }
}

#[derive(Clone, Copy, Debug)]
struct Down {
    since: u64,
    by_others: bool,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    at: u64,
    /// Whether its member has gone since.
    went: bool,
}

impl Watched {
    pub(crate) fn look(&mut self, nodes: &Nodes) {
        self.looks += 1;
        let quorums = nodes.quorums();
        // Who left for good is not away any more.
        self.down.retain(|member, _| quorums.iter().any(|quorum| quorum.voters.contains_key(member)));
        for quorum in &quorums {
            self.look_at(quorum, nodes.clock());
        }
    }

    pub(crate) fn order(&mut self, machine: MachineId, now: u64) {
        self.orders.insert(machine, now);
    }

    /// Others take a machine. One whose member is away already stays on the account of who took it.
    pub(crate) fn others_take(&mut self, machine: MachineId, nodes: &Nodes) {
        let lives = |quorum: &Quorum| quorum.voters.values().any(|home| *home == Some(machine));
        if nodes.quorums().iter().any(lives) {
            self.taken.insert(machine, Taken { at: nodes.clock(), went: false });
        }
    }

    fn look_at(&mut self, quorum: &Quorum, now: u64) {
        let mut gone = Vec::new();
        for (member, home) in &quorum.voters {
            match home {
                Some(machine) => self.lives(*member, *machine),
                None => gone.extend(self.is_away(*member, now)),
            }
        }
        self.falls += gone.len() as u64;
        let had = !self.quorate.insert(quorum.cluster);
        let lost = had && !quorum.is_there();
        if !quorum.is_there() {
            self.quorate.remove(&quorum.cluster);
        }
        let ours: Vec<u64> = gone.iter().copied().filter(|member| self.is_blamed(*member)).collect();
        if lost && !gone.is_empty() && ours.is_empty() {
            self.lost_by_others += 1;
        } else if lost {
            self.accuse(ours.first().copied(), now, true);
        } else if let Some(second) = ours.iter().find(|member| self.is_second(**member)) {
            self.accuse(Some(*second), now, false);
        }
    }

    fn lives(&mut self, member: u64, machine: MachineId) {
        self.homes.insert(member, machine);
        self.down.remove(&member);
        if self.taken.get(&machine).is_some_and(|taken| taken.went) {
            self.taken.remove(&machine);
        }
    }

    /// The member, if it was there until now.
    fn is_away(&mut self, member: u64, now: u64) -> Option<u64> {
        let home = *self.homes.get(&member)?;
        let taken = self.taken.get_mut(&home);
        let by_others = taken.is_some();
        if let Some(taken) = taken {
            taken.went = true;
        }
        if self.down.contains_key(&member) {
            return None;
        }
        self.down.insert(member, Down { since: now, by_others });
        Some(member)
    }

    /// When a member's machine was last told to do something.
    fn ordered(&self, member: u64) -> u64 {
        let home = self.homes.get(&member);
        home.and_then(|home| self.orders.get(home)).copied().unwrap_or_default()
    }

    /// Whether a member went by the clients' doing, who could have known better.
    fn is_blamed(&self, member: u64) -> bool {
        let Some(down) = self.down.get(&member).filter(|down| !down.by_others) else { return false };
        let known = self.ordered(member).min(down.since).saturating_sub(GRACE);
        !self.taken.values().any(|taken| taken.at >= known)
    }

    /// Whether another was away when it was told to go.
    fn is_second(&self, member: u64) -> bool {
        let known = self.ordered(member).saturating_sub(GRACE);
        self.down.iter().any(|(other, down)| *other != member && (!down.by_others || down.since < known))
    }

    fn accuse(&mut self, member: Option<u64>, at: u64, lost_quorum: bool) {
        let machine = member.and_then(|member| self.homes.get(&member).copied());
        let away = self.down.keys().filter(|one| Some(**one) != member);
        let away = away.filter_map(|one| self.homes.get(one).copied()).collect();
        self.faults.push(Fall { at, machine, lost_quorum, away });
    }
}
