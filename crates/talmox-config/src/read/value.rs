//! Values with their place, and how they are read.

use std::ops::Deref;

use talmox_types::{FamilyPair, HasFamily};
use talmox_yaml::{Node, NodeKind};

use super::BlockInfo;
use crate::problem::{Code, Problem};
use crate::source::{Location, SourceId};

/// A value, where it is written, and the name of the key it was written under.
#[derive(Clone, Debug)]
pub struct At<T> {
    pub value: T,
    pub location: Location,
    /// As spelled, which may be an alias; empty for an element of a list.
    pub key: &'static str,
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Something a key may hold.
pub trait Value: Sized {
    /// Reads it; `None` after having reported what is wrong.
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self>;

    /// What it looks like, for the schema and the reference.
    fn shape() -> Shape;

    /// As a person would write it on one line.
    fn show(&self) -> String;
}

/// The text being read, and where problems go.
pub struct Reading<'a> {
    pub source: SourceId,
    pub problems: &'a mut Vec<Problem>,
}

impl Reading<'_> {
    pub fn location(&self, node: &Node) -> Location {
        Location { source: self.source, span: node.place() }
    }

    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Reports that something else was expected here.
    pub fn wrong_type(&mut self, node: &Node, expected: &str) {
        let found = match &node.kind {
            NodeKind::Scalar(_) => "a single value",
            NodeKind::Sequence(_) => "a list",
            NodeKind::Mapping(_) => "a mapping",
        };
        let location = self.location(node);
        self.report(
            Problem::error(Code::WrongType, format!("expected {expected}, found {found}"))
                .at(location, format!("{found}, where {expected} belongs")),
        );
    }
}

/// What a value looks like.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Bool,
    Integer {
        min: i64,
        max: i64,
    },
    /// Text of a form described in words and, where there is one, by a pattern.
    Text {
        what: &'static str,
        pattern: Option<&'static str>,
    },
    /// Words, and words that are accepted and not advertised.
    Choice(Vec<&'static str>, Vec<&'static str>),
    List(Box<Shape>),
    /// Keys of the user's own choosing.
    Map(Box<Shape>),
    Block(BlockInfo),
    Either(Vec<Shape>),
    /// Any YAML.
    Any,
}

/// A list; every element keeps its place.
impl<T: Value> Value for Vec<At<T>> {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let NodeKind::Sequence(items) = &node.kind else {
            reading.wrong_type(node, "a list");
            if let Some(problem) = reading.problems.last_mut() {
                problem.hint =
                    Some("a list has a dash before each element, or is written as [a, b]".to_owned());
            }
            return None;
        };
        // Nodes are large values: a list that grew by doubling would copy all of them again and again.
        let mut read: Self = Vec::with_capacity(items.len());
        for item in items {
            let Some(value) = T::read(item, reading) else { continue };
            read.push(At { value, location: reading.location(item), key: "" });
        }
        (read.len() == items.len()).then_some(read)
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(|item| item.value.show()).collect();
        format!("[{}]", items.join(", "))
    }
}

/// One value, or a list of them.
#[derive(Clone, Debug)]
pub struct OneOrMore<T>(pub Vec<At<T>>);

impl<T: Value> Value for OneOrMore<T> {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if let NodeKind::Sequence(items) = &node.kind {
            if items.is_empty() {
                let location = reading.location(node);
                reading.report(
                    Problem::error(Code::InvalidValue, "the list is empty")
                        .at(location, "empty")
                        .hint("leave the key out to have its default"),
                );
                return None;
            }
            return Vec::read(node, reading).map(Self);
        }
        let value = T::read(node, reading)?;
        Some(Self(vec![At { value, location: reading.location(node), key: "" }]))
    }

    fn shape() -> Shape {
        Shape::Either(vec![T::shape(), Shape::List(Box::new(T::shape()))])
    }

    fn show(&self) -> String {
        match self.0.as_slice() {
            [only] => only.value.show(),
            _ => self.0.show(),
        }
    }
}

/// One value or an IPv4 and an IPv6 one: as a list, or in one text with a comma between.
impl<T: Value + HasFamily + Copy + std::str::FromStr> Value for FamilyPair<T> {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let values: Vec<T> = match &node.kind {
            NodeKind::Scalar(scalar) if scalar.text.contains(',') => {
                let parts: Vec<T> =
                    scalar.text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
                if parts.len() != scalar.text.split(',').count() {
                    // Reading the whole text as one value says what is wrong with it.
                    T::read(node, reading)?;
                }
                parts
            }
            NodeKind::Scalar(_) | NodeKind::Mapping(_) => vec![T::read(node, reading)?],
            NodeKind::Sequence(_) => Vec::<At<T>>::read(node, reading)?.iter().map(|at| at.value).collect(),
        };
        let pair = match values.as_slice() {
            [one] => Some(Self::one(*one)),
            [first, second] => Self::two(*first, *second),
            _ => None,
        };
        if pair.is_none() {
            // Seven addresses are as wrong as none.
            let location = reading.location(node);
            reading.report(
                Problem::error(
                    Code::AddressFamily,
                    "one value, or one IPv4 and one IPv6 value, can stand here",
                )
                .at(location, format!("{} values", values.len()))
                .hint("write one value, or a pair like [10.0.7.11, fd00:7::11]"),
            );
        }
        pair
    }

    fn shape() -> Shape {
        Shape::Either(vec![T::shape(), Shape::List(Box::new(T::shape()))])
    }

    fn show(&self) -> String {
        let both: Vec<String> = self.iter().map(|value| value.show()).collect();
        if let [one] = both.as_slice() { one.clone() } else { format!("[{}]", both.join(", ")) }
    }
}
