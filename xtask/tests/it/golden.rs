//! Configs are made and patched as Talos does.

use std::path::PathBuf;

use xtask::golden;

/// The vectors; only CI insists on them.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "test data, which only CI insists on")]
fn vectors() -> Option<PathBuf> {
    let folder = golden::default_folder();
    if folder.join("vectors.yaml").exists() {
        return Some(folder);
    }
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!strict, "no {}", folder.display());
    println!("skipped: no ../shared/data");
    None
}

#[test]
fn every_vector_is_reproduced() {
    let Some(folder) = vectors() else { return };
    let report = golden::run(&folder).unwrap();
    assert!(report.total > 0 && report.reproduced == report.total, "{report}");
}
