//! Text that others wrote, made fit for a terminal, a log and a line of a script.
//!
//! A server, a proxy, a machine in maintenance mode or a description can put characters into a text that move the
//! cursor, rename the window, reverse the reading order or are not seen at all. One rule for all of them: such a
//! character is shown as `·`. A text of several lines becomes one line, so that no part of it can begin a line that
//! looks like ours.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What stands for a character that would not be seen.
const REPLACEMENT: char = '·';
/// What stands for the end of a line.
const LINE_END: &str = " · ";

/// How many characters of a server's words an error holds. The longest lists of Proxmox and Kubernetes are shorter.
const LONGEST: usize = 4000;

/// Whether a character acts on the display, or is not seen in it: controls, marks of direction, blanks without width.
/// Selectors of emoji shapes are none of these.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The text on one line, with every hidden character shown. Tabs become blanks.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| line.chars().map(shown).collect()).collect();
    Cow::Owned(lines.join(LINE_END))
}

/// What a server said, for an error: visible, and cut where nobody would read on. A reply may be as long as the server likes.
pub fn excerpt(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => visible(&text[..end]).into_owned() + "…",
        None => visible(text).into_owned(),
    }
}

/// The same for a text that is ours and may have several lines: those after the first keep their indentation, and get
/// one if they have none.
pub fn visible_lines(text: &str) -> String {
    let mut shown_text = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            shown_text.push('\n');
            if !line.is_empty() && !line.starts_with(' ') {
                shown_text.push_str("  ");
            }
        }
        shown_text.extend(line.chars().map(shown));
    }
    shown_text
}

/// JSON whose texts hold no hidden character as such: each is written as an escape, which means the same to a reader of
/// JSON. Line ends and tabs between values stay.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// What a terminal may be sent: line ends, tabs and our own colours (`ESC [ … m`); every other hidden character is shown.
pub fn visible_with_colors(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| is_hidden(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = color_length(rest).unwrap_or_default();
        if length > 0 {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        out.push(if matches!(c, '\n' | '\t') { c } else { shown(c) });
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

/// The length of the colour sequence a text begins with.
fn color_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

fn shown(c: char) -> char {
    match c {
        '\t' => ' ',
        c if is_hidden(c) => REPLACEMENT,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown() {
        for (text, expected) in [
            ("plain words, äöü 日本 ✔️", "plain words, äöü 日本 ✔️"),
            ("a\u{1b}[2Jb", "a·[2Jb"),
            ("\u{1b}]0;title\u{7}x", "·]0;title·x"),
            ("\u{9b}2J\u{7f}\u{0}", "·2J··"),
            ("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{61c}f", "a·b·c·d·e·f"),
            ("tag\u{e0041}\u{e007f}", "tag··"),
            ("a\tb", "a b"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_of_others_become_one_line() {
        assert_eq!(visible("no such VM\r\n\n  Plan: 0 to destroy\n"), "no such VM · Plan: 0 to destroy");
        assert_eq!(visible("a\u{2028}b\u{85}c\u{b}d"), "a·b·c·d");
        assert_eq!(visible("\n"), "");
    }

    #[test]
    fn an_excerpt_is_short_whatever_came() {
        assert_eq!(excerpt(" no\u{1b}[2J\n"), "no·[2J");
        let long = excerpt(&"ä".repeat(1 << 20));
        assert_eq!((long.chars().count(), long.ends_with('…')), (LONGEST + 1, true));
    }

    #[test]
    fn lines_of_ours_stay_and_are_indented() {
        assert_eq!(
            visible_lines("first\n  second\nhint: forged\n\u{1b}[2J"),
            "first\n  second\n  hint: forged\n  ·[2J"
        );
    }

    #[test]
    fn json_says_the_same_with_escapes() {
        let text = "{\n  \"a\": \"x\u{7f}\u{202e}\u{e0041}ü\"\n}";
        let escaped = visible_json(text);
        assert_eq!(escaped, "{\n  \"a\": \"x\\u007f\\u202e\\udb40\\udc41ü\"\n}");
    }

    #[test]
    fn colors_stay_and_nothing_else() {
        let text = "\u{1b}[1;31merror\u{1b}[0m: a\u{1b}[2Jb\u{1b}]0;x\u{7}\n\tc\u{1b}[38:5:1md\u{1b}[";
        let expected = "\u{1b}[1;31merror\u{1b}[0m: a·[2Jb·]0;x·\n\tc\u{1b}[38:5:1md·[";
        assert_eq!(visible_with_colors(text), expected);
        assert_eq!(visible_with_colors("a\rb"), "a·b");
    }
}
