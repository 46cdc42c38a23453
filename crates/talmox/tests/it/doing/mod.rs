//! plan, apply, status, output and destroy, on a simulated Proxmox of the program's own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adopting;
mod asked;
mod broken;
mod checking;
pub(crate) mod connecting;
mod ending;
mod etcd;
mod fetching;
mod hiding;
mod hostile;
mod images;
mod initial;
mod interrupted;
mod keeping;
mod line;
mod pipelines;
mod plans;
mod rotating;
mod swapped;
mod templates;
mod typed;
mod upgrading;
mod variables;
mod whole;

use std::process::Command;

use crate::support::{Run, Scratch, command, finish};

/// A description in a folder of its own, and a world beside it.
struct Lab {
    scratch: Scratch,
}

impl Lab {
    /// The home lab, so small that a test takes seconds: one control plane, two workers.
    fn new(name: &str) -> Self {
        let lab = Self { scratch: Scratch::new(&format!("doing-{name}")) };
        lab.describe(CLUSTER, NODES);
        lab
    }

    fn describe(&self, cluster: &str, nodes: &str) {
        std::fs::write(self.scratch.0.join("cluster.yaml"), cluster).unwrap();
        std::fs::write(self.scratch.0.join("nodes.yaml"), nodes).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let simulate = format!("--simulate={}", self.scratch.path("world"));
        let mut all: Vec<&str> = arguments.to_vec();
        let folder = self.scratch.path("");
        all.extend([simulate.as_str(), "-f", folder.as_str()]);
        command(&all)
    }

    fn run(&self, arguments: &[&str]) -> Run {
        finish(&mut self.command(arguments))
    }

    /// Runs as far as it goes, without a place for snapshots of etcd and in a home of its own.
    fn run_without_snapshots(&self, arguments: &[&str]) -> Run {
        let mut all = arguments.to_vec();
        // A plan file says itself what it was made with.
        let of_a_file = arguments.get(1).is_some_and(|word| !word.starts_with('-'));
        if let ["plan" | "apply", ..] = arguments
            && !of_a_file
        {
            all.push("--no-snapshot");
        }
        let mut command = self.command(&all);
        finish(command.env_remove("TALMOX_UNTIL").env("HOME", self.scratch.path("home")))
    }

    /// A text with everything that differs from run to run replaced.
    fn filtered(&self, text: &str) -> String {
        filtered(&self.scratch, text)
    }

    fn shown(&self, run: &Run) -> String {
        format!(
            "exit {}\n---- stdout\n{}---- stderr\n{}",
            run.code,
            self.filtered(&run.stdout),
            self.filtered(&run.stderr)
        )
    }
}

fn filtered(scratch: &Scratch, text: &str) -> String {
    let text = text.replace(&scratch.path(""), "LAB/").replace(&scratch.path("world"), "WORLD");
    let text = text.replace("LAB/world", "WORLD");
    let mut lines: Vec<String> = text.lines().map(without_times).collect();
    lines.push(String::new());
    lines.join("\n")
}

/// `3.2 s` and `2 min 3 s` become `TIME`.
fn without_times(line: &str) -> String {
    let is_number = |word: &str| word.trim_start_matches('(').parse::<f64>().is_ok();
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let is_unit = word.trim_end_matches([')', '.', ',']) == "s";
        if !is_unit || !words.last().is_some_and(|last| is_number(last)) {
            words.push(word.to_owned());
            continue;
        }
        let mut first = words.pop().unwrap_or_default();
        // What takes seconds takes minutes on a machine that has other things to do.
        if let [.., minutes, unit] = &words[..]
            && unit == "min"
            && is_number(minutes)
        {
            first.clone_from(minutes);
            words.truncate(words.len() - 2);
        }
        let open = if first.starts_with('(') { "(" } else { "" };
        words.push(format!("{open}TIME{}", &word[1..]));
    }
    words.join(" ")
}

#[test]
fn times_are_not_compared_however_long() {
    assert_eq!(without_times("done (2 VMs, 3.2 s)."), "done (2 VMs, TIME).");
    assert_eq!(without_times("done (1 min 3 s, 2 VMs)"), "done (TIME, 2 VMs)");
    assert_eq!(without_times("fetched it   12 min 0 s"), "fetched it   TIME");
    assert_eq!(without_times("for 4 VMs s"), "for 4 VMs s");
}

pub(crate) const CLUSTER: &str = "\
cluster_name: lab
cluster_uid: \"0123456789abcdef\"
proxmox_node: pve
proxmox_storage: local-zfs
talos_template: talos-1.13.9
node_cidr: 10.0.7.0/24
node_gateway: 10.0.7.1
proxmox_vm_worker_defaults:
  memory: 4096
";

pub(crate) const NODES: &str = "\
nodes:
  - name: cp-1
    address: 10.0.7.11
    controller: true
  - name: worker-1
    address: 10.0.7.12
  - name: worker-2
    address: 10.0.7.13
";
