//! The page about the simulator lists what nothing on the wire proves.

use talmox_sim::behaviours::{Source, all};

#[test]
fn everything_unproven_is_listed() {
    let page = include_str!("../../../docs/simulator.md");
    for behaviour in all() {
        let listed =
            page.contains(&format!("| `{}` | {} | {} |", behaviour.id, behaviour.sentence, behaviour.source));
        let seen = matches!(behaviour.source, Source::Transcript(_) | Source::Recorded(_));
        assert_eq!(listed, !seen, "{}", behaviour.id);
    }
}
