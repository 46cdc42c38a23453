//! When each pair was sent: UPIDs carry the time of their calls to a hundredth of a second; the rest lies between.

use std::collections::{BTreeMap, BTreeSet};

use super::data::Pair;

/// Between two calls of the recorder, in milliseconds: it sat on the host itself and read quickly.
const STEP: u64 = 8;
/// Groups were not always recorded in the order of their names; one that is older than the time now is moved by whole
/// periods of the status broadcast, so that what depends on it stays.
const SHIFT: u64 = 10_000;

#[derive(Debug)]
pub(crate) struct Timeline {
    /// Unix milliseconds at boot.
    pub(crate) epoch: u64,
    anchors: BTreeMap<usize, u64>,
    group_of: BTreeMap<usize, String>,
    pauses: BTreeSet<usize>,
    first_of_group: BTreeMap<String, (usize, u64)>,
    offsets: BTreeMap<String, u64>,
    last_create: u64,
}

/// Hundredths of a second since boot, and Unix seconds.
pub(crate) fn times(upid: &str) -> Option<(u64, u64)> {
    let mut parts = upid.split(':').skip(3);
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((hex(parts.next()?)?, hex(parts.next()?)?))
}

impl Timeline {
    pub(crate) fn new(pairs: &[(usize, &Pair)]) -> Self {
        let mut anchors = BTreeMap::new();
        let mut first_of_group: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        let mut group_of = BTreeMap::new();
        let mut epoch = 1_700_000_000_000;
        let after_sleep = pairs.iter().filter(|(_, pair)| pair.seconds_after_create.is_some());
        let pauses = after_sleep.map(|(number, _)| *number).collect();
        for (number, pair) in pairs {
            let Some((pstart, start)) = pair.new_task().and_then(times) else { continue };
            if anchors.is_empty() {
                epoch = start * 1000 - (pstart * 10).min(start * 1000);
            }
            anchors.insert(*number, pstart * 10);
            group_of.insert(*number, pair.group.clone());
            first_of_group.entry(pair.group.clone()).or_insert((*number, pstart * 10));
        }
        Self { epoch, anchors, group_of, pauses, first_of_group, offsets: BTreeMap::new(), last_create: 0 }
    }

    /// The last known time at or before a pair of the group, and the first one after it.
    pub(crate) fn around(&self, number: usize, group: &str) -> (Option<u64>, Option<u64>) {
        let own = |(at, _): &(&usize, &u64)| self.group_of.get(at).is_some_and(|name| name == group);
        let before = self.anchors.range(..=number).rev().find(own).map(|(_, time)| *time);
        let after = self.anchors.range(number + 1..).find(own).map(|(_, time)| *time);
        (before, after)
    }

    pub(crate) fn anchor(&self, number: usize) -> Option<u64> {
        self.anchors.get(&number).copied()
    }

    /// Calls between two known times lie evenly between them.
    fn between(&self, number: usize, group: &str, offset: u64, now: u64) -> u64 {
        let next = self
            .anchors
            .range(number..)
            .next()
            .filter(|(at, _)| self.group_of.get(at).is_some_and(|own| own == group));
        // The recorder slept before such a pair, and hurried until then.
        let pause = self.pauses.range(number..).next();
        match next {
            Some((at, _)) if pause.is_some_and(|pause| pause <= at) => now + STEP,
            Some((at, time)) if time + offset > now => {
                let steps = u64::try_from(at - number).unwrap_or_default() + 1;
                now + ((time + offset - now) / steps).max(1)
            }
            Some(_) => now + 1,
            None => now + STEP,
        }
    }

    /// When to send the pair; never before `now`.
    pub(crate) fn next(&mut self, number: usize, pair: &Pair, now: u64) -> u64 {
        let step = now + STEP;
        if let Some(seconds) = pair.seconds_after_create {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
            return step.max(self.last_create + (seconds * 1000.0) as u64);
        }
        let first = self.first_of_group.get(&pair.group).copied();
        let offset = *self.offsets.entry(pair.group.clone()).or_insert_with(|| match first {
            Some((_, anchor)) if anchor < now => (now - anchor).div_ceil(SHIFT) * SHIFT,
            _ => 0,
        });
        let at = match (self.anchors.get(&number), first) {
            (Some(anchor), _) => (anchor + offset).max(now),
            // Before the first time of a group only the distance to it is known.
            (None, Some((first, anchor))) if number < first => {
                let distance = u64::try_from(first - number).unwrap_or_default() * STEP;
                (anchor + offset).saturating_sub(distance).max(now + 1)
            }
            _ => self.between(number, &pair.group, offset, now),
        };
        if pair.claims().is_some() {
            self.last_create = at;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upids_tell_the_time() {
        let upid = "UPID:pve1:000000EE:00027BF7:6AF96AED:qmcreate:901:root@pam!full:";
        assert_eq!(times(upid), Some((162_807, 1_794_730_733)));
    }
}
