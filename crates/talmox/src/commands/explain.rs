//! `talmox explain`

use serde::Serialize;
use talmox_config::{Explanation, Member, Outcome, UnknownField, explain, fields};
use talmox_plan::{Live, Observed, live};
use talmox_types::desired::Desired;

use super::shared::{Job, block_on};
use super::{read, unknown_node};
use crate::args::{Explain, Format, Simulate};
use crate::failure::Failure;
use crate::printer::{BOLD, DIM, Printer};
use crate::trust::Folder;
use talmox_trust::Verb;

pub(super) fn run(args: &Explain, printer: &Printer) -> anyhow::Result<()> {
    if args.live || args.connection.simulate != Simulate::Off {
        return block_on(async {
            let job = Job::open(Verb::Explain, &args.description, &args.connection, printer).await?;
            let observed = job.observe().await;
            job.session.close().await?;
            let seen = Some((&job.desired, &observed?));
            answer(args, &job.outcome, seen.as_ref().copied(), printer)
        });
    }
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    let (outcome, _) = read(&folder, printer)?;
    answer(args, &outcome, None, printer)
}

/// What the description wants and what was seen, if anybody looked.
type World<'w> = Option<(&'w Desired, &'w Observed)>;

fn answer(args: &Explain, outcome: &Outcome, world: World<'_>, printer: &Printer) -> anyhow::Result<()> {
    let (name, field) = match args.subject.split_once('.') {
        Some((name, field)) => (name, Some(field)),
        None => (args.subject.as_str(), None),
    };
    let member = outcome.description.member(name).map_err(|closest| {
        unknown_node(outcome, name, closest.as_ref().map(talmox_types::NodeName::as_str))
    })?;
    match field {
        Some(field) => one(outcome, (&member, field), world, args.output.output, printer),
        None => all(outcome, &member, world, args.output.output, printer),
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
    (member, field): (&Member<'_>, &str),
    world: World<'_>,
    format: Format,
    printer: &Printer,
) -> anyhow::Result<()> {
    let explanation = explain(&outcome.description, member, field).map_err(|error| unknown_field(&error))?;
    if format == Format::Table {
        return printer.data(&(text(&explanation) + &on_proxmox(world, member, explanation.field)));
    }
    printer.structured(format, &Answer::new(member, &explanation, world))
}

fn all(
    outcome: &Outcome,
    member: &Member<'_>,
    world: World<'_>,
    format: Format,
    printer: &Printer,
) -> anyhow::Result<()> {
    let explanations: Vec<Explanation> =
        fields().into_iter().filter_map(|field| explain(&outcome.description, member, field).ok()).collect();
    if format != Format::Table {
        let answers: Vec<Answer<'_>> = explanations.iter().map(|e| Answer::new(member, e, world)).collect();
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
            let held = held(world, member, explanation.field).map(|live| format!("   {}", in_words(&live)));
            Some([
                explanation.field.to_owned(),
                with_unit(explanation.field, value),
                from.unwrap_or_default() + &held.unwrap_or_default(),
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

fn held(world: World<'_>, member: &Member<'_>, field: &str) -> Option<Live> {
    let (desired, observed) = world?;
    live(desired, observed, &member.name, field)
}

/// `on Proxmox: memory 16384, pending 24576 (reboot)`
fn in_words(live: &Live) -> String {
    let value = live.value.as_deref().unwrap_or("not set");
    let pending = live.pending.as_ref().map(|next| format!(", pending {next} (reboot)")).unwrap_or_default();
    format!("on Proxmox: {} {value}{pending}", live.key)
}

/// The last line of an explanation, if somebody looked.
fn on_proxmox(world: World<'_>, member: &Member<'_>, field: &str) -> String {
    let Some((desired, observed)) = world else { return String::new() };
    let there = talmox_plan::identify(desired, observed).of_node(&member.name).next().is_some();
    match held(world, member, field) {
        Some(live) => in_words(&live) + "\n",
        None if there => "on Proxmox: not a setting of the VM\n".to_owned(),
        None => format!("on Proxmox: {} has no VM that is known to be its own\n", member.name),
    }
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
    /// Only if somebody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_proxmox: Option<Live>,
}

#[derive(Serialize)]
struct From<'e> {
    place: &'e str,
    text: &'e str,
    rank: &'static str,
    wins: bool,
}

impl<'e> Answer<'e> {
    fn new(member: &Member<'_>, explanation: &'e Explanation, world: World<'_>) -> Self {
        Self {
            node: member.name.to_string(),
            field: explanation.field,
            value: explanation.value.as_deref(),
            from: explanation
                .candidates
                .iter()
                .map(|c| From { place: &c.place, text: &c.text, rank: c.rank.word(), wins: c.wins })
                .collect(),
            on_proxmox: held(world, member, explanation.field),
        }
    }
}
