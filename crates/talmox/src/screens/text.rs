//! Small pieces of text that every screen uses.

use std::time::Duration;

use talmox_pve::property::DiskSize;
use talmox_types::ClusterUid;

/// Text from elsewhere, fit for a terminal: whoever names a VM must not be able to move our cursor.
pub(crate) fn safe(text: &str) -> String {
    talmox_types::visible(text).into_owned()
}

pub(crate) fn plural(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `8 GiB`, or MiB where that is not a whole number.
pub(super) fn memory(mib: u32) -> String {
    if mib.is_multiple_of(1024) { format!("{} GiB", mib / 1024) } else { format!("{mib} MiB") }
}

/// `100 GiB`, `528 KiB`.
pub(super) fn size(size: DiskSize) -> String {
    let bytes = size.bytes();
    let (unit, name) = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1, "bytes"));
    match (bytes / unit, (bytes % unit) * 10 / unit) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, tenth) => format!("{whole}.{tenth} {name}"),
    }
}

/// The server of a URL.
pub(super) fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    safe(rest.split('/').next().unwrap_or_default())
}

/// Enough of a uid to recognise it by.
pub(crate) fn short_uid(uid: &ClusterUid) -> String {
    uid.as_str().chars().take(4).chain(['…']).collect()
}

/// `0.2 s`, `3 min 20 s`.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Fills up with blanks to a width counted in characters.
/// `19:04:05 UTC`, of seconds since 1970.
pub(super) fn time_of_day(at: u64) -> String {
    let (hours, minutes, seconds) = (at / 3600 % 24, at / 60 % 60, at % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02} UTC")
}

pub(super) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

pub(super) fn width<'t>(texts: impl IntoIterator<Item = &'t str>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(safe("a\u{1b}[2Jb\nc"), "a·[2Jb · c");
    }

    #[test]
    fn numbers_people_read() {
        assert_eq!(time_of_day(1_794_855_845), "19:04:05 UTC");
        assert_eq!(size(DiskSize::from_gib(100)), "100 GiB");
        assert_eq!(size(DiskSize::parse("528K").unwrap()), "528 KiB");
        assert_eq!(size(DiskSize::parse("1.5G").unwrap()), "1.5 GiB");
        assert_eq!(memory(8192), "8 GiB");
        assert_eq!(memory(1536), "1536 MiB");
        assert_eq!(duration(Duration::from_millis(240)), "0.2 s");
        assert_eq!(duration(Duration::from_secs(200)), "3 min 20 s");
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(listed(&names), "a, b and c");
    }
}
