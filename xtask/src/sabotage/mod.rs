//! `cargo xtask sabotage`: whether tests notice what is wrong.
//!
//! One build has all defects of [`talmox_types::sabotage`]. The tests that guard against them must pass while none is in
//! force, and for each defect one of its guards must fail; whose name is told. A defect nobody notices fails the
//! command: there is a test to be written. Before that it makes sure that the program people get has none of them.

mod guards;
mod programs;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use talmox_types::sabotage::Defect;

use guards::{Guard, guards};
use programs::{Program, Verdict, build, is_in_release_build};

/// How long the tests of one guard may take. A defect may make them wait for ever, which is noticed too.
const LIMIT: Duration = Duration::from_mins(3);

/// `cargo xtask sabotage [DEFECT...]`.
pub fn command(args: impl Iterator<Item = String>) -> Result<String> {
    let chosen = choose(args)?;
    ensure!(
        !is_in_release_build()?,
        "the program is built with the feature `sabotage`: see `cargo tree -p talmox -e features -i talmox-types`"
    );
    let programs = build()?;
    without_a_defect(&programs, &chosen)?;
    let mut table = String::new();
    let mut unnoticed = Vec::new();
    for defect in chosen {
        let begun = Instant::now();
        let caught = first_to_notice(&programs, defect)?;
        let by = caught.as_deref().unwrap_or("NOBODY");
        writeln!(table, "{:<24} {:<78} {:>5.1} s", defect.name(), by, begun.elapsed().as_secs_f64())?;
        if caught.is_none() {
            unnoticed.push(defect);
        }
    }
    if unnoticed.is_empty() {
        return Ok(format!("{:<24} {:<78} time\n{table}every defect is noticed", "defect", "caught by"));
    }
    let told: Vec<String> =
        unnoticed.iter().map(|defect| format!("{}: {}", defect.name(), defect.wrong())).collect();
    bail!(
        "{table}nobody notices:\n  {}\nwrite a test that does, and name it in xtask/src/sabotage/guards.rs",
        told.join("\n  ")
    );
}

fn choose(args: impl Iterator<Item = String>) -> Result<Vec<Defect>> {
    let mut chosen = Vec::new();
    for name in args {
        let Some(defect) = Defect::ALL.iter().find(|defect| defect.name() == name) else {
            let all: Vec<&str> = Defect::ALL.iter().map(|defect| defect.name()).collect();
            bail!("there is no defect {name}; there are {}", all.join(", "));
        };
        chosen.push(*defect);
    }
    Ok(if chosen.is_empty() { Defect::ALL.to_vec() } else { chosen })
}

/// What fails without a defect says nothing about one.
fn without_a_defect(programs: &[Program], chosen: &[Defect]) -> Result<()> {
    let mut all: Vec<Guard> = chosen.iter().flat_map(|defect| guards(*defect)).copied().collect();
    all.sort_unstable();
    all.dedup();
    for guard in all {
        let Verdict { failed, passed } = programs::run(programs, guard, None, LIMIT)?;
        if let Some(test) = failed {
            bail!("{test} fails without any defect");
        }
        ensure!(passed > 0, "{guard} matches no test");
    }
    Ok(())
}

fn first_to_notice(programs: &[Program], defect: Defect) -> Result<Option<String>> {
    for guard in guards(defect) {
        let Verdict { failed, .. } = programs::run(programs, *guard, Some(defect), LIMIT)?;
        if failed.is_some() {
            return Ok(failed);
        }
    }
    Ok(None)
}
