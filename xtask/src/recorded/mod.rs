//! `cargo xtask truth --recorded`: replays what others recorded from production servers.
//!
//! Nobody wrote down the state these servers were in. Statuses, words of refusals and what a UPID tells are compared as
//! they are; replies that show a state by their keys and types. The world is made from what a recording shows: hosts,
//! storages, version, and where VMs were found.

mod explained;
mod file;
mod replay;
mod shape;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use file::{Exchange, Recording};
use replay::Replay;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub in_scope: usize,
    pub agreeing: usize,
    /// Exchanges nobody answers for, by the reason.
    pub out_of_scope: BTreeMap<&'static str, usize>,
    /// Exchanges that differ for reasons alone, by the reason.
    pub explained: BTreeMap<&'static str, usize>,
    pub differences: Vec<Difference>,
    /// What must have happened between two exchanges.
    pub assumed: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Difference {
    pub file: String,
    pub exchange: usize,
    pub request: String,
    pub what: Vec<String>,
}

/// Reasons of the table that explain nothing any more.
pub fn stale_reasons(report: &Report) -> Vec<&'static str> {
    explained::reasons().filter(|reason| !report.explained.contains_key(reason)).collect()
}

/// Replays every recording of the folder.
pub fn replay(folder: &Path) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    let recordings = files.iter().map(|path| Recording::read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    for recording in &recordings {
        replay_one(recording, &recordings, &mut report);
    }
    Ok(report)
}

fn replay_one(recording: &Recording, all: &[Recording], report: &mut Report) {
    let mut replay = Replay::new(recording, world::build(recording, all));
    let mut armed = false;
    for (number, exchange) in recording.exchanges.iter().enumerate() {
        armed |= is_arming(exchange);
        if let Some(reason) = out_of_scope(recording, exchange).or(armed.then_some(ARMING)) {
            *report.out_of_scope.entry(reason).or_default() += 1;
            continue;
        }
        report.in_scope += 1;
        let mut what = replay.step(exchange);
        if what.is_empty() {
            report.agreeing += 1;
            continue;
        }
        let reasons: BTreeSet<&str> =
            what.iter().filter_map(|difference| explained::why(exchange, difference)).collect();
        what.retain(|difference| explained::why(exchange, difference).is_none());
        if what.is_empty() {
            for reason in reasons {
                *report.explained.entry(reason).or_default() += 1;
            }
            continue;
        }
        report.differences.push(Difference {
            file: recording.name.clone(),
            exchange: number,
            request: format!("{} {} {:?}", exchange.method, exchange.path, exchange.form),
            what,
        });
    }
    report.assumed.extend(replay.assumed);
}

/// Nobody simulates a manager that is told to let go, nor what it says then.
const ARMING: &str = "arming and disarming HA, and what follows";

fn is_arming(exchange: &Exchange) -> bool {
    exchange.path.ends_with("/arm-ha") || exchange.path.ends_with("/disarm-ha")
}

/// Why nobody answers for an exchange, if nobody does.
fn out_of_scope(recording: &Recording, exchange: &Exchange) -> Option<&'static str> {
    let parts: Vec<&str> = exchange.path.split('/').filter(|part| !part.is_empty()).collect();
    // Tasks of containers are called `vzcreate` and so on.
    let of_container = |part: &&str| part.contains(":vz") || *part == "lxc";
    match parts[..] {
        _ if !recording.pve_version.starts_with("9.") => Some("of a version before 9"),
        _ if parts.iter().any(of_container) => Some("containers"),
        ["cluster", "sdn"] | ["cluster", "sdn", "fabrics", ..] | ["nodes", _, "sdn", ..] => Some("SDN"),
        _ => None,
    }
}

/// What the command prints.
pub fn print(report: &Report) -> String {
    let mut lines = Vec::new();
    for Difference { file, exchange, request, what } in &report.differences {
        lines.push(format!("{file} #{exchange} {}", request.chars().take(200).collect::<String>()));
        lines.extend(what.iter().take(6).map(|text| format!("    {text}")));
    }
    lines.extend(report.assumed.iter().map(|what| format!("assumed: {what}")));
    lines.extend(report.explained.iter().map(|(reason, count)| format!("explained, {count}: {reason}")));
    lines
        .extend(report.out_of_scope.iter().map(|(reason, count)| format!("out of scope, {count}: {reason}")));
    lines.push(format!(
        "{} of {} recorded exchanges in scope agree, {} differ for a reason, {} for none; {} out of scope",
        report.agreeing,
        report.in_scope,
        report.in_scope - report.agreeing - report.differences.len(),
        report.differences.len(),
        report.out_of_scope.values().sum::<usize>()
    ));
    lines.join("\n")
}
