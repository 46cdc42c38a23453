//! Dates, for the few places that write them out.

/// A moment in the calendar of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: u64,
    /// From 1.
    pub(crate) month: u64,
    pub(crate) day: u64,
    /// From Thursday, the first day there was.
    pub(crate) weekday: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

impl Date {
    pub(crate) fn of(unix: u64) -> Self {
        const LENGTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (days, seconds) = (unix / 86_400, unix % 86_400);
        let (mut year, mut rest) = (1970, days);
        while rest >= 365 + u64::from(is_leap(year)) {
            rest -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        let mut month = 1;
        for length in LENGTHS {
            let length = length + u64::from(month == 2 && is_leap(year));
            if rest < length {
                break;
            }
            rest -= length;
            month += 1;
        }
        Self {
            year,
            month,
            day: rest + 1,
            weekday: days % 7,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
        }
    }

    /// `2026-11-15 08:43:49`
    pub(crate) fn short(self) -> String {
        let Self { year, month, day, weekday: _, hour, minute, second } = self;
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(Date::of(0).short(), "1970-01-01 00:00:00");
        assert_eq!(Date::of(951_782_400).short(), "2000-02-29 00:00:00");
        assert_eq!(Date::of(1_767_225_599).short(), "2025-12-31 23:59:59");
        assert_eq!(Date::of(1_794_732_229).short(), "2026-11-15 08:43:49");
    }
}
