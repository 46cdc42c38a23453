//! Grants as text: YAML that [`crate::read_list`] and [`crate::read_by_folder`] read back.

use std::collections::BTreeMap;

use crate::grant::{Access, Certificate, Credential, Grant, Program, Receiver};
use crate::origin::Origin;

/// A list of grants: what `TALMOX_TRUST` holds.
pub fn list<'g>(grants: impl IntoIterator<Item = &'g Grant>) -> String {
    grants.into_iter().map(|grant| one(grant, "")).collect()
}

/// Lists of grants by the real path of the description's folder: what `trust.yaml` holds.
pub fn by_folder(folders: &BTreeMap<String, Vec<Grant>>) -> String {
    let mut text = String::new();
    for (folder, grants) in folders.iter().filter(|(_, grants)| !grants.is_empty()) {
        text.push_str(&format!("{}:\n", quoted(folder)));
        text.extend(grants.iter().map(|grant| one(grant, "  ")));
    }
    text
}

fn one(grant: &Grant, indent: &str) -> String {
    let fields: Vec<(&str, String)> = match grant {
        Grant::Program(Program { argv, path, files, variables }) => {
            let mut fields = vec![("program", words(argv)), ("path", quoted(path))];
            if !files.is_empty() {
                let pairs: Vec<String> = files
                    .iter()
                    .map(|(name, digest)| format!("{}: {}", quoted(name), quoted(digest)))
                    .collect();
                fields.push(("files", format!("{{{}}}", pairs.join(", "))));
            }
            if !variables.is_empty() {
                fields.push(("variables", words(variables)));
            }
            fields
        }
        Grant::Credential(Credential { secret, endpoints, certificate }) => vec![
            ("credential", quoted(secret)),
            ("endpoint", words(endpoints.iter().map(Origin::as_str))),
            ("certificate", printed(certificate)),
        ],
        Grant::Variable(name) => vec![("variable", quoted(name))],
        Grant::Folder { path, access } => {
            let access = match access {
                Access::Read => "read",
                Access::Write => "write",
            };
            vec![("folder", quoted(path)), ("access", access.to_owned())]
        }
        Grant::Host(origin) => vec![("host", quoted(origin.as_str()))],
        Grant::Recipient(Receiver::Age(key)) => vec![("recipient", quoted(key))],
        Grant::Recipient(Receiver::SeedStorage(storage)) => {
            vec![("recipient", quoted(&format!("{}{storage}", Receiver::STORAGE)))]
        }
    };
    let line = |(index, (key, value)): (usize, (&str, String))| {
        format!("{indent}{} {key}: {value}\n", if index == 0 { "-" } else { " " })
    };
    fields.into_iter().enumerate().map(line).collect()
}

fn printed(certificate: &Certificate) -> String {
    match certificate {
        Certificate::System => "system".to_owned(),
        Certificate::Unchecked => "unchecked".to_owned(),
        Certificate::Fingerprints(fingerprints) => words(fingerprints.iter().map(ToString::to_string)),
        Certificate::Authority { file, digest } => {
            format!("{{ca_file: {}, sha256: {}}}", quoted(file), quoted(digest))
        }
    }
}

fn words(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| quoted(word.as_ref())).collect();
    format!("[{}]", words.join(", "))
}

/// In double quotes. What JSON writes, YAML reads the same.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
