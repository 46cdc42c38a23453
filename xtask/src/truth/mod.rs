//! `cargo xtask truth`: replays recorded requests against the simulator and counts what it reproduces.

mod compare;
mod credentials;
mod data;
mod evidence;
mod gaps;
mod ids;
mod log;
mod phase;
mod replay;
mod scope;
mod setup;
pub mod talos;
mod timeline;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use crate::{parameters, recorded};
use data::{Chain, Pair, Worlds};
use replay::Replay;
use scope::out_of_scope;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub in_scope: usize,
    pub reproduced: usize,
    #[serde(skip)]
    pub reproduced_pairs: Vec<usize>,
    pub out_of_scope: usize,
    /// Pairs that depend on faults of the recorded environment: listed, not counted.
    pub artifacts: Vec<usize>,
    /// Pairs whose own reply alone tells what was done before them: listed, not counted.
    pub self_evident: Vec<usize>,
    pub differences: Vec<Difference>,
    /// What must have happened between the recorded pairs.
    pub assumed: Vec<Assumed>,
    /// Pairs whose words leave open what was sent.
    pub not_understood: Vec<NotUnderstood>,
}

#[derive(Debug, Serialize)]
pub struct NotUnderstood {
    pub pair: usize,
    pub what: String,
}

#[derive(Debug, Serialize)]
pub struct Difference {
    pub pair: usize,
    pub group: String,
    pub note: String,
    pub request: String,
    pub what: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Assumed {
    pub before_pair: usize,
    pub what: String,
}

/// What is compared with the simulator.
#[derive(Clone, Copy)]
enum Truth {
    Transcripts,
    Parameters,
    Recorded,
    Talos,
}

/// Runs the chore and gives what it prints.
pub fn command(mut args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let (mut transcripts, mut worlds, mut json, mut truth) = (None, None, false, Truth::Transcripts);
    while let Some(arg) = args.next() {
        let mut file = || args.next().map(PathBuf::from).with_context(|| format!("{arg} wants a file"));
        match arg.as_str() {
            "--transcripts" => transcripts = Some(file()?),
            "--worlds" => worlds = Some(file()?),
            "--json" => json = true,
            "--parameters" => truth = Truth::Parameters,
            "--recorded" => truth = Truth::Recorded,
            "--talos" => truth = Truth::Talos,
            other => anyhow::bail!("unknown option {other}"),
        }
    }
    match truth {
        Truth::Transcripts => {
            let transcripts = transcripts.unwrap_or_else(|| shared_data().join("pve-transcripts.json"));
            show(&replay(&transcripts, worlds.as_deref())?, json, print)
        }
        Truth::Parameters => {
            let report = parameters::compare(&shared_data())?;
            agreed(report.disagreements.is_empty(), show(&report, json, parameters::print)?)
        }
        Truth::Talos => {
            let both =
                || talos::FILES.map(|file| shared_data().join("talos-transcripts").join(file)).to_vec();
            let files = transcripts.map_or_else(both, |file| vec![file]);
            let reports: Vec<talos::Report> =
                files.iter().map(|file| talos::replay(file)).collect::<anyhow::Result<_>>()?;
            let all = talos::Report::sum(&reports);
            if json {
                return show(&reports, json, |_| String::new());
            }
            let shown: Vec<String> = reports.iter().map(talos::print).collect();
            Ok(format!("{}\nall recordings: {}", shown.join("\n"), all.line()))
        }
        Truth::Recorded => {
            let report = recorded::replay(&shared_data().join("recorded"))?;
            agreed(report.differences.is_empty(), show(&report, json, recorded::print)?)
        }
    }
}

/// Where every difference has its reason, one without is a failure.
fn agreed(agreed: bool, shown: String) -> anyhow::Result<String> {
    anyhow::ensure!(agreed, "the simulator differs\n{shown}");
    Ok(shown)
}

fn show<R: Serialize>(report: &R, json: bool, print: fn(&R) -> String) -> anyhow::Result<String> {
    if json { Ok(serde_json::to_string_pretty(report)?) } else { Ok(print(report)) }
}

/// Where the truth lies, unless somebody says otherwise: beside the workspace.
#[expect(clippy::disallowed_methods, reason = "a chore reads its own environment")]
pub fn shared_data() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    std::env::var("TALMOX_SHARED_DATA").map_or(beside, PathBuf::from)
}

pub fn replay(transcripts: &Path, worlds: Option<&Path>) -> anyhow::Result<Report> {
    let (pairs, worlds) = data::read(transcripts, worlds)?;
    replay_values(pairs, worlds)
}

/// Replays a list of pairs that was read before.
pub fn replay_values(pairs: Value, worlds: Value) -> anyhow::Result<Report> {
    let (pairs, worlds) = data::parse(pairs, worlds)?;
    let mut report = Report::default();
    for (chain, members) in chains(&pairs, &worlds) {
        replay_chain(&worlds, chain, &members, &mut report);
    }
    report.differences.sort_by_key(|difference| difference.pair);
    Ok(report)
}

/// The pairs of a chain with their numbers in the file.
type Members<'a> = Vec<(usize, &'a Pair)>;

/// The pairs of each chain, in the order of the file. A group no world mentions starts from the first world.
fn chains<'a>(pairs: &'a [Pair], worlds: &Worlds) -> Vec<(Chain, Members<'a>)> {
    let mut keys: Vec<String> = Vec::new();
    let mut found: Vec<(Chain, Members<'a>)> = Vec::new();
    for (number, pair) in pairs.iter().enumerate() {
        let known = worlds.chain_of(&pair.group);
        let key = known.as_ref().map_or_else(|| pair.group.clone(), |(index, _)| format!("chain {index}"));
        let at = keys.iter().position(|other| *other == key).unwrap_or_else(|| {
            let chain = known.map_or_else(|| default_chain(worlds), |(_, chain)| chain);
            keys.push(key);
            found.push((chain, Vec::new()));
            found.len() - 1
        });
        found[at].1.push((number, pair));
    }
    found
}

/// The first world without what only its own pairs know of.
fn default_chain(worlds: &Worlds) -> Chain {
    let first = worlds.chains.first().cloned().unwrap_or_default();
    Chain { vms_made_outside_the_recording: Vec::new(), ..first }
}

fn replay_chain(worlds: &Worlds, chain: Chain, members: &[(usize, &Pair)], report: &mut Report) {
    let mut replay = Replay::new(worlds, chain, members);
    for outcome in replay.run() {
        let Some((number, pair)) = members.iter().find(|(number, _)| *number == outcome.number) else {
            continue;
        };
        if pair.environment_artifact.is_some() {
            report.artifacts.push(*number);
            continue;
        }
        if out_of_scope(pair).is_some() {
            report.out_of_scope += 1;
            continue;
        }
        // One that differs all the same counts as a failure.
        if outcome.self_evident && outcome.differences.is_empty() {
            report.self_evident.push(*number);
            continue;
        }
        report.in_scope += 1;
        if outcome.differences.is_empty() {
            report.reproduced += 1;
            report.reproduced_pairs.push(*number);
            continue;
        }
        report.differences.push(Difference {
            pair: *number,
            group: pair.group.clone(),
            note: pair.note.clone(),
            request: format!("{} {} {}", pair.request.method, pair.request.path, pair.request.params),
            what: outcome.differences,
        });
    }
    let assumed = replay.assumptions.iter();
    report.assumed.extend(assumed.map(|(pair, what)| Assumed { before_pair: *pair, what: what.clone() }));
    let puzzles = replay.not_understood.iter();
    report
        .not_understood
        .extend(puzzles.map(|(pair, what)| NotUnderstood { pair: *pair, what: what.clone() }));
}

fn print(report: &Report) -> String {
    let mut lines = Vec::new();
    for difference in &report.differences {
        let Difference { pair, group, note, request, what } = difference;
        let request: String = request.chars().take(200).collect();
        lines.push(format!("#{pair} {group} [{note}]\n  {request}"));
        lines.extend(what.iter().take(6).map(|text| format!("    {text}")));
    }
    if !report.assumed.is_empty() {
        lines.push("assumed to have happened outside the recording:".into());
        lines.extend(
            report
                .assumed
                .iter()
                .map(|assumed| format!("  before #{}: {}", assumed.before_pair, assumed.what)),
        );
    }
    let puzzles = report.not_understood.iter();
    lines.extend(puzzles.map(|one| format!("not understood: #{} {}", one.pair, one.what)));
    let apart = [
        ("artifacts of the recorded environment", &report.artifacts),
        ("alone in telling what was done before them", &report.self_evident),
    ];
    for (what, pairs) in apart.into_iter().filter(|(_, pairs)| !pairs.is_empty()) {
        let numbers: Vec<String> = pairs.iter().map(|number| format!("#{number}")).collect();
        lines.push(format!("{what}, not counted: {}", numbers.join(" ")));
    }
    lines.push(format!(
        "reproduced {} of {} in scope, {} out of scope, {} self-evident",
        report.reproduced,
        report.in_scope,
        report.out_of_scope,
        report.self_evident.len()
    ));
    lines.join("\n")
}
