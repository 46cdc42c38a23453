//! `cargo xtask <chore>`.

use std::process::ExitCode;

use xtask::truth;

const USAGE: &str = "usage: cargo xtask truth [--transcripts FILE] [--worlds FILE] [--json]";

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]
fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match args.next().as_deref() {
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
