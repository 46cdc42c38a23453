//! What is asked of `talosctl`, and how each call must end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::cluster::Cluster;
use crate::scratch::Scratch;

/// Longer than anything takes that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

/// What a call said, and how it ended.
struct Said {
    call: String,
    text: String,
    code: Option<i32>,
}

impl Said {
    /// It went well and said all of this.
    fn well(self, words: &[&str]) -> anyhow::Result<Self> {
        ensure!(self.code == Some(0), "{} failed ({:?}):\n{}", self.call, self.code, self.text);
        self.says(words)
    }

    /// It failed with these words.
    fn badly(self, words: &[&str]) -> anyhow::Result<Self> {
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

struct Talosctl<'a> {
    program: &'a Path,
    scratch: Scratch,
    /// Whose calls these are: the first control plane.
    first: String,
    calls: usize,
}

impl Talosctl<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn ask(&mut self, args: &[&str]) -> anyhow::Result<Said> {
        let output = Command::new(self.program)
            .args(args)
            .current_dir(self.scratch.path())
            .env_clear()
            .env("HOME", self.scratch.path())
            .env("TALOSCONFIG", self.file("talosconfig"))
            .output()
            .context("could not run talosctl")?;
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        self.calls += 1;
        Ok(Said { call: args.join(" "), text, code: output.status.code() })
    }

    /// Asks until it goes well and says this.
    fn wait(&mut self, args: &[&str], words: &[&str]) -> anyhow::Result<Said> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.ask(args)?.well(words) {
                Ok(said) => return Ok(said),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Asks the node at that address.
    fn of(&mut self, node: &str, args: &[&str]) -> anyhow::Result<Said> {
        let named = [&["-e", node, "-n", node], args].concat();
        self.ask(&named)
    }
}

/// Runs everything; gives the number of calls.
pub(super) fn run(program: &Path, cluster: &Cluster) -> anyhow::Result<usize> {
    let first = cluster.control_planes.first().context("there is a control plane")?.to_string();
    let mut talosctl = Talosctl { program, scratch: Scratch::new("talos-nodes")?, first, calls: 0 };
    maintenance(&mut talosctl, cluster)?;
    bootstrap(&mut talosctl, cluster)?;
    look(&mut talosctl, cluster)?;
    etcd(&mut talosctl)?;
    upgrade(&mut talosctl, cluster)?;
    reset(&mut talosctl, cluster)?;
    Ok(talosctl.calls)
}

fn maintenance(talosctl: &mut Talosctl<'_>, cluster: &Cluster) -> anyhow::Result<()> {
    let endpoint = format!("https://{}:6443", talosctl.first);
    let made = ["gen", "config", "lab", &endpoint, "--install-disk", "/dev/sda", "--with-docs=false"];
    talosctl.ask(&made)?.well(&["talosconfig"])?;
    let tag = format!("v{}", cluster.version);
    let nodes = cluster.control_planes.iter().map(|node| (node, "controlplane.yaml"));
    for (node, file) in nodes.chain([(&cluster.worker, "worker.yaml")]) {
        let node = node.to_string();
        talosctl.wait(&["version", "--insecure", "-n", &node], &[&tag])?;
        talosctl.ask(&["apply-config", "--insecure", "-n", &node, "--file", file])?.well(&[])?;
    }
    Ok(())
}

fn bootstrap(talosctl: &mut Talosctl<'_>, cluster: &Cluster) -> anyhow::Result<()> {
    let first = talosctl.first.clone();
    let tag = format!("v{}", cluster.version);
    for node in &cluster.control_planes {
        let node = node.to_string();
        talosctl.wait(&["-e", &node, "-n", &node, "version"], &[&tag, "Server:"])?;
    }
    let insecure = ["apply-config", "--insecure", "-n", &first, "--file", "controlplane.yaml"];
    talosctl.ask(&insecure)?.badly(&["error applying new configuration: rpc error: code = Unavailable"])?;
    talosctl.of(&first, &["bootstrap"])?.well(&[])?;
    talosctl.wait(&["-e", &first, "-n", &first, "service", "etcd"], &["HEALTH   OK"])?;
    let again = [
        "error executing bootstrap: 1 error occurred:",
        "code = AlreadyExists desc = etcd data directory is not empty",
    ];
    talosctl.of(&first, &["bootstrap"])?.badly(&again)?;
    Ok(())
}

fn look(talosctl: &mut Talosctl<'_>, cluster: &Cluster) -> anyhow::Result<()> {
    let first = talosctl.first.clone();
    talosctl
        .of(&first, &["health", "--wait-timeout", "50s"])?
        .well(&["waiting for all k8s nodes to report ready: OK"])?;
    let members = talosctl.of(&first, &["get", "members"])?.well(&["MACHINE TYPE"])?;
    for node in cluster.control_planes.iter().chain([&cluster.worker]) {
        ensure!(members.text.contains(&node.to_string()), "{node} is no member:\n{}", members.text);
    }
    talosctl
        .of(&first, &["get", "machinestatus"])?
        .well(&["runtime     MachineStatus   machine", "running   true"])?;
    talosctl
        .of(&first, &["get", "nosuchtype"])?
        .badly(&["code = NotFound desc = resource \"nosuchtype\" is not registered"])?;
    talosctl.of(&first, &["services"])?.well(&["kubelet", "etcd", "Running", "OK"])?;
    talosctl
        .of(&first, &["service", "nosuch"])?
        .badly(&["service \"nosuch\" is not registered on any nodes"])?;
    talosctl.of(&first, &["kubeconfig", "kubeconfig", "--merge=false"])?.well(&[])?;
    ensure!(talosctl.file("kubeconfig").is_file(), "there is no kubeconfig");
    // Another node is reached through the first one.
    let other = cluster.worker.to_string();
    talosctl.ask(&["-e", &first, "-n", &other, "version"])?.well(&[&format!("NODE:        {other}")])?;
    talosctl.ask(&["-e", &first, "-n", &other, "get", "nodename"])?.well(&[&other, "node-104"])?;
    Ok(())
}

fn etcd(talosctl: &mut Talosctl<'_>) -> anyhow::Result<()> {
    let first = talosctl.first.clone();
    let members = talosctl.of(&first, &["etcd", "members"])?.well(&["PEER URLS", "LEARNER", "false"])?;
    ensure!(members.text.matches(":2380").count() == 3, "not three members:\n{}", members.text);
    talosctl.of(&first, &["etcd", "status"])?.well(&["RAFT INDEX"])?;
    talosctl
        .of(&first, &["etcd", "snapshot", "db.snapshot"])?
        .well(&["etcd snapshot saved to \"db.snapshot\""])?;
    ensure!(talosctl.file("db.snapshot").is_file(), "there is no snapshot");
    Ok(())
}

fn upgrade(talosctl: &mut Talosctl<'_>, cluster: &Cluster) -> anyhow::Result<()> {
    let worker = cluster.worker.to_string();
    let first = talosctl.first.clone();
    let image = format!("ghcr.io/siderolabs/installer:v{}", cluster.next);
    let args = ["-e", &first, "-n", &worker, "upgrade", "--image", &image, "--timeout", "50s"];
    talosctl.ask(&args)?.well(&[])?;
    talosctl
        .wait(&["-e", &first, "-n", &worker, "version"], &[&format!("Tag:         v{}", cluster.next)])?;
    Ok(())
}

fn reset(talosctl: &mut Talosctl<'_>, cluster: &Cluster) -> anyhow::Result<()> {
    let (first, worker) = (talosctl.first.clone(), cluster.worker.to_string());
    let args = [
        "-e",
        &first,
        "-n",
        &worker,
        "reset",
        "--reboot",
        "--system-labels-to-wipe",
        "STATE",
        "--system-labels-to-wipe",
        "EPHEMERAL",
        "--timeout",
        "50s",
    ];
    talosctl.ask(&args)?.well(&[])?;
    let Err(_) = talosctl.of(&worker, &["version"])?.well(&[]) else {
        bail!("the worker still knows its cluster")
    };
    talosctl.wait(&["version", "--insecure", "-n", &worker], &[&format!("v{}", cluster.next)])?;
    Ok(())
}
