//! What a patch says and Talos passes over in silence.
//!
//! A merge never unsets: a null, an empty text where Talos cannot tell it from none, and an empty list that would be
//! appended change nothing, though whoever wrote them meant something.

use talmox_yaml::{Node, NodeKind};

use super::{Change, Patch};
use crate::document::find_kind;
use crate::fault::{Fault, Source, Trail, add};
use crate::schema::{Field, Struct, Type};

impl Patch {
    /// Everything in it that changes nothing, wherever it is applied.
    pub fn idle(&self) -> Vec<Fault> {
        if matches!(self.change, Change::Json(_)) {
            return Vec::new();
        }
        let source = Source { name: &self.name, text: &self.text };
        let mut walk = Walk { source, faults: Vec::new(), more_faults: 0 };
        for node in &self.nodes {
            if let Ok(kind) = find_kind(node) {
                walk.structure(node, kind.body, &Trail::default());
            }
        }
        walk.faults
    }
}

struct Walk<'a> {
    source: Source<'a>,
    faults: Vec<Fault>,
    more_faults: usize,
}

impl Walk<'_> {
    fn fault(&mut self, node: &Node, path: &Trail<'_>, message: &str) {
        let source = self.source;
        add(&mut self.faults, &mut self.more_faults, || Fault {
            place: source.place(node.place(), &path.to_path()),
            message: message.to_owned(),
        });
    }

    fn structure(&mut self, node: &Node, known: &Struct, path: &Trail<'_>) {
        let NodeKind::Mapping(entries) = &node.kind else { return };
        // A certificate is taken whole, its empty key included.
        if known.whole {
            return;
        }
        for entry in entries {
            let Some(key) = entry.key.as_scalar() else { continue };
            if let Some(field) = known.field(&key.text) {
                self.field(&entry.value, field, &path.key(&key.text));
            }
        }
    }

    fn field(&mut self, node: &Node, field: &Field, path: &Trail<'_>) {
        let empty_text = || node.as_scalar().is_some_and(|scalar| scalar.text.is_empty());
        let empty_list = || matches!(&node.kind, NodeKind::Sequence(items) if items.is_empty());
        if node.is_null() {
            self.fault(node, path, "a null changes nothing; `$patch: delete` under it takes it out");
        } else if matches!(field.kind, Type::Text) && !field.pointer && empty_text() {
            self.fault(node, path, "an empty text changes nothing; `$patch: delete` takes a field out");
        } else if matches!(field.kind, Type::List(_) | Type::Keyed(..)) && !field.replaced && empty_list() {
            self.fault(node, path, "an empty list adds nothing; `$patch: delete` takes a list out");
        } else {
            self.inside(node, &field.kind, path);
        }
    }

    fn inside(&mut self, node: &Node, kind: &Type, path: &Trail<'_>) {
        match (&node.kind, kind) {
            (NodeKind::Mapping(_), Type::Struct(known)) => self.structure(node, known, path),
            (NodeKind::Mapping(entries), Type::Map(kind)) => {
                for entry in entries {
                    let key = entry.key.as_scalar().map(|key| key.text.as_str()).unwrap_or_default();
                    self.inside(&entry.value, kind, &path.key(key));
                }
            }
            (NodeKind::Sequence(items), Type::List(kind)) => {
                for (index, item) in items.iter().enumerate() {
                    self.inside(item, kind, &path.item(index));
                }
            }
            (NodeKind::Sequence(items), Type::Keyed(known, _)) => {
                for (index, item) in items.iter().enumerate() {
                    self.structure(item, known, &path.item(index));
                }
            }
            _ => {}
        }
    }
}
