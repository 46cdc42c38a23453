//! `cargo xtask <chore>`.

use std::process::ExitCode;

use xtask::{bench, conformance, docs, golden, talos, truth};

const USAGE: &str = "\
usage:
  cargo xtask bench [--quick] [--vms N]... [--repeat N] [--only TOOL]... [--no-write] [--no-build]
                                                   measure talmox beside other tools, and write docs/benchmarks.md
  cargo xtask conformance [proxmoxer] [ansible] [bpg]
                                                   run programs of other projects against the simulator
  cargo xtask docs [--check]                       write the generated documents anew, or fail if one is stale
  cargo xtask golden [--dir DIR] [--json]          make and patch Talos configs as recorded, and compare
  cargo xtask talos [--inputs N]                   compare random configs and patches with what Talos' library makes
  cargo xtask truth [--transcripts FILE] [--worlds FILE] [--json]
                                                   replay recorded replies of Proxmox VE against the simulator
  cargo xtask truth --parameters [--json]          compare its parameters with those of the API schema
  cargo xtask truth --recorded [--json]            replay what was recorded from production servers";

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]
fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match args.next().as_deref() {
        Some("bench") => bench::command(args),
        Some("conformance") => conformance::command(args),
        Some("docs") => docs::command(args),
        Some("golden") => golden::command(args),
        Some("talos") => talos::command(args),
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
