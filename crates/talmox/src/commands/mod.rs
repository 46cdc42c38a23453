//! One module per verb.

mod completion;
mod explain;
mod init;
mod man;
mod render;
mod schema;
mod sim;
mod validate;
mod version;

use std::path::Path;

use talmox_config::{Outcome, Severity};
use talmox_types::desired::Desired;

use crate::args::Command;
use crate::failure::Failure;
use crate::printer::Printer;

pub(crate) fn run(command: Command, printer: &Printer) -> anyhow::Result<()> {
    match command {
        Command::Init(args) => init::run(&args, printer),
        Command::Validate(args) => validate::run(&args, printer),
        Command::Explain(args) => explain::run(&args, printer),
        Command::Render(args) => render::run(&args, printer),
        Command::Sim(args) => sim::run(&args, printer),
        Command::Schema(args) => schema::run(&args, printer),
        Command::Completion(args) => completion::run(&args, printer),
        Command::Man(args) => man::run(&args, printer),
        Command::Version(args) => version::run(&args, printer),
    }
}

/// A description that is fit to work with; its errors end the command, its warnings are said.
fn read(path: &Path, printer: &Printer) -> anyhow::Result<(Outcome, Desired)> {
    let mut outcome = talmox_config::read_path(path);
    validate::show_problems(&outcome, printer);
    match outcome.desired.take() {
        Some(desired) => Ok((outcome, desired)),
        None => Err(problems_found(&outcome).into()),
    }
}

fn problems_found(outcome: &Outcome) -> Failure {
    let count = outcome.count(Severity::Error);
    let problems = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    Failure::new(format!("{problems} in the description. Nothing was sent to Proxmox."))
}

/// No node of that name: says which are there, and which was probably meant.
fn unknown_node(outcome: &Outcome, name: &str, closest: Option<&str>) -> Failure {
    let failure = Failure::new(format!("there is no node {name} in the description"));
    if let Some(close) = closest {
        return failure.with_hint(format!("did you mean {close}?"));
    }
    let names: Vec<String> =
        outcome.description.members().iter().take(10).map(|member| member.name.to_string()).collect();
    failure.with_hint(format!("nodes: {}", names.join(", ")))
}
