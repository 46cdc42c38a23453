//! States of the environment that no call sets (a lock put on by an administrator, a host that went down), as the pairs
//! show them. A pair must not prove its own precondition: its state comes from the pairs before it, or from its note. Where
//! only its own reply tells, that reply is believed so that later pairs find the right state, and the pair is not counted.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_sim::Reach;

use super::data::Pair;

#[derive(Clone, Debug)]
struct Sighting<State> {
    at: usize,
    state: State,
    /// Other pairs show it too, such as those that read the task this one started.
    by_others: bool,
}

#[derive(Debug)]
pub(crate) struct Sightings<Key, State> {
    seen: BTreeMap<Key, Vec<Sighting<State>>>,
}

impl<Key, State> Default for Sightings<Key, State> {
    fn default() -> Self {
        Self { seen: BTreeMap::new() }
    }
}

/// The state before a pair, and whether nothing but the pair itself tells.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict<State> {
    pub(crate) state: State,
    pub(crate) self_evident: bool,
}

impl<Key: Ord, State: Clone + PartialEq> Sightings<Key, State> {
    pub(crate) fn add(&mut self, key: Key, at: usize, state: State, by_others: bool) {
        self.seen.entry(key).or_default().push(Sighting { at, state, by_others });
    }

    fn last(&self, key: &Key, before: usize) -> Option<&State> {
        let seen = self.seen.get(key)?;
        seen.iter().rev().find(|one| one.at < before).map(|one| &one.state)
    }

    /// Nothing, if no pair up to this one says anything. The note is asked whether it tells of a state.
    pub(crate) fn judge(
        &self,
        key: &Key,
        at: usize,
        usual: &State,
        noted: impl Fn(&State) -> Noted,
    ) -> Option<Verdict<State>> {
        let seen = self.seen.get(key)?;
        let before = self.last(key, at).unwrap_or(usual);
        let sure = |state: &State| Some(Verdict { state: state.clone(), self_evident: false });
        let Some(own) = seen.iter().find(|one| one.at == at) else { return sure(before) };
        if own.state == *before || own.by_others {
            return sure(&own.state);
        }
        match noted(&own.state) {
            Noted::Agrees => sure(&own.state),
            Noted::Contradicts => sure(before),
            Noted::Silent => Some(Verdict { state: own.state.clone(), self_evident: true }),
        }
    }
}

/// What a note says of a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Noted {
    Agrees,
    Contradicts,
    Silent,
}

/// A lock by name, or none.
pub(crate) type Lock = Option<String>;

pub(crate) fn noted_lock(note: &str, lock: &Lock) -> Noted {
    let says = |words: [&str; 3]| words.iter().any(|word| note.contains(word));
    let told = if says(["unlocked", "lock is gone", "not locked"]) {
        Some(false)
    } else if says(["locked", "lock is set", "under a lock"]) {
        Some(true)
    } else {
        None
    };
    match told {
        None => Noted::Silent,
        Some(held) if held == lock.is_some() => Noted::Agrees,
        Some(_) => Noted::Contradicts,
    }
}

pub(crate) fn noted_reach(note: &str, reach: Reach) -> Noted {
    let says = |words: &[&str]| words.iter().any(|word| note.contains(word));
    let told = if says(&["is back", "are back", "up again"]) {
        Reach::Up
    } else if says(&["proxy is down", "proxy down", "connection refused"]) {
        Reach::ProxyDown
    } else if says(&["link", "dead", "unreachable", "no route", "is down", "powered off"]) {
        Reach::Unreachable
    } else {
        return Noted::Silent;
    };
    if told == reach { Noted::Agrees } else { Noted::Contradicts }
}

/// What the pairs show of locks that no call can have set.
pub(crate) fn locks(pairs: &[(usize, &Pair)], exits: &BTreeMap<String, String>) -> Sightings<u32, Lock> {
    let mut found = Sightings::default();
    for (number, pair) in pairs {
        if let Some(vmid) = pair.claims().filter(|_| pair.new_task().is_some()) {
            found.add(vmid, *number, None, true);
        }
        let Some(vmid) = pair.vm() else { continue };
        if let Some((lock, by_others)) = lock_shown(pair, exits) {
            found.add(vmid, *number, lock, by_others);
        }
    }
    found
}

/// Does this pair show that its VM is locked (and how), or that it is not; and does a task it started tell?
fn lock_shown(pair: &Pair, exits: &BTreeMap<String, String>) -> Option<(Lock, bool)> {
    let locked = |text: &str| {
        let (_, rest) = text.split_once("VM is locked (")?;
        // These are set by calls.
        rest.split(')').next().filter(|lock| !matches!(*lock, "clone" | "create")).map(str::to_owned)
    };
    let exit = pair.new_task().and_then(|upid| exits.get(upid)).map(String::as_str);
    if let Some(lock) = locked(&pair.response.reason) {
        return Some((Some(lock), false));
    }
    if let Some(lock) = exit.and_then(locked) {
        return Some((Some(lock), true));
    }
    let parts = pair.parts();
    let action = parts.get(4..).unwrap_or_default();
    let reads = matches!(action, ["config"] | ["status", "current"]) && pair.request.method == "GET";
    if reads && pair.response.status == 200 {
        let lock = pair.response.body.pointer("/data/lock").and_then(Value::as_str);
        let by_call = matches!(lock, Some("clone" | "create"));
        return (!by_call).then(|| (lock.map(str::to_owned), false));
    }
    let checks_lock = matches!(
        action,
        ["config" | "snapshot" | "clone" | "template" | "resize", ..] | ["status", "start"] | []
    );
    if !checks_lock || pair.request.method == "GET" {
        return None;
    }
    let accepted = pair.request.method == "PUT" && pair.response.status == 200 && pair.new_task().is_none();
    if exit == Some("OK") { Some((None, true)) } else { accepted.then_some((None, false)) }
}

/// What the replies of the hop and the listings of hosts show of who can be reached.
pub(crate) fn reaches(pairs: &[(usize, &Pair)]) -> Sightings<String, Reach> {
    let mut found = Sightings::default();
    for (number, pair) in pairs {
        if let Some(host) = pair.host() {
            let reach = match (pair.response.status, pair.response.reason.as_str()) {
                (595, "Connection refused") => Some(Reach::ProxyDown),
                (595, _) => Some(Reach::Unreachable),
                (200, _) => Some(Reach::Up),
                _ => None,
            };
            if let Some(reach) = reach {
                found.add(host.to_owned(), *number, reach, false);
            }
        }
        for (name, online) in listed_hosts(pair) {
            // A host whose API is down still counts as online.
            let reach = match (online, found.last(&name, *number)) {
                (false, _) => Reach::Unreachable,
                (true, Some(Reach::ProxyDown)) => Reach::ProxyDown,
                (true, _) => Reach::Up,
            };
            found.add(name, *number, reach, false);
        }
    }
    found
}

/// Hosts a listing shows, and whether they are online.
fn listed_hosts(pair: &Pair) -> Vec<(String, bool)> {
    let (name, state) = match pair.parts()[..] {
        ["cluster", "status"] => ("name", "online"),
        ["nodes"] | ["cluster", "resources"] => ("node", "status"),
        _ => return Vec::new(),
    };
    let entries = pair.response.body["data"].as_array().into_iter().flatten();
    let hosts = entries.filter(|entry| entry["type"] == "node");
    let online = |entry: &Value| match entry[state].as_str() {
        Some("online") => Some(true),
        Some("offline") => Some(false),
        Some(_) => None,
        None => entry[state].as_u64().map(|flag| flag == 1),
    };
    hosts.filter_map(|entry| Some((entry[name].as_str()?.to_owned(), online(entry)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sightings() -> Sightings<u32, Lock> {
        let mut seen = Sightings::default();
        seen.add(1, 2, Some("backup".into()), false);
        seen.add(1, 3, Some("backup".into()), false);
        seen.add(1, 6, None, true);
        seen
    }

    fn judge(at: usize, note: &str) -> Verdict<Lock> {
        sightings().judge(&1, at, &None, |lock| noted_lock(note, lock)).unwrap()
    }

    #[test]
    fn a_pair_alone_proves_nothing_for_itself() {
        assert!(judge(2, "read").self_evident);
        assert!(!judge(2, "read a locked VM").self_evident);
        assert!(!judge(3, "read").self_evident);
        assert!(!judge(6, "start").self_evident);
    }

    #[test]
    fn a_state_stays_until_something_else_is_seen() {
        assert_eq!(judge(1, "").state, None);
        assert_eq!(judge(4, "").state.as_deref(), Some("backup"));
        assert_eq!(judge(7, "").state, None);
    }

    #[test]
    fn notes_tell_of_hosts() {
        assert_eq!(noted_reach("its proxy is down", Reach::ProxyDown), Noted::Agrees);
        assert_eq!(noted_reach("after the link is back", Reach::Unreachable), Noted::Contradicts);
        assert_eq!(noted_reach("status", Reach::Up), Noted::Silent);
    }
}
