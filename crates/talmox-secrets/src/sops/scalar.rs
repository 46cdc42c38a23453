//! What a scalar means to SOPS, whose YAML library has its own mind: `0755` is octal, `1_000` a number, `2026-01-31` a
//! point in time, `yes` is text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_yaml::Style;

use super::timestamp;
use super::tree::Data;

const CORE: &str = "tag:yaml.org,2002:";

/// Why a scalar cannot be kept.
pub(super) type Unfit = &'static str;

/// The meaning of a scalar as written.
pub(super) fn resolve(text: &str, style: Style, tag: Option<&str>) -> Result<Data, Unfit> {
    let short = tag.map(|tag| tag.strip_prefix(CORE).or_else(|| tag.strip_prefix("!!")).unwrap_or(tag));
    match short {
        // `!` alone says that it is text.
        Some("str" | "!") => Ok(Data::Text(text.to_owned())),
        Some("binary") => binary(text),
        None if style != Style::Plain => Ok(Data::Text(text.to_owned())),
        None => plain(text),
        Some(kind) => tagged(kind, text),
    }
}

fn binary(text: &str) -> Result<Data, Unfit> {
    let bare: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(bare).map_err(|_| "!!binary wants base64")?;
    Ok(String::from_utf8(bytes).map_or_else(|error| Data::Bytes(error.into_bytes()), Data::Text))
}

fn tagged(kind: &str, text: &str) -> Result<Data, Unfit> {
    let data = plain(text)?;
    match (kind, data) {
        ("int", data @ Data::Integer(_))
        | ("float", data @ Data::Float(_))
        | ("bool", data @ Data::Bool(_))
        | ("null", data @ Data::Null)
        | ("timestamp", data @ Data::Time(_)) => Ok(data),
        #[expect(clippy::cast_precision_loss, reason = "that is what the tag asks for")]
        ("float", Data::Integer(number)) => Ok(Data::Float(number as f64)),
        ("int" | "float" | "bool" | "null" | "timestamp", _) => Err("the value is not what its tag says"),
        _ => Err("SOPS does not keep tags of one's own; leave the tag out"),
    }
}

/// The meaning of a scalar without quotes.
pub(super) fn plain(text: &str) -> Result<Data, Unfit> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Data::Null),
        "true" | "True" | "TRUE" => return Ok(Data::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Data::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Ok(Data::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Ok(Data::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => return Ok(Data::Float(f64::NEG_INFINITY)),
        _ => {}
    }
    let looks = text.starts_with(|c: char| c.is_ascii_digit() || ".+-".contains(c));
    if !looks {
        return Ok(Data::Text(text.to_owned()));
    }
    if let Some(time) = timestamp::of_yaml(text) {
        return Ok(Data::Time(time));
    }
    let bare = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    match integer(&bare) {
        Some(Ok(number)) => return Ok(Data::Integer(number)),
        Some(Err(unfit)) => return Err(unfit),
        None => {}
    }
    Ok(float(&bare).map_or_else(|| Data::Text(text.to_owned()), Data::Float))
}

/// A whole number in any base; one that is too large is an error of SOPS.
fn integer(text: &str) -> Option<Result<i64, Unfit>> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    let number = i128::from_str_radix(digits, base).ok()?;
    let number = if negative { -number } else { number };
    if let Ok(number) = i64::try_from(number) {
        return Some(Ok(number));
    }
    u64::try_from(number).ok().map(|_| Err("SOPS cannot keep a number this large; put it in quotes"))
}

fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|text| {
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        !text.is_empty() && digits(text)
    });
    if !mantissa_fits || !exponent_fits {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_mean_what_they_mean_to_sops() {
        use Data as D;
        for (text, expected) in [
            ("yes", D::Text("yes".into())),
            ("True", D::Bool(true)),
            ("~", D::Null),
            ("12", D::Integer(12)),
            ("-0x1F", D::Integer(-31)),
            ("0755", D::Integer(493)),
            ("0o17", D::Integer(15)),
            ("0b101", D::Integer(5)),
            ("08", D::Float(8.0)),
            ("1_000", D::Integer(1000)),
            ("1.10", D::Float(1.1)),
            (".5", D::Float(0.5)),
            ("1e3", D::Float(1000.0)),
            ("1e400", D::Text("1e400".into())),
            ("-.inf", D::Float(f64::NEG_INFINITY)),
            (".nan", D::Float(f64::NAN)),
            ("2026-01-31", D::Time("2026-01-31T00:00:00Z".into())),
            ("1.2.3", D::Text("1.2.3".into())),
            ("12:30:45", D::Text("12:30:45".into())),
            ("-", D::Text("-".into())),
            ("<<", D::Text("<<".into())),
            ("99999999999999999999", D::Float(1e20)),
        ] {
            assert!(plain(text).unwrap() == expected, "{text}");
        }
        assert!(plain("18446744073709551615").is_err());
    }

    #[test]
    fn tags_of_the_language_are_understood_and_others_refused() {
        let of = |text, tag| resolve(text, Style::Plain, Some(tag));
        assert!(of("12", "tag:yaml.org,2002:str") == Ok(Data::Text("12".into())));
        assert!(of("3", "!!float") == Ok(Data::Float(3.0)));
        assert!(of("aGk=", "!!binary") == Ok(Data::Text("hi".into())));
        assert!(of("/w==", "!!binary") == Ok(Data::Bytes(vec![255])));
        assert!(of("x", "!vault").is_err());
        assert!(of("x", "!!int").is_err());
        assert!(resolve("12", Style::Quoted, None) == Ok(Data::Text("12".into())));
    }
}
