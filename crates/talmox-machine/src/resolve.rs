//! What a scalar without quotes means to Talos, where nothing else says what it is.
//!
//! Talos reads YAML 1.2 with some habits of 1.1: `0755` is octal, `1_000` is a number, `yes` is text (yet a field that
//! wants a boolean takes it for one).

use crate::value::Value;

/// What a plain scalar means.
pub(crate) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
            number(text).unwrap_or_else(|| Value::text(text))
        }
        _ => Value::text(text),
    }
}

/// Whether a plain scalar is text, as `plain` has it.
pub(crate) fn is_text(text: &str) -> bool {
    let begins = |c: char| c.is_ascii_digit() || "+-.~nNtTfF".contains(c);
    !text.is_empty() && (!text.starts_with(begins) || matches!(plain(text), Value::Text(_)))
}

/// The words that were booleans in YAML 1.1: quoted when they are text, understood where a boolean is wanted.
pub(crate) fn old_bool(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// `12:30:45`, a number in base 60 to YAML 1.1.
pub(crate) fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let starts = first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut rest = parts.peekable();
    starts && rest.peek().is_some() && sixties(rest)
}

fn sixties<'a>(parts: impl Iterator<Item = &'a str>) -> bool {
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return false };
    let below_60 = |text: &str| {
        (1..=2).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_digit())
            && (text.len() == 1 || text.as_bytes()[0] < b'6')
    };
    let (seconds, fraction) = last.split_once('.').unwrap_or((last, ""));
    below_60(seconds)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && middle.iter().all(|part| below_60(part))
}

fn number(text: &str) -> Option<Value> {
    let bare = text.replace('_', "");
    if !text.starts_with('.')
        && let Some(integer) = integer(&bare)
    {
        return Some(Value::Integer(integer));
    }
    is_float(&bare).then(|| bare.parse().ok().map(Value::Float)).flatten()
}

fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    let (base, digits) = match lower.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some(other) if other.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(digits, base).ok()?;
    let value = if negative { -value } else { value };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

/// Digits with a point among or before them, and perhaps an exponent.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let mantissa_holds =
        digits(whole) && digits(fraction) && (!whole.is_empty() || !fraction.is_empty() && mantissa != "0");
    let exponent_holds = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_holds && exponent_holds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_they_mean_to_talos() {
        let table = [
            ("", Value::Null),
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("yes", Value::text("yes")),
            ("0755", Value::Integer(0o755)),
            ("0o17", Value::Integer(15)),
            ("08", Value::Float(8.0)),
            ("1_000", Value::Integer(1000)),
            ("-0x10", Value::Integer(-16)),
            ("1.10", Value::Float(1.1)),
            (".5", Value::Float(0.5)),
            ("1e3", Value::Float(1000.0)),
            ("1.13.9", Value::text("1.13.9")),
            ("10.0.0.1", Value::text("10.0.0.1")),
            ("12e", Value::text("12e")),
            ("-", Value::text("-")),
            (".", Value::text(".")),
            ("18446744073709551615", Value::Integer(18_446_744_073_709_551_615)),
            ("99999999999999999999", Value::Float(99_999_999_999_999_999_999.0)),
            ("+5", Value::Integer(5)),
            ("0", Value::Integer(0)),
        ];
        for (text, expected) in table {
            assert!(plain(text) == expected, "{text}");
        }
    }

    #[test]
    fn times_of_day_were_numbers_once() {
        for (text, expected) in
            [("12:30:45", true), ("1:30", true), ("12:61", false), ("a:1", false), ("12", false)]
        {
            assert_eq!(is_base_60(text), expected, "{text}");
        }
    }
}
