//! Lines that fit a screen: broken between words, and what follows stands under the column it belongs to.
//!
//! Only what people look at goes through here. A command that is told is never broken: whoever copies half of one and pastes it
//! would run another command than was meant.

/// A screen narrower than this is left to break lines itself.
const NARROWEST: usize = 40;

/// The start of a command to be typed.
const COMMAND: &str = "talmox ";

/// A text with every line that is too long for `width` broken. Colours take no room.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    if width < NARROWEST {
        return text.to_owned();
    }
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if columns(line) > width {
            break_line(line, width, &mut wrapped);
        } else {
            wrapped.push_str(line);
        }
        wrapped.push_str(end);
    }
    wrapped
}

fn break_line(line: &str, width: usize, wrapped: &mut String) {
    let plain = anstream::adapter::strip_str(line).to_string();
    let indent = column_of_text(&plain, width);
    let mut column = 0;
    for piece in pieces(line) {
        let words = piece.trim_end_matches(' ');
        let fits = column + columns(words) <= width;
        if !fits && column > indent {
            // Spaces before a break are no use to anybody.
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        }
        wrapped.push_str(piece);
        column += columns(piece);
    }
}

/// Where the last column of a table begins that leaves half of the screen for its text.
fn column_of_text(plain: &str, width: usize) -> usize {
    let (mut spaces, mut found) = (0, None);
    for (at, letter) in plain.chars().take(width / 2 + 1).enumerate() {
        if letter != ' ' && spaces >= 2 {
            found = Some(at);
        }
        spaces = if letter == ' ' { spaces + 1 } else { 0 };
    }
    found.unwrap_or(2)
}

/// Words with the spaces that follow them; a command is one, up to its end.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = if begins_command(rest) {
            command_end(rest)
        } else {
            let word = rest.find(' ').unwrap_or(rest.len());
            word + rest[word..].find(|letter| letter != ' ').unwrap_or(rest.len() - word)
        };
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn begins_command(rest: &str) -> bool {
    rest.starts_with(COMMAND)
}

/// A command ends where a bracket or another sentence follows, or with the line.
fn command_end(rest: &str) -> usize {
    let ends = [", ", "; ", ") ", ": ", "   "].iter().filter_map(|end| Some(rest.find(end)? + end.len()));
    ends.min().unwrap_or(rest.len())
}

/// How many columns a text takes; all letters of our screens take one.
fn columns(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_as_it_is() {
        let text = "  +   cp-1   pve1\n\nPlan: 1 to create.\n";
        assert_eq!(wrap(text, 40), text);
        let long = "word ".repeat(30);
        assert_eq!(wrap(&long, 20), long, "a screen that is too narrow");
    }

    #[test]
    fn lines_are_broken_between_words_and_stand_under_their_column() {
        let line =
            "  ↑   talos     6 nodes     1.13.9 → 1.14.1   one control plane at a time, then workers\n";
        assert_eq!(
            wrap(line, 60),
            "  ↑   talos     6 nodes     1.13.9 → 1.14.1   one control\n                            plane at a time, then workers\n"
        );
        assert_eq!(
            wrap("Plan: 0 to create, 1 to change, 6 to upgrade, 0 to destroy.", 40),
            "Plan: 0 to create, 1 to change, 6 to\n  upgrade, 0 to destroy."
        );
    }

    #[test]
    fn a_word_that_is_longer_than_the_screen_is_left_to_it() {
        let line = format!("      {} and more", "x".repeat(60));
        assert_eq!(wrap(&line, 50), format!("      {}\n      and more", "x".repeat(60)));
    }

    #[test]
    fn colours_take_no_room() {
        let line = "\u{1b}[1m  choose: a folder that is named in cluster\u{1b}[0m yaml";
        assert_eq!(wrap(line, 48), line);
        assert_eq!(wrap(line, 44), line.replace(" yaml", "\n  yaml"));
    }

    #[test]
    fn a_command_is_never_broken() {
        let command = "talmox apply --replace cp-2,cp-3 --auto-approve -f somewhere/else";
        let text = format!("      it is gone for good, and so: {command}; then look again at it");
        let told = wrap(&text, 60);
        assert!(told.contains(command), "{told}");
        assert_eq!(told.lines().count(), 3, "{told}");
    }
}
