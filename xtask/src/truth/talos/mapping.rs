//! What may differ between a recorded reply and one of the simulator: values that some run of the real thing happened to have.

use std::collections::BTreeMap;

use regex_lite::Regex;

/// Names that stand for the same thing on both sides, found as replies are compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapping {
    theirs: BTreeMap<(Sort, String), String>,
    ours: BTreeMap<(Sort, String), String>,
    /// Names of hosts: ours, and what they were called.
    hosts: BTreeMap<String, String>,
}

/// What a name is a name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// A member of etcd.
    Member,
    /// Whoever started a sequence.
    Actor,
}

impl Mapping {
    /// Whether two names may stand for the same. Once they do, they always do.
    pub(super) fn same(&mut self, sort: Sort, theirs: &str, ours: &str) -> bool {
        if theirs.is_empty() || ours.is_empty() {
            return theirs == ours;
        }
        let known = self.theirs.entry((sort, theirs.to_owned())).or_insert_with(|| ours.to_owned());
        let back = self.ours.entry((sort, ours.to_owned())).or_insert_with(|| theirs.to_owned());
        known == ours && back == theirs
    }

    /// Another group begins: its machines may be others.
    pub(super) fn forget(&mut self) {
        self.theirs.clear();
        self.ours.clear();
    }

    /// A host has another name with us.
    pub(super) fn name(&mut self, theirs: &str, ours: &str) {
        if theirs != ours {
            self.hosts.insert(ours.to_owned(), theirs.to_owned());
        }
    }

    /// Our text with the recorded hosts in the place of ours.
    pub(super) fn hosts(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (ours, theirs) in &self.hosts {
            text = text.replace(&format!("\"{ours}\""), &format!("\"{theirs}\""));
        }
        text
    }
}

/// Patterns whose text is whatever a run gave, and what they are read as.
pub(super) struct Blank {
    patterns: Vec<(Regex, &'static str)>,
    lines: Regex,
    hunks: Regex,
}

const PATTERNS: [(&str, &str); 9] = [
    // What a node is known by in its cluster.
    (r"\b[0-9A-Za-z]{43,44}\b", "IDENTITY"),
    // Link-local addresses are made of MAC addresses.
    (r"fe80::[0-9a-f:]+", "fe80::"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"talos-[0-9a-z]{3}-[0-9a-z]{3}", "talos-HOST"),
    (r"\(PID \d+", "(PID"),
    // Where a kubelet finds its static pods.
    (r"http://127\.0\.0\.1:\d{5}", "http://127.0.0.1:PORT"),
    // Ports a client or resolver happened to get.
    (r":\d{5}->", ":PORT->"),
    (r"sha256:[0-9a-f]{64}", "DIGEST"),
];

impl Blank {
    pub(super) fn new() -> anyhow::Result<Self> {
        let patterns = PATTERNS
            .into_iter()
            .map(|(pattern, word)| Ok((Regex::new(pattern)?, word)))
            .collect::<anyhow::Result<_>>()?;
        let hunks = Regex::new(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")?;
        Ok(Self { patterns, lines: Regex::new(r"line \d+")?, hunks })
    }

    /// A text without what depends on the run; and without numbers of lines, if the file they count is not the one that was sent.
    pub(super) fn text(&self, text: &str, same_bytes: bool) -> String {
        let mut text = text.trim_end().to_owned();
        for (pattern, word) in &self.patterns {
            text = pattern.replace_all(&text, *word).into_owned();
        }
        if text.contains("\n@@ ") {
            text = removals_first(&text);
        }
        if !same_bytes {
            text = self.lines.replace_all(&text, "line N").into_owned();
            text = self.hunks.replace_all(&text, "@@").into_owned();
        }
        text
    }
}

/// A diff with the removals of a change before its additions: in between, the order is a matter of taste.
fn removals_first(text: &str) -> String {
    let (mut out, mut added): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if line.starts_with('+') && !line.starts_with("+++") {
            added.push(line);
            continue;
        }
        if !line.starts_with('-') || line.starts_with("---") {
            out.append(&mut added);
        }
        out.push(line);
    }
    out.append(&mut added);
    out.join("\n")
}
