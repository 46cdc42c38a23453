//! The texts a description is made of, and places in them.

use std::path::PathBuf;

use talmox_yaml::Span;

/// One of the texts of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u16);

/// A place in one of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    pub source: SourceId,
    pub span: Span,
}

/// A text with the name people know it by.
#[derive(Debug)]
pub struct Source {
    /// As given on the command line, so that an editor or a click finds it.
    pub name: String,
    pub text: String,
    /// The folder that paths inside the text are relative to.
    pub folder: PathBuf,
    /// Whether it was read from a file, so that the files it names can be looked for.
    pub is_file: bool,
    line_starts: Vec<u32>,
}

/// All texts of a description; the first is the defaults talmox brings along.
#[derive(Debug, Default)]
pub struct Sources(Vec<Source>);

impl SourceId {
    /// The text of the built-in defaults.
    pub const BUILT_IN: Self = Self(0);
}

impl Sources {
    pub fn add(&mut self, name: String, text: String, folder: Option<PathBuf>) -> SourceId {
        let line_starts = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1))
            .map(|start| u32::try_from(start).unwrap_or(u32::MAX))
            .collect();
        let id = SourceId(u16::try_from(self.0.len()).unwrap_or(u16::MAX));
        let is_file = folder.is_some();
        self.0.push(Source { name, text, folder: folder.unwrap_or_default(), is_file, line_starts });
        id
    }

    pub fn get(&self, id: SourceId) -> &Source {
        &self.0[usize::from(id.0)]
    }

    /// The texts somebody wrote: all but the built-in one.
    pub fn written(&self) -> impl Iterator<Item = SourceId> + use<> {
        (1..u16::try_from(self.0.len()).unwrap_or(u16::MAX)).map(SourceId)
    }

    /// Line and column of a place, both counted from 1, the column in characters.
    pub fn position(&self, location: Location) -> (usize, usize) {
        self.get(location.source).position(location.span.start)
    }

    /// `file:line`, or `built in`.
    pub fn line_name(&self, location: Location) -> String {
        let name = &self.get(location.source).name;
        if location.source == SourceId::BUILT_IN {
            name.clone()
        } else {
            format!("{name}:{}", self.position(location).0)
        }
    }
}

impl Source {
    /// The line of a byte, counted from 1.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start as usize <= offset)
    }

    fn position(&self, offset: u32) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts[line - 1] as usize;
        let end = (offset as usize).min(self.text.len());
        let column = self.text.get(start..end).map_or(0, |before| before.chars().count());
        (line, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let mut sources = Sources::default();
        let id = sources.add("x".to_owned(), "a: 1\nä: b\n".to_owned(), None);
        let place = |start| Location { source: id, span: Span { start, end: start } };
        assert_eq!(sources.position(place(0)), (1, 1));
        assert_eq!(sources.position(place(9)), (2, 4));
        assert_eq!(sources.position(place(99)), (3, 1));
    }
}
