//! `talmox validate`

use std::borrow::Cow;

use serde::Serialize;
use talmox_config::{
    Code, Colour, MOST_SHOWN, Outcome, Problem, Severity, more_problems, position_of, report,
};
use talmox_image::Schematic;
use talmox_trust::Verb;
use talmox_types::desired::{Desired, Role};

use super::configs::Described;
use super::schematic::note_order;
use super::{problems_found, rehearsal};
use crate::args::{Format, Validate};
use crate::failure::Told;
use crate::printer::{GREEN, Printer};
use crate::trust::{Aim, Folder, confine, needs, settle};
use crate::variables_file;

pub(super) fn run(args: &Validate, printer: &Printer) -> anyhow::Result<()> {
    if args.untrusted
        && let Some(code) = confine(&args.description.file)?
    {
        return if code == 0 { Ok(()) } else { Err(Told.into()) };
    }
    variables_file::values_of(&args.variables)?;
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    folder.holds_its_description()?;
    let mut outcome = talmox_config::read_path(&args.description.file);
    if let Some(desired) = &outcome.desired {
        // What is not allowed is refused file by file below, as a problem with its place; a person is asked before.
        if Printer::can_ask() {
            let aim = Aim { verb: Verb::Validate, simulated: true };
            settle(&needs(aim, &outcome, desired, &folder)?, &folder, printer)?;
        }
        let described = Described { outcome: &outcome, desired, folder: &folder, variables: &args.variables };
        match rehearsal::problems(&described, |_| true, Severity::Warning) {
            Ok(problems) => outcome.problems.extend(problems),
            Err(error) => printer.say(&format!("machine configurations were not looked at: {error:#}")),
        }
    }
    if args.output.output == Format::Table {
        show_problems(&outcome, printer);
        if let Some(desired) = outcome.desired.as_ref().filter(|_| !outcome.has_errors()) {
            note_order(&Schematic::from(&desired.talos.schematic), printer);
            printer.data(&summary(desired, &outcome))?;
        }
    } else {
        printer.structured(args.output.output, &entries(&outcome, printer))?;
    }
    if outcome.has_errors() { Err(problems_found(&outcome).into()) } else { Ok(()) }
}

/// Problems worth showing: notes only on request.
fn shown<'o>(outcome: &'o Outcome, printer: &Printer) -> impl Iterator<Item = &'o Problem> + use<'o> {
    let verbose = printer.is_verbose();
    outcome.problems.iter().filter(move |problem| verbose || problem.severity != Severity::Note)
}

/// Errors always; warnings unless `-q`.
pub(super) fn show_problems(outcome: &Outcome, printer: &Printer) {
    let (errors, others): (Vec<&Problem>, Vec<&Problem>) =
        shown(outcome, printer).partition(|problem| problem.severity == Severity::Error);
    let text = |problems: Vec<&Problem>| report(&outcome.description.sources, problems, Colour::Always);
    if !others.is_empty() {
        printer.say(text(others).trim_end_matches('\n'));
        printer.say("");
    }
    if !errors.is_empty() {
        printer.problem(text(errors).trim_end_matches('\n'));
        printer.problem("");
    }
}

fn summary(desired: &Desired, outcome: &Outcome) -> String {
    let count = |role| desired.nodes.iter().filter(|node| node.role == role).count();
    let plural = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let warnings = match outcome.count(Severity::Warning) {
        0 => String::new(),
        number => format!(" ({})", plural(number, "warning")),
    };
    format!(
        "{GREEN}valid{GREEN:#}: cluster {}, {}, {}, Talos {}, Kubernetes {}{warnings}",
        desired.name,
        plural(count(Role::Controller), "control plane"),
        plural(count(Role::Worker), "worker"),
        desired.talos.version,
        desired.kubernetes.version,
    )
}

/// A problem for programs.
#[derive(Serialize)]
struct Entry<'p> {
    file: String,
    line: usize,
    column: usize,
    code: &'static str,
    message: Cow<'p, str>,
    hint: Option<&'p str>,
    severity: &'static str,
    /// How many problems follow that are not in the list; only in the last entry, and only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
}

/// The first problems, errors before all others, and how many more there are.
fn entries<'o>(outcome: &'o Outcome, printer: &Printer) -> Vec<Entry<'o>> {
    let found: Vec<&Problem> = shown(outcome, printer).collect();
    let Some(message) = more_problems(found.len()) else {
        return found.into_iter().map(|problem| entry(outcome, problem)).collect();
    };
    let is_error = |problem: &&&Problem| problem.severity == Severity::Error;
    let errors_first = found.iter().filter(is_error).chain(found.iter().filter(|problem| !is_error(problem)));
    let mut entries: Vec<Entry<'_>> =
        errors_first.clone().take(MOST_SHOWN).map(|problem| entry(outcome, problem)).collect();
    // As severe as the first of those that are left out.
    let severity = errors_first.clone().nth(MOST_SHOWN).map_or(Severity::Note, |problem| problem.severity);
    entries.push(Entry {
        file: String::new(),
        line: 0,
        column: 0,
        code: Code::MoreProblems.id(),
        message: message.into(),
        hint: None,
        severity: severity.word(),
        more: Some(found.len() - MOST_SHOWN),
    });
    entries
}

fn entry<'p>(outcome: &Outcome, problem: &'p Problem) -> Entry<'p> {
    let (file, line, column) = position_of(&outcome.description.sources, problem).unwrap_or_default();
    Entry {
        file,
        line,
        column,
        code: problem.code.id(),
        message: problem.message.as_str().into(),
        hint: problem.hint.as_deref(),
        severity: problem.severity.word(),
        more: None,
    }
}
