//! Points in time, which come in as arguments.

use std::fmt;

pub(crate) const HOUR: i64 = 3600;

/// Seconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(i64);

/// The calendar's view of a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
}

impl Time {
    /// The last second of the year 9999: the last that certificates can hold.
    const LAST: i64 = 253_402_300_799;

    pub const fn from_unix(seconds: i64) -> Self {
        let seconds = if seconds < 0 { 0 } else { seconds };
        Self(if seconds > Self::LAST { Self::LAST } else { seconds })
    }

    pub const fn unix(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn plus(self, seconds: i64) -> Self {
        Self::from_unix(self.0.saturating_add(seconds))
    }

    /// Days from here to `other`, counted down.
    pub const fn days_until(self, other: Self) -> i64 {
        (other.0 - self.0).div_euclid(24 * HOUR)
    }

    /// The proleptic Gregorian calendar, counted from the first of March so that leap days come last.
    pub(crate) const fn civil(self) -> Civil {
        let (days, rest) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + (month <= 2) as i64;
        Civil { year, month, day, hour: rest / HOUR, minute: rest % HOUR / 60, second: rest % 60 }
    }

    pub(crate) fn from_civil(civil: Civil) -> Option<Self> {
        let Civil { year, month, day, hour, minute, second } = civil;
        let valid = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second);
        let shifted_year = if month <= 2 { year - 1 } else { year };
        let era = shifted_year.div_euclid(400);
        let year_of_era = shifted_year.rem_euclid(400);
        let month_from_march = (month + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        valid.then(|| Self::from_unix(days * 86_400 + hour * HOUR + minute * 60 + second))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_right_and_reversible() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_697_107_569, "2023-10-12T10:46:09Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
            (Time::LAST, "9999-12-31T23:59:59Z"),
        ] {
            let time = Time::from_unix(seconds);
            assert_eq!(time.to_string(), text);
            assert_eq!(Time::from_civil(time.civil()), Some(time));
        }
    }

    #[test]
    fn days_are_counted_down() {
        let start = Time::from_unix(1_000_000);
        assert_eq!(start.days_until(start.plus(47 * HOUR)), 1);
        assert_eq!(start.days_until(start.plus(-1)), -1);
    }
}
