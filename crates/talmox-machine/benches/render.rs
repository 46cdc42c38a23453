//! How long a node's config takes: made, patched with what is its own, printed.
//!
//! `cargo bench -p talmox-machine`. The cost of a node must not grow with their number.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::cast_precision_loss, reason = "numbers of nodes and nanoseconds are far below 2^52")]

use std::time::{Duration, Instant};

use talmox_machine::{Bundle, Input, Options, Patch, Role, Source, SystemRandom, Time, patch};
use talmox_types::Contract;

const SIZES: [usize; 2] = [100, 1_000];
const ROUNDS: usize = 5;

fn input(minor: u16, secrets: &Bundle) -> Input<'_> {
    Input {
        contract: Contract { major: 1, minor },
        cluster_name: "bench".to_owned(),
        endpoint: "https://10.0.0.1:6443".to_owned(),
        kubernetes: "1.35.4".to_owned(),
        secrets,
        options: Options { install_disk: Some("/dev/sda".to_owned()), ..Options::default() },
    }
}

/// Renders so many nodes; the length of the text keeps the work from being left out.
fn measure(input: &Input<'_>, nodes: usize) -> (Duration, usize) {
    let start = Instant::now();
    let mut length = 0;
    for node in 0..nodes {
        let role = if node % 20 == 0 { Role::ControlPlane } else { Role::Worker };
        let text =
            format!("apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: node-{node}\n");
        let own = Patch::parse(Source { name: "node", text: &text }).expect("a patch that is written here");
        let config = input.generate(role).expect("inputs that are written here");
        length += patch::apply(config, "node", &[own]).expect("documents that go together").to_yaml().len();
    }
    (start.elapsed(), length)
}

fn main() {
    let contract = Contract { major: 1, minor: 13 };
    let bundle = Bundle::generate(contract, Time::from_unix(1_790_000_000), &mut SystemRandom)
        .expect("a system with random numbers");
    println!("{:>9} {:>7}  {:>12}  {:>10}", "contract", "nodes", "median", "per node");
    for minor in [13, 14] {
        let input = input(minor, &bundle);
        for nodes in SIZES {
            let mut times: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    let (time, length) = measure(&input, nodes);
                    assert!(length > nodes * 1000, "every config has its text");
                    time
                })
                .collect();
            times.sort_unstable();
            let median = times[ROUNDS / 2];
            println!(
                "{:>9} {nodes:>7}  {:>9.2} ms  {:>7.2} µs",
                format!("1.{minor}"),
                median.as_secs_f64() * 1000.0,
                median.as_nanos() as f64 / nodes as f64 / 1000.0,
            );
        }
    }
}
