//! Flags that destroy, overwrite, approve or lift a safeguard have no variable of the environment.

#![expect(clippy::disallowed_methods, reason = "files the program had written")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::doing::Lab;
use crate::support::{Scratch, command, finish, run};

/// Every verb, as its manual page calls it.
fn verbs() -> Vec<Vec<String>> {
    let scratch = Scratch::new("typed-pages");
    run(&["man", "--to", &scratch.path("")]).succeeded();
    let synopsis = |page: PathBuf| {
        let text = fs::read_to_string(page).unwrap().replace("\\-", "-");
        let name = text.split(".SH SYNOPSIS\n\\fBtalmox").nth(1).unwrap().split("\\fR").next().unwrap();
        name.split_whitespace().map(str::to_owned).collect()
    };
    fs::read_dir(&scratch.0).unwrap().map(|page| synopsis(page.unwrap().path())).collect()
}

/// What a help page says of a verb.
struct Page {
    /// Words that the verb demands: `<FILE>`, `--to <FOLDER>`.
    demanded: Vec<String>,
    /// Each long flag with the placeholder of its value, and whether it has a variable.
    flags: BTreeMap<String, (Option<String>, bool)>,
}

impl Page {
    fn of(verb: &[String]) -> Self {
        let mut words: Vec<&str> = verb.iter().map(String::as_str).collect();
        words.push("--help");
        let text = run(&words).succeeded().stdout;
        let usage = text.lines().find_map(|line| line.strip_prefix("Usage: talmox ")).unwrap();
        let demanded = usage
            .split_whitespace()
            .skip(verb.len())
            .filter(|word| !word.starts_with('['))
            .map(str::to_owned)
            .collect();
        let mut flags = BTreeMap::new();
        let mut last = "";
        for line in text.lines() {
            let trimmed = line.trim_start();
            // Descriptions stand further to the right, and may begin with a flag too.
            if trimmed.starts_with('-') && line.len() - trimmed.len() <= 6 {
                let mut words = trimmed.split([' ', '[', '=']).filter(|word| !word.is_empty());
                last = words.find_map(|word| word.strip_prefix("--")).unwrap();
                let value = trimmed.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
                flags.insert(last.to_owned(), (value.map(|(value, _)| value.to_owned()), false));
            }
            if line.contains("[env:")
                && let Some((_, has_variable)) = flags.get_mut(last)
            {
                *has_variable = true;
            }
        }
        // Each name has a variable of its own: TALMOX_VAR_NAME.
        flags.retain(|long, _| !["help", "version", "variable"].contains(&long.as_str()));
        Self { demanded, flags }
    }
}

/// A word the program would take where its help has a placeholder.
#[expect(clippy::panic, reason = "a new placeholder needs a line here")]
fn value(placeholder: &str) -> &'static str {
    match placeholder {
        "FILE" => "secrets.yaml",
        "FOLDER" => "configs",
        "HOST" => "pve",
        "ID" => "2001",
        "NODE" | "NODE[=FINGERPRINT]" | "NAME[=VALUE]" => "worker-1",
        "NODE=HOST" => "worker-1=pve",
        "WHAT" => "template",
        other => panic!("this test needs a value for <{other}>"),
    }
}

/// Every file below a folder, with what is in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.insert(path.clone(), Vec::new());
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

#[test]
fn the_variable_of_a_typed_flag_stops_the_run_before_it_does_anything() {
    let lab = Lab::new("typed");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    fs::write(lab.scratch.0.join("secrets.yaml"), "cluster: {}\n").unwrap();
    let world = format!("--simulate={}", lab.scratch.path("world"));
    let before = files(&lab.scratch.0);
    let mut pairs = 0;
    for verb in verbs() {
        let page = Page::of(&verb);
        for (long, (placeholder, _)) in page.flags.iter().filter(|(_, (_, has_variable))| !has_variable) {
            let mut words: Vec<&str> = verb.iter().map(String::as_str).collect();
            words.extend(page.demanded.iter().map(|word| {
                match word.strip_prefix('<').and_then(|word| word.strip_suffix('>')) {
                    Some(placeholder) => value(placeholder),
                    None => word.as_str(),
                }
            }));
            if page.flags.contains_key("simulate") {
                words.push(&world);
            }
            let variable = format!("TALMOX_{}", long.to_uppercase().replace('-', "_"));
            let on = placeholder.as_deref().map_or("1", value);
            let mut command = command(&words);
            let run = finish(command.current_dir(&lab.scratch.0).env(&variable, on)).failed();
            let whole = run.whole();
            assert!(run.stdout.is_empty(), "{words:?}: {whole}");
            assert!(run.stderr.starts_with(&format!("error: {variable} is set, but")), "{words:?}: {whole}");
            let way_out = format!("hint: unset {variable}; if you want it, type --{long}");
            assert!(run.stderr.contains(&way_out), "{words:?}: {whole}");
            assert!(files(&lab.scratch.0) == before, "{words:?} changed something: {whole}");
            pairs += 1;
        }
    }
    // Twenty verbs have them; were the help pages not understood, none would be found.
    assert!(pairs > 40, "{pairs}");
}

#[test]
fn a_variable_stops_no_verb_without_its_flag_and_none_if_it_says_no() {
    let lab = Lab::new("typed-off");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    finish(lab.command(&["status"]).env("TALMOX_PRUNE", "1")).succeeded();
    finish(lab.command(&["plan"]).env("TALMOX_PRUNE", "off").env("TALMOX_REPLACE", "")).succeeded();
}

#[test]
fn programs_are_told_in_their_format() {
    let lab = Lab::new("typed-json");
    let mut command = lab.command(&["destroy", "--log-format", "json"]);
    let run = finish(command.env("TALMOX_AUTO_APPROVE", "1")).failed();
    let told: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(told["event"], "error", "{}", run.whole());
    assert!(run.stderr.contains("type --auto-approve"), "{}", run.whole());
}
