//! Words that people bring along from OpenTofu, talosctl, talhelper, topf and others.
//!
//! What means exactly the same here is taken as it is. For everything else one line names our way. A verb that restarts or resets
//! a machine is never taken for one of ours: the line is for `talosctl`, with the context of this cluster.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags that OpenTofu and Terraform write with one dash, and that are called the same here.
const ONE_DASH: &[&str] =
    &["auto-approve", "detailed-exitcode", "no-color", "out", "parallelism", "replace", "target"];

/// The arguments of this process, with flags of one dash as ours.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut are_flags = true;
    let own = |argument: OsString| {
        are_flags &= argument != "--";
        if are_flags { with_two_dashes(&argument).unwrap_or(argument) } else { argument }
    };
    given.into_iter().map(own).collect()
}

fn with_two_dashes(argument: &OsStr) -> Option<OsString> {
    let word = argument.to_str()?.strip_prefix('-')?;
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    ONE_DASH.contains(&name).then(|| match name {
        "no-color" => "--color=never".into(),
        _ => format!("--{word}").into(),
    })
}

/// Verbs of other tools, and what does it here.
const VERBS: &[(&str, &str)] = &[
    (
        "bootstrap",
        "talmox apply bootstraps etcd once, when it is time: talmox apply --until bootstrapped goes no further",
    ),
    ("create", "talmox apply makes what is described"),
    ("delete", "talmox destroy removes a cluster, talmox apply --remove NODE one node"),
    ("down", "talmox destroy removes a cluster"),
    (
        "drift",
        "talmox plan compares what there is with the description; --detailed-exitcode gives 2 for a difference",
    ),
    ("fmt", "there is nothing to format; talmox validate explains every mistake"),
    ("gencommand", "talmox apply does what the commands would"),
    ("genconfig", "talmox render all --to clusterconfig writes every machine's configuration"),
    ("gensecret", "talmox secrets generate"),
    ("genurl", "talmox schematic url"),
    ("import", "a VM that is there already: talmox adopt NODE --vmid N"),
    ("nodes", "talmox status"),
    ("reconcile", "talmox apply"),
    ("refresh", "there is no state to refresh: talmox plan looks at what there is each time"),
    ("scale", "change nodes or the count of a pool in the description, then: talmox plan, talmox apply"),
    ("schematic-ids", "talmox schematic id"),
    (
        "show",
        "talmox plan for what would be done, talmox status for what there is, talmox explain NODE.KEY for a value",
    ),
    ("state", "there is no state: talmox status shows what there is"),
    ("taint", "talmox apply --replace NODE builds a VM anew"),
    ("untaint", "there is no state: talmox plan shows what would be done"),
    ("up", "talmox apply"),
    (
        "upgrade",
        "change talos_version, kubernetes_version or the schematic in the description, then: talmox plan, talmox apply",
    ),
    ("upgrade-k8s", "change kubernetes_version in the description, then: talmox plan, talmox apply"),
    ("workspace", "a cluster is a folder: talmox plan -f FOLDER"),
];

/// Verbs that are for `talosctl`, as it spells them.
const TALOSCTL: &[(&str, &str)] = &[
    ("dashboard", "dashboard"),
    ("dmesg", "dmesg"),
    ("get", "get RESOURCE"),
    ("logs", "logs SERVICE"),
    ("reboot", "reboot"),
    ("reset", "reset"),
    ("shutdown", "shutdown"),
    ("support", "support"),
];

/// Flags of other tools, without dashes, and what does it here.
const FLAGS: &[(&str, &str)] = &[
    ("config", "-f FOLDER names the description"),
    ("confirm", "--auto-approve asks nothing"),
    ("drain-timeout", "a drain has five minutes, and what stands in its way is named"),
    ("dry-run", "talmox plan shows what apply would do, and changes nothing"),
    ("input", "without a terminal nothing is asked: --auto-approve says yes"),
    ("json", "-o json; for a run --log-format json"),
    (
        "lock",
        "two runs never change the same machine: the lease of one that has died is taken over with --take-over",
    ),
    ("log-level", "-q says less, -v more; --log-format json is for programs"),
    ("max-parallel", "--parallelism N: steps at a time; --max-unavailable N: workers that may be away"),
    ("nodes", "--target NODE,NODE"),
    ("nodes-filter", "--target NODE,NODE"),
    ("refresh", "talmox looks at what there is each time"),
    ("refresh-only", "talmox plan looks at what there is, and changes nothing"),
    ("state", "there is no state"),
    ("upgrade", "versions are in the description"),
    ("var", "--variable NAME=VALUE"),
    ("var-file", "variables are in talenv.yaml beside the description, or --variable NAME=VALUE"),
];

/// What is to be said of arguments that are not ours.
pub(crate) fn meant(error: &clap::Error, given: &[OsString]) -> Option<clap::Error> {
    let text = if error.kind() == ErrorKind::InvalidSubcommand {
        let ContextValue::String(word) = error.get(ContextKind::InvalidSubcommand)? else { return None };
        format!("there is no verb {word}\n\nhint: {}\n", verb(word, given)?)
    } else if error.kind() == ErrorKind::UnknownArgument {
        let ContextValue::String(argument) = error.get(ContextKind::InvalidArg)? else { return None };
        let (word, hint) = flag(argument, given)?;
        format!("there is no {word} here\n\nhint: {hint}\n")
    } else {
        return None;
    };
    Some(clap::Error::raw(error.kind(), text))
}

fn verb(word: &str, given: &[OsString]) -> Option<String> {
    if let Some((_, meant)) = VERBS.iter().find(|(other, _)| *other == word) {
        return Some((*meant).to_owned());
    }
    let (_, words) = TALOSCTL.iter().find(|(other, _)| *other == word)?;
    let context = context(given).map(|name| format!(" --context {name}")).unwrap_or_default();
    Some(format!(
        "talosctl{context} -n ADDRESS {words}\nhint: talmox status shows the addresses, talmox talosconfig --merge gives talosctl the context"
    ))
}

/// The context of the cluster whose description is named, or is in the current folder.
fn context(given: &[OsString]) -> Option<String> {
    let named = given.iter().zip(given.iter().skip(1)).find(|(flag, _)| *flag == "-f" || *flag == "--file");
    let joined = given.iter().find_map(|argument| argument.to_str()?.strip_prefix("--file="));
    let file = named.map(|(_, file)| Path::new(file)).or(joined.map(Path::new)).unwrap_or(Path::new("."));
    let desired = talmox_config::read_path(file).desired?;
    Some(desired.name.to_string())
}

/// The flag as it was typed, and our way.
fn flag(refused: &str, given: &[OsString]) -> Option<(String, String)> {
    let typed = given.iter().filter_map(|argument| argument.to_str());
    for argument in typed {
        let word = argument.trim_start_matches('-');
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let dashed = &argument[..argument.len() - word.len()];
        let is_it = match dashed {
            "--" => refused.split('=').next() == Some(&format!("--{name}")),
            // One letter of `-var` is complained about: the first that is none of ours.
            "-" => refused.strip_prefix('-').is_some_and(|letter| letter.len() == 1 && name.contains(letter)),
            "" if refused == argument && is_description(Path::new(argument)) => {
                return Some((argument.to_owned(), format!("a description is named with -f: -f {argument}")));
            }
            _ => false,
        };
        if let Some((_, hint)) = FLAGS.iter().find(|(other, _)| is_it && *other == name) {
            return Some((format!("{dashed}{name}"), (*hint).to_owned()));
        }
    }
    None
}

/// Whether a path that stands where none is expected is a description.
pub(crate) fn is_description(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help;

    fn said(line: &str) -> String {
        let given: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let given = arguments(given);
        let error = help::command().try_get_matches_from(given.clone()).unwrap_err();
        meant(&error, &given).map_or_else(|| format!("clap: {}", error.kind()), |error| error.to_string())
    }

    #[test]
    fn flags_with_one_dash_are_ours() {
        let same = |line: &str| {
            let given = arguments(line.split(' ').map(OsString::from));
            given.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            same("talmox plan -out=lab.plan -target=cp-1 -no-color"),
            "talmox plan --out=lab.plan --target=cp-1 --color=never"
        );
        assert_eq!(same("talmox apply -auto-approve -f lab"), "talmox apply --auto-approve -f lab");
        // What follows is no flag any more.
        assert_eq!(same("talmox apply -- -auto-approve"), "talmox apply -- -auto-approve");
        assert_eq!(same("talmox apply -v -o json -y"), "talmox apply -v -o json -y");
        for line in [
            "talmox plan -out=lab.plan",
            "talmox apply -auto-approve",
            "talmox apply -y",
            "talmox apply --yes",
        ] {
            let given = arguments(line.split(' ').map(OsString::from));
            assert!(help::command().try_get_matches_from(given).is_ok(), "{line}");
        }
    }

    #[test]
    fn verbs_of_others_name_ours() {
        for (word, hint) in VERBS {
            assert!(help::command().find_subcommand(word).is_none(), "{word} is a verb of ours");
            let said = said(&format!("talmox {word}"));
            assert!(said.contains(&format!("there is no verb {word}")) && said.contains(hint), "{said}");
        }
        for (word, line) in TALOSCTL {
            assert!(help::command().find_subcommand(word).is_none(), "{word} is a verb of ours");
            let plain = said(&format!("talmox {word} -f no-such-folder"));
            assert!(plain.contains(&format!("talosctl -n ADDRESS {line}\n")), "{plain}");
            let known = said(&format!("talmox {word} -f ../../examples/homelab"));
            assert!(known.contains(&format!("talosctl --context homelab -n ADDRESS {line}\n")), "{known}");
        }
    }

    #[test]
    fn flags_of_others_name_ours() {
        for (line, hint) in [
            ("talmox apply --dry-run", "talmox plan shows"),
            ("talmox apply --confirm=false", "--auto-approve asks nothing"),
            ("talmox plan -refresh-only", "talmox plan looks"),
            ("talmox plan -var a=b", "--variable NAME=VALUE"),
            ("talmox apply -json", "-o json; for a run"),
            ("talmox apply -lock=false", "--take-over"),
            ("talmox plan --nodes cp-1", "--target NODE"),
            ("talmox plan ../../examples/homelab", "-f ../../examples/homelab"),
        ] {
            let said = said(line);
            assert!(said.contains("there is no ") && said.contains(hint), "{line}: {said}");
        }
        // Another mistake gets no hint of ours.
        assert!(said("talmox plan --no-such").starts_with("clap: "), "{}", said("talmox plan --no-such"));
        assert!(said("talmox plan -w").starts_with("clap: "));
    }
}
