//! Points in time as YAML and SOPS write them.

/// A point in time, as written.
struct Parts {
    date: String,
    /// Hours, minutes, seconds.
    clock: String,
    /// Digits behind the second, without zeros at their end.
    fraction: String,
    zone: String,
}

/// What a plain scalar means as a point in time, printed as RFC 3339 has it; none if it is none. Dates alone, a blank
/// instead of `T`, and months, days and hours of one digit are all in use.
pub(super) fn of_yaml(text: &str) -> Option<String> {
    let Parts { date, clock, fraction, zone } = parts(text)?;
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    Some(format!("{date}T{clock}{fraction}{zone}"))
}

/// A time of RFC 3339 to the second, as SOPS authenticates `lastmodified`.
pub(super) fn to_the_second(text: &str) -> Option<String> {
    let strict = text.len() >= 20 && text.as_bytes()[10] == b'T' && text.as_bytes()[13] == b':';
    let Parts { date, clock, zone, .. } = parts(text).filter(|_| strict)?;
    Some(format!("{date}T{clock}{zone}"))
}

fn parts(text: &str) -> Option<Parts> {
    let (year, rest) = digits(text, 4, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 1, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 1, 2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    if rest.is_empty() {
        let clock = "00:00:00".to_owned();
        return Some(Parts { date, clock, fraction: String::new(), zone: "Z".to_owned() });
    }
    let zoned = rest.starts_with(['T', 't']);
    let (hour, rest) = digits(rest.strip_prefix(['T', 't', ' '])?, 1, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(':')?, 1, 2)?;
    let (second, rest) = digits(rest.strip_prefix(':')?, 1, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, rest) = fraction(rest)?;
    let zone = if zoned { zone(rest)? } else { rest.is_empty().then(|| "Z".to_owned())? };
    Some(Parts { date, clock: format!("{hour:02}:{minute:02}:{second:02}"), fraction, zone })
}

fn digits(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    Some((text[..count].parse().ok()?, &text[count..]))
}

/// Nine digits at most count.
fn fraction(text: &str) -> Option<(String, &str)> {
    let Some(rest) = text.strip_prefix(['.', ',']) else { return Some((String::new(), text)) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return None;
    }
    let kept = &rest[..count.min(9)];
    Some((kept.trim_end_matches('0').to_owned(), &rest[count..]))
}

fn zone(text: &str) -> Option<String> {
    if text == "Z" {
        return Some(text.to_owned());
    }
    let rest = text.strip_prefix(['+', '-'])?;
    let (hours, rest) = digits(rest, 2, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
    let valid = rest.is_empty() && hours < 24 && minutes < 60;
    let zone = if hours == 0 && minutes == 0 { "Z".to_owned() } else { text.to_owned() };
    valid.then_some(zone)
}

fn days_of(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_known_by_their_look() {
        for (text, expected) in [
            ("2026-11-15", Some("2026-11-15T00:00:00Z")),
            ("2026-1-5", Some("2026-01-05T00:00:00Z")),
            ("2001-12-14t21:59:43.10-05:00", Some("2001-12-14T21:59:43.1-05:00")),
            ("2001-12-14 21:59:43.10", Some("2001-12-14T21:59:43.1Z")),
            ("2001-12-14T21:59:43Z", Some("2001-12-14T21:59:43Z")),
            ("2001-12-14T21:59:43+00:00", Some("2001-12-14T21:59:43Z")),
            ("2001-12-14T21:59:43", None),
            ("2001-02-29", None),
            ("2026-13-01", None),
            ("26-01-01", None),
            ("2026-01-01x", None),
            ("2001-12-14 21:59:43 -5", None),
        ] {
            assert_eq!(of_yaml(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn seconds_are_enough_for_a_mac() {
        assert_eq!(to_the_second("2026-11-15T22:44:54.5Z").as_deref(), Some("2026-11-15T22:44:54Z"));
        assert_eq!(to_the_second("2026-11-15"), None);
        assert_eq!(to_the_second("2026-11-15T22:44:54+01:00").as_deref(), Some("2026-11-15T22:44:54+01:00"));
    }
}
