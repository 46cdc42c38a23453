//! Files of other tools, read into the model everything else works on.
//!
//! A dialect declares its keys with the blocks of `talmox-config`, so that a mistake in a foreign file is told as one in a
//! description is: all of them at once, with place, cause and remedy. Where a tool's documentation and its schema disagree,
//! both spellings are read, and what was meant is said.

pub mod karpenter;
mod list;
pub mod talhelper;
mod tree;

pub use list::Listed;
pub use tree::Tree;
