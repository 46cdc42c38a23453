//! `cargo xtask truth --talos`: replays recorded calls of the Talos API against simulated nodes and counts what they reproduce.

mod compare;
mod environment;
mod file;
mod lab;
mod live;
mod mapping;
mod messages;
mod replay;
mod scope;
mod sent;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use file::{Call, Payloads};
use mapping::Blank;
use messages::Messages;
use replay::{Replay, Replayed};

/// The recordings: calls one by one, and what a person does to a cluster that lives.
pub const FILES: [&str; 2] = ["transcripts.json", "day-two.json"];

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub in_scope: usize,
    /// How many ended with the recorded code.
    pub reproduced_code: usize,
    /// How many are the recorded ones, whole.
    pub reproduced: usize,
    pub out_of_scope: usize,
    pub differences: Vec<Difference>,
    /// Reproduced and in scope, by method and by group.
    pub methods: BTreeMap<String, (usize, usize)>,
    pub groups: BTreeMap<String, (usize, usize)>,
    /// Numbers of the calls that were reproduced whole.
    #[serde(skip)]
    pub reproduced_calls: Vec<usize>,
}

#[derive(Debug, Serialize)]
pub struct Difference {
    pub call: usize,
    pub group: String,
    pub seq: u32,
    pub method: String,
    pub note: String,
    pub same_code: bool,
    pub what: Vec<String>,
}

/// Replays a file of recordings.
pub fn replay(transcripts: &Path) -> anyhow::Result<Report> {
    let calls = serde_json::from_str(&file::read(transcripts)?)?;
    replay_values(&calls, transcripts)
}

/// Replays recordings that were read before, with the files beside `transcripts`.
pub fn replay_values(calls: &Value, transcripts: &Path) -> anyhow::Result<Report> {
    let (messages, files, blank) = (Messages::read()?, Payloads::beside(transcripts)?, Blank::new()?);
    let mut calls = file::parse(calls)?;
    for call in &mut calls {
        call.message = files.reveal(&call.message);
        files.reveal_all(&mut call.reply);
    }
    let workers = sent::workers(&calls);
    for call in calls.iter_mut().filter(|call| call.address().is_some_and(|to| workers.contains(&to))) {
        "worker".clone_into(&mut call.node_role);
    }
    let mut replay = Replay::new(&messages, &files, &blank, &calls);
    let mut report = Report::default();
    let by_beginning = sent::in_order_of_beginning(&calls);
    let openings = if by_beginning { BTreeMap::new() } else { openings(&calls) };
    let mut open: Vec<usize> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        for ended in open.extract_if(.., |one| has_ended(&calls, *one, number)).collect::<Vec<_>>() {
            report.count(ended, &calls[ended], replay.make(ended, &calls[ended]));
        }
        if by_beginning && scope::is_ours(&call.method) && stays_open(call) {
            replay.open(number, call);
            open.push(number);
            continue;
        }
        for later in openings.get(&number).into_iter().flatten() {
            replay.open(*later, &calls[*later]);
        }
        let ours = scope::is_ours(&call.method) && !is_about_time(call);
        if !ours && call.stream().is_some() {
            // Nothing comes of reading it.
            report.out_of_scope += 1;
            continue;
        }
        let replayed = replay.make(number, call);
        report.count(number, call, if ours { replayed } else { Replayed::Not });
    }
    for ended in open {
        report.count(ended, &calls[ended], replay.make(ended, &calls[ended]));
    }
    Ok(report)
}

/// Whether a stream was open while calls after it were made, if they stand in the order in which they began.
fn stays_open(call: &Call) -> bool {
    call.stream().is_some() && (replay::is_long(call) || sent::by_talosctl(call) && call.code == "Canceled")
}

/// Whether a stream that is open had ended when a later call was made. `talosctl` watches one node while it changes that node
/// and nothing else; other streams lasted as long as their group.
fn has_ended(calls: &[Call], open: usize, later: usize) -> bool {
    let (open, later) = (&calls[open], &calls[later]);
    if open.group != later.group {
        return true;
    }
    let changes = ["/Get", "/ApplyConfiguration"].iter().any(|name| later.method.ends_with(name));
    sent::by_talosctl(open)
        && later.address().is_some()
        && !(changes && sent::target(open) == sent::target(later))
}

/// A certificate that ran out is a matter of TLS, which knows the time; a simulated call only says whose it is.
fn is_about_time(call: &Call) -> bool {
    call.note().contains("expired")
}

/// Before which call a stream was opened that is written down where it ended: calls of its group that fit into its time were
/// made meanwhile.
fn openings(calls: &[Call]) -> BTreeMap<usize, Vec<usize>> {
    let mut openings: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, call) in calls.iter().enumerate() {
        if !replay::is_long(call) || !scope::is_ours(&call.method) {
            continue;
        }
        let mut left = call.elapsed_ms;
        let mut first = number;
        for (earlier, other) in calls[..number].iter().enumerate().rev() {
            if other.group != call.group {
                continue;
            }
            if other.endpoint != call.endpoint {
                break;
            }
            if !replay::is_long(other) {
                if other.elapsed_ms > left {
                    break;
                }
                left -= other.elapsed_ms;
            }
            first = earlier;
        }
        openings.entry(first).or_default().push(number);
    }
    openings
}

impl Report {
    /// The counts of several together.
    pub fn sum(reports: &[Self]) -> Self {
        let mut sum = Self::default();
        for one in reports {
            sum.in_scope += one.in_scope;
            sum.reproduced_code += one.reproduced_code;
            sum.reproduced += one.reproduced;
            sum.out_of_scope += one.out_of_scope;
        }
        sum
    }

    /// The counts in one line.
    pub fn line(&self) -> String {
        let Self { in_scope, reproduced_code, reproduced, out_of_scope, .. } = self;
        format!(
            "in scope {in_scope}, same code {reproduced_code}, reproduced {reproduced}, out of scope {out_of_scope}\n"
        )
    }

    fn count(&mut self, number: usize, call: &Call, replayed: Replayed) {
        match replayed {
            Replayed::Made { same_code, what } => self.add(number, call, same_code, what),
            Replayed::Not => self.out_of_scope += 1,
        }
    }

    fn add(&mut self, number: usize, call: &Call, same_code: bool, what: Vec<String>) {
        let whole = what.is_empty();
        self.in_scope += 1;
        self.reproduced_code += usize::from(same_code);
        self.reproduced += usize::from(whole);
        for counts in [
            self.methods.entry(call.method.clone()).or_default(),
            self.groups.entry(call.group.clone()).or_default(),
        ] {
            counts.0 += usize::from(whole);
            counts.1 += 1;
        }
        if whole {
            self.reproduced_calls.push(number);
            return;
        }
        self.differences.push(Difference {
            call: number,
            group: call.group.clone(),
            seq: call.seq,
            method: call.method.clone(),
            note: call.note().to_owned(),
            same_code,
            what,
        });
    }
}

pub(super) fn print(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a text cannot fail.
    for one in &report.differences {
        let code = if one.same_code { "" } else { " CODE" };
        let _ = writeln!(out, "{} #{} {}{code} {}", one.group, one.seq, one.method, one.note);
        for what in one.what.iter().take(4) {
            let _ = writeln!(out, "    {what}");
        }
    }
    for (name, counts) in [("method", &report.methods), ("group", &report.groups)] {
        let _ = writeln!(out, "\nby {name}:");
        for (key, (whole, all)) in counts {
            let _ = writeln!(out, "  {whole:>4} of {all:>4}  {key}");
        }
    }
    let _ = write!(out, "\n{}", report.line());
    out
}
