//! Where in a patch something is said.

use talmox_yaml::{Node, NodeKind};

use super::{Change, Part, Patch};
use crate::fault::{Path, Place, Source};

impl Patch {
    /// The place of a field, by the document's name as problems tell it and the path in there; none if the patch does not
    /// say it. Positions in lists are those of the merged config, so a list is as near as this gets.
    pub fn place_of(&self, document: &str, path: &str) -> Option<Place> {
        let Change::Documents(parts) = &self.change else { return None };
        parts.iter().find_map(|part| {
            let (index, id) = match part {
                Part::Merge { index, document } => (*index, document.id().to_string()),
                Part::Delete { index, kind, name, .. } => (*index, super::describe(kind, name.as_deref())),
            };
            let (node, reached) = walk(self.nodes.get(index).filter(|_| id == document)?, path)?;
            Some(Source { name: &self.name, text: &self.text }.place(node.place(), &reached))
        })
    }

    /// The place of the first document of a kind.
    pub fn place_of_kind(&self, kind: &str) -> Option<Place> {
        let Change::Documents(parts) = &self.change else { return None };
        let index = parts.iter().find_map(|part| match part {
            Part::Merge { index, document } if document.kind() == kind => Some(*index),
            Part::Merge { .. } | Part::Delete { .. } => None,
        })?;
        Some(self.place(index, &Path::default()))
    }
}

/// Follows a path; keys may have dots in them, so the longest that fits is taken.
fn walk<'a>(root: &'a Node, path: &str) -> Option<(&'a Node, Path)> {
    let (mut node, mut reached, mut rest) = (root, Path::default(), path);
    while !rest.is_empty() && !rest.starts_with('[') {
        let NodeKind::Mapping(entries) = &node.kind else { return None };
        let fits = |key: &str| {
            rest.strip_prefix(key).is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']))
        };
        let keys =
            entries.iter().filter_map(|entry| Some((entry.key.as_scalar()?.text.as_str(), &entry.value)));
        let (key, value) = keys.filter(|(key, _)| fits(key)).max_by_key(|(key, _)| key.len())?;
        reached = reached.key(key);
        rest = &rest[key.len()..];
        rest = rest.strip_prefix('.').unwrap_or(rest);
        node = value;
    }
    Some((node, reached))
}
