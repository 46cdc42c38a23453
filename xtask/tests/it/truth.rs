//! The simulator is held to the recorded truth: what it once reproduced it must go on reproducing.

use std::path::PathBuf;

use xtask::truth;

/// What was reached; raise it with the simulator, never lower it.
const REPRODUCED_OF_A_THOUSAND: usize = 989;
/// Pairs that may be out of scope.
const OUT_OF_SCOPE_OF_A_HUNDRED: usize = 10;

/// The recordings; only CI insists on them.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "test data, which only CI insists on")]
fn transcripts() -> Option<PathBuf> {
    let file = truth::shared_data().join("pve-transcripts.json");
    if file.exists() {
        return Some(file);
    }
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!strict, "no {}", file.display());
    println!("skipped: no ../shared/data");
    None
}

#[test]
fn the_recorded_replies_are_reproduced() {
    let Some(transcripts) = transcripts() else { return };
    let report = truth::replay(&transcripts, None).unwrap();
    let all = report.in_scope + report.out_of_scope;
    assert!(
        report.out_of_scope * 100 <= all * OUT_OF_SCOPE_OF_A_HUNDRED,
        "{} of {all} out of scope",
        report.out_of_scope
    );
    let listed: Vec<String> =
        report.differences.iter().map(|one| format!("#{} {:?}", one.pair, one.what)).collect();
    assert!(
        report.reproduced * 1000 >= report.in_scope * REPRODUCED_OF_A_THOUSAND,
        "reproduced {} of {}:\n{}",
        report.reproduced,
        report.in_scope,
        listed.join("\n")
    );
}

#[test]
fn a_replay_gives_the_same_result_twice() {
    let Some(transcripts) = transcripts() else { return };
    let numbers = || {
        let report = truth::replay(&transcripts, None).unwrap();
        (report.reproduced, report.differences.iter().map(|one| one.pair).collect::<Vec<_>>())
    };
    assert_eq!(numbers(), numbers());
}
