//! The page about the simulator says of every behaviour where it is known from.

#[test]
fn every_behaviour_is_listed() {
    let page = include_str!("../../../docs/simulator.md");
    for behaviour in talmox_sim::proof::every() {
        let row = format!("| `{}` | {} | {} |", behaviour.id, behaviour.sentence, behaviour.source);
        assert!(page.contains(&row), "{}: run cargo xtask docs", behaviour.id);
    }
}
