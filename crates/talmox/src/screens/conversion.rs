//! What became of the fields of another tool's file.

use anstyle::{AnsiColor, Style};
use talmox_dialects::talhelper::{Field, Verdict};

use super::table::{Cell, table};
use crate::printer::GREEN;

pub(crate) fn conversion_text(fields: &[Field]) -> String {
    let style = |verdict| match verdict {
        Verdict::Honoured => GREEN,
        Verdict::Translated => Style::new(),
        Verdict::Unsupported => AnsiColor::Yellow.on_default(),
    };
    table(
        &["FIELD", "VERDICT", "HOW"],
        fields.iter().map(|field| {
            vec![
                Cell::plain(field.path.clone()),
                Cell { text: field.verdict.word().to_owned(), style: style(field.verdict) },
                Cell::plain(field.note.clone()),
            ]
        }),
    )
}
