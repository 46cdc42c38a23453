//! Whether a text without quotes would be read as something else than text.
//!
//! The rules are those of the writer whose bytes are hashed, not those of the YAML standard: numbers may hold `_`, a
//! leading zero means octal, and words and notations of YAML 1.1 (`yes`, `1:30`) count although nothing reads them so
//! any more.

/// Words that are no text.
const WORDS: [&str; 29] = [
    "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", "<<", "y", "Y",
    "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF", "-0",
];

/// Not a number, and infinity with its signs.
const LIMITS: [&str; 12] =
    [".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"];

pub(super) fn is_more_than_text(text: &str) -> bool {
    WORDS.contains(&text) || LIMITS.contains(&text) || looks_like_number(text)
}

fn looks_like_number(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'.') => fraction(text).is_some(),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let plain = text.replace('_', "");
            is_timestamp(text)
                || is_integer(&plain)
                || (is_float(&plain) && finite(&plain))
                || is_sexagesimal(text)
        }
        _ => false,
    }
}

/// A number that begins with its point. Here `_` may only stand between digits.
pub(crate) fn fraction(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let bytes = text.as_bytes();
    let between = |at: usize| {
        at > 0 && bytes[at - 1].is_ascii_digit() && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
    };
    let separators = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(at, _)| between(at));
    (text.starts_with('.') && separators && is_float(&plain))
        .then(|| plain.parse().ok())
        .flatten()
        .filter(|value: &f64| value.is_finite())
}

/// An integer that fits into 64 bits: decimal, or with a base in front. One that does not fit is still a float.
pub(crate) fn integer(plain: &str) -> Option<i128> {
    let (negative, digits) = match plain.as_bytes().first() {
        Some(b'-') => (true, &plain[1..]),
        Some(b'+') => (false, &plain[1..]),
        _ => (false, plain),
    };
    let signed = digits.len() < plain.len();
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(digits, base).ok()?;
    let value = if negative { -value } else { value };
    // An unsigned number may use the 64th bit.
    let largest = if signed { i128::from(i64::MAX) } else { i128::from(u64::MAX) };
    (i128::from(i64::MIN)..=largest).contains(&value).then_some(value)
}

fn is_integer(plain: &str) -> bool {
    integer(plain).is_some()
}

/// `[+-] digits [. digits] [e [+-] digits]`, with digits on one side of the point at least.
pub(crate) fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    // A point needs digits behind it unless it has some before it.
    (!whole.is_empty() || !fraction.is_empty())
        && digits(whole)
        && digits(fraction)
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// A number too large for a float is text again.
fn finite(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Numbers to the base of sixty: `1:30`, `+190:20:30.15`.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !number(first) {
        return false;
    }
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    parts.push(last);
    parts.into_iter().all(is_sixtieth) && number(fraction)
}

/// One or two digits below sixty.
fn is_sixtieth(part: &str) -> bool {
    let digits = part.bytes().all(|b| b.is_ascii_digit());
    digits && (part.len() == 1 || (part.len() == 2 && part.as_bytes()[0] <= b'5'))
}

/// A date, or a date with a time: `2026-8-1`, `2026-08-01T1:02:3.5Z`, `2026-08-01 10:00:00`.
pub(crate) fn is_timestamp(text: &str) -> bool {
    let Some(rest) = digits(text, 4..=4).and_then(|(_, rest)| rest.strip_prefix('-')) else { return false };
    let year: u32 = text[..4].parse().unwrap_or_default();
    let Some((month, rest)) = digits(rest, 1..=2) else { return false };
    let Some((day, rest)) = rest.strip_prefix('-').and_then(|rest| digits(rest, 1..=2)) else { return false };
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return false;
    }
    match rest.as_bytes().first() {
        None => true,
        Some(b'T' | b't') => clock(&rest[1..]).is_some_and(is_zone),
        Some(b' ') => clock(rest.trim_start_matches(' ')).is_some_and(str::is_empty),
        Some(_) => false,
    }
}

/// Takes as many digits as there are within the range.
fn digits(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<(u32, &str)> {
    let found = text.bytes().take(*count.end()).take_while(u8::is_ascii_digit).count();
    count.contains(&found).then(|| (text[..found].parse().unwrap_or_default(), &text[found..]))
}

/// Takes hours, minutes and seconds, and gives what follows them.
fn clock(text: &str) -> Option<&str> {
    let (hour, rest) = digits(text, 1..=2)?;
    let (minute, rest) = digits(rest.strip_prefix(':')?, 1..=2)?;
    let (second, rest) = digits(rest.strip_prefix(':')?, 1..=2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction =
        rest.strip_prefix(['.', ',']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some(fraction.map_or(rest, |fraction| fraction.trim_start_matches(|c: char| c.is_ascii_digit())))
}

/// `Z`, or hours and minutes with a sign. Offsets of exactly 24 hours or 60 minutes pass: some people write them.
fn is_zone(text: &str) -> bool {
    if text == "Z" {
        return true;
    }
    let zone = text.strip_prefix(['+', '-']).and_then(|text| {
        let (hour, rest) = digits(text, 2..=2)?;
        let (minute, rest) = digits(rest.strip_prefix(':')?, 2..=2)?;
        rest.is_empty().then_some((hour, minute))
    });
    zone.is_some_and(|(hour, minute)| hour <= 24 && minute <= 60)
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
