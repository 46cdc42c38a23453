//! A bounded fuzz run: neither patches nor bundles make the readers panic.

use secrecy::ExposeSecret as _;
use talmox_machine::client::{ClientFile as _, Kubeconfig, Talosconfig};
use talmox_machine::validate::Mode;
use talmox_machine::{Bundle, Config, Patch, Role, patch};

use crate::{bundle, config, contract, source};

/// How many inputs a run tries.
const INPUTS: usize = 1_500;

/// Pieces that mean something to YAML, to Talos or to patches.
const WORDS: [&str; 32] = [
    "machine:\n",
    "cluster:\n",
    "  network:\n",
    "    interfaces:\n",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: a\n",
    "$patch: delete",
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
    "10.0.0.0/8",
    "- {op: add, path: /machine/-, value: 1}\n",
    "168h0m0s",
    "0o644",
    "-----BEGIN CERTIFICATE-----",
];

/// A small generator; quality does not matter, repeatability does.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (limit.max(1) as u64)).unwrap()
    }
}

/// Changes a text at a few places, on character boundaries.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut text = text.to_owned();
    for _ in 0..=random.below(4) {
        let at = |random: &mut Random, text: &str| {
            let mut at = random.below(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (from, to) = (at(random, &text), at(random, &text));
        let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 40));
        let to = (to..=text.len()).find(|to| text.is_char_boundary(*to)).unwrap();
        match random.below(3) {
            0 => text.replace_range(from..to, ""),
            1 => text.insert_str(from, WORDS[random.below(WORDS.len())]),
            _ => {
                let piece = text[from..to].to_owned();
                let place = at(random, &text);
                text.insert_str(place, &piece);
            }
        }
    }
    text
}

#[test]
fn patches_never_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let seeds: Vec<String> = [8, 13, 14].map(|minor| config(minor, Role::ControlPlane).to_yaml()).into();
    let bases: Vec<Config> = [13, 14].map(|minor| config(minor, Role::ControlPlane)).into();
    let mut applied = 0;
    for _ in 0..INPUTS {
        // Whole configs are large: a window of lines is mutated further than all of it.
        let lines: Vec<&str> = seeds[random.below(seeds.len())].lines().collect();
        let start = random.below(lines.len());
        let window = lines[start..lines.len().min(start + 1 + random.below(40))].join("\n");
        let text = mutate(&format!("machine:\n{window}\n"), &mut random);
        let _ = Config::parse(source("x", &text)).map(|config| config.validate(Mode::Metal, contract(13)));
        let Ok(read) = Patch::parse(source("x", &text)) else { continue };
        let Ok(patched) = patch::apply(bases[random.below(bases.len())].clone(), "base", &[read]) else {
            continue;
        };
        if let Ok(config) = patched.into_config("base") {
            let _ = config.validate(Mode::Cloud, contract(14));
            assert_eq!(crate::parse(&config.to_yaml()), config, "what is printed reads back");
            applied += 1;
        }
    }
    assert!(applied > INPUTS / 100, "the run reaches the merge: {applied}");
}

#[test]
fn bundles_and_client_files_never_panic() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let seed = bundle().to_yaml().expose_secret().to_owned();
    let mut read = 0;
    for _ in 0..INPUTS / 3 {
        let text = mutate(&seed, &mut random);
        read += usize::from(Bundle::parse(source("x", &text)).is_ok());
        let _ = Talosconfig::parse(source("x", &text));
        let _ = Kubeconfig::parse(source("x", &text));
    }
    assert!(read < INPUTS / 3);
}
