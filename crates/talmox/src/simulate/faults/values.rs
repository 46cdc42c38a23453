//! Values of a fault plan.

use std::net::IpAddr;

use talmox_yaml::{Node, PlainMeaning};

use super::kinds::Form;

/// A value that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    Text(String),
    Flag(bool),
    Number(u64),
    Fraction(f64),
    Milliseconds(i64),
    Address(IpAddr),
}

/// Reads a value, or says what would be one.
pub(super) fn read_value(form: Form, node: &Node) -> Result<Given, String> {
    let scalar = node.as_scalar();
    let text = scalar.map_or("", |scalar| scalar.text.as_str());
    let plain = scalar.map(talmox_yaml::Scalar::meaning);
    match form {
        Form::Text if !text.is_empty() => Ok(Given::Text(text.to_owned())),
        Form::Text => Err("a text".to_owned()),
        Form::Flag => match plain {
            Some(PlainMeaning::Bool(flag)) => Ok(Given::Flag(flag)),
            _ => Err("true or false".to_owned()),
        },
        Form::Number { least, most } => match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Given::Number(number)),
            _ if most == u64::MAX => Err(format!("a whole number from {least}")),
            _ => Err(format!("a whole number from {least} to {most}")),
        },
        Form::Chance => match text.parse() {
            Ok(chance) if (0.0..=1.0).contains(&chance) => Ok(Given::Fraction(chance)),
            _ => Err("a number from 0 to 1, such as 0.05 for one call in twenty".to_owned()),
        },
        Form::Times => match text.parse() {
            _ if text == "all" => Ok(Given::Number(u64::MAX)),
            Ok(number) if number > 0 => Ok(Given::Number(number)),
            _ => Err("a whole number from 1, or all".to_owned()),
        },
        Form::Duration => match milliseconds(text) {
            Some(time) if time >= 0 => Ok(Given::Milliseconds(time)),
            _ => Err("a number with a unit: 500ms, 20s, 5m, 2h or 1d".to_owned()),
        },
        Form::Address => {
            text.parse().map(Given::Address).map_err(|_| "an address, such as 10.0.7.12".to_owned())
        }
        Form::SignedDuration => milliseconds(text)
            .map(Given::Milliseconds)
            .ok_or_else(|| "a number with a unit: 500ms, 20s, 5m, 2h or 1d; -10m goes back".to_owned()),
    }
}

fn milliseconds(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("20s", Some(20_000)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("-1d", Some(-86_400_000)),
            ("20", None),
            ("s", None),
            ("20 s", None),
            ("9223372036854775807d", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
