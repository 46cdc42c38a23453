//! How a text is printed: plain, in quotes, or as a block of lines.

use super::resolve::is_more_than_text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Prints a text whose further lines begin at `indent`. True if the output now stands at the beginning of a line.
pub(super) fn print(text: &str, indent: usize, out: &mut String) -> bool {
    match style(text) {
        Style::Plain => {
            out.push_str(text);
            false
        }
        Style::Single => {
            out.push('\'');
            broken_lines(&text.replace('\'', "''"), indent, false, out);
            out.push('\'');
            false
        }
        Style::Double => {
            double_quoted(text, out);
            false
        }
        Style::Literal => {
            out.push('|');
            out.push_str(hints(text));
            out.push('\n');
            broken_lines(text, indent, true, out)
        }
    }
}

/// What kinds of characters a text has, as far as they forbid a style.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent findings about one text")]
struct Findings {
    /// Something that begins another construct than a plain text.
    indicator: bool,
    line_break: bool,
    tab: bool,
    /// Something that can only be written with an escape.
    special: bool,
    /// A blank right before a line break.
    space_before_break: bool,
    /// A blank right after a line break.
    space_after_break: bool,
}

fn style(text: &str) -> Style {
    let found = examine(text);
    let blank = |c: char| c == ' ' || is_line_break(c);
    let ragged = text.starts_with(blank) || text.ends_with(blank);
    if text.contains('\n') {
        let block = !text.ends_with(' ') && !found.space_before_break && !found.special;
        let has_words = text.chars().any(|c| !c.is_whitespace());
        return if block && has_words { Style::Literal } else { Style::Double };
    }
    if is_more_than_text(text)
        || found.special
        || found.tab
        || found.space_before_break
        || found.space_after_break
    {
        return Style::Double;
    }
    if ragged || found.line_break || found.indicator { Style::Single } else { Style::Plain }
}

fn examine(text: &str) -> Findings {
    let mut found =
        Findings { indicator: text.starts_with("---") || text.starts_with("..."), ..Findings::default() };
    let mut previous = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let before_blank = rest.peek().is_none_or(|next| [' ', '\t'].contains(next));
        found.indicator |= is_indicator(c, previous, before_blank);
        found.tab |= c == '\t';
        found.special |= c != '\t' && !is_printable(c);
        found.line_break |= is_line_break(c);
        let after_break = previous.is_some_and(is_line_break);
        found.space_after_break |= c == ' ' && after_break;
        found.space_before_break |= is_line_break(c) && previous == Some(' ');
        previous = Some(c);
    }
    found
}

fn is_indicator(c: char, previous: Option<char>, before_blank: bool) -> bool {
    match (previous, c) {
        (
            None,
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
        ) => true,
        (None, '?' | '-') | (_, ':') => before_blank,
        (Some(previous), '#') => {
            [' ', '\t', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\0'].contains(&previous)
        }
        _ => false,
    }
}

fn is_line_break(c: char) -> bool {
    ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'].contains(&c)
}

/// What the writer prints as it is. It knows nothing of characters beyond the first plane.
fn is_printable(c: char) -> bool {
    match c {
        '\n' | ' '..='~' => true,
        '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => ('\u{a0}'..='\u{fffd}').contains(&c),
    }
}

/// The end of `|`: where the first line begins if that cannot be seen, and what becomes of the last line breaks.
fn hints(text: &str) -> &'static str {
    let mut last = text.chars().rev();
    let (ends, ends_twice) = (last.next().is_some_and(is_line_break), last.next().is_none_or(is_line_break));
    match (text.starts_with(' '), ends, ends && ends_twice) {
        (false, false, _) => "-",
        (false, true, false) => "",
        (false, true, true) => "+",
        (true, false, _) => "4-",
        (true, true, false) => "4",
        (true, true, true) => "4+",
    }
}

/// Text with its own line breaks, every line indented; the first one only if it stands on a line of its own.
fn broken_lines(text: &str, indent: usize, mut at_start: bool, out: &mut String) -> bool {
    for c in text.chars() {
        if is_line_break(c) {
            at_start = true;
        } else if at_start {
            out.extend(std::iter::repeat_n(' ', indent));
            at_start = false;
        }
        out.push(c);
    }
    at_start
}

fn double_quoted(text: &str, out: &mut String) {
    // The writer looks for a byte order mark at the beginning of the text, whichever character it is about to print.
    let escape_all = text.starts_with('\u{feff}');
    out.push('"');
    for c in text.chars() {
        if escape_all || !is_printable(c) || is_line_break(c) || c == '"' || c == '\\' {
            escape(c, out);
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

fn escape(c: char, out: &mut String) {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            out.push_str(&match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
            return;
        }
    };
    out.push('\\');
    out.push(short);
}
