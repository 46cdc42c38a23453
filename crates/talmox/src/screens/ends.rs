//! What ends soon, and does not renew itself.

use std::fmt;

use serde::Serialize;
use talmox_machine::Time;

use super::text::{plural, safe};

/// Days before the end of something from which on people are told.
const SOON: i64 = 30;

/// Something that ends soon, or has ended.
#[derive(Serialize)]
pub(crate) struct Ending {
    /// `the Talos authority`.
    what: String,
    ends: String,
    days_left: i64,
    remedy: String,
}

impl Ending {
    /// None for what has a while to live.
    pub(crate) fn soon(
        what: impl Into<String>,
        ends: Time,
        now: Time,
        remedy: impl Into<String>,
    ) -> Option<Self> {
        let days_left = now.days_until(ends);
        let day = ends.to_string();
        let day = day.split('T').next().unwrap_or(&day).to_owned();
        let ending = Self { what: what.into(), ends: day, days_left, remedy: remedy.into() };
        Self::is_soon(ends, now).then_some(ending)
    }

    /// Whether people are told of what ends then.
    pub(crate) fn is_soon(ends: Time, now: Time) -> bool {
        now.days_until(ends) < SOON
    }

    /// Whether it is over, since that day.
    pub(crate) fn ended_on(&self, day: &str) -> bool {
        self.days_left < 0 && self.ends == day
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, ends, days_left, remedy } = self;
        let when = match usize::try_from(*days_left) {
            Ok(0) => format!("ends today ({ends})"),
            Ok(days) => format!("ends {ends}, in {}", plural(days, "day")),
            Err(_) => format!("ended {ends}"),
        };
        write!(f, "{} {when}: {}", safe(what), safe(remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_within_thirty_days_is_told() {
        const DAY: i64 = 86_400;
        let now = Time::from_unix(1_800_000_000);
        let told = |seconds: i64| {
            Ending::soon("the token", now.plus(seconds), now, "make another").map(|ending| ending.to_string())
        };
        assert_eq!(told(31 * DAY), None);
        assert_eq!(told(30 * DAY), None);
        assert_eq!(told(29 * DAY).as_deref(), Some("the token ends 2027-02-13, in 29 days: make another"));
        assert_eq!(told(DAY / 2).as_deref(), Some("the token ends today (2027-01-15): make another"));
        assert_eq!(told(-DAY).as_deref(), Some("the token ended 2027-01-14: make another"));
    }
}
