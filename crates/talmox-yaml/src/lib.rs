//! YAML as a tree of what was written: text, style and place of every scalar, nothing resolved.
//!
//! Reading into typed values at once stops at the first mistake and forgets how a value was spelled (`0755`, `no`,
//! `1.10`). This tree keeps both, so that a reader can report every mistake of a file with its place, and so that
//! configuration patches can be merged without changing what they say.

mod anchors;
mod comments;
mod fault;
mod node;
mod parse;
mod print;
mod scalar;
mod tag;

pub use comments::{Comment, comments};
pub use fault::{Fault, FaultKind, Limit};
pub use node::{Entry, Node, NodeKind, Scalar, Span, Style};
pub use parse::{MAX_ADDED_BYTES, MAX_ALIAS_NODES, MAX_ANCHORS, MAX_DEPTH, MAX_NODES, Parsed, parse};
pub use print::print;
pub use scalar::PlainMeaning;
