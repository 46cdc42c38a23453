//! What Talos would refuse, found before anything is sent.
//!
//! Reading a config catches what Talos cannot even decode. This looks at what the decoded config says: for the mode the
//! machine runs in and for the version of Talos it runs.

mod cluster;
mod documents;
mod exclusive;
mod expression;
mod fields;
mod interfaces;
mod kubernetes;
mod machine;
mod network;
mod versions;
mod volumes;
mod whole;

use std::fmt;

use talmox_types::Contract;

use crate::document::{Config, Document};
use crate::value::{Map, Value};

/// How a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Talos installs itself to a disk.
    Metal,
    /// Talos runs from a disk image; what the nocloud platform is.
    Cloud,
    Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Talos takes it, but says something about it.
    Warning,
    /// Talos refuses it.
    Error,
}

/// Something Talos would refuse or warn of. It repeats no value: any may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The document, by kind and name.
    pub document: String,
    /// Where in it; empty for all of it.
    pub path: String,
    pub message: String,
    /// The kind of document it does not go together with.
    pub against: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { document, path, message, .. } = self;
        if path.is_empty() {
            write!(f, "{document}: {message}")
        } else {
            write!(f, "{document}: {path}: {message}")
        }
    }
}

impl Config {
    /// What Talos of that version would refuse or warn of, on a machine that runs in that mode.
    pub fn validate(&self, mode: Mode, talos: Contract) -> Vec<Problem> {
        let mut checker = Checker { config: self, mode, talos, problems: Vec::new() };
        versions::check(&mut checker);
        machine::check(&mut checker);
        cluster::check(&mut checker);
        interfaces::check(&mut checker);
        network::check(&mut checker);
        volumes::check(&mut checker);
        kubernetes::check(&mut checker);
        fields::check(&mut checker);
        documents::check(&mut checker);
        expression::check(&mut checker);
        exclusive::check(&mut checker);
        whole::check(&mut checker);
        checker.problems
    }
}

struct Checker<'a> {
    config: &'a Config,
    mode: Mode,
    talos: Contract,
    problems: Vec<Problem>,
}

impl<'a> Checker<'a> {
    fn error(&mut self, document: &Document, path: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Error, document, path, message);
    }

    fn warn(&mut self, document: &Document, path: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Warning, document, path, message);
    }

    fn add(
        &mut self,
        severity: Severity,
        document: &Document,
        path: impl Into<String>,
        message: impl Into<String>,
    ) {
        let document = document.id().to_string();
        let (path, message) = (path.into(), message.into());
        self.problems.push(Problem { severity, document, path, message, against: None });
    }

    /// An error about a section beside a document that takes its place.
    fn error_against(&mut self, document: &Document, path: String, message: impl Into<String>, kind: &str) {
        self.add(Severity::Error, document, path, message);
        if let Some(problem) = self.problems.last_mut() {
            problem.against = Some(kind.to_owned());
        }
    }

    /// An error about the config as a whole.
    fn error_overall(&mut self, message: impl Into<String>) {
        let document = "the config".to_owned();
        self.problems.push(Problem {
            severity: Severity::Error,
            document,
            path: String::new(),
            message: message.into(),
            against: None,
        });
    }

    fn since(&self, minor: u16) -> bool {
        self.talos >= (Contract { major: 1, minor })
    }

    /// The document with `machine` and `cluster`.
    fn legacy(&self) -> Option<&'a Document> {
        self.config.document("")
    }

    fn of_kind(&self, kind: &'static str) -> Vec<&'a Document> {
        self.config.of_kind(kind).collect()
    }

    fn machine_type(&self) -> &'a str {
        self.config.at(&["machine", "type"]).and_then(Value::as_text).unwrap_or_default()
    }

    fn is_control_plane(&self) -> bool {
        ["controlplane", "init"].contains(&self.machine_type())
    }
}

fn text<'a>(map: &'a Map, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_text).unwrap_or_default()
}

fn list<'a>(map: &'a Map, key: &str) -> &'a [Value] {
    map.get(key).and_then(Value::as_list).unwrap_or_default()
}

fn number(map: &Map, key: &str) -> i128 {
    map.get(key).and_then(Value::as_integer).unwrap_or_default()
}

fn flag(map: &Map, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// An address, or one with a prefix length.
fn is_address_or_prefix(text: &str) -> bool {
    crate::scalar::address(text).is_some() || crate::scalar::prefix(text).is_some()
}

/// The same, perhaps with `!` before it: "not this one".
fn is_filter(value: &Value) -> bool {
    value.as_text().is_some_and(|text| is_address_or_prefix(text.strip_prefix('!').unwrap_or(text)))
}

/// Whether the key of a CA pair is there.
fn has_key(pair: &Value) -> bool {
    pair.at(&["key"]).and_then(Value::as_text).is_some_and(|key| !key.is_empty())
}
