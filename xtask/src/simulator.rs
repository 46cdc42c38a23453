//! The part of `docs/simulator.md` that says what is proven by what.

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
    let seen = |behaviour: &&Behaviour| !matches!(behaviour.source, Source::Facts(_) | Source::Unproven);
    let (proven, unproven): (Vec<&Behaviour>, Vec<&Behaviour>) = proof::every().partition(seen);
    format!(
        "### Proven: {}\n\n{}\n### Unproven: {}\n\nRead in the sources at best; the rest are plausible answers \
         where one is needed.\n\n{}",
        proven.len(),
        table(&proven),
        unproven.len(),
        table(&unproven),
    )
}

fn table(behaviours: &[&Behaviour]) -> String {
    let rows = behaviours
        .iter()
        .map(|Behaviour { id, sentence, source }| format!("| `{id}` | {sentence} | {source} |\n"));
    format!("| behaviour | | known from |\n|---|---|---|\n{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_around_the_tables_stays() {
        let first = document(&format!("# A\n\n{BEGIN}STALE{END}\n\nafter\n")).unwrap();
        assert!(first.starts_with("# A\n") && first.ends_with("\n\nafter\n") && !first.contains("STALE"));
        assert_eq!(document(&first).unwrap(), first);
        assert!(document("nothing").is_err());
    }
}
