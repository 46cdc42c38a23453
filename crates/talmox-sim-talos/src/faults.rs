//! What goes wrong with nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::hardware::MachineId;

/// Mishaps of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    machines: BTreeMap<MachineId, Vec<Trouble>>,
    flapping: BTreeMap<IpAddr, Flapping>,
}

/// Something wrong with a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// It is on, and nothing happens.
    NeverBoots,
    /// It comes up at another address than it was told.
    WrongAddress(IpAddr),
}

/// The API is up for so long, then down for so long, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flapping {
    pub up: u64,
    pub down: u64,
}

impl Faults {
    /// Something goes wrong with a machine from now on.
    pub fn trouble(&mut self, machine: MachineId, trouble: Trouble) {
        self.machines.entry(machine).or_default().push(trouble);
    }

    /// Nothing is wrong with a machine any more.
    pub fn mend(&mut self, machine: MachineId) {
        self.machines.remove(&machine);
    }

    /// The API at an address comes and goes.
    pub fn flap(&mut self, address: IpAddr, flapping: Flapping) {
        self.flapping.insert(address, flapping);
    }

    fn of(&self, machine: MachineId) -> impl Iterator<Item = &Trouble> {
        self.machines.get(&machine).into_iter().flatten()
    }

    pub(crate) fn never_boots(&self, machine: MachineId) -> bool {
        self.of(machine).any(|trouble| *trouble == Trouble::NeverBoots)
    }

    pub(crate) fn wrong_address(&self, machine: MachineId) -> Option<IpAddr> {
        self.of(machine).find_map(|trouble| match trouble {
            Trouble::WrongAddress(address) => Some(*address),
            Trouble::NeverBoots => None,
        })
    }

    pub(crate) fn is_flapping(&self, now: u64, address: IpAddr) -> bool {
        self.flapping.get(&address).is_some_and(|Flapping { up, down }| now % (up + down).max(1) >= *up)
    }
}
