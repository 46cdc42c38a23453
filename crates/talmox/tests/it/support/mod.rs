//! Running the program as a person would, in the project's root, with nothing of the caller's environment.

#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod terminal;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// How fast simulated tasks run in tests. A person may like to watch them; a test would only wait.
pub(crate) const SPEED: &str = "100";

/// What came of a run.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// All of it, as one text for a snapshot.
    pub(crate) fn whole(&self) -> String {
        format!("exit {}\n---- stdout\n{}---- stderr\n{}", self.code, self.stdout, self.stderr)
    }

    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.whole());
        self
    }

    #[track_caller]
    pub(crate) fn failed(self) -> Self {
        assert_eq!(self.code, 1, "{}", self.whole());
        self
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command.args(arguments).current_dir(root()).env_clear();
    // Most tests are about VMs; those about more take it back.
    command.env("TALMOX_UNTIL", "vms");
    if arguments.iter().any(|argument| argument.starts_with("--simulate")) {
        command.env("TALMOX_SPEED", SPEED);
    }
    command
}

pub(crate) fn run(arguments: &[&str]) -> Run {
    finish(&mut command(arguments))
}

pub(crate) fn finish(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the program was built for this test");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Run { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

/// A folder of the test's own, removed afterwards.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        // Tests of a program run beside each other, and two may have hit upon the same name.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("talmox-{name}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
