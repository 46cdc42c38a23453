//! What a bundle holds: never a secret.

use serde::Serialize;
use talmox_machine::Time;
use talmox_machine::secrets::Held;

use super::plan_text::{RED, YELLOW};
use super::table::{Cell, table};
use super::text::safe;

/// Days before the end of a certificate from which on it is shown in colour.
const SOON: i64 = 90;

/// For programs; the screen is made of it too.
#[derive(Serialize)]
pub(crate) struct SecretsData {
    file: String,
    encrypted: bool,
    /// Who may read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recipients: Vec<String>,
    held: Vec<HeldData>,
}

#[derive(Serialize)]
struct HeldData {
    name: &'static str,
    /// When it ends, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    days_left: Option<i64>,
}

impl SecretsData {
    /// `recipients` are those of an encrypted file.
    pub(crate) fn new(file: String, recipients: Option<Vec<String>>, held: Vec<Held>, now: Time) -> Self {
        let held = held.into_iter().map(|Held { name, ends }| HeldData {
            name,
            days_left: ends.map(|ends| now.days_until(ends)),
            ends: ends.map(|ends| ends.to_string()),
        });
        Self {
            file,
            encrypted: recipients.is_some(),
            recipients: recipients.unwrap_or_default(),
            held: held.collect(),
        }
    }
}

pub(crate) fn secrets_text(data: &SecretsData) -> String {
    let protection = if data.encrypted {
        let names: Vec<String> = data.recipients.iter().map(|name| safe(name)).collect();
        format!("encrypted for {}", names.join(", "))
    } else {
        "plain text".to_owned()
    };
    let rows = data.held.iter().map(|held| {
        let left = held.days_left.map(|days| Cell {
            text: if days < 0 { "ended".to_owned() } else { format!("{days} days") },
            style: match days {
                ..0 => RED,
                0..SOON => YELLOW,
                _ => anstyle::Style::new(),
            },
        });
        let ends = held.ends.clone().unwrap_or_else(|| "-".to_owned());
        vec![
            Cell::plain(held.name.to_owned()),
            Cell::plain(ends),
            left.unwrap_or_else(|| Cell::plain(String::new())),
        ]
    });
    format!("{}, {protection}\n\n{}", safe(&data.file), table(&["SECRET", "ENDS", "LEFT"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_is_shown_with_its_time() {
        let now = Time::from_unix(1_790_000_000);
        let held = vec![
            Held { name: "cluster secret", ends: None },
            Held { name: "Talos authority", ends: Some(now.plus(40 * 86_400)) },
            Held { name: "etcd authority", ends: Some(now.plus(-1)) },
        ];
        let data = SecretsData::new("secrets.yaml".to_owned(), None, held, now);
        let text = anstream::adapter::strip_str(&secrets_text(&data)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "secrets.yaml, plain text",
            "",
            "SECRET           ENDS                  LEFT",
            "cluster secret   -",
            "Talos authority  2026-10-31T14:13:20Z  40 days",
            "etcd authority   2026-09-21T14:13:19Z  ended",
        ];
        assert_eq!(lines, expected);
    }
}
