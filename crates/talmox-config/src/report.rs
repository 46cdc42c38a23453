//! Problems as people read them: what, where, an excerpt with a mark, and what to do.

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

/// The problems, one after another, each ending with an empty line.
pub fn report<'p>(
    sources: &Sources,
    problems: impl IntoIterator<Item = &'p Problem>,
    colour: Colour,
) -> String {
    let renderer = match colour {
        Colour::Always => Renderer::styled(),
        Colour::Never => Renderer::plain(),
    };
    let mut masked = MaskedTexts::default();
    let mut text = String::new();
    for problem in problems {
        masked.prepare(sources, problem);
        text.push_str(&render(&renderer, sources, &masked, problem));
        text.push_str("\n\n");
    }
    text
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
pub(crate) fn sort(sources: &Sources, problems: &mut [Problem]) {
    problems.sort_by_cached_key(|problem| {
        let source = match &problem.place {
            Some(Place::Text(location, _)) => Some(location.source),
            Some(Place::File { .. }) | None => None,
        };
        let (name, line, column) = position_of(sources, problem).unwrap_or_default();
        (source, name, line, column, problem.severity, problem.message.clone())
    });
}

/// Texts without their secrets, made once per report.
#[derive(Default)]
struct MaskedTexts(Vec<(SourceId, String)>);

impl MaskedTexts {
    fn prepare(&mut self, sources: &Sources, problem: &Problem) {
        let here = match &problem.place {
            Some(Place::Text(location, _)) => Some(location.source),
            Some(Place::File { .. }) | None => None,
        };
        for source in here.into_iter().chain(problem.related.iter().map(|(location, _)| location.source)) {
            if !self.0.iter().any(|(known, _)| *known == source) {
                self.0.push((source, mask_secrets(&sources.get(source).text)));
            }
        }
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

/// One excerpt per file: the one with the mark first.
fn snippets<'a>(
    sources: &'a Sources,
    masked: &'a MaskedTexts,
    location: Location,
    label: &'a str,
    related: &'a [(Location, String)],
) -> Vec<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let mut files = vec![location.source];
    files.extend(related.iter().map(|(location, _)| location.source));
    files.dedup();
    files
        .into_iter()
        .map(|source| {
            let text = masked.get(source);
            let mut snippet = Snippet::source(text).path(sources.get(source).name.as_str());
            if source == location.source {
                snippet =
                    snippet.annotation(AnnotationKind::Primary.span(range(text, location.span)).label(label));
            }
            for (place, label) in related.iter().filter(|(place, _)| place.source == source) {
                snippet = snippet
                    .annotation(AnnotationKind::Context.span(range(text, place.span)).label(label.as_str()));
            }
            snippet
        })
        .collect()
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
