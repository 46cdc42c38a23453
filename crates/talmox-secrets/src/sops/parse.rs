//! From text to tree.

use talmox_yaml::{FaultKind, Node, NodeKind, Style};

use super::comments::Comments;
use super::error::ParseError;
use super::print::one_line;
use super::scalar;
use super::tree::{Comment, Data, Entry, Mapping, Part, Scalar, Value};
use super::walk::Place;

/// YAML lets 1024 characters stand before a colon.
const MAX_KEY: usize = 1000;

/// The documents of a text: mappings all, as SOPS has it.
pub(super) fn parse(text: &str) -> Result<Vec<Mapping>, ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = talmox_yaml::parse(text);
    if let Some(fault) = parsed.faults.first() {
        let line =
            text.as_bytes()[..(fault.span.start as usize).min(text.len())].split(|b| *b == b'\n').count();
        return Err(ParseError::Yaml { line, message: words(&fault.kind) });
    }
    let mut reader = Reader { comments: Comments::of(text), place: Place::default() };
    let mut documents = Vec::with_capacity(parsed.documents.len());
    for (index, node) in parsed.documents.iter().enumerate() {
        let next = parsed.documents.get(index + 1).map(|next| next.span.start);
        reader.comments.begin_document(node.span.start, next);
        documents.push(reader.document(node)?);
    }
    Ok(documents)
}

fn words(kind: &FaultKind) -> String {
    match kind {
        FaultKind::Syntax(_) => "this is no YAML".to_owned(),
        FaultKind::Tab => "a tab where YAML wants blanks".to_owned(),
        FaultKind::DuplicateKey { key, .. } => format!("{key} stands there twice"),
        // What looks like an alias may be a secret without its quotes.
        FaultKind::UnknownAlias(_) => {
            "an alias without its anchor; text that begins with * needs quotes".to_owned()
        }
        FaultKind::AliasKnot => "an alias inside its own anchor".to_owned(),
        FaultKind::Limit(limit) => limit.to_string(),
        FaultKind::ComplexKey => "a key that is a list or a mapping".to_owned(),
    }
}

struct Reader<'a> {
    comments: Comments<'a>,
    place: Place,
}

impl Reader<'_> {
    fn refuse<T>(&self, message: &str) -> Result<T, ParseError> {
        Err(ParseError::Content { place: self.place.to_string(), message: message.to_owned() })
    }

    fn document(&mut self, node: &Node) -> Result<Mapping, ParseError> {
        let mut root = match &node.kind {
            NodeKind::Mapping(_) => self.mapping(node, None)?,
            NodeKind::Scalar(_) if node.is_null() => Mapping::new(),
            NodeKind::Scalar(_) | NodeKind::Sequence(_) => {
                return self.refuse("SOPS keeps documents that are mappings, and this is none");
            }
        };
        root.extend(self.comments.rest().into_iter().map(Part::Comment));
        Ok(root)
    }

    /// A mapping; `next` is where what follows it begins.
    fn mapping(&mut self, node: &Node, next: Option<u32>) -> Result<Mapping, ParseError> {
        let NodeKind::Mapping(entries) = &node.kind else { return Ok(Mapping::new()) };
        let mut mapping = Mapping::new();
        for (index, entry) in entries.iter().enumerate() {
            let key_start = entry.key.place().start;
            mapping.extend(self.comments.before(key_start).into_iter().map(Part::Comment));
            let key = self.key(&entry.key)?;
            self.place.push_key(&key);
            let following = entries.get(index + 1).map(|entry| entry.key.place().start).or(next);
            let (comments, value) = self.value(&entry.value, Some(entry.key.place().end), following)?;
            self.place.pop();
            mapping.extend(comments.into_iter().map(Part::Comment));
            mapping.push(Part::Member(Entry { key, value }));
        }
        let column = entries.first().map(|entry| self.comments.column(entry.key.place().start));
        let behind = self.behind(node, column, next);
        append(&mut mapping, behind, |entry| &mut entry.value);
        Ok(mapping)
    }

    fn sequence(&mut self, node: &Node, next: Option<u32>) -> Result<Vec<Part<Value>>, ParseError> {
        let NodeKind::Sequence(items) = &node.kind else { return Ok(Vec::new()) };
        let mut sequence = Vec::new();
        for (index, item) in items.iter().enumerate() {
            sequence.extend(self.comments.before(item.place().start).into_iter().map(Part::Comment));
            self.place.push_index(index);
            let following = items.get(index + 1).map(|item| item.place().start).or(next);
            let (comments, value) = self.value(item, None, following)?;
            self.place.pop();
            sequence.extend(comments.into_iter().map(Part::Comment));
            sequence.push(Part::Member(value));
        }
        let column = (!items.is_empty()).then(|| self.comments.column(node.span.start));
        let behind = self.behind(node, column, next);
        append(&mut sequence, behind, |value| value);
        Ok(sequence)
    }

    /// Comments behind the last member. Inside brackets, those before the closing one.
    fn behind(&mut self, node: &Node, column: Option<usize>, next: Option<u32>) -> Vec<Comment> {
        if node.alias.is_some() {
            return Vec::new();
        }
        if self.comments.is_flow(node.span) {
            return self.comments.before(node.span.end);
        }
        column.map(|column| self.comments.behind(column, next)).unwrap_or_default()
    }

    /// A value, and the comments beside it, which stand in the collection around it.
    fn value(
        &mut self,
        node: &Node,
        key_end: Option<u32>,
        next: Option<u32>,
    ) -> Result<(Vec<Comment>, Value), ParseError> {
        if let Some(alias) = node.alias {
            let beside = self.comments.beside(alias.end);
            return Ok((beside, self.without_comments(node)?));
        }
        if let NodeKind::Scalar(scalar) = &node.kind {
            let beside = match scalar.style {
                Style::Block => self.comments.beside_block(node.span.start),
                Style::Plain | Style::Quoted => self.comments.beside(node.span.end),
            };
            return Ok((beside, self.scalar(node)?));
        }
        self.check_tag(node)?;
        let mut beside = Vec::new();
        if self.comments.is_flow(node.span) {
            beside.extend(self.comments.before(node.span.start));
        } else if let Some(end) = key_end {
            beside.extend(self.comments.beside_key(end));
        }
        let flow = self.comments.is_flow(node.span);
        let outer = self.comments.brackets;
        if flow {
            self.comments.brackets = outer.min(node.span.end);
        }
        let value = match &node.kind {
            NodeKind::Mapping(_) => Value::Mapping(self.mapping(node, next)?),
            NodeKind::Sequence(_) | NodeKind::Scalar(_) => Value::Sequence(self.sequence(node, next)?),
        };
        self.comments.brackets = outer;
        let first = if flow { self.comments.beside(node.span.end) } else { Vec::new() };
        Ok(match (first.is_empty(), value) {
            (true, value) => (beside, value),
            // Beside brackets: SOPS counts it to what is in them, if anything is.
            (false, Value::Mapping(mut members)) if !members.is_empty() => {
                members.splice(0..0, first.into_iter().map(own_line).map(Part::Comment));
                (beside, Value::Mapping(members))
            }
            (false, Value::Sequence(mut members)) if !members.is_empty() => {
                members.splice(0..0, first.into_iter().map(own_line).map(Part::Comment));
                (beside, Value::Sequence(members))
            }
            (false, value) => {
                beside.extend(first);
                (beside, value)
            }
        })
    }

    fn check_tag(&self, node: &Node) -> Result<(), ParseError> {
        let known = ["tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!!map", "!!seq", "!"];
        match &node.tag {
            Some(tag) if !known.contains(&tag.as_str()) => {
                self.refuse("SOPS does not keep tags of one's own; leave the tag out")
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What an alias stands for: written elsewhere, with the comments there.
    fn without_comments(&mut self, node: &Node) -> Result<Value, ParseError> {
        Ok(match &node.kind {
            NodeKind::Scalar(_) => self.scalar(node)?,
            NodeKind::Sequence(items) => {
                let members: Result<Vec<_>, _> =
                    items.iter().map(|item| self.without_comments(item).map(Part::Member)).collect();
                Value::Sequence(members?)
            }
            NodeKind::Mapping(entries) => {
                let mut mapping = Mapping::new();
                for entry in entries {
                    let key = self.key(&entry.key)?;
                    mapping.push(Part::Member(Entry { key, value: self.without_comments(&entry.value)? }));
                }
                Value::Mapping(mapping)
            }
        })
    }

    fn key(&self, node: &Node) -> Result<String, ParseError> {
        let Some(written) = node.as_scalar() else { return self.refuse("a key that is no text") };
        match scalar::resolve(&written.text, written.style, node.tag.as_deref()) {
            Ok(Data::Text(text)) if one_line(&text).chars().count() > MAX_KEY => {
                self.refuse("a key that is too long")
            }
            Ok(Data::Text(text)) => Ok(text),
            Ok(_) => self.refuse(&format!("SOPS keeps keys that are text; put {} in quotes", written.text)),
            Err(unfit) => self.refuse(unfit),
        }
    }

    fn scalar(&self, node: &Node) -> Result<Value, ParseError> {
        let Some(written) = node.as_scalar() else { return self.refuse("no scalar") };
        let data = match scalar::resolve(&written.text, written.style, node.tag.as_deref()) {
            Ok(data) => data,
            Err(unfit) => return self.refuse(unfit),
        };
        // What a tag says is in the data; written without it, it would mean something else.
        let kept = node.tag.is_none().then(|| (written.text.clone(), written.style));
        Ok(Value::Scalar(Scalar { data, written: kept, sealed: false }))
    }
}

fn own_line(mut comment: Comment) -> Comment {
    comment.inline = false;
    comment
}

/// Adds comments behind the last member. SOPS counts them to the innermost collection that ends there, once all of them are
/// written below each other: one that was written in brackets has taken none yet.
fn append<T>(members: &mut Vec<Part<T>>, comments: Vec<Comment>, value: fn(&mut T) -> &mut Value) {
    let comments = match members.last_mut() {
        Some(Part::Member(last)) => settle(value(last), comments),
        Some(Part::Comment(_)) | None => comments,
    };
    members.extend(comments.into_iter().map(Part::Comment));
}

/// Gives comments to a collection, or back if it cannot have them.
fn settle(value: &mut Value, comments: Vec<Comment>) -> Vec<Comment> {
    match value {
        Value::Mapping(members) if matches!(members.last(), Some(Part::Member(_))) => {
            append(members, comments, |entry| &mut entry.value);
        }
        Value::Sequence(members) if matches!(members.last(), Some(Part::Member(_))) => {
            append(members, comments, |value| value);
        }
        Value::Mapping(_) | Value::Sequence(_) | Value::Scalar(_) => return comments,
    }
    Vec::new()
}
