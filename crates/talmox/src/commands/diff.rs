//! `talmox diff`

use std::path::Path;

use secrecy::ExposeSecret as _;
use serde::Serialize;
use talmox_machine::{Config, Difference, Source};

use super::Exit;
use super::configs::{Workshop, file_name, read_text};
use super::machines::Inside;
use super::shared::{Job, block_on};
use crate::args::{Diff, Format};
use crate::failure::Failure;
use crate::printer::{BOLD, DIM, GREEN, Printer, RED};
use crate::screens::plural;
use talmox_trust::Verb;

/// A difference, for programs.
#[derive(Serialize)]
struct Told<'d> {
    document: &'d str,
    path: &'d str,
    before: Option<&'d str>,
    after: Option<&'d str>,
}

pub(super) fn run(args: &Diff, printer: &Printer) -> anyhow::Result<Exit> {
    let (name, differences) = match &args.against {
        Some(against) => with_file(args, against, printer)?,
        None => block_on(with_node(args, printer))?,
    };
    match args.output.output {
        Format::Table => printer.data(&self::text(&name, &args.node, &differences))?,
        format @ (Format::Json | Format::Yaml) => {
            let told: Vec<Told<'_>> = differences.iter().map(Told::of).collect();
            printer.structured(format, &told)?;
        }
    }
    let changes = args.detailed_exitcode && !differences.is_empty();
    Ok(if changes { Exit::Changes } else { Exit::Done })
}

/// Against a machine configuration that somebody kept; gives its name too.
fn with_file(args: &Diff, against: &Path, printer: &Printer) -> anyhow::Result<(String, Vec<Difference>)> {
    let workshop = Workshop::open(Verb::Diff, &args.making, printer)?;
    let node = workshop.node(&args.node)?;
    let path = if against.is_dir() {
        against.join(file_name(&workshop.desired, &node.name))
    } else {
        against.to_owned()
    };
    let name = path.display().to_string();
    let text = read_text(&path)?;
    let before = parsed(&name, &text)?;
    let after = workshop.render(node, printer)?;
    Ok((name, before.differences_without(&after.config, &after.hidden)))
}

/// Against what the running node has.
async fn with_node(args: &Diff, printer: &Printer) -> anyhow::Result<(String, Vec<Difference>)> {
    let job = Job::open(Verb::Diff, &args.making.description, &args.making.connection, printer).await?;
    let job = job.with_variables(&args.making.variables);
    let result = running(&job, &args.node, printer).await;
    job.session.close().await?;
    result
}

async fn running(job: &Job, node: &str, printer: &Printer) -> anyhow::Result<(String, Vec<Difference>)> {
    let node = job.declared_node(node)?;
    let inside = Inside::open(job, printer)?;
    if !inside.has_secrets() {
        return Err(Failure::new("there is no way to ask the node itself without the cluster's secrets")
            .with_hint(no_file(node.name.as_str()))
            .into());
    }
    if let Some(shut_out) = inside.shut_out() {
        return Err(shut_out.into());
    }
    let observed = job.observe().await?;
    let (before, wanted) = inside.configs(node, &observed).await?;
    let name = format!("what {} runs with", node.name);
    let before = parsed(&name, before.expose_secret())?;
    let after = parsed("the description", wanted.text.expose_secret())?;
    Ok((name, before.differences_without(&after, &wanted.hidden)))
}

fn no_file(node: &str) -> String {
    format!(
        "talmox diff {node} FILE: a machine configuration, or a folder that talmox render all --to FOLDER wrote"
    )
}

fn parsed(name: &str, text: &str) -> Result<Config, Failure> {
    Config::parse(Source { name, text })
        .map_err(|faults| Failure::new(format!("{name} is not a machine configuration:\n{faults}")))
}

impl<'d> Told<'d> {
    fn of(difference: &'d Difference) -> Self {
        let Difference { document, path, before, after } = difference;
        Self { document, path, before: before.as_deref(), after: after.as_deref() }
    }
}

/// Documents, and below each what differs in it, the old above the new.
fn text(file: &str, node: &str, differences: &[Difference]) -> String {
    if differences.is_empty() {
        return format!("No differences: {file} says what the description does for {node}.\n");
    }
    let mut text = String::new();
    let mut document = "";
    for difference in differences {
        if difference.document != document {
            document = &difference.document;
            text.push_str(&format!("{BOLD}{document}{BOLD:#}\n"));
        }
        text.push_str(&one(difference));
    }
    let count = plural(differences.len(), "difference");
    text + &format!("\n{count} between {file} and what the description says for {node}.\n")
}

fn one(difference: &Difference) -> String {
    let Difference { path, before, after, .. } = difference;
    let mut text = String::new();
    if !path.is_empty() {
        text.push_str(&format!("  {path}\n"));
    }
    // Both sides of a secret look the same.
    if before.is_some() && before == after {
        return text + &format!("    {DIM}another secret{DIM:#}\n");
    }
    for (sign, style, side) in [("-", RED, before), ("+", GREEN, after)] {
        for line in side.iter().flat_map(|side| side.lines()) {
            text.push_str(&format!("    {style}{sign} {line}{style:#}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(path: &str, before: Option<&str>, after: Option<&str>) -> Difference {
        Difference {
            document: "HostnameConfig".to_owned(),
            path: path.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        }
    }

    #[test]
    fn old_above_new_and_secrets_only_as_such() {
        let differences = [
            difference("hostname", Some("a"), Some("b")),
            difference("token", Some("******"), Some("******")),
            difference("", None, Some("kind: X\nname: y")),
        ];
        let text = anstream::adapter::strip_str(&text("f.yaml", "a", &differences)).to_string();
        assert_eq!(
            text,
            "HostnameConfig\n  hostname\n    - a\n    + b\n  token\n    another secret\n    + kind: X\n    + name: y\n\n\
             3 differences between f.yaml and what the description says for a.\n"
        );
    }
}
