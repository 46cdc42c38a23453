//! How long reading, checking and resolving a description takes, for each node of it.
//!
//! `cargo bench -p talmox-config`. The last line is the ratio that matters: the cost of a node must not grow with their
//! number, so it compares ten thousand nodes with one thousand, measured in turns within one run.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::cast_precision_loss, reason = "numbers of nodes and nanoseconds are far below 2^52")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use talmox_config::{Colour, Files, read_files, report};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
const ROUNDS: usize = 7;

fn nodes_yaml(count: usize) -> String {
    let mut text = String::from("nodes:\n");
    for n in 0..count {
        let (a, b, c) = (n >> 16 & 0xff, n >> 8 & 0xff, n & 0xff);
        let _ = writeln!(
            text,
            "  - name: node-{n}\n    address: 10.{}.{}.{}\n    controller: {}\n    mac_addr: BC:24:11:{a:02X}:{b:02X}:{c:02X}\n    vm_memory: 8192",
            64 + (n + 10) / 62_500,
            (n + 10) / 250 % 250,
            (n + 10) % 250 + 1,
            n == 0,
        );
    }
    text
}

const CLUSTER: &str = "cluster_uid: \"0123456789abcdef\"\nnode_cidr: 10.64.0.0/10\ncluster_pod_cidr: 172.16.0.0/10\n\
                   cluster_svc_cidr: 192.168.0.0/16\nproxmox_vmid_range: {start: 100000, end: 199999}\n";

/// Reading a description without a mistake.
fn measure(nodes: &str) -> Duration {
    let start = Instant::now();
    let outcome = read_files(Files::from_texts(CLUSTER, Some(nodes)));
    let time = start.elapsed();
    assert!(outcome.desired.is_some(), "{:?}", outcome.problems.first());
    time
}

/// Reading a description with one mistake in every node, and reporting all of them.
fn measure_mistakes(nodes: &str) -> Duration {
    let wrong = nodes.replace("vm_memory: 8192", "vm_memory: 8GiB");
    let start = Instant::now();
    let outcome = read_files(Files::from_texts(CLUSTER, Some(&wrong)));
    let text = report(&outcome.description.sources, &outcome.problems, Colour::Never);
    let time = start.elapsed();
    assert!(outcome.problems.len() >= wrong.matches("8GiB").count() && !text.is_empty());
    time
}

fn main() {
    let texts = SIZES.map(nodes_yaml);
    for (title, measure) in [
        ("without a mistake", measure as fn(&str) -> Duration),
        ("a mistake in every node", measure_mistakes),
    ] {
        let mut times: [Vec<Duration>; 3] = Default::default();
        for _ in 0..ROUNDS {
            for (text, times) in texts.iter().zip(&mut times) {
                times.push(measure(text));
            }
        }
        print_table(title, &texts, times);
    }
}

fn print_table(title: &str, texts: &[String; 3], times: [Vec<Duration>; 3]) {
    println!("\n{title}\n{:>8}  {:>12}  {:>12}  {:>10}", "nodes", "file", "median", "per node");
    let mut per_node = [0.0; 3];
    for (index, mut times) in times.into_iter().enumerate() {
        times.sort_unstable();
        let median = times[ROUNDS / 2];
        per_node[index] = median.as_nanos() as f64 / SIZES[index] as f64 / 1000.0;
        println!(
            "{:>8}  {:>9} KiB  {:>9.2} ms  {:>7.2} µs",
            SIZES[index],
            texts[index].len() / 1024,
            median.as_secs_f64() * 1000.0,
            per_node[index],
        );
    }
    println!("a node costs {:.2} times as much among 10 000 as among 1 000", per_node[2] / per_node[1]);
}
