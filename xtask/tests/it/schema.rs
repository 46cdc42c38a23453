//! The simulator's parameters are held to the API schema, and its replies to production servers.

use std::path::PathBuf;

use xtask::{parameters, recorded, truth};

/// What was reached; raise it with the simulator, never lower it.
const REQUESTS: usize = 45_000;
const AGREEING_OF_A_THOUSAND: usize = 994;
/// Exchanges of production servers, and how many of them agree.
const RECORDED: usize = 123;
const RECORDED_AGREEING: usize = 118;

/// The data; only CI insists on it.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "test data, which only CI insists on")]
fn data(name: &str) -> Option<PathBuf> {
    let folder = truth::shared_data();
    if folder.join(name).exists() {
        return Some(folder);
    }
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!strict, "no {}", folder.join(name).display());
    println!("skipped: no ../shared/data");
    None
}

#[test]
fn parameters_get_the_verdict_of_the_schema() {
    let Some(folder) = data("pve-apidoc.json.gz") else { return };
    let report = parameters::compare(&folder).unwrap();
    let shown = parameters::print(&report);
    assert!(report.disagreements.is_empty(), "{shown}");
    assert!(report.requests >= REQUESTS, "{shown}");
    assert!(report.agreements * 1000 >= report.requests * AGREEING_OF_A_THOUSAND, "{shown}");
    // A third at least is refused, and a third is not: the comparison is about both.
    assert!((report.requests / 3..report.requests * 2 / 3).contains(&report.refused), "{shown}");
    assert_eq!(report.without_schema, ["GET /"]);
    assert!(report.without_good_value.is_empty() && report.unknown_formats.is_empty(), "{shown}");
    assert_eq!(parameters::stale_reasons(&report), [""; 0]);
}

#[test]
fn a_false_schema_is_seen() {
    let Some(folder) = data("pve-apidoc.json.gz") else { return };
    let (tried, unseen) = parameters::unseen_falsehoods(&folder, 3).unwrap();
    assert!(tried > 100 && unseen.is_empty(), "{} of {tried} unseen:\n{}", unseen.len(), unseen.join("\n"));
}

#[test]
fn production_servers_answered_like_that() {
    let Some(folder) = data("recorded") else { return };
    let report = recorded::replay(&folder.join("recorded")).unwrap();
    let shown = recorded::print(&report);
    assert!(report.differences.is_empty(), "{shown}");
    assert!(report.in_scope >= RECORDED && report.agreeing >= RECORDED_AGREEING, "{shown}");
    assert_eq!(recorded::stale_reasons(&report), [""; 0]);
}
