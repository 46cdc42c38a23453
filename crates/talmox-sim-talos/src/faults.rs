//! What goes wrong: with machines, and with calls.
//!
//! Rules about calls are asked in the order they were added; the first that is due decides. A rule counts the calls it
//! matches, so "the third Bootstrap" and "the 17th call of all" are said the same way.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::hardware::{Image, MachineId};
use crate::wire::Code;

/// Mishaps of machines and of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    machines: BTreeMap<MachineId, Vec<Trouble>>,
    flapping: BTreeMap<IpAddr, Flapping>,
    rules: Vec<Rule>,
}

/// Something wrong with a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// It is on, and nothing happens.
    NeverBoots,
    /// It comes up at another address than it was told.
    WrongAddress(IpAddr),
    /// Installers take so many times as long.
    SlowInstall(u64),
    /// It loses power in the middle of an installation.
    DiesInInstall,
    /// It loses power in the middle of an upgrade.
    DiesInUpgrade,
    /// An installer ends with this exit code and has changed nothing.
    InstallerFails(i32),
    /// This version, or what is of this schematic, does not come up on it.
    BootFails(String),
    /// This version, or what is of this schematic, comes up and never gets well: its kubelet does not.
    Sick(String),
    /// Its clock never agrees with a time server.
    ClockOff,
    /// The program of this service, `etcd` or `kubelet`, ends as soon as it was started, and is started again every five seconds.
    Crashes(String),
    /// The data of its etcd is lost once its part of Kubernetes runs and the other members can do without it.
    LosesEtcd,
}

/// The API is up for so long, then down for so long, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flapping {
    pub up: u64,
    pub down: u64,
}

/// A mishap of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallFault {
    /// Nobody listens, and nothing happens.
    Refuse,
    /// It is not carried out, and the connection breaks: the caller cannot tell this from a reply that was lost.
    Break,
    /// It is carried out, and the connection breaks before the reply.
    LoseReply,
    /// It is not carried out, and nothing is ever answered.
    Hang,
    /// It is carried out, and the caller is left without a word and with the connection open.
    HangAfter,
    /// It is carried out and answered so much later, in milliseconds. Streams that go on are not held back.
    Slow { by: u64 },
    /// It is answered with this; whether it is carried out all the same is in `happens`. The code is gRPC's of a call to
    /// Talos, and HTTP's of a request to Kubernetes.
    Answer { code: u16, message: String, happens: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rule {
    /// A path in which `*` stands for any text.
    path: String,
    to: Option<IpAddr>,
    /// The first of the matching calls that goes wrong, from 1, and how many do.
    from: u64,
    times: u64,
    seen: u64,
    fault: CallFault,
}

impl CallFault {
    /// An answer with a code.
    pub fn answer(code: Code, message: &str) -> Self {
        Self::Answer { code: u16::from(code as u8), message: message.to_owned(), happens: false }
    }
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

    /// The API at an address stays where it is.
    pub fn steady(&mut self, address: IpAddr) {
        self.flapping.remove(&address);
    }

    /// The n-th call, counted from 1, to a path in which `*` stands for any text goes wrong, and `times - 1` after it.
    pub fn call(&mut self, path: &str, nth: u64, times: u64, fault: CallFault) {
        self.add(path, None, nth, times, fault);
    }

    /// The same for calls to one address.
    pub fn call_to(&mut self, to: IpAddr, path: &str, nth: u64, times: u64, fault: CallFault) {
        self.add(path, Some(to), nth, times, fault);
    }

    fn add(&mut self, path: &str, to: Option<IpAddr>, nth: u64, times: u64, fault: CallFault) {
        self.rules.push(Rule { path: path.to_owned(), to, from: nth.max(1), times, seen: 0, fault });
    }

    /// What goes wrong with a call; every rule counts it.
    pub(crate) fn due(&mut self, to: IpAddr, path: &str) -> Option<CallFault> {
        let mut due = None;
        for rule in &mut self.rules {
            if rule.to.is_some_and(|wanted| wanted != to) || !fits(&rule.path, path) {
                continue;
            }
            rule.seen += 1;
            let hit = rule.seen >= rule.from && rule.seen - rule.from < rule.times;
            if hit && due.is_none() {
                due = Some(rule.fault.clone());
            }
        }
        due
    }

    fn of(&self, machine: MachineId) -> impl Iterator<Item = &Trouble> {
        self.machines.get(&machine).into_iter().flatten()
    }

    fn has(&self, machine: MachineId, wanted: &Trouble) -> bool {
        self.of(machine).any(|trouble| trouble == wanted)
    }

    /// A mishap that happens once.
    fn take(&mut self, machine: MachineId, wanted: &Trouble) -> bool {
        let Some(troubles) = self.machines.get_mut(&machine) else { return false };
        let at = troubles.iter().position(|trouble| trouble == wanted);
        at.map(|at| troubles.remove(at)).is_some()
    }

    pub(crate) fn never_boots(&self, machine: MachineId) -> bool {
        self.has(machine, &Trouble::NeverBoots)
    }

    pub(crate) fn clock_is_off(&self, machine: MachineId) -> bool {
        self.has(machine, &Trouble::ClockOff)
    }

    pub(crate) fn dies_in_install(&mut self, machine: MachineId) -> bool {
        self.take(machine, &Trouble::DiesInInstall)
    }

    pub(crate) fn dies_in_upgrade(&mut self, machine: MachineId) -> bool {
        self.take(machine, &Trouble::DiesInUpgrade)
    }

    pub(crate) fn loses_etcd(&mut self, machine: MachineId) -> bool {
        self.take(machine, &Trouble::LosesEtcd)
    }

    pub(crate) fn crashes(&self, machine: MachineId, service: &str) -> bool {
        self.has(machine, &Trouble::Crashes(service.to_owned()))
    }

    pub(crate) fn fails_to_boot(&self, machine: MachineId, image: &Image) -> bool {
        let names = [&image.version, &image.schematic];
        names.into_iter().any(|name| self.has(machine, &Trouble::BootFails(name.clone())))
    }

    pub(crate) fn is_sick(&self, machine: MachineId, image: &Image) -> bool {
        let names = [&image.version, &image.schematic];
        names.into_iter().any(|name| self.has(machine, &Trouble::Sick(name.clone())))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "one kind of trouble is looked for")]
    pub(crate) fn wrong_address(&self, machine: MachineId) -> Option<IpAddr> {
        self.of(machine).find_map(|trouble| match trouble {
            Trouble::WrongAddress(address) => Some(*address),
            _ => None,
        })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "one kind of trouble is looked for")]
    pub(crate) fn install_factor(&self, machine: MachineId) -> u64 {
        let factor = self.of(machine).find_map(|trouble| match trouble {
            Trouble::SlowInstall(factor) => Some(*factor),
            _ => None,
        });
        factor.unwrap_or(1)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "one kind of trouble is looked for")]
    pub(crate) fn installer_exit(&self, machine: MachineId) -> i32 {
        let code = self.of(machine).find_map(|trouble| match trouble {
            Trouble::InstallerFails(code) => Some(*code),
            _ => None,
        });
        code.unwrap_or_default()
    }

    pub(crate) fn is_flapping(&self, now: u64, address: IpAddr) -> bool {
        self.flapping.get(&address).is_some_and(|Flapping { up, down }| now % (up + down).max(1) >= *up)
    }
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, rest)) => text.strip_prefix(before).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| fits(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_should() {
        for (pattern, text, expected) in [
            ("*", "/a/B", true),
            ("*/Bootstrap", "/machine.MachineService/Bootstrap", true),
            ("*/Bootstrap", "/machine.MachineService/Version", false),
            ("/machine.*/Etcd*", "/machine.MachineService/EtcdStatus", true),
            ("/a", "/ab", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn rules_count_what_they_match() {
        let mut faults = Faults::default();
        let to = "10.0.0.1".parse().unwrap();
        faults.call("*/Version", 2, 1, CallFault::Hang);
        let mut due = |path: &str| faults.due(to, path);
        assert_eq!(due("/m/Version"), None);
        assert_eq!(due("/m/Hostname"), None);
        assert_eq!(due("/m/Version"), Some(CallFault::Hang));
        assert_eq!(due("/m/Version"), None);
    }
}
