//! What comes with a change besides trouble: interruptions are left for later, and installers are slow.

use talmox_plan::{Moment, Request, Window};

use super::trouble::Trouble;
use super::wish::Ask;
use crate::chance::Chance;

/// How a run is told to leave interruptions for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutOff {
    /// `--stage`.
    Staged,
    /// The window is of another day.
    Closed,
    /// It opens or closes so many seconds later.
    Opens(u64),
    Closes(u64),
}

#[derive(Debug, Default)]
pub(super) struct Besides {
    pub(super) put_off: Option<PutOff>,
    /// How many times as long installers take.
    pub(super) slow: Option<u64>,
}

impl Besides {
    pub(super) fn draw(chance: &Chance, ask: &Ask) -> Self {
        let put_off = match chance.number(0, 11) {
            _ if ask.is_about_hosts() => None,
            0 | 1 if ask.can_be_staged() => Some(PutOff::Staged),
            2 => Some(PutOff::Closed),
            3 => Some(PutOff::Opens(chance.number(10, 900))),
            4 | 5 => Some(PutOff::Closes(chance.number(5, 600))),
            _ => None,
        };
        let slow = ask.upgrades() && chance.percent(30);
        Self { put_off, slow: slow.then(|| chance.pick(&[4, 15, 60])) }
    }

    /// In words, for counting.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let put_off = self.put_off.map(|put_off| match put_off {
            PutOff::Staged => "staged",
            PutOff::Closed => "window closed",
            PutOff::Opens(_) => "window that opens",
            PutOff::Closes(_) => "window that closes",
        });
        put_off.into_iter().chain(self.slow.map(|_| "slow installers"))
    }

    /// What is asked for, at a time in seconds since 1970.
    pub(super) fn request(&self, request: &Request, now: u64) -> Request {
        let mut request = request.clone();
        let window = |not_before: Option<u64>, not_after: Option<u64>| Window {
            not_before: not_before.map(moment),
            not_after: not_after.map(moment),
        };
        match self.put_off {
            None => {}
            Some(PutOff::Staged) => request.upkeep.stage = true,
            Some(PutOff::Closed) => request.upkeep.window = window(None, Some(now - 60)),
            Some(PutOff::Opens(seconds)) => request.upkeep.window = window(Some(now + seconds), None),
            Some(PutOff::Closes(seconds)) => request.upkeep.window = window(None, Some(now + seconds)),
        }
        request
    }

    /// Whether nobody may be taken down: the one who runs was told so, and nobody else has a hand in it.
    pub(super) fn keeps_all_up(&self, trouble: &Trouble) -> bool {
        let told = matches!(self.put_off, Some(PutOff::Staged | PutOff::Closed));
        told && matches!(trouble, Trouble::None | Trouble::Killed(_) | Trouble::Faults(_))
    }
}

/// Seconds since 1970 as they are typed. The lab's clock begins with the year 2026.
fn moment(seconds: u64) -> Moment {
    const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut day, of_day) = (seconds / 86_400 - 20_454, seconds % 86_400);
    let mut month = 0;
    while day >= MONTHS[month] {
        day -= MONTHS[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    let date = format!("2026-{:02}-{:02}", month + 1, day + 1);
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z").parse().unwrap()
}
