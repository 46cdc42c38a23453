//! A simulator of its own for one tool, and a folder for what the tool writes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use talmox_sim::serve::LoggedCall;

use super::Programs;
use super::measure::{Cost, Phase};
use crate::conformance::root;

/// The median round trip of a read in milliseconds.
pub(super) const LATENCY: &str = "20";
const SEED: &str = "6";

/// What `talmox sim` says when it is ready.
#[derive(Deserialize)]
pub(super) struct Ready {
    pub(super) endpoint: String,
    pub(super) ca_file: String,
    pub(super) token: String,
}

pub(super) struct Place {
    pub(super) ready: Ready,
    pub(super) folder: PathBuf,
    pub(super) vms: u32,
    simulator: Child,
}

/// A command to be measured.
pub(super) struct Run {
    pub(super) command: Vec<PathBuf>,
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) input: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.simulator.kill();
        let _ = self.simulator.wait();
        // What a failed run said is in its error; nothing here is needed any more.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Place {
    pub(super) fn start(programs: &Programs, vms: u32) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("talmox-bench-{}-{number}", std::process::id()));
        fs::create_dir_all(folder.join("home"))?;
        let mut simulator = Command::new(&programs.talmox)
            .args([
                "sim",
                "--output",
                "json",
                "--port",
                "0",
                "--latency",
                LATENCY,
                "--seed",
                SEED,
                "--call-log",
            ])
            .arg(folder.join("calls.log"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not run talmox sim")?;
        let mut line = String::new();
        BufReader::new(simulator.stdout.take().context("talmox sim says nothing")?).read_line(&mut line)?;
        let ready = serde_json::from_str(&line).context("talmox sim did not start")?;
        let place = Self { ready, folder, vms, simulator };
        place.run(programs, place.bare(programs, "prepare", 4))?;
        Ok(place)
    }

    /// The bare client.
    pub(super) fn bare(&self, programs: &Programs, operation: &str, in_flight: u32) -> Run {
        let Ready { endpoint, ca_file, token } = &self.ready;
        let words = [operation, endpoint, ca_file, &in_flight.to_string(), &self.vms.to_string()];
        let command = [programs.bare.clone()].into_iter().chain(words.map(PathBuf::from)).collect();
        Run { command, environment: Vec::new(), input: token.clone() }
    }

    /// Runs a command that must succeed, with a HOME of its own and nothing else of our surroundings.
    pub(super) fn run(&self, programs: &Programs, run: Run) -> anyhow::Result<Cost> {
        let Run { command, environment, input } = run;
        let said = self.folder.join("said");
        let mut child = Command::new(programs.ansible.join("python/bin/python"))
            .arg(root().join("conformance/bench/measure.py"))
            .arg(&said)
            .args(&command)
            .env_clear()
            .env("HOME", self.folder.join("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .envs(environment)
            .current_dir(self.folder.join("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not run measure.py")?;
        child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let cost: Cost = serde_json::from_slice(&output.stdout).context("measure.py failed")?;
        let words = read(&said).unwrap_or_default();
        let name = command.first().map(|program| program.display().to_string()).unwrap_or_default();
        ensure!(cost.code == 0, "{name} ended with {}:\n{words}", cost.code);
        Ok(cost)
    }

    /// Runs a phase, counts its requests, and sees that the work was done.
    pub(super) fn measure(&self, programs: &Programs, run: Run, phase: Phase) -> anyhow::Result<Cost> {
        let before = self.calls()?.len();
        let cost = self.run(programs, run)?;
        let calls = self.calls()?.split_off(before);
        let good = |call: &&LoggedCall| call.status == Some(200);
        let done = |method: &str, endpoint: &str| {
            let is = |call: &&LoggedCall| call.method == method && call.endpoint.as_deref() == Some(endpoint);
            u32::try_from(calls.iter().filter(good).filter(is).count()).unwrap_or(u32::MAX)
        };
        let clones = done("POST", "/nodes/{node}/qemu/{vmid}/clone");
        let removals = done("DELETE", "/nodes/{node}/qemu/{vmid}");
        let expected = match phase {
            Phase::First => (self.vms, 0),
            Phase::Same | Phase::Change => (0, 0),
            Phase::Destroy => (0, self.vms),
        };
        ensure!((clones, removals) == expected, "{phase:?}: {clones} clones and {removals} removals");
        Ok(Cost { requests: calls.len(), ..cost })
    }

    fn calls(&self) -> anyhow::Result<Vec<LoggedCall>> {
        let log = read(&self.folder.join("calls.log")).context("no log of the calls")?;
        let calls: Result<Vec<LoggedCall>, _> = log.lines().map(serde_json::from_str).collect();
        calls.context("the log of the calls cannot be read")
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of our own")]
fn read(path: &Path) -> std::io::Result<String> {
    fs::read_to_string(path)
}
