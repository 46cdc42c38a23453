//! References in patches, replaced after the patch is parsed.
//!
//! A value therefore never changes what a patch is made of. Only what has braces is a reference: `$patch: delete` is Talos' and
//! stays, and so does `$NAME`. `$${` stands for a literal `${`, and `$$patch` for `$patch`, which is how other tools need it to be
//! written. In comments nothing is replaced, nor in a line of a block of text that looks like one: a patch that is commented out
//! must not ask for its variables.
//!
//! Braces and defaults may be anything but YAML (`{a: ${X}}`, `${X:-b: c}`). So before the text is parsed a stand-in takes the
//! place of each reference: as many bytes, and a character from Unicode's private areas in front, which says which one it is.

use std::collections::{BTreeMap, BTreeSet};

use talmox_machine::patch::{Filling, Leaf, Quoting, Tree};
use talmox_machine::{Faults, Source, Value, read_values};

use crate::variables::{InvalidVariable, Reference, Unset, Variables};

/// A patch with its references replaced, and those that have no value.
pub(crate) struct Substituted {
    pub tree: Tree,
    pub unset: BTreeSet<Unset>,
}

/// Why a text cannot be a patch, whatever its variables are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Variable(InvalidVariable),
    Faults(Faults),
}

/// Parses a patch and replaces what it refers to.
pub(crate) fn substitute(source: Source<'_>, variables: &Variables) -> Result<Substituted, Unusable> {
    let invalid = |line, message| {
        Unusable::Variable(InvalidVariable { source_name: source.name.to_owned(), line, message })
    };
    let mut unset = BTreeSet::new();
    let stand_ins = StandIns::find(source.text).map_err(|(line, message)| invalid(line, message))?;
    if stand_ins.is_empty() {
        let tree = Tree::parse(source).map_err(Unusable::Faults)?;
        return Ok(Substituted { tree, unset });
    }
    let restored = |faults: Faults| {
        let Faults(mut faults) = faults;
        for fault in &mut faults {
            fault.message = stand_ins.restore(&fault.message);
            fault.place.path = stand_ins.restore(&fault.place.path);
        }
        Unusable::Faults(Faults(faults))
    };
    let mut tree = Tree::parse_as(source, &stand_ins.text).map_err(restored)?;
    let mut wrong = None;
    let filled = tree.fill(&mut |leaf| {
        let replaced = stand_ins.replace(leaf, variables, |name, is_empty| {
            let source_name = source.name.to_owned();
            unset.insert(Unset { source_name, line: leaf.line(), name: name.to_owned(), is_empty });
        });
        replaced.unwrap_or_else(|message| {
            wrong.get_or_insert_with(|| invalid(leaf.line(), message));
            None
        })
    });
    match wrong {
        Some(wrong) => Err(wrong),
        // Without a value two keys may look alike that are not.
        None if unset.is_empty() => {
            filled.map_err(restored)?;
            Ok(Substituted { tree, unset })
        }
        None => Ok(Substituted { tree, unset }),
    }
}

/// What the documents of a text say once its references are replaced.
pub fn values(source: Source<'_>, variables: &Variables) -> Result<Vec<Value>, String> {
    match substitute(source, variables) {
        Ok(Substituted { tree, unset }) => match unset.first() {
            Some(unset) => Err(unset.to_string()),
            None => Ok(tree.values()),
        },
        Err(Unusable::Variable(invalid)) => Err(invalid.to_string()),
        Err(Unusable::Faults(faults)) => Err(faults.to_string()),
    }
}

/// The names a patch refers to without a default, or none if it is no patch.
pub fn names(source: Source<'_>) -> BTreeSet<String> {
    let substituted = substitute(source, &Variables::default());
    substituted.map(|found| found.unset.into_iter().map(|unset| unset.name).collect()).unwrap_or_default()
}

/// What a stand-in stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meant {
    /// What is between the braces.
    Reference(String),
    /// Something that stays, as it is written and what it is.
    Literal { written: String, text: String },
}

impl Meant {
    fn literal(written: &str, text: &str) -> Self {
        Self::Literal { written: written.to_owned(), text: text.to_owned() }
    }

    fn written(&self) -> String {
        match self {
            Self::Reference(inside) => format!("${{{inside}}}"),
            Self::Literal { written, .. } => written.clone(),
        }
    }
}

/// Characters nobody writes, of three bytes and of four, so that a stand-in fits into any reference.
const THREE_BYTES: std::ops::RangeInclusive<u32> = 0xE000..=0xF8FF;
const FOUR_BYTES: [std::ops::RangeInclusive<u32>; 2] = [0xF_0000..=0xF_FFFD, 0x10_0000..=0x10_FFFD];

/// Fills a stand-in up to the length of what it stands for. In a scalar without quotes it has no meaning to YAML.
const FILLER: char = 'x';

/// A text with stand-ins, and what they stand for.
struct StandIns {
    text: String,
    meant: BTreeMap<char, Meant>,
}

impl StandIns {
    /// Finds references line by line. An error has its line.
    fn find(text: &str) -> Result<Self, (usize, String)> {
        let mut found = Builder::default();
        if !text.contains('$') {
            return Ok(Self { text: String::new(), meant: found.characters });
        }
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let kept = if line.trim_start().starts_with('#') { found.keep(line) } else { found.line(line) };
            kept.map_err(|message| (index + 1, message))?;
        }
        Ok(Self { text: found.text, meant: found.characters })
    }

    fn is_empty(&self) -> bool {
        self.meant.is_empty()
    }

    /// A text as it was written.
    fn restore(&self, text: &str) -> String {
        self.pieces(text)
            .map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::StandIn(meant) => meant.written(),
            })
            .collect()
    }

    fn pieces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Piece<'a>> + 'a {
        let mut rest = text;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            if let Some(meant) = self.meant.get(&first) {
                let fillers = meant.written().len() - first.len_utf8();
                rest = rest[first.len_utf8()..].get(fillers..).unwrap_or_default();
                return Some(Piece::StandIn(meant));
            }
            let end = rest.find(|c| self.meant.contains_key(&c)).unwrap_or(rest.len());
            let (text, after) = rest.split_at(end);
            rest = after;
            Some(Piece::Text(text))
        })
    }

    /// What takes the place of a scalar; nothing if nothing in it is a stand-in. `unset` is told of names without a value.
    fn replace(
        &self,
        leaf: Leaf<'_>,
        variables: &Variables,
        mut unset: impl FnMut(&str, bool),
    ) -> Result<Option<Filling>, String> {
        if !leaf.text.contains(|c| self.meant.contains_key(&c)) {
            return Ok(None);
        }
        let pieces: Vec<Piece<'_>> = self.pieces(leaf.text).collect();
        let mut text = String::new();
        for piece in &pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::StandIn(Meant::Literal { text: literal, .. }) => text.push_str(literal),
                Piece::StandIn(Meant::Reference(inside)) => {
                    let reference = Reference::parse(inside)?;
                    let known = variables.get(reference.name);
                    let filled = known.filter(|value| !value.is_empty());
                    match (filled, known, reference.default) {
                        (Some(value), ..) => text.push_str(value),
                        // It is empty, and may be.
                        (None, Some(_), Some(default)) if !default.if_empty => {}
                        (None, _, Some(default)) => text.push_str(&unquoted(default.text, leaf.quoting)),
                        (None, known, None) => unset(reference.name, known.is_some()),
                    }
                }
            }
        }
        let is_one_reference = matches!(pieces.as_slice(), [Piece::StandIn(Meant::Reference(_))]);
        Ok(Some(if is_one_reference && leaf.quoting == Quoting::Plain {
            Filling::Typed(text)
        } else {
            Filling::Text(text)
        }))
    }
}

/// A default as it is meant: in quotes it is written with their escapes.
fn unquoted(default: &str, quoting: Quoting) -> String {
    match quoting {
        Quoting::Plain | Quoting::Block => default.to_owned(),
        Quoting::Single => default.replace("''", "'"),
        Quoting::Double => {
            let read = read_values(Source { name: "a default", text: &format!("\"{default}\"") });
            match read.as_deref() {
                Ok([Value::Text(text)]) => text.clone(),
                Ok(_) | Err(_) => default.to_owned(),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Piece<'a> {
    Text(&'a str),
    StandIn(&'a Meant),
}

#[derive(Default)]
struct Builder {
    text: String,
    characters: BTreeMap<char, Meant>,
    known: BTreeMap<Meant, char>,
    three_bytes: u32,
    four_bytes: u32,
}

impl Builder {
    /// A line in which nothing is replaced. What could be taken for a stand-in gets one itself.
    fn keep(&mut self, line: &str) -> Result<(), String> {
        for character in line.chars() {
            self.character(character)?;
        }
        Ok(())
    }

    fn character(&mut self, character: char) -> Result<(), String> {
        let code = u32::from(character);
        if THREE_BYTES.contains(&code) || FOUR_BYTES.iter().any(|range| range.contains(&code)) {
            let written = character.to_string();
            return self.stand_in(Meant::literal(&written, &written));
        }
        self.text.push(character);
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut rest = line;
        while let Some(at) = rest.find('$') {
            self.keep(&rest[..at])?;
            rest = &rest[at..];
            rest = if let Some(after) = rest.strip_prefix("$${") {
                self.stand_in(Meant::literal("$${", "${"))?;
                after
            } else if let Some(after) = rest.strip_prefix("$$patch") {
                self.stand_in(Meant::literal("$$patch", "$patch"))?;
                after
            } else if let Some(inside) = rest.strip_prefix("${") {
                let Some(end) = inside.find('}') else {
                    return Err("`${` without `}`; write `$${` for a literal one".to_owned());
                };
                // Shorter ones have no name, and no room for a stand-in.
                if end == 0 {
                    return Err(Reference::parse("").err().unwrap_or_default());
                }
                self.stand_in(Meant::Reference(inside[..end].to_owned()))?;
                &inside[end + 1..]
            } else {
                self.text.push('$');
                &rest[1..]
            };
        }
        self.keep(rest)
    }

    fn stand_in(&mut self, meant: Meant) -> Result<(), String> {
        let length = meant.written().len();
        let character = match self.known.get(&meant) {
            Some(known) => *known,
            None => self.unused(length).ok_or("too many different variables in one patch")?,
        };
        self.text.push(character);
        self.text.extend(std::iter::repeat_n(FILLER, length - character.len_utf8()));
        self.known.insert(meant.clone(), character);
        self.characters.insert(character, meant);
        Ok(())
    }

    fn unused(&mut self, length: usize) -> Option<char> {
        let (mut ranges, count) = if length < 4 {
            (vec![THREE_BYTES], &mut self.three_bytes)
        } else {
            (FOUR_BYTES.to_vec(), &mut self.four_bytes)
        };
        let index = usize::try_from(*count).ok()?;
        *count += 1;
        ranges.iter_mut().flatten().nth(index).and_then(char::from_u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<Vec<Value>, String> {
        let pairs = [
            ("NAME", "lab"),
            ("EMPTY", ""),
            ("_x1", "under"),
            ("PORT", "8080"),
            ("YES", "true"),
            ("MAP", "{a: 1}"),
            ("PAIR", "user: value"),
            ("LIST", "- x"),
            ("ANCHOR", "&a x # no comment"),
            ("LINES", "one\ntwo: 2\n"),
            ("BACK", "\\n\"'"),
        ];
        let variables = pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        values(Source { name: "patch.yaml", text }, &variables)
    }

    /// What `a` is.
    fn a(text: &str) -> Value {
        said(text).unwrap_or_else(|why| panic!("{text}: {why}"))[0].at(&["a"]).unwrap().clone()
    }

    #[test]
    fn what_has_braces_is_replaced_and_nothing_else() {
        for (text, expected) in [
            ("a: ${NAME}\n", "lab"),
            ("a: ${NAME}${_x1}", "labunder"),
            ("a: \"${NAME}-x\"", "lab-x"),
            ("a: '${NAME}'", "lab"),
            ("a: x $NAME $ $1 100$", "x $NAME $ $1 100$"),
            ("a: $patch", "$patch"),
            ("a: $$patch", "$patch"),
            ("a: x $${NAME} $$ $$x", "x ${NAME} $$ $$x"),
            ("a: $$${NAME}", "$${NAME}"),
            ("a: ${NONE:-b c}", "b c"),
            ("a: ${EMPTY:-b}", "b"),
            ("a: \"${EMPTY-b}\"", ""),
            ("a: ${NONE-b}", "b"),
            ("a: ${NAME:-b}", "lab"),
            ("a: \"${NONE:-}\"", ""),
            ("a: ä ${NAME} ü", "ä lab ü"),
            ("{a: ${NAME}}", "lab"),
            ("{a: ${NONE:-b: [c]}, d: 1}", "b: [c]"),
            ("a: \"${NONE:-b\\\"c\\td}\"", "b\"c\td"),
            ("a: '${NONE:-it''s}'", "it's"),
            ("a: \"${BACK}\"", "\\n\"'"),
            ("a: |\n  # ${NONE}\n  ${NAME} $${X}\n", "# ${NONE}\nlab ${X}\n"),
            ("a: \"${LINES}\"", "one\ntwo: 2\n"),
            ("a: \u{e000}\u{f0000} ${NAME}", "\u{e000}\u{f0000} lab"),
            ("# \u{e000} ${NONE}\na: x # ${NONE}\n", "x"),
        ] {
            assert!(a(text) == Value::text(expected), "{text}: {}", talmox_machine::print(&a(text)));
        }
    }

    #[test]
    fn a_scalar_that_is_one_reference_has_the_type_of_the_value_and_stays_a_scalar() {
        for (text, expected) in [
            ("a: ${PORT}", Value::Integer(8080)),
            ("{a: ${PORT}}", Value::Integer(8080)),
            ("a: ${NONE:-8080}", Value::Integer(8080)),
            ("a: \"${PORT}\"", Value::text("8080")),
            ("a: ${PORT}0", Value::text("80800")),
            ("a: x-${PORT}", Value::text("x-8080")),
            ("a: |-\n  ${PORT}", Value::text("8080")),
            ("a: ${YES}", Value::Bool(true)),
            ("a: '${YES}'", Value::text("true")),
            ("a: !!str ${PORT}", Value::text("8080")),
            ("a: ${EMPTY-}", Value::Null),
            ("a: ${MAP}", Value::text("{a: 1}")),
            ("a: ${PAIR}", Value::text("user: value")),
            ("a: ${LIST}", Value::text("- x")),
            ("a: ${ANCHOR}", Value::text("&a x # no comment")),
            ("a: ${LINES}", Value::text("one\ntwo: 2\n")),
        ] {
            assert!(a(text) == expected, "{text}: {}", talmox_machine::print(&a(text)));
        }
    }

    #[test]
    fn keys_are_replaced_too() {
        let keys = |text: &str| {
            let values = said(text).unwrap();
            values[0].as_map().unwrap().keys().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(keys("${NAME}: 1\n\"x-${PORT}\": 2\n"), ["lab", "x-8080"]);
        assert_eq!(keys("$$patch: delete"), ["$patch"]);
        assert_eq!(keys("{${PAIR}: 1}"), ["user: value"]);
        let error = said("b: 1\nc: {x: 1, lab: 2, ${NAME}: 3}\n").unwrap_err();
        assert!(error.starts_with("patch.yaml:2:19: c: two keys are the same"), "{error}");
        let error = said("${NAME}: 1\n${NAME}: 2\n").unwrap_err();
        assert!(error.contains("`${NAME}` is there twice"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, part) in [
            ("a: 1\nb: ${NONE}", "patch.yaml:2: the variable NONE is not set"),
            ("a: ${EMPTY}", "patch.yaml:1: the variable EMPTY is empty"),
            ("a: 1\nb: ${NAME:+x}", "patch.yaml:2: `${NAME:+x}` is no variable"),
            ("a: ${NAME##*}", "is no variable"),
            ("a: ${}", "is no variable"),
            ("a: ${1}", "is no variable"),
            ("a: 1\nb: ${NAME", "patch.yaml:2: `${` without `}`"),
            ("a: [${NAME}\n", "patch.yaml:"),
        ] {
            let error = said(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn names_are_those_without_a_default() {
        let text = "a: ${B} ${A} ${C:-c}\n# ${D}\n${E}: [\"${EMPTY}\"]\nf: $${G} # ${H}\n";
        let found = names(Source { name: "p", text });
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["A", "B", "E", "EMPTY"]);
        assert!(names(Source { name: "p", text: "[${A}" }).is_empty());
    }
}
