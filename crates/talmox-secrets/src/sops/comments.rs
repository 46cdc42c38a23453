//! Whose a comment is. SOPS authenticates a comment by the collection it stands in, so both have to agree on that.

use talmox_yaml::{Comment as Found, Span};

use super::tree::Comment;

/// The comments of a text, taken in its order.
pub(super) struct Comments<'a> {
    text: &'a str,
    found: Vec<Found>,
    next: usize,
    /// Where the document ends that is being read.
    end: u32,
    /// Where the brackets close that are open: what stands behind them is beside them, not beside what is in them.
    pub(super) brackets: u32,
    /// Whether a collection inside took comments behind its last member.
    behind_inner: bool,
}

impl<'a> Comments<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            text,
            found: talmox_yaml::comments(text),
            next: 0,
            end: u32::MAX,
            brackets: u32::MAX,
            behind_inner: false,
        }
    }

    /// The column of a byte, counted from zero.
    pub(super) fn column(&self, at: u32) -> usize {
        let before = self.text.get(..at as usize).unwrap_or_default();
        before.len() - before.rfind('\n').map_or(0, |line| line + 1)
    }

    fn line_end(&self, at: u32) -> u32 {
        let rest = self.text.get(at as usize..).unwrap_or_default();
        let length = rest.find('\n').unwrap_or(rest.len());
        u32::try_from(at as usize + length).unwrap_or(u32::MAX)
    }

    /// Whether a collection is written in brackets.
    pub(super) fn is_flow(&self, span: Span) -> bool {
        self.text.get(span.start as usize..).is_some_and(|rest| rest.starts_with(['{', '[']))
    }

    /// Those before a byte that satisfy a condition, up to the first that does not.
    fn take(&mut self, before: u32, inline: bool, fits: impl Fn(&Self, &Found) -> bool) -> Vec<Comment> {
        let before = before.min(self.end);
        let mut taken = Vec::new();
        while let Some(found) = self.found.get(self.next).filter(|found| found.span.start < before) {
            if !fits(self, found) {
                break;
            }
            taken.push(Comment { text: found.text.trim_end_matches('\r').to_owned(), inline });
            self.next += 1;
        }
        taken
    }

    /// All that stand before a member.
    pub(super) fn before(&mut self, at: u32) -> Vec<Comment> {
        self.behind_inner = false;
        self.take(at, false, |_, _| true)
    }

    /// Those beside a member: on its way, and on the rest of the line it ends on.
    pub(super) fn beside(&mut self, end: u32) -> Vec<Comment> {
        let line_end = self.line_end(end).min(self.brackets);
        let mut taken = self.take(end, true, |_, _| true);
        taken.extend(self.take(line_end, true, |_, found| !found.own_line));
        taken
    }

    /// The one on the line a block of text begins on. Such a block ends on another's line.
    pub(super) fn beside_block(&mut self, start: u32) -> Vec<Comment> {
        let line_end = self.line_end(start);
        self.take(line_end, true, |_, _| true)
    }

    /// The one on the line of a key whose value begins on a later line.
    pub(super) fn beside_key(&mut self, key_end: u32) -> Vec<Comment> {
        let line_end = self.line_end(key_end);
        self.take(line_end, false, |_, found| !found.own_line)
    }

    /// Those behind the last member of a collection that belong to it: they are further in than what follows. SOPS counts
    /// the first of them to the innermost collection that ends there, wherever it stands; one that is further out than
    /// the one before it to the collection it stands in.
    pub(super) fn behind(&mut self, column: usize, next: Option<u32>) -> Vec<Comment> {
        let next_column = next.map_or(0, |at| self.column(at));
        let mut least = if self.behind_inner { column } else { 0 };
        let mut taken = Vec::new();
        while let Some(found) = self.found.get(self.next) {
            let own = self.column(found.span.start);
            let before = next.unwrap_or(u32::MAX).min(self.end);
            if found.span.start >= before || own <= next_column || own < least {
                break;
            }
            taken.push(Comment { text: found.text.trim_end_matches('\r').to_owned(), inline: false });
            least = own.min(column);
            self.next += 1;
            self.behind_inner = true;
        }
        taken
    }

    /// All that are left of the document: those of its end.
    pub(super) fn rest(&mut self) -> Vec<Comment> {
        self.take(u32::MAX, false, |_, _| true)
    }

    /// From here on comments are those of a document that ends before the node of the next one begins.
    pub(super) fn begin_document(&mut self, start: u32, next: Option<u32>) {
        self.end = next.map_or(u32::MAX, |next| {
            // A document of nothing has its place wherever the parser looked for it.
            let text = self.text.get(start as usize..next as usize).unwrap_or_default();
            let mark = text.rfind("\n---").map_or(0, |at| at + 1);
            u32::try_from(start as usize + mark).unwrap_or(u32::MAX)
        });
    }
}
