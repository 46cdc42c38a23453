//! As much YAML as schematics are written in: block and flow collections, quoted and plain text, literal blocks.
//!
//! Anchors, tags, folded blocks and text over several lines without `|` are refused: nobody writes schematics with them.

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    /// `quoted` text is text whatever it looks like.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar { text, quoted: false } if ["", "~", "null"].contains(&text.as_str()))
    }
}

/// Reads one document.
pub(super) fn read(text: &str) -> Result<Yaml, String> {
    if text.trim_start().starts_with(['{', '[']) {
        let mut flow = Flow { rest: text };
        let value = flow.value()?;
        return if flow.at_end() { Ok(value) } else { Err("something follows the document".to_owned()) };
    }
    let lines = text.lines().map(ToOwned::to_owned).collect();
    let mut block = Block { lines, at: 0 };
    let Some(indent) = block.next_indent() else { return Err("EOF".to_owned()) };
    let value = block.node(indent)?;
    match block.next_indent() {
        None => Ok(value),
        Some(_) => Err(format!("line {}: bad indentation", block.at + 1)),
    }
}

/// Lines of block style, read one after another.
struct Block {
    lines: Vec<String>,
    at: usize,
}

impl Block {
    /// Skips what says nothing, and gives the indentation of what follows.
    fn next_indent(&mut self) -> Option<usize> {
        while let Some(line) = self.lines.get(self.at) {
            let content = line.trim_start();
            let says_nothing = content.is_empty() || content.starts_with('#') || content == "---";
            if !says_nothing {
                return Some(line.len() - content.len());
            }
            self.at += 1;
        }
        None
    }

    fn content(&self) -> String {
        self.lines.get(self.at).map_or_else(String::new, |line| line.trim().to_owned())
    }

    fn node(&mut self, indent: usize) -> Result<Yaml, String> {
        let content = self.content();
        if content == "-" || content.starts_with("- ") { self.list(indent) } else { self.map(indent) }
    }

    fn list(&mut self, indent: usize) -> Result<Yaml, String> {
        let mut items = Vec::new();
        while self.next_indent() == Some(indent) {
            let content = self.content();
            let Some(rest) =
                content.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '))
            else {
                break;
            };
            let rest = rest.trim_start();
            if rest.is_empty() || rest.starts_with('#') {
                self.at += 1;
                items.push(self.nested(indent)?);
            } else if rest.starts_with("- ") || split_key(rest).is_some() {
                // What follows the dash is a collection that begins on this line.
                let inner = indent + content.len() - rest.len();
                self.lines[self.at] = format!("{}{rest}", " ".repeat(inner));
                items.push(self.node(inner)?);
            } else {
                items.push(self.inline(rest, indent)?);
            }
        }
        Ok(Yaml::List(items))
    }

    fn map(&mut self, indent: usize) -> Result<Yaml, String> {
        let mut entries: Vec<(String, Yaml)> = Vec::new();
        while self.next_indent() == Some(indent) {
            let content = self.content();
            if content.starts_with("- ") || content == "-" {
                break;
            }
            let number = self.at + 1;
            let (key, rest) =
                split_key(&content).ok_or_else(|| format!("line {number}: a key is missing"))?;
            if entries.iter().any(|(known, _)| *known == key) {
                return Err(format!("line {number}: mapping key {key:?} already defined"));
            }
            let value = if rest.is_empty() || rest.starts_with('#') {
                self.at += 1;
                self.nested_or_list(indent)?
            } else {
                self.inline(rest, indent)?
            };
            entries.push((key, value));
        }
        Ok(Yaml::Map(entries))
    }

    fn nested(&mut self, indent: usize) -> Result<Yaml, String> {
        match self.next_indent() {
            Some(deeper) if deeper > indent => self.node(deeper),
            _ => Ok(Yaml::Scalar { text: String::new(), quoted: false }),
        }
    }

    /// The list of a key may stand as deep as the key.
    fn nested_or_list(&mut self, indent: usize) -> Result<Yaml, String> {
        let content = if self.next_indent() == Some(indent) { self.content() } else { String::new() };
        if content == "-" || content.starts_with("- ") { self.list(indent) } else { self.nested(indent) }
    }

    /// A value that begins on the line at hand.
    fn inline(&mut self, rest: &str, indent: usize) -> Result<Yaml, String> {
        let number = self.at + 1;
        if rest.starts_with('|') {
            return Ok(self.literal(rest, indent));
        }
        if rest.starts_with(['&', '*', '!', '>', '%', '@', '`']) {
            return Err(format!("line {number}: {:?} is not simulated here", &rest[..1]));
        }
        if rest.starts_with(['{', '[', '"', '\'']) {
            // May go on for lines: read from here to the end, and see how far it went.
            let after: Vec<String> = self.lines[self.at + 1..].to_vec();
            let text = std::iter::once(rest.to_owned()).chain(after).collect::<Vec<_>>().join("\n");
            let mut flow = Flow { rest: &text };
            let value = flow.value().map_err(|reason| format!("line {number}: {reason}"))?;
            let used = text.len() - flow.rest.len();
            let line_end = flow.rest.split('\n').next().unwrap_or_default().trim();
            if !line_end.is_empty() && !line_end.starts_with('#') {
                return Err(format!("line {number}: something follows the value"));
            }
            self.at += text[..used].matches('\n').count() + 1;
            return Ok(value);
        }
        self.at += 1;
        let text = rest.split(" #").next().unwrap_or(rest).trim_end().to_owned();
        if text.contains(": ") || self.next_indent().is_some_and(|next| next > indent) {
            return Err(format!("line {number}: mapping values are not allowed in this context"));
        }
        Ok(Yaml::Scalar { text, quoted: false })
    }

    /// `|` with its hints, and the lines that are deeper than the key.
    fn literal(&mut self, header: &str, indent: usize) -> Yaml {
        let header = header[1..].split('#').next().unwrap_or_default().trim();
        let given: Option<usize> = header.chars().find_map(|c| c.to_digit(10)).map(|digit| digit as usize);
        self.at += 1;
        let first = self.lines[self.at..].iter().find(|line| !line.trim().is_empty());
        let deep = given.map_or_else(
            || first.map_or(indent + 1, |line| line.len() - line.trim_start_matches(' ').len()),
            |given| indent + given,
        );
        let mut text = String::new();
        while let Some(line) = self.lines.get(self.at) {
            let blank = line.trim_matches(' ').is_empty();
            let depth = line.len() - line.trim_start_matches(' ').len();
            if !blank && (depth < deep || deep <= indent) {
                break;
            }
            text.push_str(line.get(deep..).unwrap_or_default());
            text.push('\n');
            self.at += 1;
        }
        let kept = text.trim_end_matches('\n').to_owned();
        let text = match (header.contains('-'), header.contains('+')) {
            (true, _) => kept,
            (_, true) => text,
            _ if kept.is_empty() => kept,
            _ => kept + "\n",
        };
        Yaml::Scalar { text, quoted: true }
    }
}

/// Splits `key: value`; the key may be quoted.
fn split_key(content: &str) -> Option<(String, &str)> {
    if content.starts_with(['"', '\'']) {
        let mut flow = Flow { rest: content };
        let Ok(Yaml::Scalar { text, .. }) = flow.quoted() else { return None };
        let rest = flow.rest.trim_start().strip_prefix(':')?;
        return (rest.is_empty() || rest.starts_with(' ')).then(|| (text, rest.trim_start()));
    }
    if content.starts_with(['{', '[', '|', '#']) {
        return None;
    }
    let at = content.find(": ").or_else(|| content.ends_with(':').then(|| content.len() - 1))?;
    Some((content[..at].trim_end().to_owned(), content[at + 1..].trim_start()))
}

/// Flow style, JSON included.
struct Flow<'t> {
    rest: &'t str,
}

impl Flow<'_> {
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, after)| after);
        }
    }

    fn at_end(&mut self) -> bool {
        self.skip();
        self.rest.is_empty()
    }

    fn take(&mut self, c: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self) -> Result<Yaml, String> {
        if self.take('[') {
            let mut items = Vec::new();
            while !self.take(']') {
                items.push(self.value()?);
                if !self.take(',') && !self.rest.starts_with(']') {
                    return Err("did not find expected ',' or ']'".to_owned());
                }
            }
            return Ok(Yaml::List(items));
        }
        if self.take('{') {
            let mut entries: Vec<(String, Yaml)> = Vec::new();
            while !self.take('}') {
                let Yaml::Scalar { text: key, .. } = self.value()? else {
                    return Err("a key that is no text".to_owned());
                };
                if !self.take(':') {
                    return Err(format!("a value for {key:?} is missing"));
                }
                let value = self.value()?;
                if entries.iter().any(|(known, _)| *known == key) {
                    return Err(format!("mapping key {key:?} already defined"));
                }
                entries.push((key, value));
                if !self.take(',') && !self.rest.starts_with('}') {
                    return Err("did not find expected ',' or '}'".to_owned());
                }
            }
            return Ok(Yaml::Map(entries));
        }
        self.skip();
        if self.rest.starts_with(['"', '\'']) { self.quoted() } else { Ok(self.plain()) }
    }

    fn plain(&mut self) -> Yaml {
        let ends = |(at, c): (usize, char)| {
            let next = self.rest[at + c.len_utf8()..].chars().next();
            ",[]{}\n".contains(c) || (c == ':' && next.is_none_or(|next| " ,]}\n".contains(next)))
        };
        let end = self.rest.char_indices().find(|found| ends(*found)).map_or(self.rest.len(), |(at, _)| at);
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Yaml::Scalar { text: text.trim_end().to_owned(), quoted: false }
    }

    fn quoted(&mut self) -> Result<Yaml, String> {
        let quote = self.rest.chars().next().unwrap_or('"');
        let mut text = String::new();
        let mut chars = self.rest[1..].char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\n' {
                return Err("quoted text over several lines is not simulated here".to_owned());
            }
            if c == quote {
                if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') {
                    text.push('\'');
                    chars.next();
                    continue;
                }
                self.rest = &self.rest[1 + at + 1..];
                return Ok(Yaml::Scalar { text, quoted: true });
            }
            if c != '\\' || quote == '\'' {
                text.push(c);
                continue;
            }
            let Some((_, escaped)) = chars.next() else { break };
            let digits = match escaped {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            if digits == 0 {
                text.push(unescape(escaped).ok_or_else(|| format!("unknown escape \\{escaped}"))?);
                continue;
            }
            let code: String = chars.by_ref().take(digits).map(|(_, digit)| digit).collect();
            let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
            text.push(code.ok_or("found invalid Unicode character escape code")?);
        }
        Err("found unexpected end of stream in a quoted text".to_owned())
    }
}

fn unescape(c: char) -> Option<char> {
    Some(match c {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        ' ' | '"' | '\'' | '\\' | '/' => c,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_and_flow_say_the_same() {
        let block = "# c\ncustomization:\n  extraKernelArgs: # here\n  - a # b\n  - 'it''s'\n  meta:\n    - key: 0xa\n      value: |\n        one\n         two\n\n  systemExtensions:\n    officialExtensions: [x, \"y\\u0041\"]\n";
        let flow = r#"{"customization": {"extraKernelArgs": ["a", "it's"], "meta": [{"key": 0xa, "value": "one\n two\n"}],
            "systemExtensions": {"officialExtensions": ["x", "yA"]}}}"#;
        let plain = |yaml: Yaml| format!("{yaml:?}").replace("quoted: true", "quoted: false");
        assert_eq!(plain(read(block).unwrap()), plain(read(flow).unwrap()));
    }

    #[test]
    fn what_is_broken_is_refused() {
        for bad in [
            "",
            "# c",
            "a: [1",
            "{a: 1",
            "a: 'x",
            "a: 1\n b: 2",
            "a: *x",
            "a: 1\na: 2",
            "{a: 1} x",
            "a: b: c",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
