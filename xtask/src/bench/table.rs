//! The table, and whether talmox is as fast as it has to be.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::Row;
use super::measure::{Cost, Phase, Spread};
use super::place::LATENCY;

const BEGIN: &str = "<!-- proxmox: written by `cargo xtask bench` -->\n";
const END: &str = "<!-- end of proxmox -->";
const NEW: &str = "# Benchmarks\n\nMeasured, not promised: every table says what was measured and how it is measured again.\n\n";
/// The number of VMs from which on ratios are judged: with few, starting a program is most of the time.
const MANY: u32 = 50;

pub(super) fn markdown(rows: &[Row], vms: &[u32], repeat: usize) -> String {
    let mut text = format!(
        "## Proxmox: VMs from a template\n\n\
         `cargo xtask bench`: every tool makes linked clones of the same template with the same memory and cores, looks \
         again when nothing is to be done, changes the memory of all of them, and removes them. The VMs do not run. Each \
         tool has a new `talmox sim` ({LATENCY} ms median round trip) and begins as a new process. Times are medians of \
         {repeat}, in brackets the least and the most; memory is that of all processes of a tool together at its peak; \
         requests are counted by the simulator.\n\n\
         talmox {}, OpenTofu 1.12.6 with bpg 0.112.0, Ansible 14.5.0 with community.proxmox 2.0.0. The bare client knows \
         what there is and what is wanted, compares nothing and checks nothing: no tool can do with less.\n",
        env!("CARGO_PKG_VERSION")
    );
    for &count in vms {
        let _ = write!(text, "\n### {count} VMs\n");
        for phase in Phase::ALL {
            let _ = write!(
                text,
                "\n| {} | seconds | CPU seconds | MB | requests |\n|---|--:|--:|--:|--:|\n",
                phase.title()
            );
            for row in rows.iter().filter(|row| row.vms == count && row.phase == phase) {
                text.push_str(&line(row));
            }
        }
    }
    text
}

fn line(row: &Row) -> String {
    let spread = |number: fn(&Cost) -> f64| Spread::of(row.costs.iter().map(number));
    let Some((wall, cpu, peak)) = spread(|cost| cost.wall)
        .zip(spread(|cost| cost.cpu))
        .zip(spread(|cost| cost.peak / 1024.0))
        .map(|((wall, cpu), peak)| (wall, cpu, peak))
    else {
        return String::new();
    };
    let requests = row.costs.iter().map(|cost| cost.requests).max().unwrap_or_default();
    format!(
        "| {} | {:.2} ({:.2}–{:.2}) | {:.2} | {:.0} | {requests} |\n",
        row.tool.title, wall.median, wall.least, wall.most, cpu.median, peak.median
    )
}

/// Puts the tables in their place of the document; what others wrote there stays.
pub(super) fn write(path: &Path, tables: &str) -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a document of the project")]
    let current = fs::read_to_string(path).unwrap_or_else(|_| NEW.to_owned());
    fs::write(path, placed(&current, tables)).with_context(|| format!("could not write {}", path.display()))
}

fn placed(current: &str, tables: &str) -> String {
    let parts = current.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.unwrap_or((current, "\n"));
    format!("{before}{BEGIN}\n{tables}\n{END}{after}")
}

/// What of a tool's is compared, and how large a part of it talmox may take.
type Limit = (&'static str, fn(&Cost) -> f64, &'static str, f64);

/// What talmox has to be compared with others: a line, and whether it holds.
pub(super) fn judge(rows: &[Row], vms: &[u32]) -> Vec<(String, bool)> {
    let Some(&count) = vms.iter().max() else { return Vec::new() };
    let many = count >= MANY;
    let of = |tool: &str, number: fn(&Cost) -> f64| {
        let row =
            rows.iter().find(|row| row.tool.name == tool && row.vms == count && row.phase == Phase::Same)?;
        Spread::of(row.costs.iter().map(number)).map(|spread| spread.median)
    };
    // With few VMs only what is far off is a fault.
    let limits: [Limit; 8] = [
        ("time of the bare client with as many in flight", wall, "bare-10", if many { 1.3 } else { 2.5 }),
        ("time of Ansible", wall, "ansible", if many { 1.0 / 50.0 } else { 0.1 }),
        ("time of OpenTofu", wall, "tofu-10", if many { 1.0 / 8.0 } else { 0.3 }),
        ("time of OpenTofu with parallelism 50", wall, "tofu-50", if many { 1.0 / 8.0 } else { 0.3 }),
        ("CPU of Ansible", cpu, "ansible", 0.1),
        ("CPU of OpenTofu", cpu, "tofu-10", 0.1),
        ("memory of Ansible", peak, "ansible", 0.1),
        // Most of it are pages of the program itself (docs/benchmarks.md): a tenth, give or take a megabyte.
        ("memory of OpenTofu", peak, "tofu-10", 0.125),
    ];
    let verdict = |(what, number, tool, most): Limit| {
        let (ours, theirs) = of("talmox", number).zip(of(tool, number))?;
        let ratio = ours / theirs;
        let word = if ratio <= most { "ok" } else { "MISSED" };
        let line = format!("{word}: no change, {count} VMs: {ratio:.3} of the {what}, at most {most:.3}");
        Some((line, ratio <= most))
    };
    limits.into_iter().filter_map(verdict).collect()
}

fn wall(cost: &Cost) -> f64 {
    cost.wall
}

fn cpu(cost: &Cost) -> f64 {
    cost.cpu
}

fn peak(cost: &Cost) -> f64 {
    cost.peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tools::TOOLS;

    fn row(name: &str, wall: f64, cpu: f64, peak: f64) -> Row {
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let cost = |wall| Cost { code: 0, wall, cpu, peak: peak * 1024.0, requests: 51 };
        Row { tool, vms: 50, phase: Phase::Same, costs: vec![cost(wall), cost(wall * 1.5), cost(wall * 0.5)] }
    }

    #[test]
    fn medians_are_printed_with_their_spread() {
        let text = markdown(&[row("talmox", 0.4, 0.05, 12.0)], &[50], 3);
        assert!(text.contains("| talmox | 0.40 (0.20–0.60) | 0.05 | 12 | 51 |"), "{text}");
    }

    #[test]
    fn what_is_missed_is_said() {
        let rows = |ours: f64| {
            vec![
                row("talmox", ours, 0.05, 12.0),
                row("bare-10", 0.4, 0.02, 8.0),
                row("tofu-10", 4.0, 2.0, 300.0),
                row("ansible", 40.0, 30.0, 400.0),
            ]
        };
        assert!(judge(&rows(0.45), &[3, 50]).iter().all(|(_, good)| *good));
        let missed: Vec<String> =
            judge(&rows(0.55), &[50]).into_iter().filter(|(_, good)| !good).map(|(line, _)| line).collect();
        assert_eq!(missed.len(), 2, "{missed:?}");
        assert!(missed[0].starts_with("MISSED: no change, 50 VMs: 1.375 of the time of the bare client"));
    }

    #[test]
    fn what_others_wrote_stays() {
        let first = placed("# Benchmarks\n\n## Rendering\n", "ONE");
        let second = placed(&first, "TWO");
        assert!(second.starts_with("# Benchmarks\n\n## Rendering\n") && second.contains("TWO"));
        assert!(!second.contains("ONE") && second.ends_with(&format!("{END}\n")));
    }
}
