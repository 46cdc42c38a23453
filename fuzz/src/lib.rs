//! What the targets share.

use talmox_machine::Source;
use talmox_types::Contract;

/// A key of age that opens the seeds of `age` and `sops`. It protects nothing: `cargo xtask fuzz-seeds` encrypts texts of this repository.
pub const KEY: &str = include_str!("../key.txt");

/// The contracts a config is checked against.
pub const CONTRACTS: [Contract; 3] =
    [Contract { major: 1, minor: 8 }, Contract { major: 1, minor: 13 }, Contract { major: 1, minor: 14 }];

/// The bytes as a text; none if they are not UTF-8.
pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A text as one of a file.
pub fn source(text: &str) -> Source<'_> {
    Source { name: "input", text }
}

/// The bytes before the first NUL and those after it.
pub fn halves(text: &str) -> (&str, &str) {
    text.split_once('\0').unwrap_or((text, ""))
}

/// Random bytes that are the same in every run.
#[derive(Default)]
pub struct Counter(u8);

impl Counter {
    fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

impl talmox_secrets::Random for Counter {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), talmox_secrets::NoRandomness> {
        bytes.fill_with(|| self.next());
        Ok(())
    }
}
