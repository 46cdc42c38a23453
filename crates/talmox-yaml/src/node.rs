//! The tree.

/// A range of bytes in the text that was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: NodeKind,
    /// Where the value is written; for an alias, where its anchor is.
    pub span: Span,
    /// Where `*name` stands, if the value came by an alias.
    pub alias: Option<Span>,
    /// An explicit tag by its full name: `tag:yaml.org,2002:str` for `!!str`, `!vault`, or `!` alone.
    pub tag: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A key and its value, in the order of the file. Merge keys (`<<`) are entries like any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Node,
    pub value: Node,
}

/// A scalar as written, escapes resolved, meaning not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    pub text: String,
    pub style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes: the only style whose meaning depends on how it looks.
    Plain,
    Quoted,
    /// `|` or `>`.
    Block,
}

impl Node {
    /// The place a person looks at: the alias where there is one, else the value.
    pub fn place(&self) -> Span {
        self.alias.unwrap_or(self.span)
    }

    pub fn as_scalar(&self) -> Option<&Scalar> {
        match &self.kind {
            NodeKind::Scalar(scalar) => Some(scalar),
            NodeKind::Sequence(_) | NodeKind::Mapping(_) => None,
        }
    }

    /// Whether there is no value: nothing, `~` or `null`.
    pub fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(|scalar| {
            scalar.style == Style::Plain && ["", "~", "null", "Null", "NULL"].contains(&scalar.text.as_str())
        })
    }
}
