//! Tables with columns as wide as they need to be.

use anstyle::Style;

use super::text::{padded, width};
use crate::printer::BOLD;

pub(super) struct Cell {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Cell {
    pub(super) fn plain(text: String) -> Self {
        Self { text, style: Style::new() }
    }
}

/// The last column is not filled up.
pub(super) fn table(titles: &[&str], rows: impl Iterator<Item = Vec<Cell>>) -> String {
    let rows: Vec<Vec<Cell>> = rows.collect();
    let column =
        |index: usize| rows.iter().filter_map(move |row| row.get(index)).map(|cell| cell.text.as_str());
    let widths: Vec<usize> =
        titles.iter().enumerate().map(|(index, title)| width(column(index).chain([*title]))).collect();
    let line = |mut cells: Vec<(String, Style)>| {
        // A style without a word would keep the blanks before it.
        let filled = cells.iter().rposition(|(text, _)| !text.is_empty()).map_or(0, |last| last + 1);
        cells.truncate(filled);
        let cells = cells.into_iter().zip(&widths).enumerate().map(|(index, ((text, style), width))| {
            let fill = if index + 1 == widths.len() { text.clone() } else { padded(&text, *width) };
            format!("{style}{fill}{style:#}")
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(titles.iter().map(|title| ((*title).to_owned(), BOLD)).collect());
    for row in &rows {
        text.push_str(&line(row.iter().map(|cell| (cell.text.clone(), cell.style)).collect()));
    }
    text
}
