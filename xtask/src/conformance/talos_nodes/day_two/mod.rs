//! Day two: the real `talosctl` works at a cluster that talmox brought up, and talmox says each time what is true.
//!
//! ```text
//!  talmox apply ─▶ a world on disk ─▶ talmox sim serves it ─▶ talosctl does something
//!                        ▲                                        │
//!                        └── talmox plan, status, apply ◀─────────┘
//! ```

mod authorities;
mod etcd;
mod kubernetes;
mod machines;
mod objects;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use talmox_sim::serve::StateFolder;
use talmox_sim_talos::serve::{Beside, TALOS_PORT};

use super::layout::Layout;
use super::own::{Simulator, talmox};
use super::programs::{PATIENCE, PAUSE, Program, Said, Talosctl};
use crate::scratch::Scratch;

/// Simulated seconds per second: what is waited for most are pods that take their time.
const SPEED: &str = "30";
/// What the cluster begins with, and where it is brought.
const KUBERNETES: [&str; 2] = ["1.36.2", "1.36.3"];

/// Runs everything; gives the number of calls of `talosctl`.
pub(super) fn run(own: &Path, talosctl: &Path) -> anyhow::Result<usize> {
    let scratch = Scratch::new("talos-day-two")?;
    let home = scratch.inside("home")?;
    let mut lab = Lab::bring_up(own, talosctl, &scratch, home.path())?;
    etcd::look_after(&mut lab)?;
    kubernetes::upgrade(&mut lab)?;
    machines::configure(&mut lab)?;
    machines::restart(&mut lab)?;
    authorities::replaced_by_talosctl(&mut lab)?;
    authorities::replaced_by_talmox(&mut lab)?;
    etcd::leave_and_return(&mut lab)?;
    etcd::restored_by_talosctl(&mut lab)?;
    etcd::restored_by_talmox(&mut lab)?;
    Ok(lab.talosctl.calls)
}

/// A cluster on disk, and who works at it. Either talmox does, or others do while it is served.
struct Lab<'a> {
    scratch: &'a Scratch,
    own: Program<'a>,
    talosctl: Talosctl<'a>,
    layout: Layout,
    /// Where the world is, with the files talmox wrote for others.
    folder: PathBuf,
    simulate: String,
    simulator: Option<Simulator>,
}

impl<'a> Lab<'a> {
    fn bring_up(
        own: &'a Path,
        talosctl: &'a Path,
        scratch: &'a Scratch,
        home: &'a Path,
    ) -> anyhow::Result<Self> {
        let layout = Layout::new("1.13")?;
        let folder = scratch.path().join("world");
        let talosctl = Talosctl::new(talosctl, home, folder.join("talosconfig"), layout.first());
        let simulate = format!("--simulate={}", folder.display());
        let own = talmox(own, scratch.path());
        let mut lab = Self { scratch, own, talosctl, layout, folder, simulate, simulator: None };
        lab.describe(KUBERNETES[0])?;
        lab.talmox(&["secrets", "generate"])?.well(&["wrote"])?;
        lab.talmox(&["apply", "--auto-approve"])?.well(&["healthy, 4 nodes as described"])?;
        Ok(lab)
    }

    /// Writes the description, with this version of Kubernetes.
    fn describe(&self, kubernetes: &str) -> anyhow::Result<()> {
        let text = super::brought_up::description(&self.layout);
        let text = format!("kubernetes_version: {kubernetes}\netcd_backup: {{dir: backup}}\n{text}");
        self.scratch.write("cluster.yaml", &text).map(drop)
    }

    /// What talmox says and does, with nobody else at work.
    fn talmox(&mut self, args: &[&str]) -> anyhow::Result<Said> {
        self.simulator = None;
        self.own.ask(&[args, &[self.simulate.as_str()]].concat())
    }

    /// Once the cluster is at rest, there is nothing to change.
    fn is_as_described(&mut self) -> anyhow::Result<()> {
        self.settle()?;
        self.talmox(&["plan"])?.well(&["No changes."])?;
        Ok(())
    }

    /// Waits until every control plane's pods follow the configurations. No call tells: what is kept of the cluster does.
    fn settle(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.simulator = None;
            let kept = StateFolder::open(&self.folder)?.load()?;
            let world = kept.context("no world is kept")?;
            if Beside::of_world(&world, 1).nodes().pods_have_settled() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the control planes' pods do not follow their configurations");
            self.serve()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Serves the cluster, until talmox works at it again; back when the first control plane listens.
    fn serve(&mut self) -> anyhow::Result<()> {
        if self.simulator.is_none() {
            self.simulator = Some(Simulator::start(&self.own, &self.folder, SPEED)?);
            let first = self.layout.control_planes[0];
            let deadline = Instant::now() + PATIENCE;
            while let Err(error) = TcpStream::connect((first, TALOS_PORT)) {
                ensure!(Instant::now() < deadline, "nobody listens at {first}: {error}");
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// `talosctl` at a node, through the first control plane.
    fn at(&mut self, node: &str, args: &[&str]) -> anyhow::Result<Said> {
        self.serve()?;
        let first = self.layout.first();
        self.talosctl.ask(&[&["-e", &first, "-n", node], args].concat())
    }

    /// The same, until it goes well and says this.
    fn wait_at(&mut self, node: &str, args: &[&str], words: &[&str]) -> anyhow::Result<Said> {
        self.serve()?;
        let first = self.layout.first();
        self.talosctl.wait(&[&["-e", &first, "-n", node], args].concat(), words)
    }

    /// Waits until a node runs and is ready.
    fn is_ready(&mut self, node: &str) -> anyhow::Result<()> {
        self.wait_at(node, &["get", "machinestatus"], &["running   true"]).map(drop)
    }

    fn control_plane(&self, index: usize) -> String {
        self.layout.control_planes[index].to_string()
    }

    fn worker(&self) -> String {
        self.layout.worker.to_string()
    }

    /// A file in the home of `talosctl`, as text.
    fn file(&self, name: &str) -> String {
        self.talosctl.file(name).to_string_lossy().into_owned()
    }
}
