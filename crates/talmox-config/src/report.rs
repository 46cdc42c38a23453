//! Problems as people read them: what, where, an excerpt with a mark, and what to do.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use talmox_yaml::Span;

use crate::mask::mask_secrets;
use crate::problem::{Place, Problem, Severity};
use crate::source::{Location, SourceId, Sources};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Always,
    Never,
}

/// How many problems are shown. A file of a few MiB can have a million, and nobody corrects the next before the first.
pub const MOST_SHOWN: usize = 100;

/// The first problems, one after another, each ending with an empty line, and how many more there are.
pub fn report<'p>(
    sources: &Sources,
    problems: impl IntoIterator<Item = &'p Problem>,
    colour: Colour,
) -> String {
    let renderer = match colour {
        Colour::Always => Renderer::styled(),
        Colour::Never => Renderer::plain(),
    };
    let problems: Vec<&Problem> = problems.into_iter().collect();
    let masked = MaskedTexts::new(sources, &problems);
    let mut text = String::new();
    for problem in problems.iter().take(MOST_SHOWN) {
        text.push_str(&render(&renderer, sources, &masked, problem));
        text.push_str("\n\n");
    }
    if let Some(more) = more_problems(problems.len()) {
        text.push_str(&more);
        text.push_str("\n\n");
    }
    text
}

/// What is said of problems that are not shown, if there are any.
pub fn more_problems(found: usize) -> Option<String> {
    match found.saturating_sub(MOST_SHOWN) {
        0 => None,
        1 => Some("1 more problem is not shown".to_owned()),
        more => Some(format!("{more} more problems are not shown")),
    }
}

/// File, line and column of a problem.
pub fn position_of(sources: &Sources, problem: &Problem) -> Option<(String, usize, usize)> {
    match &problem.place {
        Some(Place::Text(location, _)) => {
            let (line, column) = sources.position(*location);
            Some((sources.get(location.source).name.clone(), line, column))
        }
        Some(Place::File { name, line, column }) => Some((name.clone(), *line, *column)),
        None => None,
    }
}

/// By file, then by place; errors before warnings at one place.
pub fn sort(problems: &mut [Problem]) {
    // Places in a text are in the order of its bytes: counting lines and columns for each would take long in a long line.
    fn key(problem: &Problem) -> impl Ord + '_ {
        let place = match &problem.place {
            Some(Place::Text(location, _)) => (Some(location.source), "", location.span.start as usize, 0),
            Some(Place::File { name, line, column }) => (None, name.as_str(), *line, *column),
            None => (None, "", 0, 0),
        };
        (place, problem.severity, problem.message.as_str())
    }
    problems.sort_by(|one, other| key(one).cmp(&key(other)));
}

/// Texts without their secrets, made once per report.
struct MaskedTexts(Vec<(SourceId, String)>);

impl MaskedTexts {
    fn new(sources: &Sources, problems: &[&Problem]) -> Self {
        let places = problems.iter().flat_map(|problem| {
            let related = problem.related.iter().map(|(location, _)| *location);
            problem.location().into_iter().chain(related)
        });
        let mut shown: Vec<SourceId> = places.map(|location| location.source).collect();
        shown.sort_unstable();
        shown.dedup();
        let masked = |source: SourceId| {
            let concealed: Vec<Range<usize>> = problems
                .iter()
                .flat_map(|problem| &problem.concealed)
                .filter(|location| location.source == source)
                .map(|location| location.span.start as usize..location.span.end as usize)
                .collect();
            (source, mask_secrets(&sources.get(source).text, &concealed))
        };
        Self(shown.into_iter().map(masked).collect())
    }

    fn get(&self, source: SourceId) -> &str {
        self.0.iter().find(|(known, _)| *known == source).map_or("", |(_, text)| text)
    }
}

fn render(renderer: &Renderer, sources: &Sources, masked: &MaskedTexts, problem: &Problem) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut group = Group::with_title(level.primary_title(problem.message.as_str()));
    match &problem.place {
        Some(Place::Text(location, label)) if is_in_a_long_line(masked, *location) => {
            let (line, column) = sources.position(*location);
            let name = sources.get(location.source).name.as_str();
            group = group.element(Origin::path(name).line(line).char_column(column));
            if !label.is_empty() {
                group = group.element(Level::NOTE.message(label.as_str()));
            }
        }
        Some(Place::Text(location, label)) => {
            for snippet in snippets(sources, masked, *location, label, &problem.related) {
                group = group.element(snippet);
            }
        }
        Some(Place::File { name, line, column }) => {
            group = group.element(Origin::path(name.as_str()).line(*line).char_column(*column));
        }
        None => {}
    }
    let mut groups = vec![group];
    if let Some(hint) = &problem.hint {
        groups.push(Group::with_title(Level::HELP.with_name("hint").secondary_title(hint.as_str())));
    }
    renderer.render(&groups)
}

/// Marks farther apart than this many bytes get excerpts of their own: the renderer looks at every line in between, and a
/// file of ten thousand nodes may hold as many mistakes.
const FAR_APART: usize = 8 * 1024;

/// Lines of more bytes than this are not shown: the renderer would look at all of it for every mark.
const LONGEST_LINE: usize = 8 * 1024;

fn is_in_a_long_line(masked: &MaskedTexts, location: Location) -> bool {
    let text = masked.get(location.source);
    let range = range(text, location.span);
    let before = text[..range.start].bytes().rev().take(LONGEST_LINE).position(|byte| byte == b'\n');
    let after = text[range.start..].bytes().take(LONGEST_LINE).position(|byte| byte == b'\n');
    let before = before.unwrap_or(range.start.min(LONGEST_LINE));
    let after = after.unwrap_or((text.len() - range.start).min(LONGEST_LINE));
    before + after >= LONGEST_LINE
}

/// A mark in one of the texts.
struct Mark<'a> {
    source: SourceId,
    range: std::ops::Range<usize>,
    label: &'a str,
    kind: AnnotationKind,
}

/// Excerpts, the one with the problem's own mark first, each with the marks that are near each other.
fn snippets<'a>(
    sources: &'a Sources,
    masked: &'a MaskedTexts,
    location: Location,
    label: &'a str,
    related: &'a [(Location, String)],
) -> Vec<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let mark = |place: Location, label: &'a str, kind| Mark {
        source: place.source,
        range: range(masked.get(place.source), place.span),
        label,
        kind,
    };
    let own = mark(location, label, AnnotationKind::Primary);
    let near = related.iter().filter(|(place, _)| !is_in_a_long_line(masked, *place));
    let others = near.map(|(place, label)| mark(*place, label, AnnotationKind::Context));
    let mut groups: Vec<Vec<Mark<'a>>> = vec![vec![own]];
    for mark in others {
        let near = |group: &&mut Vec<Mark<'a>>| {
            group
                .iter()
                .any(|m| m.source == mark.source && m.range.start.abs_diff(mark.range.start) < FAR_APART)
        };
        match groups.iter_mut().find(near) {
            Some(group) => group.push(mark),
            None => groups.push(vec![mark]),
        }
    }
    groups.into_iter().map(|group| snippet(sources, masked, group)).collect()
}

/// One excerpt: only the lines from the first mark to the last are handed to the renderer.
fn snippet<'a>(
    sources: &'a Sources,
    masked: &'a MaskedTexts,
    group: Vec<Mark<'a>>,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let source = group[0].source;
    let text = masked.get(source);
    let first = group.iter().map(|mark| mark.range.start).min().unwrap_or(0);
    let last = group.iter().map(|mark| mark.range.end).max().unwrap_or(0);
    let start = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let end = text[last..].find('\n').map_or(text.len(), |length| last + length + 1);
    let line = sources.get(source).line_of(start);
    let excerpt = Snippet::source(&text[start..end]).line_start(line).path(sources.get(source).name.as_str());
    group.into_iter().fold(excerpt, |excerpt, mark| {
        let range = mark.range.start - start..mark.range.end - start;
        excerpt.annotation(mark.kind.span(range).label(mark.label))
    })
}

/// The part of a span that is worth marking: its first line, on character boundaries, inside the text.
fn range(text: &str, span: Span) -> std::ops::Range<usize> {
    let boundary = |offset: u32| {
        let mut offset = (offset as usize).min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    };
    let (start, end) = (boundary(span.start), boundary(span.end));
    let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
    start..end.min(line_end).max(start)
}
