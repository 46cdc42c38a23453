//! Compares pages of a task's log. Only lines a server prints by the clock are tolerated, and only in the tasks and of
//! the shapes it prints them in: progress of a copy, waiting for a lock, what the download tool reports.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

use super::data::Pair;
use super::ids::Ids;

/// Lines of a page, if the caller asks for no other number.
const PAGE: usize = 50;
const WAITING: &str = "trying to acquire lock...";
const GOT_LOCK: &str = " OK";
/// Tasks that copy disks.
const COPIERS: [&str; 4] = ["qmclone", "qmconfig", "qmcreate", "qmmove"];

/// `transferred 2.0 MiB of 4.0 MiB (50.00%)`
static PROGRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^transferred \d+\.\d [KMGT]?i?B of (\d+\.\d [KMGT]?i?B) \(\d{1,3}\.\d\d%\)$").ok()
});
/// What the download tool measures, or makes up, within its lines.
static MEASURED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--",
        r"|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( \([0-9.]+ [KMG]?B/s\))?",
        r"|^ +0K [ .]*100% +[0-9.]+[KMG]?=[0-9.]+s$",
        r"|\.tmp_(dwnl|dcom)\.\d+",
    ))
    .ok()
});

pub(crate) struct LogPage<'a> {
    lines: Vec<(&'a Value, String)>,
    total: &'a Value,
    start: u64,
    /// Lines come and go with the clock.
    timed: bool,
    /// The caller got a full page without asking for a length: the end was not recorded.
    cut: bool,
}

impl<'a> LogPage<'a> {
    /// Nothing, if the body is no page of a log.
    pub(crate) fn read(pair: &Pair, body: &'a Value) -> Option<Self> {
        let entries = body["data"].as_array()?;
        let upid = pair.request.path.split('/').find(|part| part.starts_with("UPID:"));
        let task = upid.and_then(|upid| upid.split(':').nth(5)).unwrap_or_default();
        let mut page = Self {
            lines: Vec::new(),
            total: &body["total"],
            start: pair.param("start").and_then(|text| text.parse().ok()).unwrap_or_default(),
            timed: false,
            cut: pair.param("limit").is_none() && entries.len() >= PAGE,
        };
        let mut previous = "";
        for entry in entries {
            let text = entry["t"].as_str()?;
            let waits = text == WAITING || (text == GOT_LOCK && previous == WAITING);
            previous = text;
            let line = if waits { String::new() } else { normal(task, text) };
            page.timed |= waits || (line != text && task != "download");
            page.lines.push((&entry["n"], line));
        }
        Some(page)
    }

    pub(crate) fn differences(&self, simulated: &Self, ids: &mut Ids) -> Vec<String> {
        let mut found = self.misnumbered("recorded");
        found.extend(simulated.misnumbered("simulated"));
        let timed = self.timed || simulated.timed;
        let both_count = self.total.is_number() && simulated.total.is_number();
        if self.total != simulated.total && !(timed && both_count) {
            found.push(format!("total: {} instead of {}", simulated.total, self.total));
        }
        let (one, other) = (self.told(), simulated.told());
        let lines = if self.cut { one.len() } else { one.len().max(other.len()) };
        for index in 0..lines {
            match (one.get(index), other.get(index)) {
                (Some(line), Some(found)) if ids.same(line, found) => {}
                (line, other) => {
                    found.push(format!("log line {index}: {other:?} instead of {line:?}"));
                    break;
                }
            }
        }
        found
    }

    /// Lines are numbered one by one from where the page starts.
    fn misnumbered(&self, whose: &str) -> Vec<String> {
        let numbers = self.start + 1..;
        let wrong = self.lines.iter().zip(numbers).find(|((number, _), due)| number.as_u64() != Some(*due));
        wrong
            .map(|((number, _), due)| format!("{whose} log line has number {number} instead of {due}"))
            .into_iter()
            .collect()
    }

    /// The lines without waiting, and one for each run of progress.
    fn told(&self) -> Vec<&str> {
        let mut lines: Vec<&str> =
            self.lines.iter().map(|(_, line)| line.as_str()).filter(|line| !line.is_empty()).collect();
        lines.dedup_by(|one, other| one == other && one.starts_with("transferred … of "));
        lines
    }
}

/// The line without what is measured.
fn normal(task: &str, line: &str) -> String {
    let progress = PROGRESS.as_ref().filter(|_| COPIERS.contains(&task));
    if let Some(size) = progress.and_then(|pattern| pattern.captures(line)).and_then(|found| found.get(1)) {
        return format!("transferred … of {}", size.as_str());
    }
    match MEASURED.as_ref().filter(|_| task == "download") {
        Some(pattern) => pattern.replace_all(line, "…").into_owned(),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pair(task: &str) -> Pair {
        let path =
            format!("/api2/json/nodes/a/tasks/UPID:a:00000001:00000001:00000001:{task}:1:root@pam:/log");
        serde_json::from_value(json!({
            "group": "g",
            "request": {"auth": "none", "encoding": "form", "method": "GET", "params": null, "path": path},
            "response": {"body": null, "content_type": null, "reason": "OK", "status": 200},
            "environment_artifact": null,
            "seconds_after_create": null,
        }))
        .unwrap()
    }

    fn body(lines: &[&str]) -> Value {
        let numbered = lines.iter().zip(1..).map(|(line, number)| json!({"n": number, "t": line}));
        json!({"data": numbered.collect::<Vec<_>>(), "total": lines.len()})
    }

    fn differ(task: &str, recorded: &Value, simulated: &Value) -> bool {
        let pair = pair(task);
        let pages = LogPage::read(&pair, recorded).zip(LogPage::read(&pair, simulated));
        let (one, other) = pages.unwrap();
        !one.differences(&other, &mut Ids::default()).is_empty()
    }

    #[test]
    fn progress_and_waiting_may_take_any_number_of_lines() {
        let one = body(&[
            "trying to acquire lock...",
            " OK",
            "transferred 0.0 B of 4.0 MiB (0.00%)",
            "transferred 4.0 MiB of 4.0 MiB (100.00%)",
            "TASK OK",
        ]);
        let other = body(&["transferred 4.0 MiB of 4.0 MiB (100.00%)", "TASK OK"]);
        assert!(!differ("qmclone", &one, &other));
        assert!(differ("qmstart", &one, &other));
        assert!(differ("qmclone", &one, &body(&["TASK OK"])));
    }

    #[test]
    fn invented_lines_are_seen() {
        for line in ["2026 was a year", " OK", "transferred zzz", "Length: 1", "20"] {
            assert!(differ("qmclone", &body(&[line, "TASK OK"]), &body(&["TASK OK"])), "{line}");
        }
    }

    #[test]
    fn numbers_and_totals_are_compared() {
        let page = |number: u64, total: u64| json!({"data": [{"n": number, "t": "TASK OK"}], "total": total});
        assert!(!differ("qmstart", &page(1, 1), &page(1, 1)));
        assert!(differ("qmstart", &page(2, 1), &page(1, 1)));
        assert!(differ("qmstart", &page(1, 2), &page(1, 1)));
    }
}
