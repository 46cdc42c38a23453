//! Test programs: built once, run with and without a defect.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use talmox_types::sabotage::Defect;

use super::guards::{Guard, ProgramName};

/// The packages whose tests are asked, and which of their targets.
const TESTS: &[&str] = &[
    "--package=talmox-test",
    "--package=talmox-plan",
    "--package=talmox-pve",
    "--lib",
    "--test=it",
    "--test=plan",
];

/// A test program.
pub(super) struct Program {
    target: String,
    executable: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
}

impl Program {
    fn is(&self, name: ProgramName) -> bool {
        self.target == name.target && self.folder.ends_with(name.package)
    }
}

/// What tests said: the first that failed, or how many passed.
pub(super) struct Verdict {
    pub(super) failed: Option<String>,
    pub(super) passed: usize,
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether the program people get would have the defects.
pub(super) fn is_in_release_build() -> Result<bool> {
    let tree = [
        "tree",
        "--package=talmox",
        "--edges=features,normal,build",
        "--invert=talmox-types",
        "--format={p} {f}",
    ];
    let output = cargo().args(tree).output().context("could not ask cargo for the features")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).contains("sabotage"))
}

/// Builds the tests with all defects in them.
pub(super) fn build() -> Result<Vec<Program>> {
    let mut build = cargo();
    build
        .args(["test", "--no-run", "--quiet", "--message-format=json", "--features=talmox-test/sabotage"])
        .args(TESTS);
    let output = build.stderr(Stdio::inherit()).output().context("could not build the tests")?;
    ensure!(output.status.success(), "the tests do not build");
    let text = String::from_utf8(output.stdout).context("cargo speaks UTF-8")?;
    Ok(text.lines().filter_map(program).collect())
}

/// The program a message of cargo's is about.
fn program(message: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let executable = message["executable"].as_str()?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    Some(Program {
        target: message["target"]["name"].as_str()?.to_owned(),
        executable: executable.into(),
        folder: manifest.parent()?.to_owned(),
    })
}

/// Runs tests until the first fails.
pub(super) fn run(
    programs: &[Program],
    guard: Guard,
    defect: Option<Defect>,
    limit: Duration,
) -> Result<Verdict> {
    let found = programs.iter().find(|program| program.is(guard.program));
    let program = found.ok_or_else(|| anyhow!("there is no test program {}", guard.program))?;
    let mut child = Command::new(&program.executable)
        .arg(guard.filter)
        .current_dir(&program.folder)
        .env("TALMOX_SABOTAGE", defect.map_or("", Defect::name))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("could not start {}", program.executable.display()))?;
    let verdict = listen(&mut child, guard, Instant::now() + limit);
    // It may have failed half-way, or wait for ever.
    child.kill().ok();
    child.wait().context("could not wait for the tests")?;
    verdict
}

/// Reads what tests say, line by line, on a thread of its own: they may fall silent.
fn listen(child: &mut Child, guard: Guard, deadline: Instant) -> Result<Verdict> {
    let output = child.stdout.take().context("the output is piped")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut verdict = Verdict { failed: None, passed: 0 };
    while verdict.failed.is_none() {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => verdict.hear(&line, guard),
            Err(RecvTimeoutError::Timeout) => verdict.failed = Some(format!("{guard} (does not end)")),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The thread ends with the program, which the caller ends.
    drop((lines, reader));
    Ok(verdict)
}

impl Verdict {
    fn hear(&mut self, line: &str, guard: Guard) {
        let Some(test) = line.strip_prefix("test ") else { return };
        if let Some((name, "FAILED")) = test.split_once(" ... ") {
            self.failed = Some(format!("{}: {name}", guard.program));
        } else if test.ends_with("... ok") {
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sabotage::guards::engine;

    #[test]
    fn the_first_failure_is_the_one_that_is_told() {
        let guard = engine("exec::remove::");
        let mut verdict = Verdict { failed: None, passed: 0 };
        for line in [
            "running 2 tests",
            "test exec::remove::a ... ok",
            "test exec::remove::b ... FAILED",
            "test result: FAILED. 1",
        ] {
            verdict.hear(line, guard);
        }
        assert_eq!((verdict.failed.as_deref(), verdict.passed), (Some("talmox-test/it: exec::remove::b"), 1));
    }

    #[test]
    fn messages_of_cargo_name_programs() {
        let message = r#"{"executable": "/t/it-1", "manifest_path": "/w/crates/talmox-test/Cargo.toml", "target": {"name": "it"}}"#;
        let found = program(message).unwrap();
        assert!(found.is(engine("").program));
        // Several packages have a target of that name.
        let message = message.replace("talmox-test", "talmox-pve");
        assert!(!program(&message).unwrap().is(engine("").program));
        assert!(program(r#"{"reason": "build-finished"}"#).is_none());
    }
}
