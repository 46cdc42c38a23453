//! `cargo xtask bench-render`: how long configs of many nodes take us, talhelper and talosctl, side by side.
//!
//! One `talconfig.yaml` is the input of all: talhelper reads it as it is, we read what it was converted into, and talosctl makes
//! the configs of both roles once and patches them node by node. Programs are run whole, from starting to files on disk.

#![expect(clippy::cast_precision_loss, reason = "numbers of nodes are far below 2^52")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use secrecy::ExposeSecret as _;
use talmox_dialects::talhelper::{Surroundings, convert_text};
use talmox_machine::{Bundle, SystemRandom, Time};
use talmox_types::Contract;

use crate::conformance::peers::{self, Peer};
use crate::own_program;
use crate::scratch::Scratch;

const SIZES: [usize; 2] = [100, 1_000];
const ROUNDS: usize = 5;
/// Of how many nodes talosctl patches the configs; the rest of the time is computed.
const SAMPLE: usize = 20;
/// What the issue of rendering asks for.
const TARGET: f64 = 20.0;

/// What one run took.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    wall: f64,
    cpu: f64,
    /// The most memory it had, in MB.
    memory: f64,
}

/// Several runs: the middle one, and how far wall times lie apart.
struct Measured {
    took: Took,
    spread: f64,
}

/// Runs the chore and gives what it prints.
pub fn command(mut args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    if let Some(arg) = args.next() {
        bail!("bench-render takes no arguments, not {arg}");
    }
    let (talhelper, talosctl) = match (peers::get("talhelper")?, peers::get("talosctl113")?) {
        (Peer::Folder(talhelper), Peer::Folder(talosctl)) => {
            (talhelper.join("talhelper"), talosctl.join("talosctl"))
        }
        (Peer::Unavailable(excuse), _) | (_, Peer::Unavailable(excuse)) => {
            return Ok(format!("not run: {excuse}"));
        }
    };
    let talmox = own_program::build(&["--profile", "dist"])?;
    let bundle = Bundle::generate(
        Contract { major: 1, minor: 13 },
        Time::from_unix(1_790_000_000),
        &mut SystemRandom,
    )?;
    let mut text = format!(
        "{:>6}  {:<22} {:>9} {:>9} {:>9} {:>9}  {:>8}\n",
        "nodes", "program", "wall s", "CPU s", "peak MB", "spread", "ours is"
    );
    let mut memory = Vec::new();
    for nodes in SIZES {
        let scratch = Scratch::new(&format!("bench-{nodes}"))?;
        prepare(&scratch, nodes, &bundle)?;
        let ours = measure(|| ours(&talmox, &scratch))?;
        let theirs = measure(|| genconfig(&talhelper, &scratch))?;
        let patched = measure(|| patched(&talosctl, &scratch, nodes))?;
        memory.push(ours.took.memory);
        let rows = [
            ("talmox render all", &ours),
            ("talhelper genconfig", &theirs),
            ("talosctl gen and patch", &patched),
        ];
        for (name, measured) in rows {
            let Took { wall, cpu, memory } = measured.took;
            writeln!(
                text,
                "{nodes:>6}  {name:<22} {wall:>9.3} {cpu:>9.3} {memory:>9.1} {:>8.0}%  {:>7.1}x",
                measured.spread * 100.0,
                cpu / ours.took.cpu.max(0.001)
            )?;
        }
    }
    let per_node = (memory[1] - memory[0]) * 1000.0 / (SIZES[1] - SIZES[0]) as f64;
    writeln!(
        text,
        "memory of talmox grows by {per_node:.1} kB per node; the target is {TARGET}x in CPU time"
    )?;
    writeln!(
        text,
        "talosctl: {SAMPLE} nodes are patched, the rest is computed. Wall and CPU are the middle of {ROUNDS} runs, the spread is that of wall times."
    )?;
    Ok(text)
}

/// Drawn files name no others and have no variables.
struct Nothing;

impl Surroundings for Nothing {
    fn file(&self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// Every node has its name, its address and a patch of its own.
fn prepare(scratch: &Scratch, nodes: usize, bundle: &Bundle) -> anyhow::Result<()> {
    let mut talconfig = "clusterName: bench\ntalosVersion: v1.13.9\nkubernetesVersion: v1.36.3\nendpoint: https://10.0.0.5:6443\nclusterPodNets: [10.128.0.0/9]\nclusterSvcNets: [10.96.0.0/12]\nnodes:\n"
        .to_owned();
    for node in 0..nodes {
        let (third, fourth) = (1 + node / 200, 1 + node % 200);
        let controls = node < 3;
        write!(
            talconfig,
            "  - hostname: node-{node}\n    ipAddress: 10.0.{third}.{fourth}\n    controlPlane: {controls}\n    installDisk: /dev/sda\n    \
             networkInterfaces:\n      - interface: eth0\n        addresses: [10.0.{third}.{fourth}/16]\n        routes:\n          \
             - {{network: 0.0.0.0/0, gateway: 10.0.0.1}}\n    patches:\n      - |\n        machine:\n          sysctls:\n            \
             user.node: \"{node}\"\n"
        )?;
        std::fs::write(
            scratch.path().join(format!("patch-{node}.yaml")),
            format!(
                "machine:\n  sysctls:\n    user.node: \"{node}\"\n---\napiVersion: v1alpha1\nkind: HostnameConfig\n\
                 auto: \"off\"\nhostname: node-{node}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n\
                 addresses: [{{address: 10.0.{third}.{fourth}/16}}]\nroutes: [{{gateway: 10.0.0.1}}]\n"
            ),
        )?;
    }
    scratch.write("talconfig.yaml", &talconfig)?;
    scratch.write("talsecret.yaml", bundle.to_yaml().expose_secret())?;
    let converted = convert_text("talconfig.yaml", &talconfig, &Nothing);
    ensure!(!converted.has_errors(), "not converted: {:?}", converted.problems);
    std::fs::create_dir_all(scratch.path().join("lab/patches"))?;
    for (name, text) in &converted.files {
        let secrets = if name == "cluster.yaml" {
            "secrets_file: ../talsecret.yaml\ncluster_uid: \"0123456789abcdef\"\n"
        } else {
            ""
        };
        scratch.write(&format!("lab/{name}"), &format!("{text}{secrets}"))?;
    }
    Ok(())
}

/// One run of a program, timed by `time`, which knows of its memory too.
fn timed(scratch: &Scratch, program: &Path, arguments: &[&str]) -> anyhow::Result<Took> {
    let report = scratch.file("time");
    let output = Command::new("time")
        .args(["-f", "%e %U %S %M", "-o", &report])
        .arg(program)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", scratch.path())
        .env("TALOSCONFIG", scratch.path().join("talosconfig"))
        .current_dir(scratch.path())
        .output()
        .context("could not run `time`: the package of that name has it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {arguments:?}: {said}", program.display());
    let report = scratch.read("time")?;
    let mut numbers = report.split_whitespace().map(str::parse::<f64>);
    let mut next = || numbers.next().context("`time` says four numbers")?.context("`time` says numbers");
    let (wall, user, system, memory) = (next()?, next()?, next()?, next()?);
    Ok(Took { wall, cpu: user + system, memory: memory / 1000.0 })
}

fn measure(mut run: impl FnMut() -> anyhow::Result<Took>) -> anyhow::Result<Measured> {
    let mut runs = (0..ROUNDS).map(|_| run()).collect::<anyhow::Result<Vec<_>>>()?;
    let memory = runs.iter().fold(0.0, |most: f64, took| most.max(took.memory));
    runs.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
    let cpu = runs[ROUNDS / 2].cpu;
    runs.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    let wall = runs[ROUNDS / 2].wall;
    let spread = (runs[ROUNDS - 1].wall - runs[0].wall) / wall.max(0.001);
    Ok(Measured { took: Took { wall, cpu, memory }, spread })
}

fn ours(talmox: &Path, scratch: &Scratch) -> anyhow::Result<Took> {
    timed(scratch, talmox, &["render", "all", "--force", "--to", "ours", "-f", "lab", "--quiet"])
}

fn genconfig(talhelper: &Path, scratch: &Scratch) -> anyhow::Result<Took> {
    timed(scratch, talhelper, &["genconfig", "--offline-mode", "--no-gitignore", "--out-dir", "theirs"])
}

/// Configs of both roles, then one patch per node; what a sample of nodes takes stands for all.
fn patched(talosctl: &Path, scratch: &Scratch, nodes: usize) -> anyhow::Result<Took> {
    let made = timed(
        scratch,
        talosctl,
        &[
            "gen",
            "config",
            "bench",
            "https://10.0.0.5:6443",
            "--with-secrets",
            "talsecret.yaml",
            "--with-docs=false",
            "--with-examples=false",
            "--force",
            "--output",
            "base",
        ],
    )?;
    let mut total = Took::default();
    for node in 0..SAMPLE {
        let role = if node < 3 { "base/controlplane.yaml" } else { "base/worker.yaml" };
        let (patch, output) = (format!("@patch-{node}.yaml"), format!("patched-{node}.yaml"));
        let took = timed(
            scratch,
            talosctl,
            &["machineconfig", "patch", role, "--patch", &patch, "--output", &output],
        )?;
        total.wall += took.wall;
        total.cpu += took.cpu;
        total.memory = total.memory.max(took.memory);
    }
    let scale = nodes as f64 / SAMPLE as f64;
    Ok(Took {
        wall: made.wall + total.wall * scale,
        cpu: made.cpu + total.cpu * scale,
        memory: made.memory.max(total.memory),
    })
}
