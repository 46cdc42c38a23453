//! What is said of machines whose configuration is, or may be, another than described, and that this run leaves alone.

use talmox_types::NodeName;
use talmox_types::desired::Node;

use super::Planner;
use crate::{Change, Incomparable, NoteKind, SeenNode, Until};

/// How many fields of a configuration that differs are shown, and how many nodes are named.
const SHOWN: usize = 8;

impl Planner<'_> {
    /// Whether what is inside a node is changed by this run if it differs.
    fn keeps_up(&self, node: &Node) -> bool {
        self.request.until >= Until::Configured && self.request.covers(&node.name)
    }

    /// Says what of a configured machine is not as described.
    pub(super) fn compare(&mut self, node: &Node, seen: &SeenNode) {
        if self.request.until < Until::Configured || !self.request.covers(&node.name) {
            self.leave_talos(node, seen);
        }
        match &seen.config {
            // What is within this run becomes steps.
            Some(changes) if !changes.is_empty() && !self.keeps_up(node) => {
                let text = format!("its configuration differs and is left as it is: {}", in_words(changes));
                self.note(Some(&node.name), NoteKind::Beyond, text);
            }
            Some(_) => {}
            None => self.tell_incomparable(node, seen),
        }
    }

    /// One line for all that this run leaves alone: who asks for one node need not read about twenty.
    pub(super) fn tell_beyond(&mut self) {
        let beyond = self.plan.notes.iter().filter(|note| note.kind == NoteKind::Beyond);
        let mut names: Vec<&str> =
            beyond.filter_map(|note| note.node.as_ref()).map(NodeName::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let whom = match names.as_slice() {
            [] => return,
            [one] => format!("{one} is"),
            few if few.len() <= SHOWN => format!("{} are", few.join(", ")),
            many => format!("{} nodes are", many.len()),
        };
        let text = format!("{whom} not as described and not asked for: left alone (-v shows what differs)");
        self.note(None, NoteKind::Inside, text);
    }

    /// What cannot be compared is not known to be as described: a description that makes no configuration is refused.
    fn tell_incomparable(&mut self, node: &Node, seen: &SeenNode) {
        match &seen.incomparable {
            Some(Incomparable::Wanted(reason)) if self.keeps_up(node) => {
                let choices = vec![
                    format!("talmox render config {} makes it again, with the same complaint", node.name),
                    "--until vms, for changes of VMs alone".to_owned(),
                ];
                self.refuse(Some(&node.name), format!("what is described cannot be made: {reason}"), choices);
            }
            Some(reason) => {
                let text = format!("its configuration could not be compared: {reason}");
                self.note(Some(&node.name), NoteKind::Inside, text);
            }
            None => {
                let text = "its configuration was not compared".to_owned();
                self.note(Some(&node.name), NoteKind::Inside, text);
            }
        }
    }
}

fn in_words(changes: &[Change]) -> String {
    let word = |value: &Option<String>| match value.as_deref() {
        None => "none".to_owned(),
        Some(text) => text.lines().next().unwrap_or_default().to_owned(),
    };
    let shown = changes
        .iter()
        .take(SHOWN)
        .map(|change| format!("{} {} → {}", change.key, word(&change.old), word(&change.new)));
    let mut shown: Vec<String> = shown.collect();
    if let Some(more) = changes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        shown.push(format!("and {more} more"));
    }
    shown.join("; ")
}
