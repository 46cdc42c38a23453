//! How long the configs of a description take, from its text to theirs, stage by stage.
//!
//! `cargo bench -p talmox-render`. The cost of a node must not grow with their number.

#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::cast_precision_loss, reason = "numbers of nodes and nanoseconds are far below 2^52")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use talmox_config::{Files, read_files};
use talmox_image::install::InstallImages;
use talmox_machine::{Bundle, Config, SystemRandom, Time};
use talmox_render::{Common, PatchText, Renderer, Variables, Whereabouts};
use talmox_types::Contract;
use talmox_types::desired::{Desired, NodeAddress, Patch};

const SIZES: [usize; 2] = [100, 1_000];
const ROUNDS: usize = 7;

/// Every node has its name, its address and a patch of its own.
fn description(nodes: usize) -> String {
    let mut text = "talos_version: 1.13.9\nnode_cidr: 10.0.0.0/16\ncluster_pod_cidr: 10.128.0.0/9\n\
                    cluster_svc_cidr: 10.96.0.0/12\ncluster_api_addr: 10.0.0.5\nnodes:\n"
        .to_owned();
    for node in 0..nodes {
        let (third, fourth, controls) = (1 + node / 200, 1 + node % 200, node < 3);
        let _ = write!(
            text,
            "  - name: node-{node}\n    address: 10.0.{third}.{fourth}\n    controller: {controls}\n    patches:\n      - |\n        \
             machine:\n          sysctls:\n            user.node: \"{node}\"\n"
        );
    }
    text
}

fn desired(text: &str) -> Desired {
    let outcome = read_files(Files::from_texts(text, None));
    outcome.desired.expect("a description that is written here")
}

fn configs(desired: &Desired, bundle: &Bundle) -> Vec<Config> {
    let (images, variables) = (InstallImages::default(), Variables::default());
    let renderer = Renderer::new(Common {
        desired,
        bundle,
        install_images: &images,
        cni_manifest: None,
        variables: &variables,
    });
    let mut configs = Vec::with_capacity(desired.nodes.len());
    for node in &desired.nodes {
        let NodeAddress::Declared(address) = node.address else { unreachable!("nodes here have one") };
        let text = |patch: &Patch| match patch {
            Patch::Inline(text) => PatchText { name: "patch".to_owned(), text: text.clone() },
            Patch::File(_) => unreachable!("patches here are inline"),
        };
        let patches: Vec<PatchText> = node.patches.iter().map(text).collect();
        let rendered = renderer.render(node, &Whereabouts::at(address), &patches);
        configs.push(rendered.expect("a description that Talos takes").config);
    }
    configs
}

/// The stages: reading, rendering, printing. The length of the text keeps the work from being left out.
fn measure(text: &str, bundle: &Bundle) -> ([Duration; 3], usize) {
    let start = Instant::now();
    let desired = desired(text);
    let read = start.elapsed();
    let configs = configs(&desired, bundle);
    let rendered = start.elapsed();
    let length = configs.iter().map(|config| config.to_yaml().len()).sum();
    ([read, rendered - read, start.elapsed() - rendered], length)
}

fn main() {
    let contract = Contract { major: 1, minor: 13 };
    let bundle = Bundle::generate(contract, Time::from_unix(1_790_000_000), &mut SystemRandom)
        .expect("a system with random numbers");
    println!(
        "{:>7} {:>14} {:>14} {:>14}  µs per node, median of {ROUNDS}",
        "nodes", "read", "render", "print"
    );
    for nodes in SIZES {
        let text = description(nodes);
        let mut stages: [Vec<Duration>; 3] = Default::default();
        for _ in 0..ROUNDS {
            let (times, length) = measure(&text, &bundle);
            assert!(length > nodes * 1000, "every config has its text");
            for (stage, time) in stages.iter_mut().zip(times) {
                stage.push(time);
            }
        }
        let per_node = stages.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2].as_nanos() as f64 / nodes as f64 / 1000.0
        });
        let [read, render, print] = per_node;
        println!("{nodes:>7} {read:>14.2} {render:>14.2} {print:>14.2}");
    }
}
