//! Our own program, as it is built for tests.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};

use super::programs::Program;

/// A simulator in a process of its own; ended when nobody needs it any more.
pub(super) struct Simulator {
    child: Child,
    /// Open as long as it runs: it may say more.
    _said: BufReader<ChildStdout>,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // A change is on disk before it is acknowledged; what time alone has brought is saved by one that is told to end.
        let told = Command::new("kill").arg(self.child.id().to_string()).status();
        if !told.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Simulator {
    /// Serves what is kept in a folder; back when it is ready.
    pub(super) fn start(talmox: &Program<'_>, folder: &Path, speed: &str) -> anyhow::Result<Self> {
        let state = folder.to_string_lossy();
        let args = ["sim", "--output", "json", "--port", "0", "--speed", speed, "--state", &state];
        let mut child = talmox
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not run talmox sim")?;
        let mut said = BufReader::new(child.stdout.take().context("talmox sim says nothing")?);
        let mut line = String::new();
        let read = said.read_line(&mut line);
        let simulator = Self { child, _said: said };
        ensure!(read? > 0, "talmox sim did not start");
        Ok(simulator)
    }
}

/// Our program in a home of its own.
pub(super) fn talmox<'a>(program: &'a Path, home: &'a Path) -> Program<'a> {
    let state: PathBuf = home.join("state");
    Program { file: program, home, environment: vec![("XDG_STATE_HOME", state)] }
}
