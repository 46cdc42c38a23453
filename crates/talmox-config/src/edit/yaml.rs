//! Values as they are written into a file.

use talmox_yaml::{PlainMeaning, Scalar, Style};

/// A value to be written: on one line, in the style people write such values in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Yaml {
    Bool(bool),
    Integer(i64),
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "names, addresses and texts are handed in as they come"
    )]
    pub fn text(text: impl ToString) -> Self {
        Self::Text(text.to_string())
    }

    /// On one line.
    pub fn print(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Text(text) => scalar(text),
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::print).collect::<Vec<_>>().join(", "))
            }
            Self::Map(entries) => {
                let pairs: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", scalar(key), value.print()))
                    .collect();
                format!("{{{}}}", pairs.join(", "))
            }
        }
    }
}

/// Text without quotes where every reader of YAML takes it for the same text, in quotes elsewhere.
fn scalar(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    // A MAC address of digits alone is a number in base 60 to some; others never are.
    let plain = begins_well && text.chars().all(|c| harmless(c) || c == ':') && !text.ends_with(':');
    let written = Scalar { text: text.to_owned(), style: Style::Plain };
    if plain && written.meaning() == PlainMeaning::Text {
        text.to_owned()
    } else {
        let escaped: String = text.chars().map(escape).collect();
        format!("\"{escaped}\"")
    }
}

fn escape(character: char) -> String {
    match character {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        control if control.is_control() => format!("\\u{:04x}", u32::from(control)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same_text() {
        for text in [
            "vmbr0",
            "BC:24:11:00:01:01",
            "10:20:30:40:50:06",
            "no",
            "",
            "0755",
            "a b",
            "x-3.1",
            "1.10",
            "{a}",
            "quote\"and\\",
            "-",
            "local-zfs",
            "null",
            "10.0.7.11",
            "a: b",
            "#x",
            "tab\there",
            "fd00::1",
            "*a",
        ] {
            let written = format!("k: {}\n", Yaml::text(text).print());
            let parsed = talmox_yaml::parse(&written);
            assert!(parsed.faults.is_empty(), "{written}");
            let talmox_yaml::NodeKind::Mapping(entries) = &parsed.documents[0].kind else {
                panic!("{written}")
            };
            let read = entries[0].value.as_scalar().unwrap();
            assert_eq!((read.text.as_str(), read.meaning()), (text, PlainMeaning::Text), "{written}");
        }
        let list = Yaml::List(vec![Yaml::Map(vec![
            ("slot".into(), Yaml::Integer(1)),
            ("on".into(), Yaml::Bool(true)),
        ])]);
        assert_eq!(list.print(), "[{slot: 1, \"on\": true}]");
    }
}
