//! The whole table of behaviours, those of the HTTPS shell included, in words.

use crate::behaviours::{self, Behaviour, Source};

/// Every behaviour: of the core, then of the shell.
pub fn every() -> impl Iterator<Item = &'static Behaviour> {
    behaviours::all().iter().chain(SHELL)
}

#[rustfmt::skip]
const SHELL: &[Behaviour] = &[
    Behaviour::new("shell.http1", "HTTP/1 alone is spoken.", Source::Facts("§1")),
    Behaviour::new("shell.plain-http", "Plain HTTP on the same port is sent to https: 301 for reads, 308 for the rest.", Source::Facts("§1")),
    Behaviour::new("shell.fingerprint", "`/nodes` reports the SHA-256 of the certificate each host shows.", Source::Facts("§1")),
    Behaviour::new("shell.close-after-error", "A reply of 400 and above closes the connection.", Source::Facts("§1")),
    Behaviour::new("shell.close-idle", "A connection that lay idle for 5 s is closed without a word.", Source::Facts("§1")),
    Behaviour::new("shell.half-requests", "A request that stops in the middle for 5 s is given up, and its connection with it.", Source::Unproven),
    Behaviour::new("shell.most-requests", "A connection is closed after 100 requests.", Source::Facts("§1")),
    Behaviour::new("shell.most-headers", "A request has less than 64 lines after its first, the empty one included.", Source::Sources("pve-http-server AnyEvent.pm unshift_read_header")),
    Behaviour::new("shell.largest-head", "The header lines of a request have less than 8 KiB.", Source::Facts("§1")),
    Behaviour::new("shell.too-many-headers", "More header lines, or longer ones, are not answered at all; the connection is closed after 5 s.", Source::Sources("pve-http-server AnyEvent.pm unshift_read_header")),
    Behaviour::new("shell.chunked", "A chunked body is refused with 501.", Source::Facts("§1")),
    Behaviour::new("shell.chunked-words", "The words of that refusal.", Source::Sources("pve-http-server AnyEvent.pm process_header")),
    Behaviour::new("shell.compression", "Replies of more than 1 KiB are compressed with gzip for a client that accepts it.", Source::Sources("pve-http-server AnyEvent.pm response")),
    Behaviour::new("shell.deflate", "A client that accepts deflate and not gzip gets replies that are not compressed.", Source::Unproven),
    Behaviour::new("shell.addresses", "Hosts can be given loopback addresses of their own and one port, and say so in the status of the cluster.", Source::Facts("§3")),
    Behaviour::new("shell.latency-read", "A read takes 29 ms as a rule, spread like the recorded ones.", Source::Recorded("pve9_*")),
    Behaviour::new("shell.latency-write", "A write takes one and a half to two times as long.", Source::Recorded("pve9_*")),
    Behaviour::new("shell.upload-order", "Fields of an upload come before its file, each part with its disposition first.", Source::Facts("§6")),
    Behaviour::new("shell.upload-refusal", "An upload that comes otherwise is answered with 500.", Source::Unproven),
    Behaviour::new("shell.host-down", "A host whose API is down refuses connections.", Source::Transcript("10-node-down")),
    Behaviour::new("shell.host-unreachable", "A host without a link takes connections and stays silent.", Source::Unproven),
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
