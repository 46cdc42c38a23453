//! Texts that are shown nowhere, whatever field they come to stand in.

use std::fmt;
use std::net::IpAddr;

/// A text of fewer characters is in so much that masking it would hide nothing and blot everything.
const SHORTEST: usize = 4;

/// A number of more digits could be somebody's password; ports, sizes and the like have fewer.
const DIGITS: usize = 6;

const UNITS: [&str; 24] = [
    "", "%", "ns", "us", "ms", "s", "m", "h", "d", "k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "MB",
    "GB", "TB", "MiB", "GiB", "TiB",
];

/// What variables stand for: nobody says which of them are secrets, so all are taken for such that could be. `Debug` counts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hidden {
    texts: Vec<String>,
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

    fn add(&mut self, text: &str) {
        let text = text.trim();
        if !is_harmless(text) && !self.texts.iter().any(|known| known == text) {
            self.texts.push(text.to_owned());
        }
    }
}

impl<T: AsRef<str>> FromIterator<T> for Hidden {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut hidden = Self::default();
        for value in values {
            let value = value.as_ref();
            hidden.add(value);
            // Between double quotes, which is where a patch may have put it, it stands for this.
            hidden.add(&unescaped(value));
            // Indented, a text of several lines is found line by line only.
            value.lines().chain(unescaped(value).lines()).for_each(|line| hidden.add(line));
        }
        hidden.texts.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        hidden
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hidden({})", self.texts.len())
    }
}

/// What nobody keeps secret: without it a plan could not be read.
fn is_harmless(text: &str) -> bool {
    text.chars().count() < SHORTEST
        || matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null")
        || is_quantity(text)
        || is_version(text)
        || is_address(text)
        || text.starts_with("/dev/")
        // Of a text in several lines, those that frame it.
        || text.starts_with("-----")
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
}
