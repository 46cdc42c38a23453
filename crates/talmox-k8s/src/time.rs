//! Points in time, as leases have them.

use std::fmt;
use std::time::Duration;

const DAY: i64 = 86_400;
const MICROS: i64 = 1_000_000;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Microseconds since 1970, UTC. Whoever calls brings it along: nothing here reads a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    pub const fn from_unix_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_unix(seconds: i64) -> Self {
        Self(seconds.saturating_mul(MICROS))
    }

    /// Seconds since 1970, counted down.
    pub const fn unix(self) -> i64 {
        self.0.div_euclid(MICROS)
    }

    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long after another point in time; nothing if it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }

    /// From the `Date` of an answer: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn parse_http(text: &str) -> Option<Self> {
        let (_, rest) = text.trim().split_once(", ")?;
        let mut words = rest.split(' ');
        let day = words.next()?;
        let name = words.next()?;
        let month = MONTHS.iter().position(|month| *month == name)? + 1;
        let (year, clock, zone) = (words.next()?, words.next()?, words.next()?);
        (zone == "GMT" && words.next().is_none()).then_some(())?;
        Self::parse(&format!("{year}-{month}-{day}T{clock}Z"))
    }

    /// From RFC 3339, in any zone, with or without a fraction.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once(['T', 't'])?;
        let zone_at = rest.find(['Z', 'z', '+', '-'])?;
        let (clock, zone) = rest.split_at(zone_at);
        let [year, month, day] = numbers(date, '-')?;
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
        let [hour, minute, second] = numbers(clock, ':')?;
        // What is later than any date a calendar has would not fit, either.
        let valid = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60
            && year <= 9999;
        if !valid {
            return None;
        }
        let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset(zone)?;
        let micros = format!("{fraction:0<6}").get(..6)?.parse::<i64>().ok()?;
        seconds.checked_mul(MICROS)?.checked_add(micros).map(Self)
    }
}

fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let parse = |part: &str| part.parse::<u32>().ok().map(i64::from);
    let parts: Option<Vec<i64>> = text.split(separator).map(parse).collect();
    parts?.try_into().ok()
}

/// Of a zone, in seconds.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let part = |text: &str| text.parse::<u32>().ok().map(i64::from);
    Some(sign * (part(hours)? * 3600 + part(minutes)? * 60))
}

/// Days from 1970 to a date; years are counted from March, so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// RFC 3339 with microseconds, as leases are written.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(MICROS), self.0.rem_euclid(MICROS));
        let (year, month, day) = date(seconds.div_euclid(DAY));
        let rest = seconds.rem_euclid(DAY);
        let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let table = [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
            ("2024-02-29T23:59:59.5Z", "2024-02-29T23:59:59.500000Z"),
            ("2026-03-01T01:00:00.123456789+02:00", "2026-02-28T23:00:00.123456Z"),
            ("2000-12-31T22:30:00-01:30", "2001-01-01T00:00:00.000000Z"),
        ];
        for (text, expected) in table {
            assert_eq!(Time::parse(text).unwrap().to_string(), expected);
        }
        for text in ["", "2024-13-01T00:00:00Z", "2024-01-01", "2024-01-01T00:00Z", "2024-01-01T00:00:00"] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_date_of_an_answer_is_read() {
        let time = Time::parse_http("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(time.to_string(), "1994-11-06T08:49:37.000000Z");
        for text in ["", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Foo 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"]
        {
            assert_eq!(Time::parse_http(text), None, "{text}");
        }
        assert_eq!(time.plus(Duration::from_secs(5)).since(time), Duration::from_secs(5));
        assert_eq!(time.since(time.plus(Duration::from_secs(5))), Duration::ZERO);
    }

    #[test]
    fn seconds_and_durations() {
        let time = Time::from_unix(1_767_225_600).plus(Duration::from_millis(1500));
        assert_eq!((time.to_string().as_str(), time.unix()), ("2026-01-01T00:00:01.500000Z", 1_767_225_601));
    }
}
