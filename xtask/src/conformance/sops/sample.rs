//! Random YAML with values of every type, in every style, with comments wherever people put them.

/// What decides which values are encrypted, each in its turn.
pub(super) const RULES: [(&str, &str); 6] = [
    ("unencrypted_suffix", "_unencrypted"),
    ("encrypted_regex", "^(data|stringData|token|[a-f]+)$"),
    ("encrypted_suffix", "_unencrypted"),
    ("unencrypted_regex", "^(meta|[k-p])"),
    ("encrypted_comment_regex", "secret"),
    ("unencrypted_comment_regex", "public"),
];

const KEYS: [&str; 14] = [
    "token",
    "data",
    "stringData",
    "meta",
    "name_unencrypted",
    "key_unencrypted",
    "user",
    "abc",
    "kind",
    "plain-key",
    "with.dot",
    "\"quoted: key\"",
    "list",
    "überschrift",
];

const SCALARS: [&str; 40] = [
    "text",
    "a longer text with blanks",
    "\"quoted\\ttext\\u2028 \\\"x\\\"\"",
    "'it''s'",
    "\"\"",
    "null",
    "~",
    "",
    "true",
    "False",
    "yes",
    "12",
    "-7",
    "0755",
    "0o17",
    "0x1F",
    "0b101",
    "1_000",
    "9223372036854775807",
    "1.5",
    "1.0",
    "-2.5e-7",
    "1e21",
    ".5",
    ".inf",
    "-.inf",
    "2026-11-15",
    "2001-12-14t21:59:43.10-05:00",
    "2001-12-14 21:59:43.1",
    "10.0.7.11",
    "12:30:45",
    "!!str 12",
    "!!binary aGVsbG8=",
    "!!float 3",
    "https://pve.lan:8006",
    "root@pam!talmox=00000000-0000-0000-0000-000000000000",
    "größer — 世界 🙂",
    "[1, two, 3.5, [], {}]",
    "{a: 1, b: [x, y], c: null}",
    "ENC-not",
];

const COMMENTS: [&str; 6] = [" note", "secret: keep", " public", "", " größer # twice", "no blank"];

pub(super) struct Sampler {
    state: u64,
    out: String,
}

impl Sampler {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, out: String::new() }
    }

    /// Marsaglia's xorshift: the same numbers for the same seed, wherever it runs.
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from((self.state >> 11) % limit as u64).unwrap_or_default()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    /// A file of one or two documents.
    pub(super) fn file(mut self) -> String {
        if self.chance(30) {
            self.out.push_str("# About this file\n\n");
        }
        self.document(4);
        if self.chance(25) {
            self.out.push_str("---\n");
            self.document(2);
        }
        self.out
    }

    /// A document whose last line is a key: of a comment at its end that is indented, `sops` itself forgets where it stood.
    fn document(&mut self, least: usize) {
        self.mapping(0, 0, least);
        self.out.push_str("end: 1\n");
        if self.chance(20) {
            self.comment_line(0);
        }
    }

    fn blanks(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn comment_line(&mut self, indent: usize) {
        self.blanks(indent);
        let text = self.pick(&COMMENTS);
        self.out.push_str(&format!("#{text}\n"));
    }

    fn mapping(&mut self, indent: usize, depth: usize, least: usize) {
        let count = least + self.below(3);
        let start = self.below(KEYS.len());
        for number in 0..count {
            if self.chance(20) {
                self.comment_line(indent);
            }
            self.blanks(indent);
            self.out.push_str(&format!("{}:", KEYS[(start + number) % KEYS.len()]));
            self.value(indent, depth);
        }
        if depth > 0 && self.chance(10) {
            self.comment_line(indent);
        }
    }

    /// What follows a key.
    fn value(&mut self, indent: usize, depth: usize) {
        match self.below(10) {
            0 | 1 if depth < 3 => {
                self.beside(15);
                self.out.push('\n');
                self.mapping(indent + 2, depth + 1, 1);
            }
            2 | 3 if depth < 3 => {
                self.beside(15);
                self.out.push('\n');
                self.sequence(indent + 2, depth + 1);
            }
            4 => self.block(indent),
            _ => self.scalar(""),
        }
    }

    fn sequence(&mut self, indent: usize, depth: usize) {
        for _ in 0..=self.below(3) {
            if self.chance(15) {
                self.comment_line(indent);
            }
            self.blanks(indent);
            self.out.push('-');
            if depth < 3 && self.chance(30) {
                self.out.push(' ');
                let key = self.pick(&KEYS);
                self.out.push_str(&format!("{key}:"));
                self.scalar("");
            } else {
                // Of a comment before an item of nothing, `sops` forgets on which side it stood.
                self.scalar("null");
            }
        }
    }

    fn block(&mut self, indent: usize) {
        let header = self.pick(&["|", "|-", ">", ">-"]);
        self.out.push_str(&format!(" {header}\n"));
        for line in ["first line", "", "# no comment", "  further in", "key: value"] {
            if !line.is_empty() {
                self.blanks(indent + 2);
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    /// A scalar, with `nothing` for one of no text.
    fn scalar(&mut self, nothing: &str) {
        let text = self.pick(&SCALARS);
        let text = if text.is_empty() { nothing } else { text };
        if !text.is_empty() {
            self.out.push_str(&format!(" {text}"));
        }
        // Brackets and nothing at all have no place beside them that everybody counts to the same collection.
        if !text.is_empty() && !text.starts_with(['[', '{']) {
            self.beside(20);
        }
        self.out.push('\n');
    }

    fn beside(&mut self, percent: usize) {
        if self.chance(percent) {
            let text = self.pick(&COMMENTS);
            self.out.push_str(&format!(" #{text}"));
        }
    }
}
