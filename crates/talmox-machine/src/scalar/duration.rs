//! Durations as Go reads and writes them.

const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("h", 3.6e12), ("m", 6e10), ("s", 1e9)];

/// `90s` is `1m30s`; nothing if the text is no duration.
pub(crate) fn canonical_duration(text: &str) -> Option<String> {
    nanoseconds(text).map(print)
}

/// How long it is.
pub(crate) fn nanoseconds(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let (unit, scale) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        if number.is_empty() || number == "." {
            return None;
        }
        total += scaled(number, *scale)?;
        rest = &after[unit.len()..];
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).ok().map(i128::from)
}

#[expect(clippy::cast_possible_truncation, reason = "a fraction of a unit, below 3.6e12")]
fn scaled(number: &str, scale: f64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    let part = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse::<f64>().ok()? };
    Some(whole * scale as i128 + (part * scale) as i128)
}

fn print(nanoseconds: i128) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    if total == 0 {
        return "0s".to_owned();
    }
    if total < 1_000_000_000 {
        let (unit, scale) = match total {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{sign}{}{unit}", decimal(total, scale));
    }
    let seconds = decimal(total % 60_000_000_000, 1_000_000_000);
    let minutes = total / 60_000_000_000;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// A number of units with as many decimals as it needs.
fn decimal(value: u128, unit: u128) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.to_string().len() - 1;
    format!("{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_go_does() {
        let table = [
            ("168h", "168h0m0s"),
            ("90s", "1m30s"),
            ("1m", "1m0s"),
            ("1.5h", "1h30m0s"),
            ("0", "0s"),
            ("100ms", "100ms"),
            ("1500us", "1.5ms"),
            ("-2s", "-2s"),
            ("1h0m0s", "1h0m0s"),
            ("2.000000001s", "2.000000001s"),
        ];
        for (text, expected) in table {
            assert_eq!(canonical_duration(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in ["", "5", "s", "1x", "1h-", "--1s", ".s", "99999999999999h"] {
            assert_eq!(canonical_duration(text), None, "{text}");
        }
    }
}
