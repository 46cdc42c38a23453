//! When within its period a recorded host's status daemon ran: nobody wrote it down, but listings tell. A VM that others
//! know was broadcast since it was made; one they do not know was not.

use std::collections::BTreeMap;

use serde_json::Value;

use super::data::Pair;
use super::timeline::{Timeline, times};

const PERIOD: u64 = 10_000;
const STEP: u64 = 50;

/// A stretch of time with or without a broadcast.
struct Fact {
    from: u64,
    to: u64,
    seen: bool,
}

impl Fact {
    fn holds(&self, phase: u64) -> bool {
        let base = self.from - self.from % PERIOD + phase;
        let next = if base > self.from { base } else { base + PERIOD };
        (next < self.to) == self.seen
    }
}

/// The middle of the longest stretch of phases that agree with all listings; none if nothing is known.
pub(crate) fn broadcast_phase(pairs: &[(usize, &Pair)], clock: &Timeline, host: &str) -> Option<u64> {
    let facts = facts(pairs, clock, host);
    if facts.is_empty() {
        return None;
    }
    let phases: Vec<u64> = (0..PERIOD / STEP).map(|index| index * STEP).collect();
    let score = |phase: &u64| facts.iter().filter(|fact| fact.holds(*phase)).count();
    let best = phases.iter().map(score).max()?;
    let good: Vec<bool> = phases.iter().map(|phase| score(phase) == best).collect();
    let count = good.len();
    let mut longest = (0, 0);
    for start in 0..count {
        let length = (0..count).take_while(|offset| good[(start + offset) % count]).count();
        if length > longest.1 {
            longest = (start, length);
        }
    }
    phases.get((longest.0 + longest.1 / 2) % count).copied()
}

fn facts(pairs: &[(usize, &Pair)], clock: &Timeline, host: &str) -> Vec<Fact> {
    let mut made: BTreeMap<u64, u64> = BTreeMap::new();
    let outside = outside_creates(pairs);
    let mut facts = Vec::new();
    for (number, pair) in pairs {
        if let (Some(vmid), Some(at)) = (pair.claims(), clock.anchor(*number)) {
            made.insert(u64::from(vmid), at);
        }
        for entry in listed(pair).filter(|entry| entry["node"] == host) {
            let Some(vmid) = entry["vmid"].as_u64() else { continue };
            let Some(from) = made.get(&vmid).or_else(|| outside.get(&vmid)).copied() else { continue };
            let seen = entry["status"] != "unknown";
            let (before, after) = clock.around(*number, &pair.group);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
            let told = pair.seconds_after_create.map(|seconds| from + (seconds * 1000.0) as u64);
            let to = if seen { told.or(after) } else { before };
            facts.extend(to.filter(|to| *to > from).map(|to| Fact { from, to, seen }));
        }
    }
    facts
}

fn listed(pair: &Pair) -> impl Iterator<Item = &Value> {
    let entries = pair.response.body["data"].as_array().into_iter().flatten();
    entries.flat_map(|entry| {
        entry["members"].as_array().map_or_else(|| vec![entry], |members| members.iter().collect())
    })
}

/// VMs made outside the recording whose create task a list shows.
fn outside_creates(pairs: &[(usize, &Pair)]) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for (_, pair) in pairs {
        let entries = pair.response.body["data"].as_array().into_iter().flatten();
        for upid in
            entries.filter_map(|entry| entry["upid"].as_str()).filter(|upid| upid.contains(":qmcreate:"))
        {
            let vmid = upid.split(':').nth(6).and_then(|id| id.parse().ok());
            if let (Some(vmid), Some((pstart, _))) = (vmid, times(upid)) {
                found.insert(vmid, pstart * 10);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_holds_where_a_broadcast_falls_or_does_not() {
        let fact = |seen| Fact { from: 12_000, to: 15_000, seen };
        assert!(fact(true).holds(3_000) && !fact(true).holds(6_000));
        assert!(!fact(false).holds(3_000) && fact(false).holds(1_000));
    }
}
