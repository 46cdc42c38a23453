//! Chores of the project: `cargo xtask NAME`.

mod docs;

use anyhow::bail;

const USAGE: &str = "\
cargo xtask docs            write the generated documents anew
cargo xtask docs --check    fail if one of them is stale";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        _ => bail!("usage:\n{USAGE}"),
    }
}
