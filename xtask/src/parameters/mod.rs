//! `cargo xtask truth --parameters`: asks the simulator what the API schema decides, and compares the verdicts.
//!
//! Requests are generated from the schema in the data, and the data says which parameters are refused and why. The
//! simulator has tables of its own; nothing but these requests compares the two. Each goes to a world of its own as
//! `root@pam`, so that neither permissions nor what happened before decide.

mod explained;
mod falsify;
mod generate;
mod oracle;
mod samples;
mod schema;
mod send;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

pub use falsify::unseen_falsehoods;
use generate::Case;
use oracle::{Errors, Given};
use schema::{Endpoint, Format, Prop, Schema};
use send::{Server, Verdict};

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub endpoints: usize,
    pub requests: usize,
    /// Requests the schema refuses.
    pub refused: usize,
    pub agreements: usize,
    /// Disagreements that have a reason, by the reason.
    pub explained: BTreeMap<&'static str, usize>,
    pub disagreements: Vec<Disagreement>,
    /// Endpoints of the simulator that the data does not have.
    pub without_schema: Vec<String>,
    /// Parameters for which no good value is known: all that was tried was wrong.
    pub without_good_value: BTreeSet<String>,
    /// Named formats whose values nobody tells apart.
    pub unknown_formats: BTreeSet<String>,
}

#[derive(Debug, Serialize)]
pub struct Disagreement {
    pub request: String,
    pub schema: String,
    pub simulator: String,
}

impl Report {
    pub fn explained_requests(&self) -> usize {
        self.explained.values().sum()
    }
}

/// Reasons of the table that explain nothing any more.
pub fn stale_reasons(report: &Report) -> Vec<&'static str> {
    explained::reasons().filter(|reason| !report.explained.contains_key(reason)).collect()
}

pub fn compare(folder: &Path) -> anyhow::Result<Report> {
    let schema = Schema::read(folder)?;
    let server = Server::start()?;
    let mut report = Report::default();
    for talmox_sim::Endpoint { method, path, .. } in talmox_sim::endpoints() {
        let (method, path) = (method.as_str(), path.as_str());
        let found = schema.endpoints(method, path)?;
        if found.is_empty() {
            report.without_schema.push(format!("{method} {path}"));
            continue;
        }
        report.endpoints += 1;
        for endpoint in &found {
            look_over(endpoint, &mut report);
            for case in generate::cases(endpoint) {
                ask(&server, endpoint, &case, &mut report);
            }
        }
    }
    Ok(report)
}

/// Notes what cannot be tried.
fn look_over(endpoint: &Endpoint, report: &mut Report) {
    for (name, prop) in &endpoint.keys {
        let good = generate::good_text(prop, name);
        if oracle::reason_against(prop.items.as_deref().unwrap_or(prop), name, &good).is_some() {
            report.without_good_value.insert(format!("{} {}: {name}", endpoint.method, endpoint.path));
        }
        note_formats(prop, &mut report.unknown_formats);
    }
}

fn note_formats(prop: &Prop, unknown: &mut BTreeSet<String>) {
    match &prop.format {
        Some(Format::Code(name)) if !samples::is_known(name) => {
            unknown.insert(name.clone());
        }
        Some(Format::Keys(keys)) => keys.values().for_each(|prop| note_formats(prop, unknown)),
        Some(Format::Code(_)) | None => {}
    }
}

fn ask(server: &Server, endpoint: &Endpoint, case: &Case, report: &mut Report) {
    let Some(request) = server.request(endpoint, case) else { return };
    report.requests += 1;
    let expected = normal(&oracle::judge(endpoint, &case.params));
    report.refused += usize::from(!expected.is_empty());
    let verdict = server.ask(&request);
    let found = match &verdict {
        Verdict::Passed => Errors::new(),
        Verdict::Refused(errors) => normal(errors),
        Verdict::NotReached(_) => Errors::from([("?".to_owned(), "?".to_owned())]),
    };
    if found == expected {
        report.agreements += 1;
        return;
    }
    if let Some(reason) = explained::why(endpoint, case, &expected, &verdict) {
        *report.explained.entry(reason).or_default() += 1;
        return;
    }
    report.disagreements.push(Disagreement {
        request: describe(endpoint, case),
        schema: format!("{expected:?}"),
        simulator: match verdict {
            Verdict::NotReached(what) => what,
            Verdict::Passed | Verdict::Refused(_) => format!("{found:?}"),
        },
    });
}

fn normal(errors: &Errors) -> Errors {
    errors.iter().map(|(name, reason)| (name.clone(), oracle::without_code_words(reason))).collect()
}

/// The request, with long values cut.
fn describe(endpoint: &Endpoint, case: &Case) -> String {
    let value = |given: &Given| match given {
        Given::Text(text) if text.len() > 100 => format!("({} characters)", text.len()),
        Given::Text(text) => format!("{text:?}"),
        Given::Null | Given::Flag(_) | Given::List(_) | Given::Object => format!("{given:?}"),
    };
    let params: Vec<String> =
        case.params.iter().map(|(name, given)| format!("{name}={}", value(given))).collect();
    format!("{} {} {:?} {}", endpoint.method, endpoint.path, case.encoding, params.join(" "))
}

/// What the command prints.
pub fn print(report: &Report) -> String {
    let mut lines = Vec::new();
    for Disagreement { request, schema, simulator } in &report.disagreements {
        let short = |text: &str| text.chars().take(300).collect::<String>();
        lines.push(format!(
            "{}\n    schema:    {}\n    simulator: {}",
            short(request),
            short(schema),
            short(simulator)
        ));
    }
    lines.extend(report.explained.iter().map(|(reason, count)| format!("explained, {count}: {reason}")));
    lines.extend(report.without_schema.iter().map(|one| format!("not in the data: {one}")));
    lines.extend(report.without_good_value.iter().map(|one| format!("no good value is known: {one}")));
    lines.extend(report.unknown_formats.iter().map(|one| format!("nothing is known of the format {one}")));
    lines.push(format!(
        "{} endpoints, {} requests of which the schema refuses {}: {} agree, {} differ for a reason, {} for none",
        report.endpoints,
        report.requests,
        report.refused,
        report.agreements,
        report.explained_requests(),
        report.disagreements.len()
    ));
    lines.join("\n")
}
