//! What can be wrong with a text as YAML, before anybody asks what it says.

use std::fmt;

use crate::Span;
use crate::parse::{MAX_ADDED_BYTES, MAX_ALIAS_NODES, MAX_ANCHORS, MAX_DEPTH, MAX_NODES};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The parser's own words for what it could not read.
    Syntax(String),
    /// A tab where YAML wants blanks.
    Tab,
    /// A key that stands in the same mapping already.
    DuplicateKey { key: String, first: Span },
    /// `*name` without `&name` before it.
    UnknownAlias(String),
    /// `*name` inside what `&name` names, which would unfold without end.
    AliasKnot,
    /// More of something than is read. Parsing stops there.
    Limit(Limit),
    /// A key that is a list or a mapping.
    ComplexKey,
}

/// What a text may not have too much of. Printed, it says how much that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`MAX_DEPTH`]
    Depth,
    /// [`MAX_NODES`]
    Nodes,
    /// [`MAX_ANCHORS`]
    Anchors,
    /// [`MAX_ALIAS_NODES`]
    AliasNodes,
    /// [`MAX_ADDED_BYTES`]
    AddedBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depth => write!(f, "nested deeper than {MAX_DEPTH} levels"),
            Self::Nodes => write!(f, "more than {MAX_NODES} values"),
            Self::Anchors => write!(f, "more than {MAX_ANCHORS} anchors"),
            Self::AliasNodes => write!(f, "aliases add more than {MAX_ALIAS_NODES} values"),
            Self::AddedBytes => {
                write!(f, "aliases and tags add more than {} MiB of text", MAX_ADDED_BYTES >> 20)
            }
        }
    }
}
