//! Where variables of patches get their values: flags, the environment, and the file talhelper's users keep them in.
//!
//! A description is not to find out anything by naming it. Of the environment only `TALMOX_VAR_NAME` is seen, and variables the
//! person let through by name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use talmox_config::Outcome;
use talmox_machine::Source;
use talmox_render::{Unset, Variables, is_name};
use talmox_types::desired::Patch;
use talmox_yaml::NodeKind;

use crate::args::VariableFlags;
use crate::failure::Failure;
use crate::secrets_file;
use crate::trust::Folder;

/// Names of the file beside the description, in the order they are looked for.
pub(crate) const NAMES: [&str; 4] = ["talenv.sops.yaml", "talenv.sops.yml", "talenv.yaml", "talenv.yml"];

/// What a variable of the environment is called that gives the variable NAME a value.
const PREFIX: &str = "TALMOX_VAR_";

/// The variables for patches of the description in a folder.
pub(crate) fn load(folder: &Folder, flags: &VariableFlags) -> Result<Variables, Failure> {
    let file = match find(folder.path()) {
        Some(path) => {
            folder.readable_path(&path)?;
            read(&path)?
        }
        None => Vec::new(),
    };
    gather(flags, std::env::vars_os(), file, &folder.granted().variables())
}

/// Names that patches use, that nothing gives a value, and that the environment has: a grant would let them through.
pub(crate) fn wanted_of_environment(outcome: &Outcome, folder: &Folder) -> Result<BTreeSet<String>, Failure> {
    let mut names = BTreeSet::new();
    for member in outcome.description.members() {
        for written in outcome.description.patches(&member) {
            let text = match written.patch {
                Patch::Inline(text) => text,
                // A file that may not be read, or is not there, is told elsewhere.
                Patch::File(file) => folder.text(file).unwrap_or_default(),
            };
            names.extend(talmox_render::names(Source { name: &written.place, text: &text }));
        }
    }
    let known = names_of_file(folder)?;
    let set = |name: &String| std::env::var_os(name).is_some();
    let given = |name: &String| std::env::var_os(format!("{PREFIX}{name}")).is_some() || known.contains(name);
    names.retain(|name| set(name) && !given(name));
    Ok(names)
}

fn names_of_file(folder: &Folder) -> Result<BTreeSet<String>, Failure> {
    let Some(path) = find(folder.path()) else { return Ok(BTreeSet::new()) };
    folder.readable_path(&path)?;
    Ok(names_in(&secrets_file::read_as_it_is(&path)?))
}

/// The variables a description can refer to. For each name the first of these counts: `--variable NAME=VALUE`, `TALMOX_VAR_NAME`, the
/// file, and the environment's variable of that name if `--variable NAME` or a grant of the person lets it through.
pub(crate) fn gather(
    flags: &VariableFlags,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    file: Vec<(String, String)>,
    granted: &BTreeSet<String>,
) -> Result<Variables, Failure> {
    let mut values = values_of(flags)?;
    let named = flags.given.iter().filter(|flag| flag.value.is_none()).map(|flag| &flag.name);
    let let_through: BTreeSet<&str> = named.chain(granted).map(String::as_str).collect();
    let (mut prefixed, mut own) = (Vec::new(), Vec::new());
    for (variable, value) in environment {
        // What has another name than a variable of a patch can have is never asked for.
        let Ok(variable) = variable.into_string() else { continue };
        if let Some(name) = variable.strip_prefix(PREFIX).filter(|name| is_name(name)) {
            prefixed.push((name.to_owned(), text(&variable, value.clone())?));
        }
        if let_through.contains(variable.as_str()) {
            let value = text(&variable, value)?;
            own.push((variable, value));
        }
    }
    for (name, value) in prefixed.into_iter().chain(file).chain(own) {
        values.entry(name).or_insert(value);
    }
    Ok(values.into_iter().collect())
}

/// The values flags give. What is wrong with one is told without its value.
pub(crate) fn values_of(flags: &VariableFlags) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    for flag in &flags.given {
        if !is_name(&flag.name) {
            return Err(Failure::new("--variable takes NAME=VALUE or NAME")
                .with_hint("a name has letters, digits and _, and does not begin with a digit"));
        }
        if let Some(value) = &flag.value
            && values.insert(flag.name.clone(), value.clone()).is_some()
        {
            return Err(Failure::new(format!("--variable {}=… is given twice", flag.name)));
        }
    }
    Ok(values)
}

fn text(name: &str, value: OsString) -> Result<String, Failure> {
    value
        .into_string()
        .map_err(|_| Failure::new(format!("the variable {name} of the environment is not UTF-8")))
}

/// The file of variables in a folder.
pub(crate) fn find(folder: &Path) -> Option<PathBuf> {
    NAMES.into_iter().map(|name| folder.join(name)).find(|path| path.exists())
}

/// What a file of variables says; one encrypted by SOPS is opened.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let text = secrets_file::read(path)?;
    parse(&path.display().to_string(), &text)
}

/// The names that are in a file of variables, with a value or without. SOPS leaves them readable, so no key is needed.
pub(crate) fn names_in(text: &str) -> BTreeSet<String> {
    let parsed = talmox_yaml::parse(text);
    let Some(NodeKind::Mapping(entries)) = parsed.documents.first().map(|root| &root.kind) else {
        return BTreeSet::new();
    };
    entries.iter().filter_map(|entry| Some(entry.key.as_scalar()?.text.clone())).collect()
}

/// What to do about variables without a value.
pub(crate) fn advice(unset: &[Unset]) -> String {
    let names: BTreeSet<&str> = unset.iter().map(|one| one.name.as_str()).collect();
    let lines: String = names.iter().map(|name| format!("\n  {name}: …")).collect();
    let first = names.first().copied().unwrap_or("NAME");
    format!(
        "add to talenv.yaml beside the description, or encrypted to talenv.sops.yaml:{lines}\n\
         for one run: --variable {first}=VALUE, or TALMOX_VAR_{first}=VALUE in the environment;\n\
         --variable {first} lets the environment's own {first} through"
    )
}

/// `NAME: value`, one below the other. A name without a value is left out: `talmox convert` writes such lines to be filled in. What is wrong is told without anything that stands there: a link may lead to another file.
fn parse(name: &str, text: &str) -> Result<Vec<(String, String)>, Failure> {
    let parsed = talmox_yaml::parse(text);
    let wrong =
        || Failure::new(format!("{name} is not a list of variables, NAME: value one below the other"));
    let Some(root) = parsed.documents.first().filter(|root| !root.is_null()) else {
        return if parsed.faults.is_empty() { Ok(Vec::new()) } else { Err(wrong()) };
    };
    let NodeKind::Mapping(entries) = &root.kind else { return Err(wrong()) };
    if !parsed.faults.is_empty() {
        return Err(wrong());
    }
    let line = |start: u32| {
        let before = text.as_bytes().get(..start as usize).unwrap_or_default();
        before.split(|byte| *byte == b'\n').count()
    };
    entries
        .iter()
        .filter_map(|entry| Some((entry.key.as_scalar()?.text.clone(), entry)))
        .filter(|(key, _)| key != "sops")
        .filter(|(_, entry)| !entry.value.is_null())
        .map(|(key, entry)| match entry.value.as_scalar() {
            Some(scalar) => Ok((key, scalar.text.clone())),
            None => {
                let line = line(entry.key.span.start);
                Err(Failure::new(format!("{name}:{line}: the value of this variable is not a text")))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> VariableFlags {
        VariableFlags { given: words.iter().map(|word| word.parse().unwrap()).collect() }
    }

    fn gathered(
        words: &[&str],
        environment: &[(&str, &str)],
        file: &[(&str, &str)],
        granted: &[&str],
    ) -> Variables {
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        let file = file.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let granted = granted.iter().map(|name| (*name).to_owned()).collect();
        gather(&flags(words), environment, file, &granted).unwrap()
    }

    #[test]
    fn the_first_source_that_has_a_name_counts() {
        let environment = [("TALMOX_VAR_A", "prefixed"), ("A", "own"), ("PATH", "/bin")];
        let file = [("A", "file"), ("B", "file")];
        let value = |words: &[&str], environment: &[(&str, &str)], file: &[(&str, &str)]| {
            gathered(words, environment, file, &[]).get("A").map(str::to_owned)
        };
        assert_eq!(value(&["A=flag", "A"], &environment, &file).as_deref(), Some("flag"));
        assert_eq!(value(&["A"], &environment, &file).as_deref(), Some("prefixed"));
        assert_eq!(value(&["A"], &environment[1..], &file).as_deref(), Some("file"));
        assert_eq!(value(&["A"], &environment[1..], &[]).as_deref(), Some("own"));
        assert_eq!(value(&[], &environment[1..], &[]), None);
        assert_eq!(value(&["A=x=y"], &[], &[]).as_deref(), Some("x=y"));
        assert_eq!(value(&["A="], &[], &file).as_deref(), Some(""));
    }

    #[test]
    fn of_the_environment_only_what_was_let_through_is_seen() {
        let environment =
            [("SOPS_AGE_KEY", "hush-hush"), ("TALMOX_VAR_", "x"), ("TALMOX_VAR_1", "x"), ("GRANTED", "yes")];
        let variables = gathered(&["OTHER"], &environment, &[], &["GRANTED"]);
        assert_eq!(format!("{variables:?}"), r#"{"GRANTED"}"#);
        assert!(!variables.hidden().is_in("hush-hush"));
    }

    #[test]
    fn what_is_wrong_with_a_flag_is_told_without_its_value() {
        for words in
            [&["1A=hush-hush"][..], &["my-token=hush-hush"], &["=hush-hush"], &["A=hush-hush", "A=hush-hush"]]
        {
            let failure = gather(&flags(words), [], Vec::new(), &BTreeSet::new()).unwrap_err().to_string();
            assert!(failure.contains("--variable") && !failure.contains("hush-hush"), "{failure}");
        }
        assert_eq!(flags(&["A=hush-hush", "B"]).words(), " --variable A=<value> --variable B");
    }

    #[test]
    fn values_are_texts_as_they_are_written() {
        let pairs = parse("talenv.yaml", "# a comment\nA: 0755\nB: \"x: y\"\nC: no\nD:\nE: \"\"\n").unwrap();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("A", "0755"), ("B", "x: y"), ("C", "no"), ("E", "")]);
        assert_eq!(parse("talenv.yaml", "").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_told_without_keys_and_values() {
        for text in [
            "- hush-hush\n",
            "hush-hush: {hush-hush: b}\n",
            "A: [\nhush-hush",
            "hush-hush: 1\nhush-hush: 2\n",
        ] {
            let failure = parse("talenv.yaml", text).unwrap_err().to_string();
            assert!(failure.contains("talenv.yaml") && !failure.contains("hush-hush"), "{failure}");
        }
        let failure = parse("talenv.yaml", "A: b\nC: []\n").unwrap_err().to_string();
        assert!(failure.starts_with("talenv.yaml:2: "), "{failure}");
    }
}
