//! From a YAML tree to typed blocks, reporting every mistake on the way. Readers of other tools' files declare their blocks
//! with the same words.

mod block;
mod entries;
mod numbers;
mod scalars;
mod value;
mod words;

pub use block::{Block, BlockInfo, KeyInfo, Shown, block, read_block, show_block};
#[doc(hidden)]
pub use block::{show_field, take_field};
pub use entries::{Found, suggest};
pub use numbers::{Int, VlanTag};
pub use scalars::{Text, choices, harmless, read_checked, read_word};
pub use value::{At, OneOrMore, Reading, Shape, Value};
pub(crate) use words::show_map;
pub use words::{
    Annotations, CertificateName, Content, Domain, Host, LabelValue, Labels, Variable, VolumeName, Word,
};
