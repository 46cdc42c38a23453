//! Where the truth data is: recordings of genuine servers that are no part of the repository.

mod evil;

pub(crate) use evil::{Dice, WORDS, assert_harmless, mistype};

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Opens a file of the shared data, or says that there is none. In CI its absence is a failure.
#[expect(clippy::print_stdout, reason = "a test that did nothing must say so")]
fn open(name: &str) -> Option<File> {
    let folder = std::env::var_os("TALMOX_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if let Ok(file) = File::open(folder.join(name)) {
        return Some(file);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no {name} in {}", folder.display());
    println!("skipped: no ../shared/data");
    None
}

/// A JSON file, compressed if its name says so.
pub(crate) fn json(name: &str) -> Option<Value> {
    let file = open(name)?;
    let value = if Path::new(name).extension().is_some_and(|extension| extension == "gz") {
        serde_json::from_reader(flate2::read::GzDecoder::new(file))
    } else {
        serde_json::from_reader(std::io::BufReader::new(file))
    };
    Some(value.expect("the data is JSON"))
}
