//! The entries of a mapping: merge keys unfolded, unknown keys explained.

use talmox_yaml::{Entry, Node, NodeKind};

use super::Reading;
use crate::problem::{Code, Problem};

/// An entry, and whether it came by a merge key (then anything written out beats it).
pub struct Found<'n> {
    pub entry: &'n Entry,
    pub merged: bool,
}

/// The entries of a mapping, written ones first, then those of its merge keys in order.
pub(super) fn entries<'n>(entries: &'n [Entry], reading: &mut Reading<'_>) -> Vec<Found<'n>> {
    let is_merge = |entry: &&Entry| entry.key.as_scalar().is_some_and(|key| key.text == "<<");
    let mut found: Vec<Found<'n>> =
        entries.iter().filter(|e| !is_merge(e)).map(|entry| Found { entry, merged: false }).collect();
    for merge in entries.iter().filter(is_merge) {
        merge_into(&mut found, &merge.value, reading);
    }
    found
}

fn merge_into<'n>(found: &mut Vec<Found<'n>>, value: &'n Node, reading: &mut Reading<'_>) {
    match &value.kind {
        NodeKind::Mapping(entries) => {
            let inner = self::entries(entries, reading);
            found.extend(inner.into_iter().map(|inner| Found { merged: true, ..inner }));
        }
        NodeKind::Sequence(items) if items.iter().all(|i| matches!(i.kind, NodeKind::Mapping(_))) => {
            for item in items {
                merge_into(found, item, reading);
            }
        }
        NodeKind::Sequence(_) | NodeKind::Scalar(_) => {
            let location = reading.location(value);
            reading.report(
                Problem::error(Code::YamlMerge, "a merge key takes a mapping")
                    .at(location, "not a mapping")
                    .hint("<<: *name, where &name stands before a mapping"),
            );
        }
    }
}

/// Bytes of a word that may be a slip of a known one; those have less than fifty.
const LONGEST_WORD: usize = 200;

/// The closest of the known words, if it is close enough to be a slip.
pub fn suggest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    // Comparing takes memory of the length of both, multiplied.
    if word.len() > LONGEST_WORD {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let allowed = (word.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["proxmox_bridge", "proxmox_pool", "nodes", "cni"];
        assert_eq!(suggest("proxmox_brigde", known), Some("proxmox_bridge"));
        assert_eq!(suggest("Nodes", known), Some("nodes"));
        assert_eq!(suggest("cn", known), Some("cni"));
        assert_eq!(suggest("something_else", known), None);
        assert_eq!(suggest(&"n".repeat(1 << 24), known), None);
    }
}
