//! When what runs may be interrupted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const DAY: u64 = 86_400;

/// A maintenance window: outside it nothing that runs is interrupted. Without bounds it is always open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    pub not_before: Option<Moment>,
    pub not_after: Option<Moment>,
}

impl Window {
    /// Whether it ever opens from now on; the error says why not.
    pub fn opens_after(&self, now: u64) -> Result<(), String> {
        let when = |moment: &Option<Moment>| moment.as_ref().map(|moment| moment.when);
        match (when(&self.not_before), when(&self.not_after)) {
            (_, Some(When::At(to))) if to <= now => Err(format!("{self}: that is over")),
            (Some(When::At(from)), Some(When::At(to))) if to <= from => {
                Err(format!("{self}: it ends before it begins"))
            }
            (Some(When::Daily(from)), Some(When::Daily(to))) if from == to => {
                Err(format!("{self}: it ends when it begins"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it is open at a time, in seconds since 1970. Two times of day may have midnight between them.
    pub fn is_open(&self, now: u64) -> bool {
        let of_day = now % DAY;
        match (&self.not_before, &self.not_after) {
            (Some(Moment { when: When::Daily(from), .. }), Some(Moment { when: When::Daily(to), .. }))
                if from > to =>
            {
                of_day >= *from || of_day < *to
            }
            (from, to) => {
                let begun = from.as_ref().is_none_or(|from| match from.when {
                    When::At(at) => now >= at,
                    When::Daily(at) => of_day >= at,
                });
                let over = to.as_ref().is_some_and(|to| match to.when {
                    When::At(at) => now >= at,
                    When::Daily(at) => of_day >= at,
                });
                begun && !over
            }
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.not_before, &self.not_after) {
            (Some(from), Some(to)) => write!(f, "not before {from}, not after {to}"),
            (Some(from), None) => write!(f, "not before {from}"),
            (None, Some(to)) => write!(f, "not after {to}"),
            (None, None) => f.write_str("at any time"),
        }
    }
}

/// A point in time, or a time of every day, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment {
    text: String,
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Seconds since 1970.
    At(u64),
    /// Seconds since midnight in UTC.
    Daily(u64),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.text
    }
}

impl TryFrom<String> for Moment {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Moment {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text} is no time: 2026-11-16T22:00:00Z, or 22:00 or 22:00+02:00 for that time of every day (in UTC)"
            )
        };
        let when = match text.split_once(['T', 't', ' ']) {
            Some((date, time)) => point(date, time),
            None => time_of_day(text).map(|(seconds, offset)| {
                let seconds = i64::from(seconds) - i64::from(offset);
                When::Daily(seconds.rem_euclid(86_400).unsigned_abs())
            }),
        };
        Ok(Self { text: text.to_owned(), when: when.ok_or_else(wrong)? })
    }
}

/// `2026-11-16` and `22:00:00Z`; a point in time says how far from UTC it is.
fn point(date: &str, time: &str) -> Option<When> {
    if !time.ends_with(['Z', 'z']) && !time.contains(['+', '-']) {
        return None;
    }
    let (seconds, offset) = time_of_day(time)?;
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let valid =
        parts.next().is_none() && (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1970;
    let at = days(i64::from(year), i64::from(month), i64::from(day)) * 86_400 + i64::from(seconds)
        - i64::from(offset);
    u64::try_from(at).ok().filter(|_| valid).map(When::At)
}

/// Days since 1970 of a date of the Gregorian calendar. A year begins in March here, so that the day a leap year has more is
/// its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Seconds since midnight, and how far from UTC, in seconds: of `22:00`, `22:00:30Z`, `22:00+02:00`.
fn time_of_day(text: &str) -> Option<(u32, i32)> {
    let (time, offset) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) => (&text[..at], zone(&text[at..])?),
        None => (text, 0),
    };
    let mut parts = time.split(':').map(digits);
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let valid = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    valid.then_some((hour * 3600 + minute * 60 + second, offset))
}

fn zone(text: &str) -> Option<i32> {
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return (text.len() == 1).then_some(0),
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
    (hours < 24 && minutes < 60).then_some(sign * seconds)
}

fn digits(text: &str) -> Option<u32> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: Option<&str>, to: Option<&str>) -> Window {
        let moment = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        Window { not_before: moment(from), not_after: moment(to) }
    }

    fn at(text: &str) -> u64 {
        match text.parse::<Moment>().unwrap().when {
            When::At(at) | When::Daily(at) => at,
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(at("1970-01-01T00:00:00Z"), 0);
        assert_eq!(at("2026-11-16T22:00:00Z"), 1_794_866_400);
        assert_eq!(at("2026-11-16T22:00:00+02:00"), 1_794_866_400 - 7200);
        assert_eq!(at("2024-02-29T12:00Z"), 1_709_208_000);
        assert_eq!(at("22:30"), 81_000);
        assert_eq!(at("00:30+01:00"), 84_600);
        for wrong in [
            "",
            "22",
            "24:00",
            "22:60",
            "tomorrow",
            "2026-11-16",
            "2026-13-01T00:00:00Z",
            "2026-11-16T22:00:00",
            "22:00+2",
        ] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_window_is_open_between_its_bounds() {
        let day = at("2026-11-16T00:00:00Z");
        let open = |window: &Window, hour: u64| window.is_open(day + hour * 3600);
        assert!(open(&Window::default(), 5));
        let night = window(Some("22:00"), Some("04:00"));
        assert_eq!(
            [21, 22, 23, 0, 3, 4, 12].map(|hour| open(&night, hour)),
            [false, true, true, true, true, false, false]
        );
        let morning = window(Some("04:00"), Some("08:00"));
        assert_eq!([3, 4, 7, 8].map(|hour| open(&morning, hour)), [false, true, true, false]);
        let once = window(Some("2026-11-16T06:00:00Z"), None);
        assert_eq!([5, 6, 30].map(|hour| open(&once, hour)), [false, true, true]);
        assert_eq!(night.to_string(), "not before 22:00, not after 04:00");
    }

    #[test]
    fn a_window_that_never_opens_is_none() {
        let opens = |from, to| window(from, to).opens_after(at("2026-11-16T12:00:00Z"));
        let (noon, later) = (Some("2026-11-16T12:00:00Z"), Some("2026-11-17T12:00:00Z"));
        assert_eq!(opens(None, None), Ok(()));
        assert_eq!(opens(later, None), Ok(()));
        assert_eq!(opens(noon, later), Ok(()));
        assert_eq!(opens(Some("22:00"), Some("04:00")), Ok(()));
        assert_eq!(opens(Some("22:00"), later), Ok(()));
        assert!(opens(None, noon).unwrap_err().ends_with("that is over"));
        assert!(
            opens(later, Some("2026-11-17T11:00:00Z")).unwrap_err().ends_with("it ends before it begins")
        );
        // The same time of day, written in two ways.
        assert!(opens(Some("22:00"), Some("23:00+01:00")).unwrap_err().ends_with("it ends when it begins"));
    }
}
