//! Every value and comment of a tree in its order, each with its place.

use std::fmt;

use super::selection::Selection;
use super::tree::{Comment, Mapping, Part, Scalar, Value};

/// Where something stands: keys and numbers.
#[derive(Clone, Default)]
pub(super) struct Place(Vec<Step>);

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

impl Place {
    pub(super) fn push_key(&mut self, key: &str) {
        self.0.push(Step::Key(key.to_owned()));
    }

    pub(super) fn push_index(&mut self, index: usize) {
        self.0.push(Step::Index(index));
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// The keys alone: the numbers of lists are no part of what SOPS calls a path.
    fn keys(&self) -> Vec<String> {
        let key = |step: &Step| match step {
            Step::Key(key) => Some(key.clone()),
            Step::Index(_) => None,
        };
        self.0.iter().filter_map(key).collect()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the document");
        }
        for (number, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if number == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// What is known of a value or comment that is visited.
pub(super) struct Stop<'a> {
    place: &'a Place,
    keys: Vec<String>,
    comments: &'a [Vec<String>],
}

impl Stop<'_> {
    pub(super) fn place(&self) -> String {
        self.place.to_string()
    }

    /// What binds a ciphertext to its place.
    pub(super) fn binding(&self) -> String {
        self.keys.join(":") + ":"
    }

    /// Bindings a comment may have that another program counted to a collection around this one.
    pub(super) fn outer_bindings(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.keys.len()).rev().map(|length| self.keys[..length].join(":") + ":")
    }

    pub(super) fn is_encrypted(&self, selection: &Selection, is_comment: bool) -> bool {
        selection.encrypts(&self.keys, self.comments, is_comment)
    }
}

/// What a member of a list turned into.
pub(super) enum Turned {
    Value,
    /// SOPS writes encrypted comments in lists as members.
    Comment(Comment),
}

pub(super) trait Visitor {
    type Error;
    fn comment(&mut self, comment: &mut Comment, stop: &Stop<'_>) -> Result<(), Self::Error>;
    fn scalar(&mut self, scalar: &mut Scalar, stop: &Stop<'_>) -> Result<Turned, Self::Error>;
    /// A member of a mapping cannot turn into a comment.
    fn no_comment(&self, stop: &Stop<'_>) -> Self::Error;
}

pub(super) fn walk<V: Visitor>(documents: &mut [Mapping], visitor: &mut V) -> Result<(), V::Error> {
    for document in documents {
        let mut walker = Walker { visitor, place: Place::default(), comments: Vec::new() };
        walker.mapping(document)?;
    }
    Ok(())
}

struct Walker<'v, V> {
    visitor: &'v mut V,
    place: Place,
    /// Comments since the last member, for each collection that is open.
    comments: Vec<Vec<String>>,
}

impl<V: Visitor> Walker<'_, V> {
    fn stop(&self) -> Stop<'_> {
        Stop { place: &self.place, keys: self.place.keys(), comments: &self.comments }
    }

    fn mapping(&mut self, mapping: &mut Mapping) -> Result<(), V::Error> {
        self.comments.push(Vec::new());
        for part in mapping {
            match part {
                Part::Comment(comment) => self.comment(comment)?,
                Part::Member(entry) => {
                    self.place.push_key(&entry.key);
                    if let Turned::Comment(_) = self.value(&mut entry.value)? {
                        return Err(self.visitor.no_comment(&self.stop()));
                    }
                    self.place.pop();
                    self.member_done();
                }
            }
        }
        self.comments.pop();
        Ok(())
    }

    fn sequence(&mut self, sequence: &mut Vec<Part<Value>>) -> Result<(), V::Error> {
        self.comments.push(Vec::new());
        let mut index = 0;
        for part in sequence {
            match part {
                Part::Comment(comment) => self.comment(comment)?,
                Part::Member(value) => {
                    self.place.push_index(index);
                    let turned = self.value(value)?;
                    self.place.pop();
                    index += 1;
                    match turned {
                        // Comments before it stay in force: it is one of them.
                        Turned::Comment(comment) => *part = Part::Comment(comment),
                        Turned::Value => self.member_done(),
                    }
                }
            }
        }
        self.comments.pop();
        Ok(())
    }

    fn member_done(&mut self) {
        if let Some(open) = self.comments.last_mut() {
            open.clear();
        }
    }

    fn comment(&mut self, comment: &mut Comment) -> Result<(), V::Error> {
        if let Some(open) = self.comments.last_mut() {
            open.push(comment.text.clone());
        }
        let stop = Stop { place: &self.place, keys: self.place.keys(), comments: &self.comments };
        self.visitor.comment(comment, &stop)
    }

    fn value(&mut self, value: &mut Value) -> Result<Turned, V::Error> {
        match value {
            Value::Mapping(mapping) => self.mapping(mapping)?,
            Value::Sequence(sequence) => self.sequence(sequence)?,
            Value::Scalar(scalar) => {
                let stop = Stop { place: &self.place, keys: self.place.keys(), comments: &self.comments };
                return self.visitor.scalar(scalar, &stop);
            }
        }
        Ok(Turned::Value)
    }
}
