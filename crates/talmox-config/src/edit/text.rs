//! Edits of one text: each changes as little of it as it can.

use talmox_yaml::{Entry, Node, NodeKind, Style};

/// A text that is being edited. Places are of the text as it was parsed: one edit, then it is parsed again.
pub(super) struct Draft<'t> {
    text: &'t str,
    /// How lines end here.
    newline: &'static str,
}

/// A change of a range of bytes.
pub(super) struct Patch {
    start: usize,
    end: usize,
    with: String,
}

impl Patch {
    pub(super) fn apply(self, text: &str) -> String {
        Self::apply_all(vec![self], text)
    }

    /// Changes of different places of one text; those of one place in their order.
    pub(super) fn apply_all(mut patches: Vec<Self>, text: &str) -> String {
        patches.sort_by_key(|patch| patch.start);
        let mut result = String::with_capacity(text.len() + 64 * patches.len());
        let mut at = 0;
        for Self { start, end, with } in patches {
            result.push_str(text.get(at..start).unwrap_or_default());
            result.push_str(&with);
            at = end.max(at);
        }
        result + text.get(at..).unwrap_or_default()
    }
}

/// Something in the text that an edit would break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InTheWay(pub(super) &'static str);

type Result<T> = std::result::Result<T, InTheWay>;

impl<'t> Draft<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, newline: if text.contains("\r\n") { "\r\n" } else { "\n" } }
    }

    /// Gives a key of a mapping a value, replacing the one it has.
    pub(super) fn set(&self, mapping: &Node, names: &[&str], value: &str) -> Result<Patch> {
        let NodeKind::Mapping(entries) = &mapping.kind else { return Err(InTheWay("it is not a mapping")) };
        let is_meant =
            |entry: &&Entry| entry.key.as_scalar().is_some_and(|key| names.contains(&key.text.as_str()));
        match entries.iter().find(is_meant) {
            Some(entry) => self.replace(entry, value),
            None => self.insert(mapping, entries, &format!("{}: {value}", names[0])),
        }
    }

    fn replace(&self, entry: &Entry, value: &str) -> Result<Patch> {
        let after_key = entry.key.span.end as usize;
        let colon = self.text[after_key..].find(':').ok_or(InTheWay("it has no colon"))? + after_key + 1;
        if entry.value.is_null() && entry.value.alias.is_none() && self.written(&entry.value).is_empty() {
            return Ok(Patch { start: colon, end: colon, with: format!(" {value}") });
        }
        let place = entry.value.place();
        let start = (place.start as usize).max(colon);
        if self.text[colon..start].contains('&') {
            return Err(InTheWay("others refer to its value by an anchor"));
        }
        let end = if entry.value.alias.is_some() { place.end as usize } else { self.end_of(&entry.value) };
        let one_line = !self.text[colon..start].contains('\n');
        let (start, with) = if one_line { (start, value.to_owned()) } else { (colon, format!(" {value}")) };
        Ok(Patch { start, end, with })
    }

    fn written(&self, node: &Node) -> &'t str {
        self.text[node.span.start as usize..node.span.end as usize].trim()
    }

    fn insert(&self, mapping: &Node, entries: &[Entry], pair: &str) -> Result<Patch> {
        let last = entries.last().ok_or(InTheWay("it is empty"))?;
        if self.is_flow(mapping) {
            let end = self.end_of_entry(last);
            return Ok(Patch { start: end, end, with: format!(", {pair}") });
        }
        // After a value of one line, so that whatever stands further down keeps its place.
        let simple = |entry: &&Entry| self.is_simple(&entry.value);
        let before =
            entries.iter().rev().find(simple).ok_or(InTheWay("it has no plain value to stand below"))?;
        let indent = self.indent_of(&entries[0].key);
        let end = self.line_end(self.end_of_entry(before));
        Ok(Patch { start: end, end, with: format!("{}{indent}{pair}", self.newline) })
    }

    /// Adds an element to a list.
    pub(super) fn append(&self, list: &Node, element: &str, block: &str) -> Result<Patch> {
        let NodeKind::Sequence(items) = &list.kind else { return Err(InTheWay("it is not a list")) };
        let Some(previous) = items.last() else {
            let span = list.span;
            return Ok(Patch {
                start: span.start as usize,
                end: span.end as usize,
                with: format!("[{element}]"),
            });
        };
        let end = self.end_of(previous);
        if self.is_flow(list) {
            return Ok(Patch { start: end, end, with: format!(", {element}") });
        }
        let first = &items[0];
        let dash = self.text[..first.place().start as usize]
            .rfind('-')
            .ok_or(InTheWay("its first element has no dash"))?;
        let indent = &self.text[self.line_start(dash)..dash];
        if !indent.trim().is_empty() {
            return Err(InTheWay("its first element stands behind something else"));
        }
        let element = if self.is_flow(first) { element.to_owned() } else { block.to_owned() };
        let below = element.replace('\n', &format!("{}{indent}  ", self.newline));
        let end = self.line_end(end);
        Ok(Patch { start: end, end, with: format!("{}{indent}- {below}", self.newline) })
    }

    /// Whether a collection is in brackets. A list without indentation begins, to the parser, at its first element.
    pub(super) fn is_flow(&self, node: &Node) -> bool {
        let begins = |bracket: char| self.text[node.span.start as usize..].starts_with(bracket);
        match &node.kind {
            NodeKind::Scalar(_) => false,
            NodeKind::Sequence(_) => begins('['),
            NodeKind::Mapping(_) => begins('{'),
        }
    }

    /// A value that begins and ends on the line of its key, or is written in brackets.
    fn is_simple(&self, value: &Node) -> bool {
        let block_scalar = value.as_scalar().is_some_and(|scalar| scalar.style == Style::Block);
        value.alias.is_some() || (!block_scalar && (value.as_scalar().is_some() || self.is_flow(value)))
    }

    fn end_of_entry(&self, entry: &Entry) -> usize {
        if entry.value.is_null() && self.written(&entry.value).is_empty() && entry.value.alias.is_none() {
            let after_key = entry.key.span.end as usize;
            return self.text[after_key..].find(':').map_or(after_key, |colon| after_key + colon + 1);
        }
        self.end_of(&entry.value)
    }

    /// Where a value really ends: the parser counts blank lines and comments below a block to it.
    fn end_of(&self, node: &Node) -> usize {
        if let Some(alias) = node.alias {
            return alias.end as usize;
        }
        let own = self.text[..node.span.end as usize].trim_end().len();
        match &node.kind {
            NodeKind::Scalar(_) => own,
            NodeKind::Sequence(_) | NodeKind::Mapping(_) if self.is_flow(node) => own,
            NodeKind::Sequence(items) => items.last().map_or(own, |item| self.end_of(item)),
            NodeKind::Mapping(entries) => entries.last().map_or(own, |entry| self.end_of_entry(entry)),
        }
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// The end of a line without its line break: behind a comment, if there is one.
    fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        if self.text[..end].ends_with('\r') { end - 1 } else { end }
    }

    /// Blanks up to the column of a key; the dash of a list counts as one.
    fn indent_of(&self, key: &Node) -> String {
        let start = key.place().start as usize;
        self.text[self.line_start(start)..start].chars().map(|_| ' ').collect()
    }
}
