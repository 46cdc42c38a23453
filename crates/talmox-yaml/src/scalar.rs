//! What a plain scalar means, and to whom.

use crate::{Scalar, Style};

/// What a scalar without quotes means in YAML 1.2, or why readers disagree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainMeaning {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number with a fraction or an exponent.
    Float,
    /// `yes`, `no`, `on`, `off`, `y`, `n`: text in YAML 1.2, a boolean in 1.1.
    OldBool(bool),
    /// `0755`: 755 in YAML 1.2, octal in 1.1.
    OldOctal,
    /// `1_000`: text in YAML 1.2, a number in 1.1.
    OldUnderscore,
    /// `12:30:45`: text in YAML 1.2, a number in base 60 in 1.1.
    OldSexagesimal,
    /// `0x1f`, `0o17`: numbers, but not as people count cores.
    OtherBase,
    Text,
}

impl Scalar {
    /// What this scalar means; text in quotes or blocks is always text.
    pub fn meaning(&self) -> PlainMeaning {
        if self.style == Style::Plain { plain_meaning(&self.text) } else { PlainMeaning::Text }
    }
}

fn plain_meaning(text: &str) -> PlainMeaning {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return PlainMeaning::Null,
        "true" | "True" | "TRUE" => return PlainMeaning::Bool(true),
        "false" | "False" | "FALSE" => return PlainMeaning::Bool(false),
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => return PlainMeaning::OldBool(true),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => return PlainMeaning::OldBool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned.is_empty() || !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return PlainMeaning::Text;
    }
    number_meaning(text, unsigned)
}

fn number_meaning(text: &str, unsigned: &str) -> PlainMeaning {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if digits(unsigned) {
        if unsigned.len() > 1 && unsigned.starts_with('0') {
            return PlainMeaning::OldOctal;
        }
        return text.parse().map_or(PlainMeaning::Text, PlainMeaning::Integer);
    }
    if unsigned.starts_with("0x") || unsigned.starts_with("0o") || unsigned.starts_with("0b") {
        return PlainMeaning::OtherBase;
    }
    if unsigned.contains('_') && digits(&unsigned.replace('_', "")) {
        return PlainMeaning::OldUnderscore;
    }
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    if unsigned.contains(':')
        && digits(first)
        && !first.starts_with('0')
        && parts.all(|part| digits(part) && part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| n < 60))
    {
        return PlainMeaning::OldSexagesimal;
    }
    let float_characters = unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    if float_characters && unsigned.parse::<f64>().is_ok() {
        return PlainMeaning::Float;
    }
    PlainMeaning::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_yaml_1_2_says_and_traps_are_known() {
        use PlainMeaning as P;
        let table = [
            ("", P::Null),
            ("~", P::Null),
            ("true", P::Bool(true)),
            ("no", P::OldBool(false)),
            ("On", P::OldBool(true)),
            ("0", P::Integer(0)),
            ("-7", P::Integer(-7)),
            ("8192", P::Integer(8192)),
            ("010", P::OldOctal),
            ("1_000", P::OldUnderscore),
            ("0x10", P::OtherBase),
            ("0o10", P::OtherBase),
            ("1.10", P::Float),
            ("1e3", P::Float),
            (".5", P::Float),
            ("1.13.9", P::Text),
            ("10.0.7.11", P::Text),
            ("10:20:30:40:50:06", P::OldSexagesimal),
            ("BC:24:11:00:01:01", P::Text),
            ("12e4567x", P::Text),
            ("99999999999999999999", P::Text),
            ("-", P::Text),
            ("nano", P::Text),
        ];
        for (text, expected) in table {
            assert_eq!(plain_meaning(text), expected, "{text}");
        }
    }

    #[test]
    fn quotes_make_text() {
        let quoted = Scalar { text: "no".to_owned(), style: Style::Quoted };
        assert_eq!(quoted.meaning(), PlainMeaning::Text);
    }
}
