//! A bounded fuzz run of the reader, seeded, so that a failure can be repeated.
//!
//! Inputs are mutations of the examples and of the faulty inputs. `fuzz/` holds the same target for a coverage-guided run
//! (`cargo fuzz run reader`). `TALMOX_FUZZ_INPUTS` sets how many inputs are tried here, `TALMOX_FUZZ_SEED` where it starts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use crate::support::exercise;
use std::fs;
use std::path::{Path, PathBuf};

/// How many inputs a run tries unless told otherwise.
const INPUTS: u64 = 5_000;

/// Pieces that mean something to YAML or to the reader.
const WORDS: [&str; 28] = [
    "nodes:\n",
    "  - name: a\n",
    "node_pools:\n",
    "cluster_name: ",
    "address: ",
    "controller: true\n",
    "&a ",
    "*a",
    "<<: *a\n",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "\t",
    "---\n",
    "!!str ",
    "|\n",
    ">\n",
    "\"",
    "'",
    "0",
    "99999999999999999999",
    "null",
    "no",
    "é",
    "\u{2028}",
    "10.0.7.0/24",
];

/// A small generator; quality does not matter, repeatability does.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap()
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = vec![root.join("tests/faulty")];
    folders.extend(["minimal", "homelab", "datacenter"].map(|name| root.join("../../examples").join(name)));
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml") && path.is_file())
        .collect();
    files.sort();
    #[expect(clippy::disallowed_methods, reason = "seeds of the fuzz run")]
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(7) {
        0 if !input.is_empty() => {
            let at = random.below(input.len());
            input[at] ^= 1 << random.below(8);
        }
        1 => {
            let end = (at + random.below(40)).min(input.len());
            input.drain(at..end);
        }
        2 => {
            let end = (at + random.below(60)).min(input.len());
            let piece = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, piece);
        }
        3 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            let end = (from + random.below(120)).min(other.len());
            input.splice(at..at, other[from..end].iter().copied());
        }
        4 => input.truncate(at),
        _ => {
            let word = WORDS[random.below(WORDS.len())];
            input.splice(at..at, word.bytes());
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var_os(name).map_or(default, |value| value.to_str().unwrap().parse().unwrap())
}

#[test]
fn the_reader_never_panics() {
    let (inputs, seed) = (setting("TALMOX_FUZZ_INPUTS", INPUTS), setting("TALMOX_FUZZ_SEED", 1));
    let corpus = corpus();
    for input in &corpus {
        exercise::exercise(input);
    }
    for number in 0..inputs {
        let mut random = Random((seed + number).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(6) {
            mutate(&mut input, &corpus, &mut random);
        }
        let result = std::panic::catch_unwind(|| exercise::exercise(&input));
        assert!(result.is_ok(), "TALMOX_FUZZ_SEED={} TALMOX_FUZZ_INPUTS=1 repeats it", seed + number);
    }
    println!("{inputs} mutated inputs, {} seeds, no panic", corpus.len());
}
