//! A simulator and the place a program runs in.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use talmox_sim::{FileFacts, Site, Started, Starter, World};

use super::{Calls, folder, root, view};

/// Two hosts, so that hosts have to be named.
const HOSTS: u32 = 2;
const SEED: u64 = 6;
/// Programs ask once a second how a task is going; tasks need not take longer than that.
const SPEED: &str = "20";
const LATENCY: &str = "2";
/// What the simulated hosts can download; nothing is fetched from anywhere.
pub(super) const SITE: &str = "images.example";
pub(super) const IMAGE: &str = "talos.qcow2";
pub(super) const ISO: &str = "talos.iso";
const IMAGE_SIZE: u64 = 1 << 30;

/// What the token may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// What `talmox sim` gives it: enough for VMs.
    Provisioning,
    Administrator,
}

/// What `talmox sim` says when it is ready.
#[derive(Deserialize)]
pub(super) struct Ready {
    pub(super) endpoint: String,
    pub(super) ca_file: String,
    pub(super) token: String,
    pub(super) root_password: String,
}

pub(super) struct Session {
    pub(super) ready: Ready,
    /// Everything that is written goes below it; gone when the session ends well.
    scratch: PathBuf,
    /// The program's files.
    pub(super) folder: PathBuf,
    simulator: Child,
    /// What was set up before the program ran.
    settings: Vec<String>,
    transcript: String,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The world is on disk before a change is acknowledged: nothing is lost. One that is gone already needs no end.
        let _ = self.simulator.kill();
        let _ = self.simulator.wait();
    }
}

impl Session {
    pub(super) fn start(name: &str, rights: Rights) -> anyhow::Result<Self> {
        let scratch = std::env::temp_dir().join(format!("talmox-conformance-{name}-{}", std::process::id()));
        for part in ["home", "state"] {
            fs::create_dir_all(scratch.join(part))?;
        }
        let world = world(rights);
        fs::write(scratch.join("state/world.json"), world.save())?;
        let settings = view::settings(world)?;
        let mut simulator = simulator(&scratch).spawn().context("could not run talmox sim")?;
        let mut line = String::new();
        BufReader::new(simulator.stdout.take().context("talmox sim says nothing")?).read_line(&mut line)?;
        let ready = serde_json::from_str(&line).context("talmox sim did not start")?;
        let (folder, transcript) = (folder(name), String::new());
        Ok(Self { ready, scratch, folder, simulator, settings, transcript })
    }

    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A program with a HOME of its own and nothing else of our surroundings.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.scratch.join("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .current_dir(self.scratch.join("home"));
        command
    }

    /// Where the first host listens, without `https://`.
    pub(super) fn address(&self) -> (&str, &str) {
        let address = self.ready.endpoint.trim_start_matches("https://");
        address.rsplit_once(':').unwrap_or((address, "8006"))
    }

    /// User, name and secret of the token.
    pub(super) fn token(&self) -> (&str, &str, &str) {
        let (id, secret) = self.ready.token.split_once('=').unwrap_or_default();
        let (user, name) = id.split_once('!').unwrap_or_default();
        (user, name, secret)
    }

    /// Says what a part of the run came to.
    pub(super) fn say(&mut self, title: &str, lines: &str) {
        let _ = write!(self.transcript, "== {title}\n{lines}");
    }

    /// Says how the world looks.
    pub(super) fn say_world(&mut self, title: &str) -> anyhow::Result<()> {
        let world = World::load(&self.read("state/world.json")?)?;
        let (now, before) = (view::settings(world.clone())?, &self.settings);
        let new = now.iter().filter(|line| !before.contains(line)).map(|line| format!("{line}\n"));
        let gone = before.iter().filter(|line| !now.contains(line)).map(|line| format!("gone: {line}\n"));
        let text = view::lines(world)? + &new.chain(gone).collect::<String>();
        self.say(title, if text.is_empty() { "nothing\n" } else { &text });
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the simulator's")]
    fn read(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.scratch.join(name)).with_context(|| format!("no {name}"))
    }

    /// The transcript, and what was called.
    pub(super) fn end(mut self) -> anyhow::Result<(String, Calls)> {
        let calls = Calls::parse(&self.read("calls.log")?)?;
        let transcript = std::mem::take(&mut self.transcript);
        let scratch = self.scratch.clone();
        drop(self);
        fs::remove_dir_all(scratch)?;
        Ok((transcript, calls))
    }
}

fn simulator(scratch: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["run", "--quiet", "--package", "talmox", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .args(["--", "sim", "--output", "json", "--port", "0", "--latency", LATENCY, "--speed", SPEED])
        .arg("--state")
        .arg(scratch.join("state"))
        .arg("--call-log")
        .arg(scratch.join("calls.log"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn world(rights: Rights) -> World {
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let Started { mut world, token, .. } =
        Starter::new(HOSTS, SEED, u64::try_from(epoch).unwrap_or_default()).build();
    if rights == Rights::Administrator {
        view::see_all(&mut world, &token);
    }
    let iso = FileFacts::of_bytes(b"no real ISO, but nobody boots from it");
    let files = [(IMAGE.into(), FileFacts::of_bytes(&qcow2())), (ISO.into(), iso)].into();
    world.sites.insert(SITE.into(), Site { files });
    world
}

/// The head of an image: a magic, and where it says so the size a guest would see.
fn qcow2() -> Vec<u8> {
    let mut bytes = b"QFI\xfb".to_vec();
    bytes.resize(24, 0);
    bytes.extend(IMAGE_SIZE.to_be_bytes());
    bytes.resize(512, 0);
    bytes
}

/// What a program said, which must have ended with this code.
pub(super) fn said(output: &Output, code: i32, what: &str) -> anyhow::Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(code), "{what} ended with {}:\n{text}{errors}", output.status);
    Ok(text)
}
