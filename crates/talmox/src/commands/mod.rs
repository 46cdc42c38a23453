//! One module per verb.

mod adopt;
mod apply;
mod carry_out;
mod check;
mod client_files;
mod completion;
mod configs;
mod convert;
mod destroy;
mod diff;
mod etcd;
mod explain;
mod health;
mod host;
mod init;
mod install_image;
mod left;
mod machines;
mod man;
mod output;
mod plan;
mod rehearsal;
mod render;
mod render_config;
mod replace_files;
mod schema;
mod schematic;
mod secrets;
mod shared;
mod signals;
mod sim;
mod standing;
mod status;
mod template;
mod trust;
mod validate;
mod version;
#[cfg(test)]
mod whole_runs;

use std::path::Path;

use talmox_config::{Outcome, Severity};
use talmox_types::desired::Desired;

use crate::args::Command;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trust::Folder;

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    /// There are changes, and somebody wants to know by the exit code.
    Changes,
}

pub(crate) use left::Left;
pub(crate) use shared::quoted;

pub(crate) fn run(command: Command, printer: &Printer) -> anyhow::Result<Exit> {
    let done = |result: anyhow::Result<()>| result.map(|()| Exit::Done);
    match command {
        Command::Init(args) => done(init::run(&args, printer)),
        Command::Validate(args) => done(validate::run(&args, printer)),
        Command::Check(args) => done(check::run(&args, printer)),
        Command::Plan(args) => plan::run(&args, printer),
        Command::Apply(args) => apply::run(&args.of_description()?, printer),
        Command::Status(args) => done(status::run(&args, printer)),
        Command::Health(args) => done(health::run(&args, printer)),
        Command::Destroy(args) => destroy::run(&args, printer),
        Command::Adopt(args) => done(adopt::run(&args, printer)),
        Command::Explain(args) => done(explain::run(&args, printer)),
        Command::Render(args) => done(render::run(&args, printer)),
        Command::Diff(args) => diff::run(&args, printer),
        Command::Talosconfig(args) => done(client_files::talosconfig(&args, printer)),
        Command::Kubeconfig(args) => done(client_files::kubeconfig(&args, printer)),
        Command::Output(args) => done(output::run(&args, printer)),
        Command::Secrets(args) => done(secrets::run(&args, printer)),
        Command::Etcd(args) => done(etcd::run(&args, printer)),
        Command::Schematic(args) => done(schematic::run(&args, printer)),
        Command::Convert(args) => done(convert::run(&args, printer)),
        Command::Template(args) => template::run(&args, printer),
        Command::Host(args) => host::run(&args, printer),
        Command::Trust(args) => done(trust::run(&args, printer)),
        Command::Sim(args) => done(sim::run(&args, printer)),
        Command::Schema(args) => done(schema::run(&args, printer)),
        Command::Completion(args) => done(completion::run(&args, printer)),
        Command::Man(args) => done(man::run(&args, printer)),
        Command::Version(args) => done(version::run(&args, printer)),
    }
}

/// A description that is fit to work with; its errors end the command, its warnings are said.
fn read(folder: &Folder, printer: &Printer) -> anyhow::Result<(Outcome, Desired)> {
    read_by(talmox_config::read_path, folder, printer)
}

fn read_by(
    way: impl FnOnce(&Path) -> Outcome,
    folder: &Folder,
    printer: &Printer,
) -> anyhow::Result<(Outcome, Desired)> {
    folder.holds_its_description()?;
    let mut outcome = way(folder.description());
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
