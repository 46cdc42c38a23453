//! `cargo xtask golden`: makes and patches Talos configs as recorded vectors say, and compares what comes out.

pub(crate) mod compare;
mod generate;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Serialize;
use talmox_machine::{Patch, Source, Value, patch, read_values};

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub total: usize,
    pub reproduced: usize,
    pub differences: Vec<Difference>,
}

/// A vector that was not reproduced.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// `generate 2` or `patch 4`, counted from one.
    pub vector: String,
    /// The file that says what was expected.
    pub expected: String,
    pub what: Vec<String>,
}

/// Runs the chore and gives what it prints.
pub fn command(mut args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let (mut folder, mut json) = (None, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--dir" => folder = Some(args.next().map(PathBuf::from).context("--dir wants a folder")?),
            "--json" => json = true,
            _ => bail!("golden knows --dir DIR and --json, not {arg}"),
        }
    }
    let report = run(&folder.unwrap_or_else(default_folder))?;
    if json { Ok(serde_json::to_string_pretty(&report)?) } else { Ok(report.to_string()) }
}

/// Where the vectors are unless told otherwise.
pub fn default_folder() -> PathBuf {
    crate::truth::shared_data().join("talos-golden")
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for difference in &self.differences {
            writeln!(f, "{}: {}", difference.vector, difference.expected)?;
            for what in &difference.what {
                writeln!(f, "  {what}")?;
            }
        }
        write!(f, "reproduced {} of {}", self.reproduced, self.total)
    }
}

/// Runs every `generate` and `patch` vector of a folder.
pub fn run(folder: &Path) -> anyhow::Result<Report> {
    let text = read(folder, "vectors.yaml")?;
    let documents = read_values(Source { name: "vectors.yaml", text: &text })?;
    let [vectors] = documents.as_slice() else { bail!("vectors.yaml is one document") };
    let mut report = Report::default();
    for (kind, check) in [("generate", generate::check as Check), ("patch", check_patch)] {
        let listed = vectors.at(&[kind]).and_then(Value::as_list).unwrap_or_default();
        for (index, vector) in listed.iter().enumerate() {
            // A vector that cannot be run is one that is not reproduced; the others are run all the same.
            let differences = check(folder, vector)
                .unwrap_or_else(|error| vec![("(could not be run)".to_owned(), vec![format!("{error:#}")])]);
            report.total += 1;
            report.reproduced += usize::from(differences.is_empty());
            let named = differences.into_iter().map(|(expected, what)| Difference {
                vector: format!("{kind} {}", index + 1),
                expected,
                what,
            });
            report.differences.extend(named);
        }
    }
    Ok(report)
}

/// Expected files that were not met, with the differences.
type Unmet = Vec<(String, Vec<String>)>;
type Check = fn(&Path, &Value) -> anyhow::Result<Unmet>;

#[expect(clippy::disallowed_methods, reason = "test data, in a folder that was named")]
fn read(folder: &Path, file: &str) -> anyhow::Result<String> {
    let path = folder.join(file);
    fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
}

/// A text a vector has to have.
fn text<'a>(vector: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    vector.at(&[key]).and_then(Value::as_text).with_context(|| format!("a vector without `{key}`"))
}

/// The patches a vector lists.
fn patches(folder: &Path, vector: &Value) -> anyhow::Result<Vec<Patch>> {
    let files = vector.at(&["patches"]).and_then(Value::as_list).unwrap_or_default();
    files
        .iter()
        .map(|file| {
            let name = file.as_text().context("a patch is named by its file")?;
            Ok(Patch::parse(Source { name, text: &read(folder, name)? })?)
        })
        .collect()
}

fn check_patch(folder: &Path, vector: &Value) -> anyhow::Result<Unmet> {
    let (base, expected) = (text(vector, "base")?, text(vector, "expected")?);
    let config = read(folder, base)?;
    let patched = patch::apply_to_text(Source { name: base, text: &config }, &patches(folder, vector)?);
    unmet(folder, expected, patched.map(|patched| patched.to_yaml()).map_err(|error| error.to_string()))
}

/// Compares a config, or why there is none, with the file that says what was expected.
fn unmet(folder: &Path, expected: &str, found: Result<String, String>) -> anyhow::Result<Unmet> {
    let wanted = read(folder, expected)?;
    let differences = match found {
        Ok(found) => compare::configs(&wanted, &found)?,
        Err(error) => vec![error],
    };
    Ok(if differences.is_empty() { Vec::new() } else { vec![(expected.to_owned(), differences)] })
}
