//! The files described to editors and to people, from the same declarations that read them.

mod reference;
mod schema;

pub use reference::{codes_reference, reference};
pub use schema::{FileKind, json_schema};
