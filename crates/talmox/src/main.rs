//! The command line. Thin: it parses arguments, calls the crates that do the work, and prints.

mod args;
mod commands;
mod config_server;
mod connect;
mod derived_file;
mod failure;
mod foreign_words;
mod help;
mod plan_file;
mod printer;
mod private_file;
mod private_folder;
mod progress;
mod prompt;
mod regular_file;
mod screens;
mod secrets_file;
mod simulate;
mod snapshot_file;
mod sops;
mod trust;
mod variables_file;
mod wrap;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;

use args::{Cli, typed};
use commands::Exit;
use failure::{Failure, Told};
use printer::Printer;

/// Every error, usage included.
const FAILURE: u8 = 1;
/// Only under `--detailed-exitcode`.
const CHANGES: u8 = 2;

fn main() -> ExitCode {
    let mut command = help::command();
    let given = foreign_words::arguments(std::env::args_os());
    let matches = match command.try_get_matches_from_mut(&given) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, &given),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &given),
    };
    let printer = Printer::new(&cli.global, cli.command.talks_json());
    if let Some(refused) = typed::refusal(&command, &matches) {
        printer.failure(&refused.into());
        return ExitCode::from(FAILURE);
    }
    let only_shows = cli.command.only_shows();
    // What a killed run left of secrets goes with the next one that has anything to do with a cluster.
    if !cli.command.verb().causes().is_empty() {
        private_folder::clean_up();
    }
    match commands::run(cli.command, &printer) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Changes) => ExitCode::from(CHANGES),
        Err(told) if told.is::<Told>() => ExitCode::from(FAILURE),
        Err(failure) if failure.is::<Failure>() => {
            printer.failure(&failure);
            ExitCode::from(FAILURE)
        }
        Err(error) if only_shows && is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            printer.failure(&error);
            ExitCode::from(FAILURE)
        }
    }
}

/// Help and version go to stdout with 0, mistakes to stderr with 1 (clap itself would say 2).
fn usage(error: &clap::Error, given: &[OsString]) -> ExitCode {
    // Nothing can be done about a stream that cannot be written to.
    let _ = foreign_words::meant(error, given).as_ref().unwrap_or(error).print();
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) }
}

/// Whoever read our output had enough (`talmox schema | head`): no error, unless there was something to do beside showing it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
