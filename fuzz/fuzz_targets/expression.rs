//! CEL expressions, in each place a config has them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_fuzz::{CONTRACTS, source};
use talmox_machine::Config;
use talmox_machine::validate::Mode;

/// Documents, with `@` where the expression goes.
const DOCUMENTS: [&str; 5] = [
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\nprovisioning:\n  diskSelector:\n    match: @\n",
    "apiVersion: v1alpha1\nkind: LinkAliasConfig\nname: net0\nselector:\n  match: @\n",
    "apiVersion: v1alpha1\nkind: OOMConfig\ntriggerExpression: @\n",
    "apiVersion: v1alpha1\nkind: OOMConfig\ncgroupRankingExpression: @\n",
    "apiVersion: v1alpha1\nkind: ExistingVolumeConfig\nname: data\ndiscovery:\n  volumeSelector:\n    match: @\n",
];

/// A text in double quotes.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c.is_ascii_graphic() || c == ' ' => c.to_string(),
            c => format!("\\U{:08x}", c as u32),
        })
        .collect();
    format!("\"{escaped}\"")
}

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let expression = quoted(text);
    for document in DOCUMENTS {
        let text = document.replace('@', &expression);
        if let Ok(config) = Config::parse(source(&text)) {
            config.validate(Mode::Metal, CONTRACTS[2]);
        }
    }
});
