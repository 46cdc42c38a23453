//! The part of `docs/simulator.md` that says what is proven by what.

use std::fmt::Write as _;

use anyhow::Context as _;
use talmox_sim::behaviours::{Behaviour, Source};
use talmox_sim::proof;

const BEGIN: &str = "<!-- behaviours: written by `cargo xtask docs` -->\n";
const END: &str = "<!-- end of behaviours -->";

/// The document with its tables anew.
pub(crate) fn document(current: &str) -> anyhow::Result<String> {
    let (before, rest) =
        current.split_once(BEGIN).context("docs/simulator.md has lost the place of its tables")?;
    let (_, after) = rest.split_once(END).context("docs/simulator.md has lost the end of its tables")?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", tables()))
}

fn tables() -> String {
    let (unproven, proven): (Vec<&Behaviour>, Vec<&Behaviour>) =
        proof::every().partition(|behaviour| behaviour.source == Source::Unproven);
    let mut text = format!("### Proven: {}\n\n| behaviour | | proof |\n|---|---|---|\n", proven.len());
    for Behaviour { id, sentence, source } in proven {
        let _ = writeln!(text, "| `{id}` | {sentence} | {} {} |", source.proof(), source.reference());
    }
    let _ = write!(text, "\n### Unproven: {}\n\n", unproven.len());
    text.push_str(
        "Plausible answers where one is needed. Do not rely on them.\n\n| behaviour | |\n|---|---|\n",
    );
    for Behaviour { id, sentence, .. } in unproven {
        let _ = writeln!(text, "| `{id}` | {sentence} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_around_the_tables_stays() {
        let first = document(&format!("# A\n\n{BEGIN}old{END}\n\nafter\n")).unwrap();
        assert!(first.starts_with("# A\n") && first.ends_with("\n\nafter\n") && !first.contains("old"));
        assert_eq!(document(&first).unwrap(), first);
        assert!(document("nothing").is_err());
    }
}
