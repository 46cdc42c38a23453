//! `cargo xtask bench`: talmox, other tools and a bare client do the same work on the same simulator.
//!
//! ```text
//!  for each number of VMs, repetition and tool: a new talmox sim (20 ms a call), one template
//!     first run ─▶ no change ─▶ memory changed ─▶ destroy     each measured by measure.py, requests from the call log
//!  ─▶ docs/benchmarks.md, and exit 1 if talmox is slower than it may be
//! ```

mod measure;
mod place;
mod table;
mod tools;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::conformance::{peers, root};
use measure::{Cost, Phase};
use peers::Peer;
use place::Place;
use tools::{TOOLS, Tool};

const USAGE: &str =
    "usage: cargo xtask bench [--quick] [--vms N]... [--repeat N] [--only TOOL]... [--no-write] [--no-build]";

/// What is to be measured.
struct Order {
    vms: Vec<u32>,
    repeat: usize,
    tools: Vec<&'static Tool>,
    write: bool,
    build: bool,
}

/// Programs that are measured.
struct Programs {
    talmox: PathBuf,
    bare: PathBuf,
    tofu: PathBuf,
    bpg: PathBuf,
    ansible: PathBuf,
}

/// What one tool did with so many VMs.
struct Row {
    tool: &'static Tool,
    vms: u32,
    phase: Phase,
    costs: Vec<Cost>,
}

/// Measures, writes the document, and judges; gives what to print.
pub fn command(args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let order = parse(args)?;
    let programs = programs(order.build)?;
    let mut rows: Vec<Row> = Vec::new();
    for &vms in &order.vms {
        for _ in 0..order.repeat {
            for tool in &order.tools {
                let costs = measure_tool(&programs, tool, vms)
                    .with_context(|| format!("{} with {vms} VMs", tool.title))?;
                add(&mut rows, tool, vms, costs);
            }
        }
    }
    let text = table::markdown(&rows, &order.vms, order.repeat);
    if order.write {
        table::write(&root().join("docs/benchmarks.md"), &text)?;
    }
    let verdicts = table::judge(&rows, &order.vms);
    let said =
        format!("{text}\n{}", verdicts.iter().map(|(line, _)| format!("{line}\n")).collect::<String>());
    ensure!(verdicts.iter().all(|(_, good)| *good), "{said}");
    Ok(said)
}

fn parse(mut args: impl Iterator<Item = String>) -> anyhow::Result<Order> {
    let mut order = Order { vms: Vec::new(), repeat: 3, tools: Vec::new(), write: true, build: true };
    let mut quick = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => quick = true,
            "--no-write" => order.write = false,
            "--no-build" => order.build = false,
            "--vms" => order.vms.push(args.next().context(USAGE)?.parse().context(USAGE)?),
            "--repeat" => order.repeat = args.next().context(USAGE)?.parse().context(USAGE)?,
            "--only" => {
                let name = args.next().context(USAGE)?;
                let found = TOOLS.iter().filter(|tool| tool.name == name || tool.family == name);
                let before = order.tools.len();
                order.tools.extend(found);
                let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
                ensure!(order.tools.len() > before, "unknown tool {name}: there are {}", known.join(", "));
            }
            _ => bail!(USAGE),
        }
    }
    if quick {
        (order.vms, order.repeat, order.write) = (vec![3, 10], 1, false);
    }
    if order.vms.is_empty() {
        order.vms = vec![3, 10, 50];
    }
    // A table without everybody is no comparison.
    order.write &= order.tools.is_empty();
    if order.tools.is_empty() {
        order.tools = TOOLS.iter().collect();
    }
    Ok(order)
}

/// Builds our own with optimisation, or takes what was built last, and finds the others.
fn programs(build: bool) -> anyhow::Result<Programs> {
    let folder = |name: &str| match peers::get(name)? {
        Peer::Folder(folder) => Ok(folder),
        Peer::Unavailable(excuse) => bail!("not measured: {excuse}"),
    };
    if build {
        cargo(&["--package", "talmox"])?;
        cargo(&["--package", "talmox-pve", "--features", "client", "--example", "bare"])?;
    }
    Ok(Programs {
        talmox: built("talmox")?,
        bare: built("examples/bare")?,
        tofu: folder("tofu")?,
        bpg: folder("bpg")?,
        ansible: folder("ansible")?,
    })
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--profile", "dist", "--quiet", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(arguments)
        .status()?;
    ensure!(status.success(), "cargo build {} failed", arguments.join(" "));
    Ok(())
}

/// What cargo built lies beside the folder this program was built in.
fn built(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("this program is in no folder")?;
    let program = target.join("dist").join(name);
    ensure!(program.is_file(), "{} is not there: run it without --no-build", program.display());
    Ok(program)
}

fn measure_tool(programs: &Programs, tool: &Tool, vms: u32) -> anyhow::Result<Vec<(Phase, Cost)>> {
    let place = Place::start(programs, vms)?;
    (tool.prepare)(programs, &place)?;
    let mut costs = Vec::new();
    for phase in Phase::ALL {
        let run = (tool.run)(programs, &place, phase)?;
        costs.push((phase, place.measure(programs, run, phase)?));
    }
    Ok(costs)
}

fn add(rows: &mut Vec<Row>, tool: &'static Tool, vms: u32, costs: Vec<(Phase, Cost)>) {
    for (phase, cost) in costs {
        let same = |row: &&mut Row| row.tool.name == tool.name && row.vms == vms && row.phase == phase;
        match rows.iter_mut().find(same) {
            Some(row) => row.costs.push(cost),
            None => rows.push(Row { tool, vms, phase, costs: vec![cost] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> anyhow::Result<Order> {
        parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn a_table_without_everybody_is_not_written() {
        let whole = parsed(&[]).unwrap();
        assert!(whole.write && whole.vms == [3, 10, 50] && whole.tools.len() == TOOLS.len());
        let part = parsed(&["--only", "tofu", "--vms", "7"]).unwrap();
        assert!(!part.write && part.vms == [7] && part.tools.len() == 2, "both ways to run it");
        assert!(!parsed(&["--quick"]).unwrap().write);
        assert!(parsed(&["--only", "pulumi"]).is_err() && parsed(&["--fast"]).is_err());
    }
}
