//! The comments of a text, which the tree leaves out.

use granit_parser::{Event, Parser};

use crate::Span;
use crate::parse::convert;

/// More comments in a row than any file has; the parser buffers them while it looks for what follows.
const MAX_IN_A_ROW: usize = 100_000;

/// A comment with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// What follows the `#`, up to the end of the line.
    pub text: String,
    /// From the `#` on.
    pub span: Span,
    /// Whether nothing but blanks stands before it on its line.
    pub own_line: bool,
}

/// The comments of a text in its order, up to the first syntax fault.
pub fn comments(text: &str) -> Vec<Comment> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_comments: true,
        max_buffered_comment_events: MAX_IN_A_ROW,
    };
    let mut found: Vec<Comment> = Vec::new();
    for next in Parser::new_from_str_with_options(text, options) {
        let Ok((event, span)) = next else { break };
        if let Event::Comment(comment, _) = event {
            let span = convert(span);
            let before = &text[..span.start as usize];
            let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
            let own_line = line.bytes().all(|byte| byte == b' ' || byte == b'\t');
            found.push(Comment { text: comment.into_owned(), span, own_line });
        }
    }
    found.sort_by_key(|comment| comment.span);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_know_their_places() {
        let text = "# größer\na: \"#no\" # yes\nb: |\n  # text\n  #\n\n# end\n";
        let found = comments(text);
        let seen: Vec<(&str, &str, bool)> = found
            .iter()
            .map(|c| (c.text.as_str(), &text[c.span.start as usize..c.span.end as usize], c.own_line))
            .collect();
        assert_eq!(seen, [(" größer", "# größer", true), (" yes", "# yes", false), (" end", "# end", true)]);
    }

    #[test]
    fn a_long_header_is_no_fault() {
        let text = format!("{}a: 1\n", "# line\n".repeat(5000));
        assert_eq!(comments(&text).len(), 5000);
    }
}
