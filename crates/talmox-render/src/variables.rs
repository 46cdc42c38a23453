//! `${NAME}` in patches, replaced before they are read.
//!
//! Only what has braces is a variable: `$patch: delete` is Talos' and stays, and so does `$NAME`. `$${` stands for a literal
//! `${`, and `$$patch` for `$patch`, which is how other tools had to have it written. In a line that is a comment nothing
//! is replaced: a patch that is commented out must not ask for its variables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use talmox_machine::Hidden;

/// What variables stand for. `Debug` shows names only: values may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, String>,
    /// Names of those that are in a file of their own: kept for the cluster, they are hidden whether a patch names them or not.
    kept: BTreeSet<String>,
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Takes those of a file, which come before others.
    pub fn keep(&mut self, pairs: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in pairs {
            self.kept.insert(name.clone());
            self.values.insert(name, value);
        }
    }

    /// What is not to be shown of a configuration that patches made: all that is kept, and what they took from elsewhere.
    pub(crate) fn hidden(&self, used: &BTreeSet<String>) -> Hidden {
        self.kept.union(used).filter_map(|name| self.get(name)).collect()
    }
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self { values: pairs.into_iter().collect(), kept: BTreeSet::new() }
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// A variable that stands for nothing, or is not written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{line}: {message}")]
pub struct InvalidVariable {
    pub source_name: String,
    pub line: usize,
    pub message: String,
}

/// The text with its variables replaced.
pub fn substitute(name: &str, text: &str, variables: &Variables) -> Result<String, InvalidVariable> {
    substitute_and_note(name, text, variables, &mut BTreeSet::new())
}

/// The same, and the names of those that were put in.
pub(crate) fn substitute_and_note(
    name: &str,
    text: &str,
    variables: &Variables,
    used: &mut BTreeSet<String>,
) -> Result<String, InvalidVariable> {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_start().starts_with('#') {
            out.push_str(line);
            continue;
        }
        replace(line, variables, &mut out, used).map_err(|message| InvalidVariable {
            source_name: name.to_owned(),
            line: index + 1,
            message,
        })?;
    }
    Ok(out)
}

fn replace(
    line: &str,
    variables: &Variables,
    out: &mut String,
    used: &mut BTreeSet<String>,
) -> Result<(), String> {
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = if rest.starts_with("$${") || rest.starts_with("$$patch") {
            out.push('$');
            // What follows is taken as it is, the second `$` is the literal one.
            rest = &rest[2..];
            continue;
        } else if let Some(inside) = rest.strip_prefix("${") {
            let Some(end) = inside.find('}') else {
                return Err("`${` without `}`; write `$${` for a literal one".to_owned());
            };
            out.push_str(&value(&inside[..end], variables, used)?);
            &inside[end + 1..]
        } else {
            out.push('$');
            &rest[1..]
        };
    }
    out.push_str(rest);
    Ok(())
}

/// What `NAME`, `NAME:-default` or `NAME-default` stands for.
fn value(inside: &str, variables: &Variables, used: &mut BTreeSet<String>) -> Result<String, String> {
    let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
    let (name, form) = inside.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(not_understood(inside));
    }
    let known = variables.get(name);
    used.extend(known.map(|_| name.to_owned()));
    let filled = known.filter(|value| !value.is_empty());
    if form.is_empty() {
        let what = if known.is_some() { "empty" } else { "not set" };
        return filled.map(str::to_owned).ok_or_else(|| {
            format!(
                "the variable {name} is {what}; set it, give it a default (${{{name}:-…}}), or write $${{{name}}} for a literal"
            )
        });
    }
    if let Some(default) = form.strip_prefix(":-") {
        return Ok(filled.unwrap_or(default).to_owned());
    }
    match form.strip_prefix('-') {
        Some(default) => Ok(known.unwrap_or(default).to_owned()),
        None => Err(not_understood(inside)),
    }
}

fn not_understood(inside: &str) -> String {
    format!(
        "`${{{inside}}}` is no variable: ${{NAME}}, ${{NAME:-default}} and ${{NAME-default}} are; write $${{{inside}}} for a literal"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str) -> Result<String, String> {
        let pairs = [("NAME", "lab"), ("EMPTY", ""), ("_x1", "under")];
        let variables = pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        substitute("patch.yaml", text, &variables).map_err(|error| error.to_string())
    }

    #[test]
    fn what_has_braces_is_replaced_and_nothing_else() {
        for (text, expected) in [
            ("a: ${NAME}\n", "a: lab\n"),
            ("${NAME}${_x1}", "labunder"),
            ("a: $NAME $ $1 100$", "a: $NAME $ $1 100$"),
            ("$patch: delete", "$patch: delete"),
            ("$$patch: delete", "$patch: delete"),
            ("a: $${NAME} $$ $$x", "a: ${NAME} $$ $$x"),
            ("a: ${NONE:-b c}", "a: b c"),
            ("a: ${EMPTY:-b}", "a: b"),
            ("a: ${EMPTY-b}", "a: "),
            ("a: ${NONE-b}", "a: b"),
            ("a: ${NAME:-b}", "a: lab"),
            ("a: ${NONE:-}", "a: "),
            ("  # ${NONE}\na: 1", "  # ${NONE}\na: 1"),
            ("ä: ${NAME} ü", "ä: lab ü"),
        ] {
            assert_eq!(replaced(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_stands_for_nothing_is_told_with_its_place() {
        for (text, part) in [
            ("a: 1\nb: ${NONE}", "patch.yaml:2: the variable NONE is not set"),
            ("a: ${EMPTY}", "patch.yaml:1: the variable EMPTY is empty"),
            ("a: ${NAME:+x}", "is no variable"),
            ("a: ${NAME##*}", "is no variable"),
            ("a: ${}", "is no variable"),
            ("a: ${1}", "is no variable"),
            ("a: ${NAME", "without `}`"),
        ] {
            let error = replaced(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_patches_took_is_hidden_and_so_is_what_is_kept() {
        let mut variables: Variables = [("TOKEN", "hush-hush"), ("HOME", "/home/ann")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into_iter()
            .collect();
        variables.keep([("OLD".to_owned(), "swordfish".to_owned())]);
        let mut used = BTreeSet::new();
        let text = "a: ${TOKEN}\nb: ${NONE:-plain-default}\n# ${HOME}\n";
        substitute_and_note("p", text, &variables, &mut used).unwrap();
        let hidden: Vec<String> = variables.hidden(&used).texts().map(str::to_owned).collect();
        assert_eq!(hidden, ["hush-hush", "swordfish"]);
    }

    #[test]
    fn debug_shows_no_values() {
        let variables: Variables = [("TOKEN".to_owned(), "hush-hush".to_owned())].into_iter().collect();
        let shown = format!("{variables:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hush-hush"), "{shown}");
    }
}
