//! The programs that are run, and what they said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// Longer than anything takes that is waited for, on a machine that has much else to do.
pub(super) const PATIENCE: Duration = Duration::from_mins(4);
/// The same, as `talosctl health` is told it.
pub(super) const WAIT: [&str; 2] = ["--wait-timeout", "4m"];
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// What a call said, and how it ended.
pub(super) struct Said {
    call: String,
    pub(super) text: String,
    code: Option<i32>,
}

impl Said {
    /// It went well and said all of this.
    pub(super) fn well(self, words: &[&str]) -> anyhow::Result<Self> {
        ensure!(self.code == Some(0), "{} failed ({:?}):\n{}", self.call, self.code, self.text);
        self.says(words)
    }

    /// It failed with these words.
    pub(super) fn badly(self, words: &[&str]) -> anyhow::Result<Self> {
        ensure!(self.code == Some(1), "{} ended with {:?}:\n{}", self.call, self.code, self.text);
        self.says(words)
    }

    fn says(self, words: &[&str]) -> anyhow::Result<Self> {
        for word in words {
            ensure!(self.text.contains(word), "{} does not say {word:?}:\n{}", self.call, self.text);
        }
        Ok(self)
    }
}

/// A program in a home of its own, with nothing else of our surroundings.
pub(super) struct Program<'a> {
    pub(super) file: &'a Path,
    pub(super) home: &'a Path,
    pub(super) environment: Vec<(&'static str, PathBuf)>,
}

impl Program<'_> {
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.file);
        command.args(args).current_dir(self.home).env_clear().env("HOME", self.home);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What a call that goes well prints, without what it says beside.
    pub(super) fn output(&self, args: &[&str]) -> anyhow::Result<Vec<u8>> {
        let Output { stdout, stderr, status } =
            self.command(args).output().with_context(|| format!("could not run {}", self.file.display()))?;
        ensure!(status.success(), "{}: {}", args.join(" "), String::from_utf8_lossy(&stderr));
        Ok(stdout)
    }

    pub(super) fn ask(&self, args: &[&str]) -> anyhow::Result<Said> {
        let Output { stdout, stderr, status } =
            self.command(args).output().with_context(|| format!("could not run {}", self.file.display()))?;
        let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        Ok(Said { call: args.join(" "), text, code: status.code() })
    }
}

pub(super) struct Talosctl<'a> {
    program: Program<'a>,
    /// Whose calls these are: the first control plane.
    pub(super) first: String,
    pub(super) calls: usize,
}

impl<'a> Talosctl<'a> {
    /// One that works in a folder, with this talosconfig.
    pub(super) fn new(program: &'a Path, home: &'a Path, talosconfig: PathBuf, first: String) -> Self {
        let environment = vec![("TALOSCONFIG", talosconfig)];
        Self { program: Program { file: program, home, environment }, first, calls: 0 }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.program.home.join(name)
    }

    pub(super) fn ask(&mut self, args: &[&str]) -> anyhow::Result<Said> {
        self.calls += 1;
        self.program.ask(args)
    }

    /// Asks until it goes well and says this.
    pub(super) fn wait(&mut self, args: &[&str], words: &[&str]) -> anyhow::Result<Said> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.ask(args)?.well(words) {
                Ok(said) => return Ok(said),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Works with another talosconfig from now on.
    pub(super) fn use_config(&mut self, talosconfig: PathBuf) {
        self.program.environment = vec![("TALOSCONFIG", talosconfig)];
    }

    /// Asks until it goes well and what it says is this.
    pub(super) fn wait_for(&mut self, args: &[&str], wanted: impl Fn(&str) -> bool) -> anyhow::Result<Said> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.ask(args)?.well(&[]);
            match said {
                Ok(said) if wanted(&said.text) => return Ok(said),
                Ok(said) => ensure!(Instant::now() < deadline, "{} still says:\n{}", said.call, said.text),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Asks the node at that address.
    pub(super) fn of(&mut self, node: &str, args: &[&str]) -> anyhow::Result<Said> {
        let named = [&["-e", node, "-n", node], args].concat();
        self.ask(&named)
    }
}
