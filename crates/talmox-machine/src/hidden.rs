//! Texts that are shown nowhere, whatever field, key or message they come to stand in.
//!
//! A value is hidden as a whole and in the parts it is commonly met in: its lines, the texts inside of it where it is JSON, YAML or
//! `NAME=value`, the user and password of an address, and what each of them is in base64.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use talmox_yaml::{Node, NodeKind};

use crate::mask::shown;
use crate::resolve;
use crate::scalar::{REDACTED, Url, is_url};
use crate::value::Value;

/// A text of fewer characters is in so much that masking it would hide nothing and blot everything.
const SHORTEST: usize = 4;

/// The same for what a text is in base64, which is met by chance less often, but is no word anybody misses.
const SHORTEST_ENCODED: usize = 8;

/// Where programs break lines of base64.
const ENCODED_LINE: usize = 76;

/// A number of more digits could be somebody's password; ports, sizes and the like have fewer.
const DIGITS: usize = 6;

const UNITS: [&str; 24] = [
    "", "%", "ns", "us", "ms", "s", "m", "h", "d", "k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "MB",
    "GB", "TB", "MiB", "GiB", "TiB",
];

/// What variables stand for: nothing says which of them are secrets, so all count as such that could be. `Debug` counts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hidden {
    /// The longest first.
    texts: Arc<[String]>,
}

impl Hidden {
    /// Whether a text holds one of them.
    pub fn is_in(&self, text: &str) -> bool {
        self.texts.iter().any(|hidden| text.contains(hidden.as_str()))
    }

    /// All of them, the longest first: it may hold another.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    /// The text with a mask in the place of each of them. Where two overlap, both are masked.
    pub fn cover(&self, text: &str) -> String {
        let mut found: Vec<(usize, usize)> = self.texts().flat_map(|hidden| places(text, hidden)).collect();
        found.sort_unstable();
        let (mut covered, mut done) = (String::with_capacity(text.len()), None);
        for (start, end) in found {
            // One mask for what overlaps, and for what stands side by side.
            if done.is_none_or(|done| start > done) {
                covered.push_str(&text[done.unwrap_or_default()..start]);
                covered.push_str(REDACTED);
            }
            done = done.max(Some(end));
        }
        covered.push_str(&text[done.unwrap_or_default()..]);
        covered
    }

    /// The same for a message, which may also quote a piece of a value between backticks.
    pub fn cover_message(&self, text: &str) -> String {
        let covered = self.cover(text);
        let is_piece = |quoted: &str| {
            quoted.chars().count() >= SHORTEST && self.texts().any(|hidden| hidden.contains(quoted))
        };
        let parts = covered.split('`').enumerate().map(|(index, part)| {
            // Every other part stands between backticks.
            if index % 2 == 1 && is_piece(part) { REDACTED } else { part }
        });
        parts.collect::<Vec<_>>().join("`")
    }
}

/// Where a text is found in another, overlapping ones too.
fn places<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(part)?;
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
        Some((at, at + part.len()))
    })
}

/// Texts to hide, as they are collected.
#[derive(Default)]
struct Parts(BTreeSet<String>);

impl Parts {
    /// A value, and everything it is commonly met as.
    fn value(&mut self, value: &str) {
        self.text(value);
        // Between double quotes, which is where somebody may have put it, it stands for this.
        let meant = unescaped(value);
        if meant != value {
            self.text(&meant);
        }
        let trimmed = value.trim();
        for leaf in leaves_of(trimmed) {
            self.text(&leaf);
        }
        if let Some(decoded) = STANDARD.decode(trimmed).ok().and_then(|bytes| String::from_utf8(bytes).ok())
            && decoded.chars().count() >= SHORTEST_ENCODED
        {
            self.text(&decoded);
        }
    }

    /// A text, its lines, and how it may be written elsewhere.
    fn text(&mut self, text: &str) {
        self.add(text);
        // Indented, a text of several lines is found line by line only.
        for line in text.lines() {
            self.add(line);
            self.add(assigned(line).unwrap_or_default());
        }
        let trimmed = text.trim();
        self.credentials(trimmed);
        // A place in a JSON patch is written like that in messages.
        self.add(&trimmed.replace('~', "~0"));
        // As Talos prints it.
        self.add(&text.replace(['\r', '\n'], ""));
        let plain = resolve::plain(trimmed);
        if !matches!(plain, Value::Text(_)) {
            self.add(&shown(&plain));
        }
        if !is_harmless(trimmed) {
            self.encoded(trimmed);
        }
    }

    /// User and password of an address.
    fn credentials(&mut self, text: &str) {
        if !is_url(text) {
            return;
        }
        let url = Url::parse(text);
        self.add(&url.to_string());
        if let Some(user) = &url.user {
            user.split(':').for_each(|part| self.add(part));
        }
    }

    /// What it is in base64, wherever in a longer text it begins. Letters that depend on what stands around it are left out.
    fn encoded(&mut self, text: &str) {
        // How many bytes stand before it in a group of three, and how many letters those have a part in.
        for (before, start) in [(0, 0), (1, 2), (2, 3)] {
            let bytes = [&[0_u8; 2][..before], text.as_bytes()].concat();
            let end = bytes.len() * 8 / 6;
            for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                let all = engine.encode(&bytes);
                let kept = all.get(start..end).unwrap_or_default();
                self.add_encoded(kept);
                if before == 0 {
                    let lines = kept
                        .as_bytes()
                        .chunks(ENCODED_LINE)
                        .filter_map(|line| std::str::from_utf8(line).ok());
                    lines.for_each(|line| self.add_encoded(line));
                }
            }
        }
    }

    fn add_encoded(&mut self, text: &str) {
        if text.len() >= SHORTEST_ENCODED {
            self.0.insert(text.to_owned());
        }
    }

    fn add(&mut self, text: &str) {
        let text = text.trim();
        if !is_harmless(text) {
            self.0.insert(text.to_owned());
        }
    }

    fn into_hidden(self) -> Hidden {
        let mut texts: Vec<String> = self.0.into_iter().collect();
        texts.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        Hidden { texts: texts.into() }
    }
}

impl<T: AsRef<str>> FromIterator<T> for Hidden {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut parts = Parts::default();
        for value in values {
            parts.value(value.as_ref());
        }
        parts.into_hidden()
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hidden({})", self.texts.len())
    }
}

/// The texts inside of JSON or YAML; none if it is neither, or one text.
fn leaves_of(text: &str) -> Vec<String> {
    fn collect(node: Node, leaves: &mut Vec<String>) {
        match node.kind {
            NodeKind::Scalar(scalar) => leaves.push(scalar.text),
            NodeKind::Sequence(items) => items.into_iter().for_each(|item| collect(item, leaves)),
            NodeKind::Mapping(entries) => entries.into_iter().for_each(|entry| collect(entry.value, leaves)),
        }
    }
    let parsed = talmox_yaml::parse(text);
    let mut leaves = Vec::new();
    if parsed.faults.is_empty() {
        let shaped = parsed.documents.into_iter().filter(|node| node.as_scalar().is_none());
        shaped.for_each(|node| collect(node, &mut leaves));
    }
    leaves
}

/// `value` of `NAME=value` and of `name: value`, without quotes.
fn assigned(line: &str) -> Option<&str> {
    let line = line.trim();
    let (name, value) = line.split_once('=').or_else(|| line.split_once(": "))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.\" ".contains(c);
    let quotes = |c: char| c.is_whitespace() || "\"',".contains(c);
    (!name.is_empty() && name.chars().all(is_name)).then(|| value.trim_matches(quotes))
}

/// What nobody keeps secret: without it a plan could not be read.
fn is_harmless(text: &str) -> bool {
    text.chars().count() < SHORTEST
        || matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null")
        || is_quantity(text)
        || is_version(text)
        || is_address(text)
        || text.starts_with("/dev/")
        // Of a text in several lines, those that frame it, and keys.
        || text.starts_with("-----")
        || text.strip_suffix(':').is_some_and(|key| key.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        || text.chars().all(|character| character == '*')
}

/// `9000`, `500m`, `10GiB`.
fn is_quantity(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = &text[digits.len()..];
    let number = digits.replacen('.', "", 1);
    (1..=DIGITS).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && UNITS.contains(&unit)
}

/// `v1.13.9`, `1.36.3`.
fn is_version(text: &str) -> bool {
    let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
    let is_part =
        |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let count = parts.clone().count();
    (2..=3).contains(&count) && parts.all(is_part)
}

/// An address, a network, an address with a port, or that of a network card.
fn is_address(text: &str) -> bool {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    let is_card = || {
        text.len() == 17
            && text.split(':').count() == 6
            && text
                .split(':')
                .all(|pair| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let is_network = address.len() == text.len() || is_quantity(&text[address.len() + 1..]);
    address.parse::<IpAddr>().is_ok() && is_network
        || text.parse::<std::net::SocketAddr>().is_ok()
        || is_card()
}

/// What a text between double quotes stands for.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let meant = if character == '\\' { characters.next() } else { Some(character) };
        out.push(match meant {
            Some('n') if character == '\\' => '\n',
            Some('r') if character == '\\' => '\r',
            Some('t') if character == '\\' => '\t',
            Some(other) => other,
            None => '\\',
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_secret_is_hidden_and_what_cannot_is_not() {
        for secret in
            ["hunter2", "prod", "12345678", "abcdef.0123456789abcdef", "https://a:b@c/", "lab.example"]
        {
            assert!(Hidden::from_iter([secret]).is_in(&format!("x{secret}y")), "{secret}");
        }
        for harmless in [
            "",
            "a",
            "lab",
            "true",
            "False",
            "9000",
            "6443",
            "500m",
            "10GiB",
            "0.5",
            "v1.13.9",
            "1.36",
            "10.0.7.1",
            "10.0.7.0/24",
            "fd00::1",
            "[fd00::1]:443",
            "10.0.7.1:443",
            "/dev/sda",
            "BC:24:11:62:36:54",
        ] {
            assert!(!Hidden::from_iter([harmless]).is_in(&format!("x{harmless}y")), "{harmless}");
        }
    }

    #[test]
    fn a_text_is_found_as_it_stands_in_a_config_too() {
        let hidden =
            Hidden::from_iter(["-----BEGIN KEY-----\\nc2VjcmV0\\n-----END KEY-----", "say \\\"hush\\\""]);
        assert!(hidden.is_in("-----BEGIN KEY-----\nc2VjcmV0\n-----END KEY-----"));
        assert!(hidden.is_in("    c2VjcmV0") && hidden.is_in("say \"hush\""));
        assert!(!hidden.is_in("-----BEGIN KEY-----"));
        assert_eq!(format!("{hidden:?}").find("hush"), None);
    }

    #[test]
    fn parts_of_a_value_are_hidden() {
        let json = "{\"type\": \"service_account\", \"nested\": [{\"private_key\": \"abc\\nhunter2-line\"}], \"pin\": 12345678}";
        let hidden = Hidden::from_iter([
            json,
            "A=swordfish\nexport_b: \"opensesame\"\n",
            "https://robot:letmein@host.lan/x",
            "{user: value-in-yaml}",
            "0x1F2E3D4C5B",
        ]);
        for part in [
            "service_account",
            "hunter2-line",
            "12345678",
            "swordfish",
            "opensesame",
            "letmein",
            "robot",
            "value-in-yaml",
            "133919755355",
        ] {
            assert!(hidden.is_in(&format!("x {part} y")), "{part}");
        }
        for whole in ["private_key", "nested", "host.lan", "user"] {
            assert!(!hidden.is_in(whole), "{whole}");
        }
    }

    #[test]
    fn base64_of_a_value_is_hidden_wherever_it_begins() {
        let hidden = Hidden::from_iter(["correct-horse", "c3dvcmRmaXNoLXN0YXBsZQ=="]);
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "\n", "xyz"] {
                let encoded = STANDARD.encode(format!("{before}correct-horse{after}"));
                assert!(hidden.is_in(&encoded), "{before}|{after} {encoded}");
            }
        }
        assert!(hidden.is_in("it is swordfish-staple"));
    }

    #[test]
    fn texts_are_covered_where_they_overlap_too() {
        let hidden = Hidden::from_iter(["abcdef", "defghi", "größe"]);
        assert_eq!(hidden.cover("x abcdefghi y größe z"), "x ****** y ****** z");
        assert_eq!(hidden.cover("ababcdefabcdef"), "ab******");
        assert_eq!(hidden.cover("nothing of it"), "nothing of it");
        assert_eq!(
            hidden.cover_message("names `cdef`, not `port`, of abcdef"),
            "names `******`, not `port`, of ******"
        );
    }
}
