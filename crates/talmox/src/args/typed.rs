//! Flags that have to be typed.
//!
//! They destroy, overwrite, approve, or lift a safeguard. A variable outlives the run it was set for: in a shell's profile or
//! in the settings of a pipeline it would approve every later run as well. So these flags have no variable, and a run with
//! one that an earlier talmox read fails before it does anything, instead of leaving out silently what the variable asked for.

use std::ffi::{OsStr, OsString};

use clap::builder::{FalseyValueParser, TypedValueParser as _};
use clap::{Arg, ArgMatches, Command};

use crate::failure::Failure;

/// Their long names, whichever verb has them.
const TYPED: &[&str] = &[
    // Destroy what is there, or build it anew.
    "all",
    "prune",
    "remove",
    "replace",
    "restore",
    "roll",
    // Overwrite files, or begin another rotation while one is under way.
    "force",
    "forget",
    "kubernetes",
    "talos",
    // Approve.
    "auto-approve",
    "reconfigure",
    "yes",
    // Interrupt or move what runs.
    "allow-reboot",
    "force-stop",
    "move",
    "move-back",
    // Lift a safeguard.
    "allow-incomplete",
    "disarm",
    "host-gone",
    "no-snapshot",
    "offline",
    "plain",
    "quorum-lost",
    "take-over",
    "vmid",
];

/// Why this run must not begin: the environment has variables that stand for typed flags of its verb.
pub(crate) fn refusal(command: &Command, matches: &ArgMatches) -> Option<Failure> {
    refusal_of(verb(command, matches), |name| std::env::var_os(name))
}

fn refusal_of(verb: &Command, variable: impl Fn(&str) -> Option<OsString>) -> Option<Failure> {
    let set: Vec<(String, &Arg)> = typed(verb)
        .filter_map(|(long, argument)| {
            let name = variable_of(long);
            variable(&name).is_some_and(|value| is_on(verb, argument, &value)).then_some((name, argument))
        })
        .collect();
    let names: Vec<&str> = set.iter().map(|(name, _)| name.as_str()).collect();
    let are = match names.len() {
        0 => return None,
        1 => "is",
        _ => "are",
    };
    let message = format!(
        "{} {are} set, but flags that destroy, overwrite, approve or lift a safeguard come from the command line only",
        names.join(", ")
    );
    let hint =
        |(name, argument): &(String, &Arg)| format!("unset {name}; if you want it, type {}", shown(argument));
    Some(set.iter().map(hint).fold(Failure::new(message), Failure::with_hint))
}

/// The command that runs, below those that only group verbs.
fn verb<'a>(command: &'a Command, matches: &ArgMatches) -> &'a Command {
    match matches.subcommand() {
        Some((name, matches)) => command.find_subcommand(name).map_or(command, |below| verb(below, matches)),
        None => command,
    }
}

fn typed(verb: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    verb.get_arguments()
        .filter_map(|argument| Some((argument.get_long()?, argument)))
        .filter(|(long, _)| TYPED.contains(long))
}

fn variable_of(long: &str) -> String {
    format!("TALMOX_{}", long.to_uppercase().replace('-', "_"))
}

/// Whether the variable would have done something: a switch reads `0`, `no`, `off` and the like as no.
fn is_on(verb: &Command, argument: &Arg, value: &OsStr) -> bool {
    if argument.get_action().takes_values() {
        return !value.is_empty();
    }
    // What is not UTF-8 is none of these words.
    FalseyValueParser::new().parse_ref(verb, Some(argument), value).unwrap_or(true)
}

/// The flag as a person types it: `--prune`, `--replace <NODE>`.
fn shown(argument: &Arg) -> String {
    let long = argument.get_long().unwrap_or_default();
    match argument.get_value_names() {
        Some([name, ..]) if argument.get_action().takes_values() => format!("--{long} <{name}>"),
        _ => format!("--{long}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::help;

    /// Every command, those that only group verbs included.
    fn walk(command: &Command, visit: &mut impl FnMut(&Command)) {
        visit(command);
        command.get_subcommands().for_each(|below| walk(below, visit));
    }

    /// What a run of this verb says, if it is refused.
    fn refused(verb: &Command, variables: &[(&str, &str)]) -> Option<String> {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let failure = anyhow::Error::from(refusal_of(verb, lookup)?);
        Some(format!("{failure}\n{}", crate::failure::hints(&failure).join("\n")))
    }

    fn apply() -> Command {
        help::command().find_subcommand("apply").unwrap().clone()
    }

    #[test]
    fn a_flag_has_the_variable_of_its_name_or_is_to_be_typed() {
        let mut unused: BTreeSet<&str> = TYPED.iter().copied().collect();
        assert_eq!(unused.len(), TYPED.len(), "the list names a flag twice");
        walk(&help::command(), &mut |command| {
            for argument in command.get_arguments() {
                let Some(long) =
                    argument.get_long().filter(|long| !["help", "version", "variable"].contains(long))
                else {
                    continue;
                };
                let listed = TYPED.contains(&long);
                unused.remove(long);
                let expected = (!listed).then(|| variable_of(long));
                let variable = argument.get_env().and_then(OsStr::to_str);
                assert_eq!(variable, expected.as_deref(), "--{long} of {}", command.get_name());
            }
        });
        assert!(unused.is_empty(), "no verb has {unused:?}");
    }

    #[test]
    fn each_variable_stops_each_verb_that_has_its_flag_and_no_other() {
        let mut pairs = 0;
        walk(&help::command(), &mut |verb| {
            for long in TYPED {
                let name = variable_of(long);
                let told = refused(verb, &[(name.as_str(), "1")]);
                let has = verb.get_arguments().any(|argument| argument.get_long() == Some(long));
                assert_eq!(told.is_some(), has, "{name} and {}", verb.get_name());
                if let Some(told) = told {
                    assert!(told.starts_with(&format!("{name} is set, but")), "{told}");
                    assert!(
                        told.contains(&format!("\nunset {name}; if you want it, type --{long}")),
                        "{told}"
                    );
                    pairs += 1;
                }
            }
        });
        assert!(pairs >= TYPED.len(), "{pairs}");
    }

    #[test]
    fn the_verb_is_the_last_of_the_words() {
        for (words, expected) in [
            (&["talmox", "apply"][..], "apply"),
            (&["talmox", "secrets", "decrypt", "x"], "decrypt"),
            (&["talmox", "adopt"], "adopt"),
            (&["talmox", "adopt", "cluster"], "cluster"),
        ] {
            let mut command = help::command();
            let matches = command.try_get_matches_from_mut(words).unwrap();
            assert_eq!(verb(&command, &matches).get_name(), expected);
        }
    }

    /// A run takes its verb's flags only, and this would leave those of a group unseen.
    #[test]
    fn a_verb_that_has_verbs_below_it_takes_flags_of_its_own_only_without_them() {
        walk(&help::command(), &mut |command| {
            if command.has_subcommands() && typed(command).next().is_some() {
                assert!(command.is_args_conflicts_with_subcommands_set(), "{}", command.get_name());
            }
        });
    }

    #[test]
    fn what_a_variable_never_turned_on_stops_nothing() {
        let apply = apply();
        for off in ["", "0", "n", "no", "f", "false", "off", "OFF", "No"] {
            assert_eq!(refused(&apply, &[("TALMOX_PRUNE", off)]), None, "{off:?}");
        }
        for on in ["1", "yes", "true", "on", "anything", " "] {
            assert!(refused(&apply, &[("TALMOX_PRUNE", on)]).is_some(), "{on:?}");
        }
        // A flag with a value has no word for off: a node may be called `no`.
        assert_eq!(refused(&apply, &[("TALMOX_REPLACE", "")]), None);
        assert!(refused(&apply, &[("TALMOX_REPLACE", "no")]).is_some());
    }

    #[test]
    fn all_of_them_are_named_at_once() {
        let set = [("TALMOX_AUTO_APPROVE", "1"), ("TALMOX_REPLACE", "cp-1"), ("TALMOX_YES", "1")];
        let told = refused(&apply(), &set).unwrap();
        insta::assert_snapshot!(told, @"
        TALMOX_REPLACE, TALMOX_AUTO_APPROVE are set, but flags that destroy, overwrite, approve or lift a safeguard come from the command line only
        unset TALMOX_REPLACE; if you want it, type --replace <NODE>
        unset TALMOX_AUTO_APPROVE; if you want it, type --auto-approve
        ");
    }
}
