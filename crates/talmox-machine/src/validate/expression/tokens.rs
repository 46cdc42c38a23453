//! The words of CEL.

use super::types::Type;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// A number, a text, or a truth value.
    Literal(Type),
    Sign(&'static str),
}

/// Longer ones first: the first that fits is taken.
const SIGNS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

/// The tokens of a text, if they are not more than `most`.
pub(super) fn tokens(text: &str, most: usize) -> Result<Vec<Token>, String> {
    let mut rest = text;
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
            continue;
        }
        if rest.is_empty() {
            return Ok(found);
        }
        if found.len() == most {
            return Err(format!("has more than {most} names, values and signs, and was not checked"));
        }
        let (token, length) = one(rest)?;
        found.push(token);
        rest = &rest[length..];
    }
}

fn one(rest: &str) -> Result<(Token, usize), String> {
    if let Some(length) = text_literal(rest)? {
        let prefix = rest.bytes().take_while(|b| b"rRbB".contains(b));
        let kind = if prefix.into_iter().any(|b| b"bB".contains(&b)) { Type::Bytes } else { Type::Text };
        return Ok((Token::Literal(kind), length));
    }
    if let Some((kind, length)) = number(rest) {
        if !is_in_range(&kind, &rest[..length]) {
            return Err("has a number that is too large".to_owned());
        }
        return Ok((Token::Literal(kind), length));
    }
    let name = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    if name > 0 {
        return Ok((word(&rest[..name]), name));
    }
    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
    sign.map(|sign| (Token::Sign(sign), sign.len())).ok_or_else(|| "has a sign that means nothing".to_owned())
}

fn word(name: &str) -> Token {
    match name {
        "true" | "false" => Token::Literal(Type::Bool),
        "null" => Token::Literal(Type::Null),
        "in" => Token::Sign("in"),
        _ => Token::Name(name.to_owned()),
    }
}

/// How long a number at the beginning is, and of what kind.
fn number(rest: &str) -> Option<(Type, usize)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(hex) = rest.strip_prefix("0x") {
        let length = 2 + hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        return (length > 2).then(|| unsigned(rest, length));
    }
    let whole = digits(rest);
    let fraction = match rest[whole..].strip_prefix('.') {
        Some(after) if digits(after) > 0 => 1 + digits(after),
        Some(_) | None => 0,
    };
    if whole + fraction == 0 {
        return None;
    }
    let so_far = whole + fraction;
    let exponent = exponent(&rest[so_far..]);
    if fraction + exponent > 0 {
        return Some((Type::Double, so_far + exponent));
    }
    Some(unsigned(rest, so_far))
}

/// Whether a number fits into 64 bits. The smallest of all has a minus before it, and its digits alone would not fit.
fn is_in_range(kind: &Type, text: &str) -> bool {
    let digits = text.trim_end_matches(['u', 'U']);
    let (digits, base) = digits.strip_prefix("0x").map_or((digits, 10), |digits| (digits, 16));
    let whole = u64::from_str_radix(digits, base);
    if *kind == Type::Double {
        text.parse::<f64>().is_ok_and(f64::is_finite)
    } else {
        whole.is_ok_and(|number| *kind == Type::Uint || number <= 1 << 63)
    }
}

fn exponent(rest: &str) -> usize {
    let Some(after) = rest.strip_prefix(['e', 'E']) else { return 0 };
    let sign = usize::from(after.starts_with(['+', '-']));
    let digits = after[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

fn unsigned(rest: &str, length: usize) -> (Type, usize) {
    if rest[length..].starts_with(['u', 'U']) { (Type::Uint, length + 1) } else { (Type::Int, length) }
}

/// How long a text in quotes at the beginning is: with one or three quotes, raw or of bytes.
fn text_literal(rest: &str) -> Result<Option<usize>, String> {
    let prefix = rest.bytes().take_while(|b| b"rRbB".contains(b)).count();
    let body = &rest[prefix..];
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote));
    let Some(quote) = quotes.filter(|_| prefix <= 2) else { return Ok(None) };
    let is_raw = rest[..prefix].contains(['r', 'R']);
    let mut at = quote.len();
    while let Some(character) = body[at..].chars().next() {
        if body[at..].starts_with(quote) {
            return Ok(Some(prefix + at + quote.len()));
        }
        if character == '\n' && quote.len() == 1 {
            break;
        }
        if character == '\\' && !is_raw {
            let escaped = body[at + 1..].chars().next().unwrap_or(' ');
            if !"abfnrtv\\?\"'`xXuU01234567".contains(escaped) {
                return Err("has a backslash before a character that needs none".to_owned());
            }
            at += 1 + escaped.len_utf8();
        } else {
            at += character.len_utf8();
        }
    }
    Err("has a text that does not end".to_owned())
}
