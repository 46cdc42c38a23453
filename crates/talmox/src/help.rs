//! The first page a person sees: verbs in groups, in the order one needs them.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use crate::args::Cli;

/// Groups of verbs. A verb in none of them is not shown, which a test forbids.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Before", &["init", "validate", "check", "trust"]),
    ("Doing", &["plan", "apply", "status", "health", "destroy"]),
    (
        "Pieces",
        &[
            "adopt",
            "template",
            "host",
            "explain",
            "render",
            "diff",
            "talosconfig",
            "kubeconfig",
            "output",
            "secrets",
            "etcd",
            "schematic",
            "convert",
        ],
    ),
    ("Others", &["sim", "schema", "completion", "man", "version"]),
];

const EXAMPLES: &str = "\
Examples:
  talmox apply --simulate -f examples/homelab   build a cluster on a simulated Proxmox
  talmox init lab                               write a description to start from
  talmox validate -f lab                        check it; every mistake is explained
  talmox check -f lab                           is Proxmox ready for it, and may the token
  talmox plan -f lab                            what would be done, and why
  talmox apply -f lab                           do it, after asking
  talmox explain -f lab cp-1.memory             which file, line or default gave a value

Flags have variables: --file is TALMOX_FILE, --variable A=b is TALMOX_VAR_A. Flags that destroy,
overwrite, approve or lift a safeguard have none: they are typed. Exit code 0: all that was asked for
is so; 1: an error, or something is left, which the last lines name with the command that goes on.
talmox VERB --help says more.";

/// The whole command line, ready to parse.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command()
        .subcommand_required(true)
        .arg_required_else_help(true)
        .override_usage("talmox <VERB> [OPTIONS]");
    let groups = groups(&command);
    let template = format!(
        "{{name}} {{version}}: {{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\n{{all-args}}\n\n{EXAMPLES}\n"
    );
    let hidden: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    // The template lists the verbs itself; clap must not list them again.
    let mut command = without_values(command.help_template(template));
    for name in hidden {
        command = command.mut_subcommand(name, |verb| verb.hide(true));
    }
    command
}

/// Help pages name the variables and keep what is in them to themselves.
fn without_values(mut command: clap::Command) -> clap::Command {
    command = command.mut_args(|argument| argument.hide_env_values(true));
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, without_values);
    }
    command
}

fn groups(command: &clap::Command) -> String {
    let header = anstyle::Style::new().bold().underline();
    let verb = anstyle::Style::new().bold();
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(|verb| verb.get_about())
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = writeln!(text, "  {verb}{name:<11}{verb:#} {about}");
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_is_in_exactly_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = command();
        let mut verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn every_verb_that_takes_arguments_shows_examples() {
        for verb in command().get_subcommands() {
            let leaf_without_choice = ["version", "render"].contains(&verb.get_name());
            assert!(leaf_without_choice || verb.get_after_help().is_some(), "{}", verb.get_name());
        }
    }
}
