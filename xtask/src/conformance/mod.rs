//! `cargo xtask conformance`: programs of other projects against `talmox sim`.
//!
//! ```text
//! Program::run ─▶ Session ─ starts ─ talmox sim (a world of its own, a scratch HOME)
//!                   │  says what each run of the program reported, and how the world looks
//!                   └─▶ conformance/NAME/expected.txt: every line must be the same
//! ```
//! `kubernetes` runs a script against a genuine API server and against the simulated one, and compares what they say.
//! `sops` needs no simulator: it reads and writes the files `talmox-secrets` reads and writes. `talos-nodes`,
//! `talos-cluster`, `talos-adopt…` and `talos-day-two` have nodes of their own.
//!
//! Calls to endpoints the simulator does not have are failures, whatever the program made of the answer.

mod ansible;
mod bpg;
mod calls;
mod kubernetes;
pub(crate) mod peers;
pub(crate) mod provider;
mod proxmoxer;
mod session;
mod sops;
mod talos_nodes;
mod view;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use calls::Calls;
use peers::Peer;
use session::{Rights, Session};

struct Program {
    name: &'static str,
    /// What it is, with versions.
    title: &'static str,
    peers: &'static [&'static str],
    rights: Rights,
    run: fn(&mut Session, &[PathBuf]) -> anyhow::Result<()>,
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: "proxmoxer",
        title: "proxmoxer 2.3.0",
        peers: &["ansible"],
        rights: Rights::Provisioning,
        run: proxmoxer::run,
    },
    Program {
        name: "ansible",
        title: "Ansible community.proxmox 2.0.0",
        peers: &["ansible"],
        rights: Rights::Administrator,
        run: ansible::run,
    },
    Program {
        name: "bpg",
        title: "OpenTofu 1.12.6 with bpg 0.112.0",
        peers: &["tofu", "bpg"],
        rights: Rights::Administrator,
        run: bpg::run,
    },
];

const SOPS: &str = "sops";
const KUBERNETES: &str = "kubernetes";
/// The real `talosctl` of each version against simulated nodes.
const NODES: [(&str, &str); 2] = [("talos-nodes", "1.13"), ("talos-nodes-1.12", "1.12")];
/// Says what came of a run.
type Judge = fn() -> anyhow::Result<String>;
/// talmox and the real `talosctl` at one cluster.
const CLUSTERS: [(&str, Judge); 5] = [
    ("talos-cluster", talos_nodes::judge_brought_up),
    ("talos-adopt", talos_nodes::judge_adopted),
    ("talos-adopt-talhelper", talos_nodes::judge_adopted_from_talhelper),
    ("talos-adopt-tofu", talos_nodes::judge_adopted_from_tofu),
    ("talos-day-two", talos_nodes::judge_day_two),
];

/// Runs the named programs, all without a name; gives what to print.
pub fn command(args: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let names: Vec<String> = args.collect();
    let known = |name: &String| {
        [SOPS, KUBERNETES].contains(&name.as_str())
            || PROGRAMS.iter().any(|program| program.name == name)
            || NODES.iter().any(|(known, _)| known == name)
            || CLUSTERS.iter().any(|(known, _)| known == name)
    };
    if let Some(name) = names.iter().find(|name| !known(name)) {
        bail!(
            "unknown program {name}: proxmoxer, ansible, bpg, sops, kubernetes, talos-nodes, talos-nodes-1.12, \
             talos-cluster, talos-adopt, talos-adopt-talhelper, talos-adopt-tofu or talos-day-two"
        );
    }
    let wanted = |wanted: &str| names.is_empty() || names.iter().any(|name| name == wanted);
    let programs = PROGRAMS.iter().filter(|program| wanted(program.name)).map(judge);
    let files = wanted(SOPS).then(sops::judge);
    let clusters = wanted(KUBERNETES).then(kubernetes::judge);
    let nodes = NODES.iter().filter(|(name, _)| wanted(name)).map(|(_, version)| talos_nodes::judge(version));
    let together = CLUSTERS.iter().filter(|(name, _)| wanted(name)).map(|(_, judge)| judge());
    let outcomes: Result<Vec<String>, _> =
        programs.chain(files).chain(clusters).chain(nodes).chain(together).collect();
    outcomes.map(|texts| texts.join("\n"))
}

fn judge(program: &Program) -> anyhow::Result<String> {
    let mut folders = Vec::new();
    for name in program.peers {
        match peers::get(name)? {
            Peer::Folder(folder) => folders.push(folder),
            Peer::Unavailable(excuse) => return Ok(format!("{}: not run: {excuse}", program.title)),
        }
    }
    let mut session = Session::start(program.name, program.rights)?;
    let begin = Instant::now();
    let outcome = (program.run)(&mut session, &folders);
    let seconds = begin.elapsed().as_secs_f64();
    let (transcript, calls) = session.end()?;
    let summary = format!("{}: {}, {seconds:.1} s\n{}", program.title, calls.headline(), calls.table());
    outcome.with_context(|| format!("{transcript}\n{summary}"))?;
    hold_against(program.name, &transcript)?;
    ensure!(calls.unknown().is_empty(), "{summary}\nunknown endpoints: {}", calls.unknown().join(", "));
    Ok(format!("{transcript}\n{summary}"))
}

/// The project's own folder for a program.
fn folder(name: &str) -> PathBuf {
    root().join("conformance").join(name)
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Compares what was reported with what a real server makes the program report.
fn hold_against(name: &str, transcript: &str) -> anyhow::Result<()> {
    let file = folder(name).join("expected.txt");
    if std::env::var_os("TALMOX_BLESS").is_some() {
        fs::write(&file, transcript)?;
        return Ok(());
    }
    #[expect(clippy::disallowed_methods, reason = "a file of the project")]
    let expected = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
    if expected == transcript {
        return Ok(());
    }
    bail!(
        "{name} reports something else than conformance/{name}/expected.txt:\n{}",
        difference(&expected, transcript)
    )
}

/// The lines from the first different one on, of both.
fn difference(expected: &str, got: &str) -> String {
    let same = expected.lines().zip(got.lines()).take_while(|(a, b)| a == b).count();
    let part = |text: &str, sign: &str| -> String {
        text.lines().skip(same).take(12).map(|line| format!("{sign} {line}\n")).collect()
    };
    format!("line {}:\n{}{}", same + 1, part(expected, "-"), part(got, "+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_begins_where_it_begins() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), "line 2:\n- b\n+ c\n");
        assert_eq!(difference("a\n", "a\nc\n"), "line 2:\n+ c\n");
    }

    #[test]
    fn only_known_programs_are_run() {
        let error = command(["pulumi".to_owned()].into_iter()).unwrap_err();
        assert!(error.to_string().contains("pulumi"), "{error}");
    }
}
