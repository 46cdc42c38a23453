//! `cargo xtask talosctl`: what we make, read and merge, compared with what the real `talosctl` does.
//!
//! Each check draws cases from a seed, runs them two at a time in a scratch HOME, and counts. A case that differs is listed with
//! its number; all are tried before the run fails.

mod clients;
mod configs;
mod inputs;
mod patches;
mod secrets;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use talmox_machine::{Bundle, SystemRandom, Time};
use talmox_types::Contract;

use crate::conformance::peers::{self, Peer};
use crate::scratch::Scratch;
use crate::side_by_side;

/// When our bundle begins; `talosctl` looks at certificates only to show when they end.
const NOW: Time = Time::from_unix(1_790_000_000);

/// How many configs and how many chains of patches are compared.
const INPUTS: usize = 200;

/// A check: what it is called, how many cases it has, and what it does with one of them.
struct Check {
    title: &'static str,
    cases: usize,
    run: fn(&Talosctl, &Scratch, usize) -> anyhow::Result<()>,
}

/// One version of the program, and what it is given to read.
struct Talosctl {
    version: String,
    minor: u16,
    folder: PathBuf,
    bundle: Bundle,
    scratch: Scratch,
}

/// Runs the chore and gives what it prints.
pub fn command(mut args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let (mut inputs, mut version) = (INPUTS, "1.13".to_owned());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--inputs" => inputs = args.next().context("--inputs wants a number")?.parse()?,
            "--version" => version = args.next().context("--version wants 1.12 or 1.13")?,
            _ => bail!("talosctl knows --inputs N and --version 1.12|1.13, not {arg}"),
        }
    }
    let peer = match version.as_str() {
        "1.12" => "talosctl112",
        "1.13" => "talosctl113",
        _ => bail!("there is a talosctl of 1.12 and of 1.13, not of {version}"),
    };
    match peers::get(peer)? {
        Peer::Folder(folder) => Talosctl::new(&folder)?.compare(inputs),
        Peer::Unavailable(excuse) => Ok(format!("not run: {excuse}")),
    }
}

impl Talosctl {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.file_name().and_then(|name| name.to_str()).context("a folder with a version")?;
        let version = name.trim_start_matches("talosctl-").to_owned();
        let minor = version.split('.').nth(1).context("a version has a minor number")?.parse()?;
        let bundle = Bundle::generate(Contract { major: 1, minor: 13 }, NOW, &mut SystemRandom)?;
        let scratch = Scratch::new(name)?;
        scratch.write("secrets.yaml", secrecy::ExposeSecret::expose_secret(&bundle.to_yaml()))?;
        Ok(Self { version, minor, folder: folder.to_owned(), bundle, scratch })
    }

    fn compare(&self, inputs: usize) -> anyhow::Result<String> {
        let mut checks = vec![
            Check {
                title: "configs made alike, accepted in metal and cloud mode",
                cases: inputs,
                run: configs::check,
            },
            Check {
                title: "descriptions rendered, accepted in metal and cloud mode",
                cases: inputs / 4,
                run: configs::described,
            },
            Check { title: "chains of patches applied alike", cases: inputs, run: patches::check },
            Check {
                title: "bundles of its own read by us",
                cases: secrets::CONTRACTS.len(),
                run: secrets::theirs,
            },
            Check {
                title: "bundles read alike from a control plane",
                cases: inputs / 20,
                run: secrets::extracted,
            },
            Check { title: "talosconfigs of ours shown", cases: inputs / 10, run: clients::shown },
            Check { title: "talosconfigs merged alike", cases: inputs / 4, run: clients::merged },
        ];
        if self.folder.join("kubemerge").exists() {
            checks.push(Check {
                title: "kubeconfigs merged alike",
                cases: inputs / 4,
                run: clients::kubeconfigs,
            });
        }
        let begin = Instant::now();
        let (mut lines, mut different) = (Vec::new(), Vec::new());
        for check in checks {
            let found = self.cases(&check);
            lines.push(format!(
                "talosctl {}: {} of {} {}",
                self.version,
                check.cases - found.len(),
                check.cases,
                check.title
            ));
            different.extend(found);
        }
        let summary = format!("{}\n{:.0} s", lines.join("\n"), begin.elapsed().as_secs_f64());
        ensure!(different.is_empty(), "{summary}\n{}", different.join("\n"));
        Ok(summary)
    }

    /// The cases of a check that differ, with the reason.
    fn cases(&self, check: &Check) -> Vec<String> {
        let name = check.title.replace([' ', ','], "-");
        let outcomes = side_by_side::run(check.cases, |case| {
            let scratch = self.scratch.inside(&format!("{name}-{case}"))?;
            (check.run)(self, &scratch, case)
        });
        let failed = outcomes.into_iter().enumerate().filter_map(|(case, outcome)| {
            outcome.err().map(|error| format!("{}, case {case}: {error:#}", check.title))
        });
        failed.collect()
    }

    /// Runs it; `Err` inside is what it said when it refused.
    fn run(&self, scratch: &Scratch, arguments: &[&str]) -> anyhow::Result<Result<String, String>> {
        self.program("talosctl", scratch, arguments)
    }

    /// A program of its folder, in a HOME of its own.
    fn program(
        &self,
        name: &str,
        scratch: &Scratch,
        arguments: &[&str],
    ) -> anyhow::Result<Result<String, String>> {
        let output = Command::new(self.folder.join(name))
            .args(arguments)
            .env_clear()
            .env("HOME", scratch.path())
            .env("TALOSCONFIG", scratch.path().join("talosconfig"))
            .current_dir(scratch.path())
            .output()
            .with_context(|| format!("could not run {name}"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) })
    }
}
