//! What the fuzz target and the bounded fuzz run do with an input: everything a user could do with such a file.

use talmox_config::{Colour, Files, explain, fields, read_files, report};

/// Reads bytes as a description, reports on them, and explains the first node. Must not panic, whatever they are.
pub(crate) fn exercise(bytes: &[u8]) {
    let outcome = read_files(Files::from_bytes(bytes));
    let text = report(&outcome.description.sources, &outcome.problems, Colour::Never);
    assert_eq!(text.is_empty(), outcome.problems.is_empty());
    assert_eq!(outcome.desired.is_none(), outcome.has_errors());
    if let Some(member) = outcome.description.members().first() {
        for field in fields() {
            // An unknown field would be an error of ours: the names come from the same table.
            let known = explain(&outcome.description, member, field).is_ok();
            assert!(known, "{field}");
        }
    }
}
