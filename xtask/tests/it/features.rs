//! Cargo compiles a crate once for each set of features. Every selection of packages has to agree on these sets, or people and CI compile
//! the same crates two or three times.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages that people and CI build by themselves; these share the crates of the workspace too.
const BUILT_ALONE: [&str; 3] = ["talmox", "talmox-test", "xtask"];

/// A crate with the features it is built with, as `cargo tree` prints them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Built {
    package: String,
    features: String,
    ours: bool,
}

#[test]
fn each_selection_of_packages_shares_the_build_of_the_workspace() {
    let workspace = tree(&["--workspace"]);
    let members: BTreeSet<&str> =
        workspace.iter().filter(|built| built.ours).map(|built| name(&built.package)).collect();
    assert!(BUILT_ALONE.iter().all(|package| members.contains(package)), "{members:?}");

    let mut missing = BTreeSet::new();
    for member in members {
        for built in tree(&["--package", member]).difference(&workspace) {
            if !built.ours || BUILT_ALONE.contains(&member) {
                missing.insert(format!("{member} builds {} with [{}]", built.package, built.features));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "`cargo test --workspace` builds these crates with other features. Name the difference in crates/talmox-features/Cargo.toml \
         (`cargo tree --workspace -e normal,build,dev -f '{{p}} {{f}}'` shows it):\n{}",
        Vec::from_iter(missing).join("\n")
    );
}

fn tree(selection: &[&str]) -> BTreeSet<Built> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--prefix=none",
            "--edges=normal,build,dev",
            "--format={p}|{f}",
        ])
        .args(selection)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
    text.lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(package, features)| Built {
            // Local packages are printed with their folder.
            ours: package.contains(" (/"),
            package: package.to_owned(),
            features: features.trim_end_matches(" (*)").to_owned(),
        })
        .collect()
}

fn name(package: &str) -> &str {
    package.split(' ').next().unwrap_or(package)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
