//! What a preflight found.

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use talmox_exec::preflight::{Check, Report, Verdict};

use super::text::{plural, safe};
use crate::printer::{DIM, GREEN};

/// The report for programs.
#[derive(Serialize)]
pub(crate) struct CheckData<'a> {
    format: &'static str,
    problems: usize,
    warnings: usize,
    checks: &'a [Check],
}

impl<'a> CheckData<'a> {
    pub(crate) fn new(report: &'a Report) -> Self {
        Self {
            format: "talmox.check/v1",
            problems: report.count(Verdict::Problem),
            warnings: report.count(Verdict::Warning),
            checks: &report.checks,
        }
    }
}

fn sign(verdict: Verdict) -> (char, Style) {
    match verdict {
        Verdict::Ok => ('✓', GREEN),
        Verdict::Warning => ('!', AnsiColor::Yellow.on_default()),
        Verdict::Problem => ('✗', AnsiColor::BrightRed.on_default()),
        Verdict::NotChecked => ('?', DIM),
    }
}

/// One line for each check, with what to do about it below; then the sum.
pub(crate) fn check_text(report: &Report, flags: &str) -> String {
    let width = report.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (index, Check { name, verdict, message, remedy }) in report.checks.iter().enumerate() {
        let (sign, style) = sign(*verdict);
        text.push_str(&format!("{style}{sign}{style:#} {name:<width$}  {}\n", safe(message)));
        // What is to be done about several in a row is said once, below the last.
        let next = report.checks.get(index + 1);
        if let Some(remedy) = remedy.as_ref().filter(|_| next.is_none_or(|next| next.remedy != *remedy)) {
            text.push_str(&format!("{:width$}    {DIM}→ {}{DIM:#}\n", "", safe(remedy)));
        }
    }
    text.push_str(&format!("\n{}\n", sum(report, flags)));
    text
}

fn sum(report: &Report, flags: &str) -> String {
    let (problems, warnings) = (report.count(Verdict::Problem), report.count(Verdict::Warning));
    let open = report.count(Verdict::NotChecked);
    let mut parts = Vec::new();
    if problems > 0 {
        parts.push(plural(problems, "problem"));
    }
    if warnings > 0 {
        parts.push(plural(warnings, "warning"));
    }
    if open > 0 {
        parts.push(format!("{open} not checked"));
    }
    let told = if parts.is_empty() { "All is well".to_owned() } else { parts.join(", ") };
    let lacks = |check: &Check| check.name == "privilege" && check.verdict != Verdict::Ok;
    let next = if report.checks.iter().any(lacks) {
        format!("talmox check --setup{flags}  prints the lines to paste on a Proxmox host")
    } else if problems == 0 {
        format!("next: talmox plan{flags}")
    } else {
        "nothing was changed".to_owned()
    };
    format!("{told}. {next}")
}
