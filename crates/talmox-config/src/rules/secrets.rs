//! Secrets that should not be in a file people keep in git.

use talmox_yaml::Span;

use super::Subject;
use crate::mask::find_token;
use crate::problem::{Code, Place, Problem};
use crate::source::{Location, SourceId};

/// Beginnings of well-known kinds of private keys.
const KEY_MARKERS: [&str; 2] = ["PRIVATE KEY-----", "AGE-SECRET-KEY-1"];

/// Looks at the text itself, so that comments, patches and unknown keys are covered too.
pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    for source in subject.description.sources.written() {
        scan(subject, source, problems);
    }
}

fn scan(subject: &Subject<'_>, source: SourceId, problems: &mut Vec<Problem>) {
    let text = &subject.description.sources.get(source).text;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let token = find_token(line);
        let key = KEY_MARKERS.iter().find_map(|marker| line.find(marker).map(|at| (at, at + marker.len())));
        let (what, found) = match (token, key) {
            (Some(found), _) => ("a Proxmox API token", Some(found)),
            (None, found) => ("a private key", found),
        };
        if let Some((start, end)) = found {
            let at = |column: usize| u32::try_from(offset + column).unwrap_or(u32::MAX);
            let location = Location { source, span: Span { start: at(start), end: at(end) } };
            if !already_reported(problems, location) {
                problems.push(
                    Problem::error(Code::PlainSecret, format!("{what} stands here in plain text"))
                        .at(location, "not shown")
                        .hint(
                            "keep it in the environment or a SOPS file; if this file was shared, replace it",
                        ),
                );
            }
        }
        offset += line.len();
    }
}

/// The value of `proxmox_api_token` reports itself; its line need not be named twice.
fn already_reported(problems: &[Problem], location: Location) -> bool {
    problems.iter().any(|problem| {
        problem.code == Code::PlainSecret
            && matches!(&problem.place, Some(Place::Text(known, _)) if known.source == location.source
                && known.span.start <= location.span.start && location.span.start <= known.span.end)
    })
}
