//! `talmox completion`

use crate::args::{Completion, Shell};
use crate::help::command;
use crate::printer::Printer;

pub(super) fn run(args: &Completion, printer: &Printer) -> anyhow::Result<()> {
    let mut script = Vec::new();
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    clap_complete::generate(shell, &mut shown(command()), "talmox", &mut script);
    printer.data(&String::from_utf8(script)?)
}

/// Verbs are hidden only from clap's own list on the help page; scripts must know them.
pub(super) fn shown(mut command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |verb| verb.hide(false));
    }
    command
}
