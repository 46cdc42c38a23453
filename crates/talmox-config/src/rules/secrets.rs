//! Secrets that should not be in a file people keep in git.

use talmox_yaml::Span;

use super::Subject;
use crate::mask::{find_age_key, find_token, is_private_key};
use crate::problem::{Code, Problem};
use crate::source::{Location, SourceId};

/// Looks at the text itself, so that comments, patches and unknown keys are covered too.
pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    // A key that wants a reference reports its own value; that line need not be named twice.
    let reported: Vec<Location> = problems
        .iter()
        .filter(|problem| problem.code == Code::PlainSecret)
        .filter_map(Problem::location)
        .collect();
    for source in subject.description.sources.written() {
        scan(subject, source, &reported, problems);
    }
}

fn scan(subject: &Subject<'_>, source: SourceId, reported: &[Location], problems: &mut Vec<Problem>) {
    let text = &subject.description.sources.get(source).text;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let key = find_age_key(line)
            .or_else(|| is_private_key(line).then(|| line.trim_end().len()).map(|end| 0..end));
        let (what, found) = match find_token(line) {
            Some(found) => ("a Proxmox API token", Some(found)),
            None => ("a private key", key),
        };
        if let Some(range) = found {
            let at = |column: usize| u32::try_from(offset + column).unwrap_or(u32::MAX);
            let location = Location { source, span: Span { start: at(range.start), end: at(range.end) } };
            let inside = |known: &Location| {
                known.source == source && (known.span.start..=known.span.end).contains(&location.span.start)
            };
            if !reported.iter().any(inside) {
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
