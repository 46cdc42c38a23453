//! `.sops.yaml`: the rule of a file. The path follows a NUL.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_fuzz::halves;
use talmox_secrets::CreationRules;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let (rules, path) = halves(text);
    let Ok(rules) = CreationRules::parse(rules) else { return };
    let _ = rules.choose("secrets.sops.yaml");
    let _ = rules.choose(path);
});
