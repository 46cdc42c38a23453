//! Where anchored values are in a tree that is still being built.
//!
//! An anchor is kept as a path, not as a copy of its value: anchors may be nested, and each copy would hold all those inside it.

use std::collections::HashMap;

use crate::{Entry, Node, NodeKind};

/// A collection that is still open, as far as paths go through it.
pub(crate) trait Children {
    /// The place the next child gets.
    fn next(&self) -> u32;
    /// A child that is finished.
    fn child(&self, place: u32) -> Option<&Node>;
}

/// The places to go through from the root. A key and its value have places of their own: `2n` and `2n + 1`.
type Path = Box<[u32]>;

/// Paths by the parser's number of an anchor.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    paths: HashMap<usize, Path>,
}

impl Anchors {
    /// Remembers where the node goes that is finished next.
    pub(crate) fn insert(&mut self, anchor: usize, open: &[impl Children]) {
        self.paths.insert(anchor, open.iter().map(Children::next).collect());
    }

    /// The value of an anchor; none while it is not finished.
    pub(crate) fn find<'t>(&self, anchor: usize, open: &'t [impl Children]) -> Option<&'t Node> {
        let path = self.paths.get(&anchor)?;
        for (level, place) in path.iter().enumerate() {
            // Not finished: what is looked for is further in.
            let Some(node) = open.get(level)?.child(*place) else { continue };
            return path[level + 1..].iter().try_fold(node, |node, place| finished_child(node, *place));
        }
        None
    }

    pub(crate) fn clear(&mut self) {
        self.paths.clear();
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let entry = size_of::<(usize, Path)>();
        self.paths.capacity() * entry + self.paths.values().map(|path| size_of_val(&**path)).sum::<usize>()
    }
}

fn finished_child(node: &Node, place: u32) -> Option<&Node> {
    match &node.kind {
        NodeKind::Scalar(_) => None,
        NodeKind::Sequence(items) => items.get(place as usize),
        NodeKind::Mapping(entries) => entry_child(entries, place),
    }
}

/// A key or a value of finished entries.
pub(crate) fn entry_child(entries: &[Entry], place: u32) -> Option<&Node> {
    let entry = entries.get(place as usize / 2)?;
    Some(if place.is_multiple_of(2) { &entry.key } else { &entry.value })
}
