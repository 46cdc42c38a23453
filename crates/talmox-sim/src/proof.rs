//! The whole table of behaviours, those of the HTTPS shell included, in words.

use crate::behaviours::{self, Behaviour, Source};

/// Every behaviour: of the core, then of the shell.
pub fn every() -> impl Iterator<Item = &'static Behaviour> {
    behaviours::all().iter().chain(SHELL)
}

impl Source {
    /// What kind of proof it is.
    pub fn proof(&self) -> &'static str {
        match self {
            Self::Transcript(_) => "transcript",
            Self::Recorded(_) => "recorded",
            Self::Facts(_) => "facts",
            Self::Unproven => "unproven",
        }
    }

    /// Where to find it; empty if there is none.
    pub fn reference(&self) -> &'static str {
        match self {
            Self::Transcript(name) | Self::Recorded(name) | Self::Facts(name) => name,
            Self::Unproven => "",
        }
    }
}

const fn shell(id: &'static str, sentence: &'static str, source: Source) -> Behaviour {
    Behaviour { id, sentence, source }
}

const SHELL: &[Behaviour] = &[
    shell(
        "wire-reason",
        "The first line of an error's text is the reason phrase.",
        Source::Transcript("01-auth-routing"),
    ),
    shell("wire-http1", "HTTP/1 alone is spoken.", Source::Facts("§1")),
    shell(
        "wire-plain-http",
        "Plain HTTP on the same port is sent to https: 301 for reads, 308 for the rest.",
        Source::Facts("§1"),
    ),
    shell(
        "wire-fingerprint",
        "/nodes reports the SHA-256 of the certificate each host shows.",
        Source::Facts("§1"),
    ),
    shell("wire-close-after-error", "A reply of 400 and above closes the connection.", Source::Facts("§1")),
    shell("wire-close-idle", "A connection that lay idle for 5 s is closed.", Source::Facts("§1")),
    shell("wire-most-requests", "A connection is closed after 100 requests.", Source::Facts("§1")),
    shell(
        "wire-body-limit",
        "A body of more than 512 KiB is refused with 501.",
        Source::Transcript("01-auth-routing"),
    ),
    shell("wire-chunked", "A chunked body is refused with 501.", Source::Facts("§1")),
    shell("wire-most-headers", "A request has 64 header lines at most.", Source::Facts("§1")),
    shell(
        "wire-latency-get",
        "A read takes 29 ms as a rule, spread like the recorded ones.",
        Source::Recorded("pve9_*"),
    ),
    shell(
        "wire-latency-write",
        "Writes take one and a half to two times as long as reads.",
        Source::Recorded("pve9_*"),
    ),
    shell("wire-delay-401", "A refused login is answered after 3 s.", Source::Facts("§1")),
    shell("upload-order", "An upload's fields come before its file.", Source::Facts("§6")),
    shell(
        "upload-disposition",
        "The first header of an upload's file is its disposition.",
        Source::Facts("§6"),
    ),
    shell("upload-refusal", "An upload that cannot be read is answered with 500.", Source::Unproven),
    shell("wire-too-many-headers", "More header lines are answered with 431.", Source::Unproven),
    shell("wire-chunked-text", "The words of the refusal of a chunked body.", Source::Unproven),
    shell(
        "wire-no-compression",
        "Replies are never compressed, whatever the client accepts.",
        Source::Unproven,
    ),
    shell("host-down", "A host whose API is down refuses connections.", Source::Transcript("10-node-down")),
    shell("host-unreachable", "A host without a link takes connections and stays silent.", Source::Unproven),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_behaviour_is_there_once_and_is_a_sentence() {
        let mut seen = BTreeSet::new();
        for behaviour in every() {
            assert!(seen.insert(behaviour.id), "{} is there twice", behaviour.id);
            assert!(behaviour.sentence.ends_with('.'), "{}", behaviour.id);
            assert_eq!(behaviour.source == Source::Unproven, behaviour.source.reference().is_empty());
        }
    }
}
