//! `cargo xtask <chore>`.

use std::process::ExitCode;

use xtask::{
    bench, bench_render, conformance, docs, fuzz_seeds, golden, sabotage, talhelper, talos, talosctl, truth,
};

const USAGE: &str = "\
usage:
  cargo xtask bench [--quick] [--vms N]... [--repeat N] [--only TOOL]... [--no-write] [--no-build]
                                                   measure talmox beside other tools, and write docs/benchmarks.md
  cargo xtask bench-render                         how long configs of many nodes take us, talhelper and talosctl
  cargo xtask conformance [proxmoxer] [ansible] [bpg] [sops] [kubernetes] [talos-nodes]
                          [talos-nodes-1.12] [talos-cluster] [talos-adopt] [talos-adopt-talhelper] [talos-adopt-tofu]
                          [talos-day-two]
                                                   run programs of other projects against the simulator,
                                                   and sops and age against our files
  cargo xtask docs [--check]                       write the generated documents anew, or fail if one is stale
  cargo xtask fuzz-seeds                           write what the fuzz targets start from to fuzz/corpus
  cargo xtask golden [--dir DIR] [--json]          make and patch Talos configs as recorded, and compare
  cargo xtask talhelper [--inputs N]               compare converted talconfigs with what talhelper makes of them
  cargo xtask sabotage [DEFECT...]                 see whether tests notice deliberate defects
  cargo xtask talos [--inputs N] [--mutants N]     compare random configs and patches with what Talos' library makes, and
                                                   what it says of configs with one field changed
  cargo xtask talosctl [--version 1.12] [--inputs N]
                                                   compare what we make and merge with what the real talosctl does
  cargo xtask truth [--transcripts FILE] [--worlds FILE] [--json]
                                                   replay recorded replies of Proxmox VE against the simulator
  cargo xtask truth --parameters [--json]          compare its parameters with those of the API schema
  cargo xtask truth --recorded [--json]            replay what was recorded from production servers
  cargo xtask truth --talos [--transcripts FILE] [--json]
                                                   replay recorded replies of Talos against simulated nodes";

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]
fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match args.next().as_deref() {
        Some("bench") => bench::command(args),
        Some("bench-render") => bench_render::command(args),
        Some("conformance") => conformance::command(args),
        Some("docs") => docs::command(args),
        Some("fuzz-seeds") => fuzz_seeds::command(args),
        Some("golden") => golden::command(args),
        Some("talhelper") => talhelper::command(args),
        Some("sabotage") => sabotage::command(args),
        Some("talos") => talos::command(args),
        Some("talosctl") => talosctl::command(args),
        Some("truth") => truth::command(args),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
