//! Every faulty input with the exact words a person gets for it.
//!
//! `tests/faulty/NAME.yaml` (or a folder `NAME`) is the input, `NAME.txt` beside it the report, notes included, without
//! colour. `TALMOX_BLESS=1 cargo test -p talmox-config --test it faulty` writes the reports anew; read the difference.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use talmox_config::{Code, Colour, Outcome, Severity, read_path, report};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faulty")
}

fn inputs() -> Vec<PathBuf> {
    let mut inputs: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    inputs.sort();
    inputs
}

fn text(outcome: &Outcome) -> String {
    let folder = format!("{}/", folder().display());
    report(&outcome.description.sources, &outcome.problems, Colour::Never).replace(&folder, "")
}

#[test]
fn every_faulty_input_gives_its_report() {
    let bless = std::env::var_os("TALMOX_BLESS").is_some();
    let mut wrong = Vec::new();
    for input in inputs() {
        let outcome = read_path(&input);
        assert!(!outcome.problems.is_empty(), "{} is not faulty", input.display());
        let (found, golden) = (text(&outcome), input.with_extension("txt"));
        if bless {
            fs::write(&golden, &found).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "a golden file of the test's own")]
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if found != expected {
            wrong.push(format!("==== {}\n---- expected\n{expected}---- found\n{found}", input.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_many_and_they_cover_every_kind_of_problem() {
    let inputs = inputs();
    assert!(inputs.len() >= 100, "only {} inputs", inputs.len());
    let mut seen: BTreeSet<Code> =
        inputs.iter().flat_map(|input| read_path(input).problems).map(|problem| problem.code).collect();
    // These need what a repository cannot hold: a file that is not there, a device, and a very large file.
    seen.extend([Code::FileMissing, Code::FileUnreadable, Code::FileTooLarge]);
    // Only in JSON output, and tested there.
    seen.insert(Code::MoreProblems);
    // Configurations are made elsewhere, and tested there.
    seen.insert(Code::MachineConfig);
    let unseen: Vec<&str> =
        Code::ALL.iter().filter(|code| !seen.contains(code)).map(|code| code.id()).collect();
    assert!(unseen.is_empty(), "no input shows {unseen:?}");
}

#[test]
fn every_problem_has_a_place() {
    for input in inputs() {
        for problem in read_path(&input).problems {
            assert!(problem.place.is_some(), "{}: {}", input.display(), problem.message);
        }
    }
}

#[test]
fn secrets_never_reach_a_report() {
    for input in inputs() {
        let text = text(&read_path(&input));
        for secret in ["12345678-1234", "hunter2"] {
            assert!(!text.contains(secret), "{}:\n{text}", input.display());
        }
    }
}

fn only_error(outcome: &Outcome) -> (Code, String) {
    let errors: Vec<_> = outcome.problems.iter().filter(|p| p.severity == Severity::Error).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    (errors[0].code, text(outcome))
}

#[test]
fn missing_files_are_named() {
    let (code, text) = only_error(&read_path(Path::new("no/such/cluster.yaml")));
    assert_eq!(code, Code::FileMissing);
    assert!(text.contains("no/such/cluster.yaml") && text.contains("talmox init"), "{text}");
    let (code, text) = only_error(&read_path(&folder().join("../../src")));
    assert_eq!(code, Code::FileMissing);
    assert!(text.contains("there is no cluster.yaml in"), "{text}");
}

#[test]
fn a_device_is_not_a_description() {
    let (code, _) = only_error(&read_path(Path::new("/dev/null")));
    assert_eq!(code, Code::FileUnreadable);
}

#[test]
fn a_huge_file_is_refused_unread() {
    let path = std::env::temp_dir().join(format!("talmox-huge-{}.yaml", std::process::id()));
    let file = fs::File::create(&path).unwrap();
    file.set_len(talmox_config::MAX_FILE_SIZE + 1).unwrap();
    let (code, text) = only_error(&read_path(&path));
    fs::remove_file(&path).unwrap();
    assert_eq!(code, Code::FileTooLarge);
    assert!(text.contains("16 MiB"), "{text}");
}
