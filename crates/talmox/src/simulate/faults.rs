//! Fault plans from a file: what goes wrong on a simulated Proxmox, and when.
//!
//! ```yaml
//! seed: 7                       # what chances are drawn from
//! faults:
//!   - fault: lost-reply         # what
//!     calls: POST */clone       # which calls
//!     at: 2                     # the second of them
//! factory: {slow: 20s}          # what is wrong with the Image Factory all the time
//! machines:                     # what is wrong with Talos nodes, and with calls to them: see nodes.rs
//!   - {trouble: never-boots, vm: 2001}
//! ```
//! Every mistake of a file is reported, with its place and what to do about it.

mod factory;
mod kinds;
mod nodes;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use talmox_config::{Code, Colour, Location, Problem, SourceId, Sources, report};
use talmox_sim::{Calls, Fault, FaultPlan, Simulation, Trouble, When, World};
use talmox_sim_talos::serve::Beside;
use talmox_yaml::{Entry, FaultKind, Node, NodeKind, Span};

use crate::failure::Failure;
use crate::printer::Printer;
pub(crate) use kinds::json_schema;
use kinds::{KINDS, Key, Kind, SECTIONS, WHEN};
use nodes::NodeFaults;
use values::{Given, read_value};

/// More is no plan a person wrote.
const LARGEST: u64 = 1024 * 1024;

/// The world, and what goes wrong in it if a file says so.
pub(crate) fn simulation(
    mut world: World,
    beside: &Beside,
    file: Option<&Path>,
    printer: &Printer,
) -> anyhow::Result<Simulation> {
    let hosts: Vec<String> = world.nodes.keys().cloned().collect();
    let found = file.map(|path| read(path, &hosts, printer)).transpose()?.unwrap_or_default();
    let Found { plan, trouble, nodes } = found;
    // What was wrong in an earlier run is not wrong for ever.
    if let Some(factory) = &mut world.factory {
        factory.trouble = trouble;
    }
    nodes.befall(&mut beside.nodes());
    Ok(Simulation { world, faults: plan })
}

/// What a file says.
#[derive(Default)]
struct Found {
    plan: FaultPlan,
    trouble: Trouble,
    nodes: NodeFaults,
}

fn read(path: &Path, hosts: &[String], printer: &Printer) -> anyhow::Result<Found> {
    let name = path.display().to_string();
    let text = text_of(path)?;
    let mut sources = Sources::default();
    let source = sources.add(name.clone(), text.clone(), None);
    let mut reader = Reader::new(source, hosts);
    let plan = reader.plan(&text);
    if reader.problems.is_empty() {
        return Ok(Found { plan, trouble: reader.trouble, nodes: reader.nodes });
    }
    printer.problem(report(&sources, &reader.problems, Colour::Always).trim_end_matches('\n'));
    printer.problem("");
    let count = reader.problems.len();
    let problems = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    Err(Failure::new(format!("{problems} in {name}. Nothing was started.")).into())
}

#[expect(clippy::disallowed_methods, reason = "a fault plan is no part of a description")]
fn text_of(path: &Path) -> anyhow::Result<String> {
    let failed = |reason: String| {
        Failure::new(format!("could not read {}: {reason}", path.display()))
            .with_hint("--fault names a file; examples/faults has one")
    };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if size > LARGEST {
        return Err(failed("it is larger than any fault plan".to_owned()).into());
    }
    Ok(std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?)
}

struct Reader<'h> {
    source: SourceId,
    hosts: &'h [String],
    /// What is wrong with the Image Factory.
    trouble: Trouble,
    nodes: NodeFaults,
    problems: Vec<Problem>,
}

/// The entries of one fault by key.
type Fields<'n> = BTreeMap<&'static str, (Given, &'n Node)>;

impl<'h> Reader<'h> {
    fn new(source: SourceId, hosts: &'h [String]) -> Self {
        let (trouble, nodes) = (Trouble::default(), NodeFaults::default());
        Self { source, hosts, trouble, nodes, problems: Vec::new() }
    }
}

impl Reader<'_> {
    fn plan(&mut self, text: &str) -> FaultPlan {
        let parsed = talmox_yaml::parse(text);
        for fault in &parsed.faults {
            let problem = Problem::error(Code::YamlSyntax, in_words(&fault.kind));
            self.problems.push(problem.at(self.place(fault.span), "here"));
        }
        let mut plan = FaultPlan::default();
        if !self.problems.is_empty() {
            return plan;
        }
        let Some(document) = parsed.documents.first() else {
            let whole = Span { start: 0, end: 0 };
            self.say(Code::FileEmpty, "the file is empty", whole, "begin with `faults:` and a list below it");
            return plan;
        };
        let Some(entries) = self.mapping(document, "a fault plan is a mapping with `faults`") else {
            return plan;
        };
        let mut seed = 0;
        let (mut list, mut has_other) = (None, false);
        for entry in entries {
            match key_of(entry) {
                "seed" => match entry.value.as_scalar().and_then(|scalar| scalar.text.parse().ok()) {
                    Some(number) => seed = number,
                    None => self.say(
                        Code::WrongType,
                        "seed: not a whole number",
                        entry.value.place(),
                        "such as 7",
                    ),
                },
                "faults" => list = Some(&entry.value),
                "factory" => {
                    self.trouble = self.factory(&entry.value);
                    has_other = true;
                }
                "machines" => {
                    self.machines(&entry.value);
                    has_other = true;
                }
                "node_calls" => {
                    self.node_calls(&entry.value);
                    has_other = true;
                }
                other => {
                    let text = format!("nothing reads {other}");
                    self.say(
                        Code::UnknownKey,
                        &text,
                        entry.key.place(),
                        &format!("seed, {} stand here", SECTIONS.join(", ")),
                    );
                }
            }
        }
        match list.map(|node| (&node.kind, node)) {
            Some((NodeKind::Sequence(items), _)) => {
                for (index, item) in items.iter().enumerate() {
                    // Each rule draws for itself, whatever the others do.
                    let own = u64::try_from(index).unwrap_or_default().wrapping_add(seed);
                    if let Some((calls, when, fault)) = self.rule(item, own) {
                        plan.add(calls, when, fault);
                    }
                }
            }
            Some((_, node)) => {
                self.say(
                    Code::WrongType,
                    "faults: not a list",
                    node.place(),
                    "begin each fault with `- fault: KIND`",
                );
            }
            None if has_other => {}
            None => {
                self.say(Code::MissingKey, "there is no `faults`", document.place(), "add a list `faults:`");
            }
        }
        plan
    }

    fn rule(&mut self, node: &Node, seed: u64) -> Option<(Calls, When, Fault)> {
        let before = self.problems.len();
        let (kind, fields) = self.one_of(node, "fault", KINDS, WHEN)?;
        let calls = self.calls(&fields);
        let when = when(&fields, seed);
        let fault = self.fault(kind, node, &fields);
        for name in ["host", "node"] {
            self.known_host(&fields, name);
        }
        fault.filter(|_| self.problems.len() == before).map(|fault| (calls, when, fault))
    }

    /// An entry that says after `word` what goes wrong, one of `kinds`, with keys of its own and those all of them have.
    fn one_of<'n>(
        &mut self,
        node: &'n Node,
        word: &str,
        kinds: &'static [Kind],
        common: &'static [Key],
    ) -> Option<(&'static Kind, Fields<'n>)> {
        let entries = self.mapping(node, &format!("a {word} is a mapping with `{word}: KIND`"))?;
        let kind = self.kind(node, entries, word, kinds)?;
        Some((kind, self.fields(kind, entries, word, common)))
    }

    fn kind(
        &mut self,
        node: &Node,
        entries: &[Entry],
        word: &str,
        kinds: &'static [Kind],
    ) -> Option<&'static Kind> {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let hint = format!("one of {}", names.join(", "));
        let Some(entry) = entries.iter().find(|entry| key_of(entry) == word) else {
            self.say(
                Code::MissingKey,
                "it does not say what goes wrong",
                node.place(),
                &format!("add `{word}:` and {hint}"),
            );
            return None;
        };
        let written = entry.value.as_scalar().map_or("", |scalar| scalar.text.as_str());
        let found = kinds.iter().find(|kind| kind.name == written);
        if found.is_none() {
            let text = format!("{word}: no such {word}");
            self.say(Code::InvalidValue, &text, entry.value.place(), &hint);
        }
        found
    }

    fn fields<'n>(
        &mut self,
        kind: &'static Kind,
        entries: &'n [Entry],
        word: &str,
        common: &'static [Key],
    ) -> Fields<'n> {
        let mut fields = Fields::new();
        for entry in entries.iter().filter(|entry| key_of(entry) != word) {
            let name = key_of(entry);
            let Some(key) = kind.keys.iter().chain(common).find(|key| key.name == name) else {
                let text = format!("{} has no {name}", kind.name);
                let known: Vec<&str> = kind.keys.iter().chain(common).map(|key| key.name).collect();
                self.say(
                    Code::UnknownKey,
                    &text,
                    entry.key.place(),
                    &format!("it may have {}", known.join(", ")),
                );
                continue;
            };
            match read_value(key.value, &entry.value) {
                Ok(value) => drop(fields.insert(key.name, (value, &entry.value))),
                Err(hint) => self.wrong(key, entry, &hint),
            }
        }
        fields
    }

    fn wrong(&mut self, key: &Key, entry: &Entry, hint: &str) {
        let written = entry.value.as_scalar().map_or("this", |scalar| scalar.text.as_str());
        let text = format!("{}: {written} will not do", key.name);
        self.say(Code::InvalidValue, &text, entry.value.place(), hint);
    }

    fn calls(&mut self, fields: &Fields<'_>) -> Calls {
        let mut calls = Calls::any();
        if let Some((Given::Text(text), node)) = fields.get("calls") {
            for word in text.split_whitespace() {
                let method = ["GET", "POST", "PUT", "DELETE"].contains(&word);
                let path = word.starts_with(['/', '*']);
                match (method, path) {
                    (true, _) => calls = calls.by(word),
                    (false, true) => calls = calls.at(word),
                    (false, false) => {
                        let text = format!("calls: {word} is no method and no path");
                        let hint =
                            "such as POST /nodes/*/qemu/*/clone, with a method of GET, POST, PUT, DELETE";
                        self.say(Code::InvalidValue, &text, node.place(), hint);
                    }
                }
            }
        }
        if let Some((Given::Text(host), _)) = fields.get("host") {
            calls = calls.via(host);
        }
        calls
    }

    /// A host nobody knows would make a fault that never happens.
    fn known_host(&mut self, fields: &Fields<'_>, name: &str) {
        let Some((Given::Text(host), node)) = fields.get(name) else { return };
        if !self.hosts.contains(host) {
            let text = format!("{name}: there is no host {host} in this world");
            self.say(Code::InvalidValue, &text, node.place(), &format!("hosts: {}", self.hosts.join(", ")));
        }
    }

    fn fault(&mut self, kind: &Kind, node: &Node, fields: &Fields<'_>) -> Option<Fault> {
        let number = |name: &str| match fields.get(name) {
            Some((Given::Number(number), _)) => Some(*number),
            _ => None,
        };
        let text = |name: &str| match fields.get(name) {
            Some((Given::Text(text), _)) => Some(text.clone()),
            _ => None,
        };
        let time = |name: &str| match fields.get(name) {
            Some((Given::Milliseconds(time), _)) => Some(*time),
            _ => None,
        };
        let span = |name: &str| time(name).map(i64::unsigned_abs);
        let after = span("after").unwrap_or_default();
        let missing = |name: &str| format!("{} needs {name}", kind.name);
        let fault = match kind.name {
            "error" => {
                let status = number("status").and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
                let happens = matches!(fields.get("happens"), Some((Given::Flag(true), _)));
                let text = text("text").or_else(|| usual_words(status).map(str::to_owned));
                text.map(|text| Fault::Answer { status, text, happens }).ok_or_else(|| missing("text"))
            }
            "hang" => Ok(Fault::Hang),
            "slow" => span("by").map(|by| Fault::Slow { by }).ok_or_else(|| missing("by")),
            "lost-reply" => Ok(Fault::LoseReply),
            "cut-body" => {
                let after = number("bytes").and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
                Ok(Fault::CutBody { after })
            }
            "close-idle" => Ok(Fault::CloseIdle),
            "kill-worker" => Ok(Fault::KillWorker { after }),
            "fail-worker" => {
                text("text").map(|text| Fault::FailWorker { after, text }).ok_or_else(|| missing("text"))
            }
            "host-down" => Ok(Fault::HostDown),
            "host-lost" => Ok(Fault::LoseHost { host: text("node"), after, back: span("back") }),
            "clock-jump" => time("by").map(|by| Fault::JumpClock { by }).ok_or_else(|| missing("by")),
            "busy" => span("lasts").map(|lasts| Fault::BusyHost { lasts }).ok_or_else(|| missing("lasts")),
            "disk-error" => Ok(Fault::DiskError),
            _ => span("lasts").map(|lasts| Fault::Backup { lasts }).ok_or_else(|| missing("lasts")),
        };
        // A value that was written and is wrong has been reported already.
        fault
            .map_err(|text| {
                let name = text.rsplit(' ').next().unwrap_or_default().to_owned();
                let meaning = kind.keys.iter().find(|key| key.name == name).map_or("", |key| key.meaning);
                self.say(Code::MissingKey, &text, node.place(), &format!("{name}: {meaning}"));
            })
            .ok()
    }

    fn mapping<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n [Entry]> {
        match &node.kind {
            NodeKind::Mapping(entries) => Some(entries),
            NodeKind::Scalar(_) | NodeKind::Sequence(_) => {
                self.say(Code::WrongType, wanted, node.place(), "talmox schema faults describes the file");
                None
            }
        }
    }

    fn place(&self, span: Span) -> Location {
        Location { source: self.source, span }
    }

    fn say(&mut self, code: Code, text: &str, span: Span, hint: &str) {
        self.problems.push(Problem::error(code, text).at(self.place(span), "").hint(hint));
    }
}

fn key_of(entry: &Entry) -> &str {
    entry.key.as_scalar().map_or("", |scalar| scalar.text.as_str())
}

fn when(fields: &Fields<'_>, seed: u64) -> When {
    let number = |name: &str| match fields.get(name) {
        Some((Given::Number(number), _)) => Some(*number),
        _ => None,
    };
    let when = When::nth(number("at").unwrap_or(1));
    match fields.get("chance") {
        Some((Given::Fraction(chance), _)) => {
            when.times(number("times").unwrap_or(u64::MAX)).with_chance(*chance, seed)
        }
        _ => when.times(number("times").unwrap_or(1)),
    }
}

/// What the server itself says with a status.
fn usual_words(status: u16) -> Option<&'static str> {
    match status {
        401 => Some("Authentication failed!"),
        403 => Some("Permission check failed"),
        595 => Some("No route to host"),
        596 => Some("Connection timed out"),
        599 => Some("Too many redirections"),
        _ => None,
    }
}

fn in_words(kind: &FaultKind) -> String {
    match kind {
        FaultKind::Syntax(text) => format!("not valid YAML: {text}"),
        FaultKind::Tab => "a tab where YAML wants blanks".to_owned(),
        FaultKind::DuplicateKey { key, .. } => format!("{key} stands here twice"),
        FaultKind::UnknownAlias(name) => format!("there is no anchor {name}"),
        FaultKind::AliasKnot => "an alias inside its own anchor".to_owned(),
        FaultKind::Limit(limit) => limit.to_string(),
        FaultKind::ComplexKey => "a key that is a list or a mapping".to_owned(),
    }
}

#[cfg(test)]
mod tests;
