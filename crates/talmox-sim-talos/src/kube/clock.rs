//! Time as objects have it.

const DAY: u64 = 86_400;

/// RFC 3339 in whole seconds, from milliseconds since 1970.
pub(super) fn rfc3339(now: u64) -> String {
    let seconds = now / 1000;
    let (year, month, day) = date(seconds / DAY);
    let rest = seconds % DAY;
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The `Date` of an answer, from milliseconds since 1970: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[cfg(any(test, feature = "serve"))]
pub(crate) fn http_date(now: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = now / 1000;
    let (year, month, day) = date(seconds / DAY);
    let rest = seconds % DAY;
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    let name = |names: &[&'static str], index: u64| {
        usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
    };
    let (weekday, month) = (name(&DAYS, seconds / DAY % 7), name(&MONTHS, month - 1));
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Year by year and month by month: the numbers are small, and nothing is easier to believe.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::{http_date, rfc3339};

    #[test]
    fn dates_are_the_calendars() {
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_709_251_199_999), "2024-02-29T23:59:59Z");
        assert_eq!(rfc3339(1_767_225_600_000), "2026-01-01T00:00:00Z");
        assert_eq!(rfc3339(4_107_542_400_000), "2100-03-01T00:00:00Z");
    }
}
