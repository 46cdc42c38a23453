//! A plan for a pull request.

use talmox_plan::{Applies, Planned};

use super::places::Places;
use super::plan_text::{difference, sum, volume_size};
use super::story::{Act, Sign, Story};
use super::text::{safe, short_uid};
use super::things::details;
use super::waiting::waits;
use super::words::{change_mode, deed};

/// A table, the sum, and the rest folded away. Nothing from elsewhere can end a cell, a line or a code span.
pub(crate) fn plan_markdown(story: &Story<'_>, places: &Places) -> String {
    let plan = story.plan;
    let uid =
        plan.uid.as_ref().map_or_else(|| "no uid yet".to_owned(), |uid| format!("uid {}", short_uid(uid)));
    let mut text = format!("### talmox plan: {} ({uid})\n\n", cell(plan.cluster.as_str()));
    if plan.is_empty() && plan.refusals.is_empty() {
        text.push_str("No changes.\n");
    } else {
        let line = anstream::adapter::strip_str(&sum(story)).to_string();
        text.push_str(&format!("**{}**\n", cell(line.trim_end())));
    }
    if !story.acts.is_empty() {
        text.push_str("\n| | what | name | at | details |\n|---|---|---|---|---|\n");
        for act in &story.acts {
            text.push_str(&row(story, act, places));
        }
    }
    for refusal in &plan.refusals {
        let node = refusal.node.as_ref().map_or_else(String::new, |node| format!("{node}: "));
        text.push_str(&format!("\n> **Refused:** {}\n", cell(&format!("{node}{}", refusal.problem))));
        for choice in &refusal.choices {
            text.push_str(&format!("> - {}\n", cell(choice)));
        }
    }
    text + &bullets(story) + &steps(story)
}

fn row(story: &Story<'_>, act: &Act<'_>, places: &Places) -> String {
    let told = details(act);
    let at = act.at.map_or_else(String::new, |(vmid, host)| format!("{vmid} on {host}"));
    let (at, told) = told.split_first().map_or((at, &[][..]), |(first, rest)| (cell(first), rest));
    let details = match (act.sign, story.machine(act)) {
        (Sign::Create | Sign::Replace, Some(machine)) => {
            vec![cell(&[machine.cpu, machine.memory, machine.disk, machine.address].join(", "))]
        }
        _ => told.iter().map(|line| cell(line)).collect(),
    };
    let changes = act.changes().filter(|_| act.sign == Sign::Change).map(|change| {
        let reboot = if change.applies == Applies::Now { "" } else { ", needs a reboot" };
        let place = act.node().zip(change.field.as_deref()).and_then(|(node, field)| places.get(node, field));
        let place = place.map_or_else(String::new, |place| format!(" ({})", cell(place)));
        format!("{}{reboot}{place}", code(&difference(change)))
    });
    let is_told = |planned: &&&Planned| {
        act.sign == Sign::Change && (planned.changes.is_empty() || change_mode(&planned.step).is_some())
    };
    let deeds = act.steps.iter().filter(is_told).map(|planned| cell(&deed(&planned.step)));
    let lost = act.destroys().map(|volume| {
        let bytes = volume_size(volume);
        format!("destroys {} {bytes}", code(&volume.volume.to_string()))
    });
    let purged = act.purges().map(|place| format!("leaves {}", cell(place)));
    let details: Vec<String> =
        details.into_iter().chain(changes).chain(deeds).chain(lost).chain(purged).collect();
    let sign = act.sign.symbol();
    format!("| `{sign}` | {} | {} | {at} | {} |\n", act.kind(), cell(act.name()), details.join("<br>"))
}

fn bullets(story: &Story<'_>) -> String {
    let about = |node: Option<&talmox_types::NodeName>, text: &str| match node {
        Some(node) => format!("- {node}: {}\n", cell(text)),
        None => format!("- {}\n", cell(text)),
    };
    let waiting: String =
        story.plan.waiting.iter().map(|waiting| format!("- {}\n", cell(&waits(waiting)))).collect();
    let notes: String = story.plan.notes.iter().map(|note| about(note.node.as_ref(), &note.text)).collect();
    let titled = |title: &str, list: String| {
        if list.is_empty() { list } else { format!("\n**{title}**\n\n{list}") }
    };
    titled("Waits for", waiting) + &titled("Notes", notes)
}

fn steps(story: &Story<'_>) -> String {
    if story.plan.steps.is_empty() {
        return String::new();
    }
    let lines: String = story
        .plan
        .steps
        .iter()
        .map(|planned| format!("1. {} {}\n", code(planned.id.as_str()), cell(&planned.reason)))
        .collect();
    format!("\n<details><summary>{} steps</summary>\n\n{lines}\n</details>\n", story.plan.steps.len())
}

/// Plain text: every character that means something to Markdown or HTML is escaped.
fn cell(text: &str) -> String {
    let mut escaped = String::new();
    for character in safe(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // An at-sign would call somebody, a number sign another issue.
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '~' | '!' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// A code span inside a table: nothing can be escaped in one but `|`, so text with a backtick is no code.
fn code(text: &str) -> String {
    let text = safe(text);
    if text.contains('`') { cell(&text) } else { format!("`{}`", text.replace('|', "\\|")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_elsewhere_gets_out_of_its_cell() {
        assert_eq!(cell("a|b`c<img>\n@x *y*"), "a\\|b\\`c&lt;img&gt; · &#64;x \\*y\\*");
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a`|b"), "a\\`\\|b");
    }
}
