//! What can be wrong with a text as YAML, before anybody asks what it says.

use crate::Span;

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
    /// Aliases that would unfold into more nodes than any description has.
    AliasBomb,
    /// Nested deeper than any description is.
    TooDeep,
    /// A key that is a list or a mapping.
    ComplexKey,
}
