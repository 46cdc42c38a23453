//! Files with more mistakes than anybody reads.

use talmox_config::{Colour, Files, MOST_SHOWN, read_files, report};

fn told(text: &str) -> (usize, String) {
    let outcome = read_files(Files::from_bytes(text.as_bytes()));
    (outcome.problems.len(), report(&outcome.description.sources, &outcome.problems, Colour::Never))
}

#[test]
fn the_first_problems_are_shown_and_the_others_counted() {
    let text: String = (0..300).map(|number| format!("mistake_{number:03}: 1\n")).collect();
    let (found, told) = told(&text);
    assert!(found >= 300, "{found}");
    let is_title = |line: &&str| ["error: ", "warning: ", "note: "].iter().any(|word| line.starts_with(word));
    assert_eq!(told.lines().filter(is_title).count(), MOST_SHOWN, "{told}");
    assert!(told.contains("unknown key mistake_000") && !told.contains("mistake_299"), "{told}");
    assert!(told.ends_with(&format!("\n{} more problems are not shown\n\n", found - MOST_SHOWN)), "{told}");
}

#[test]
fn as_many_as_are_shown_are_not_counted() {
    let text: String = (0..20).map(|number| format!("mistake_{number:03}: 1\n")).collect();
    assert!(!told(&text).1.contains("more problem"));
}

/// Each problem would show all of the line.
#[test]
fn a_long_line_is_named_and_not_shown() {
    let keys: Vec<String> = (0..2_000).map(|number| format!("mistake_{number:04}: 1")).collect();
    let (_, told) = told(&format!("{{{}}}\n", keys.join(", ")));
    let first = told.split("\n\n").find(|problem| problem.contains("unknown key mistake_0001")).unwrap();
    assert!(first.contains(":1:19") && first.contains("nothing reads this"), "{first}");
    assert!(told.len() < 64 * 1024, "{}", told.len());
}
