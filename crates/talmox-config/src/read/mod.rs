//! From a YAML tree to typed blocks, reporting every mistake on the way.

mod block;
mod entries;
mod numbers;
mod scalars;
mod value;
mod words;

pub use block::{Block, BlockInfo, KeyInfo, Shown};
pub(crate) use block::{block, read_block, show_block, show_field, take_field};
pub use entries::{Found, suggest};
pub use numbers::{Int, VlanTag};
pub use scalars::Text;
pub(crate) use scalars::{choices, read_checked, read_word};
pub use value::{At, OneOrMore, Reading, Shape, Value};
pub(crate) use words::show_map;
pub use words::{
    Annotations, CertificateName, Content, Domain, Host, LabelValue, Labels, Variable, VolumeName, Word,
};
