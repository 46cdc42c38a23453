//! How long a plan takes, and how much memory, for a hundred to ten thousand VMs.
//!
//! `cargo bench -p talmox-plan`. The cost of a VM must not grow with their number. Each size is measured in a process of
//! its own, because a process' peak of memory never falls.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "what the system says of this process is in a file")]

#[allow(
    dead_code,
    clippy::panic,
    clippy::wildcard_imports,
    reason = "made for tests, of which not all is needed here"
)]
#[path = "../tests/plan/support.rs"]
mod support;

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{converged_from, desired, id, name, nonce};
use talmox_plan::{Observed, Request, check, plan};
use talmox_types::desired::{Desired, NodeAddress, VmIdRange};
use talmox_types::{FamilyPair, MacAddress};

const SIZES: [u32; 3] = [100, 1_000, 10_000];
const FIRST_ID: u32 = 20_000;
const ROUNDS: usize = 3;
/// How many times as much a VM among ten thousand may take as one among a thousand: some for trees that are deeper and
/// caches that no longer hold everything.
const MOST: f64 = 2.5;

/// Three control planes and many workers.
fn cluster(size: u32) -> Desired {
    let mut cluster = desired(3, 1);
    let worker = cluster.nodes.pop().unwrap();
    for number in 3..size {
        let [_, high, middle, low] = number.to_be_bytes();
        let mut node = worker.clone();
        node.name = name(&format!("w-{number}"));
        node.position = number + 1;
        node.address = NodeAddress::Declared(FamilyPair::one(IpAddr::from([10, 1 + high, middle, low])));
        node.vm.nics[0].mac = MacAddress::in_proxmox_prefix([high + 1, middle, low]);
        cluster.nodes.push(node);
    }
    cluster.proxmox.vmid_range = VmIdRange { start: id(FIRST_ID), end: id(FIRST_ID + 2 * size) };
    cluster
}

/// Hosts that could hold them all; with or without the VMs.
fn seen(cluster: &Desired, there: bool) -> Observed {
    let mut observed = if there { converged_from(cluster, FIRST_ID) } else { support::empty() };
    for storage in &mut observed.storages {
        storage.total = 1 << 60;
    }
    observed
}

/// Plans and checks; gives the time of the quickest round and the number of steps.
fn measure(cluster: &Desired, observed: &Observed) -> (Duration, usize) {
    let request = Request::default();
    let round = |_| {
        let start = Instant::now();
        let made = plan(cluster, observed, &request, &nonce());
        let violations = check(&made, cluster, observed, &request);
        let time = start.elapsed();
        assert!(made.refusals.is_empty() && violations.is_empty(), "{:#?}", made.refusals.first());
        (time, made.steps.len())
    };
    (0..ROUNDS).map(round).min().unwrap()
}

/// The most this process ever had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What a process of its own does: `nanoseconds steps KiB-before KiB-after`.
fn child(size: u32, there: bool) {
    let cluster = cluster(size);
    let observed = seen(&cluster, there);
    let before = peak();
    let (time, steps) = measure(&cluster, &observed);
    println!("{} {steps} {before} {}", time.as_nanos(), peak());
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, flag, size, there] = words.as_slice()
        && flag == "--size"
    {
        return child(size.parse().unwrap(), there == "there");
    }
    println!(
        "{:<10} {:>7} {:>7} {:>11} {:>10} {:>12} {:>12}",
        "", "VMs", "steps", "time", "per VM", "plan", "in all"
    );
    for (title, there) in [("from none", "none"), ("no change", "there")] {
        let mut each = Vec::new();
        for size in SIZES {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--size", &size.to_string(), there])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let said = String::from_utf8(output.stdout).unwrap();
            let numbers: Vec<f64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
            let [time, steps, before, after] = numbers[..] else { unreachable!("four numbers") };
            each.push(time / f64::from(size));
            println!(
                "{title:<10} {size:>7} {steps:>7.0} {:>8.1} ms {:>7.1} µs {:>9.1} MB {:>9.1} MB",
                time / 1e6,
                time / f64::from(size) / 1e3,
                (after - before) / 1024.0,
                after / 1024.0
            );
        }
        let growth = each[2] / each[1];
        println!("{title:<10} a VM among 10 000 takes {growth:.2} times as long as one among 1 000");
        assert!(growth <= MOST, "more than linear: {growth:.2}");
    }
}
