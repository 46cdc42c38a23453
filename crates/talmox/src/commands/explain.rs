//! `talmox explain`

use serde::Serialize;
use talmox_config::{Explanation, Member, Outcome, UnknownField, explain, fields};

use super::{read, unknown_node};
use crate::args::{Explain, Format};
use crate::failure::Failure;
use crate::printer::{BOLD, DIM, Printer};

pub(super) fn run(args: &Explain, printer: &Printer) -> anyhow::Result<()> {
    let (outcome, _) = read(&args.description.file, printer)?;
    let (name, field) = match args.subject.split_once('.') {
        Some((name, field)) => (name, Some(field)),
        None => (args.subject.as_str(), None),
    };
    let member = outcome.description.member(name).map_err(|closest| {
        unknown_node(&outcome, name, closest.as_ref().map(talmox_types::NodeName::as_str))
    })?;
    match field {
        Some(field) => one(&outcome, &member, field, args.output.output, printer),
        None => all(&outcome, &member, args.output.output, printer),
    }
}

fn unknown_field(error: &UnknownField) -> Failure {
    let failure = Failure::new(error.to_string());
    match error.suggestion {
        Some(close) => failure.with_hint(format!("did you mean {close}?")),
        None => failure.with_hint("talmox explain NODE lists every field"),
    }
}

fn one(
    outcome: &Outcome,
    member: &Member<'_>,
    field: &str,
    format: Format,
    printer: &Printer,
) -> anyhow::Result<()> {
    let explanation = explain(&outcome.description, member, field).map_err(|error| unknown_field(&error))?;
    if format == Format::Table {
        return printer.data(&text(&explanation));
    }
    printer.structured(format, &Answer::new(member, &explanation))
}

fn all(outcome: &Outcome, member: &Member<'_>, format: Format, printer: &Printer) -> anyhow::Result<()> {
    let explanations: Vec<Explanation> =
        fields().into_iter().filter_map(|field| explain(&outcome.description, member, field).ok()).collect();
    if format != Format::Table {
        let answers: Vec<Answer<'_>> = explanations.iter().map(|e| Answer::new(member, e)).collect();
        return printer.structured(format, &answers);
    }
    let rows: Vec<[String; 3]> = explanations
        .iter()
        .filter_map(|explanation| {
            let value = explanation.value.as_ref()?;
            let from = explanation.candidates.first().map(|winner| match winner.place.as_str() {
                place @ ("built in" | "computed") => place.to_owned(),
                place => format!("{place} ({})", winner.rank.word()),
            });
            Some([
                explanation.field.to_owned(),
                with_unit(explanation.field, value),
                from.unwrap_or_default(),
            ])
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0).max(5), width(1).clamp(5, 44));
    let mut table = format!("{BOLD}{:first$}  {:second$}  FROM{BOLD:#}\n", "FIELD", "VALUE");
    for [field, value, from] in &rows {
        table.push_str(&format!("{field:first$}  {value:second$}  {DIM}{from}{DIM:#}\n"));
    }
    printer.data(&table)
}

/// Value first, then every place that has a say, the winner on top.
fn text(explanation: &Explanation) -> String {
    let value = explanation
        .value
        .as_ref()
        .map_or_else(|| "not set".to_owned(), |value| with_unit(explanation.field, value));
    let mut text = format!("{BOLD}{value}{BOLD:#}\n");
    let place = explanation.candidates.iter().map(|c| c.place.chars().count()).max().unwrap_or(0).max(12);
    let winners = explanation.candidates.iter().filter(|c| c.wins).count();
    let written = explanation.candidates.iter().map(|c| c.text.chars().count()).max().unwrap_or(0);
    for candidate in &explanation.candidates {
        let note = match (candidate.wins, winners) {
            (true, 1) => format!("  ← wins ({})", candidate.rank.word()),
            (true, _) => format!("  ← counts ({})", candidate.rank.word()),
            (false, _) => String::new(),
        };
        let note = if candidate.place == "computed" { String::new() } else { note };
        let row = format!("  {:place$}  {:written$}{note}", candidate.place, candidate.text);
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// The unit of the fields that have one.
fn with_unit(field: &str, value: &str) -> String {
    let unit = match field {
        "vm_memory" | "balloon" => "MiB",
        "vm_disk_size" => "GiB",
        "vm_startup_delay" | "vm_shutdown_delay" => "s",
        _ => return value.to_owned(),
    };
    format!("{value} {unit}")
}

/// An explanation for programs.
#[derive(Serialize)]
struct Answer<'e> {
    node: String,
    field: &'e str,
    value: Option<&'e str>,
    from: Vec<From<'e>>,
}

#[derive(Serialize)]
struct From<'e> {
    place: &'e str,
    text: &'e str,
    rank: &'static str,
    wins: bool,
}

impl<'e> Answer<'e> {
    fn new(member: &Member<'_>, explanation: &'e Explanation) -> Self {
        Self {
            node: member.name.to_string(),
            field: explanation.field,
            value: explanation.value.as_deref(),
            from: explanation
                .candidates
                .iter()
                .map(|c| From { place: &c.place, text: &c.text, rank: c.rank.word(), wins: c.wins })
                .collect(),
        }
    }
}
