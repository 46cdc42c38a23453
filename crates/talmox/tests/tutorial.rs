//! Pages of `docs/`, run: every command in them, with what it says it prints.
//!
//! A block of `console` is a session: lines after `$ ` are given to a shell, the lines below are what it prints. A line `...`
//! stands for any lines, `…` within a line for any text. A block of `yaml FILE` or `sh FILE` is that file.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// A block of the document between fences.
struct Block {
    /// The line of its first line, from 1.
    line: usize,
    kind: String,
    file: Option<String>,
    text: Vec<String>,
}

/// A command and what it is said to print.
struct Prompt {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => found.push(block),
            (Some(info), None) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                let kind = words.next().unwrap_or_default();
                open = Some(Block { line: index + 2, kind, file: words.next(), text: Vec::new() });
            }
            (None, Some(mut block)) => {
                block.text.push(line.to_owned());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

fn prompts(block: &Block) -> Vec<Prompt> {
    let mut all: Vec<Prompt> = Vec::new();
    for (index, line) in block.text.iter().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            let line = block.line + index;
            all.push(Prompt { line, command: command.to_owned(), expected: Vec::new() });
        } else {
            let last = all.last_mut().expect("a session begins with a command");
            last.expected.push(line.clone());
        }
    }
    all
}

/// Whether lines are as expected, `...` standing for any number of them.
fn agrees(expected: &[String], got: &[String]) -> bool {
    match (expected.split_first(), got.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => {
            (0..=got.len()).any(|skipped| agrees(rest, &got[skipped..]))
        }
        (Some((first, rest)), Some((line, more))) => same(first, line) && agrees(rest, more),
        _ => false,
    }
}

/// Whether a line is as expected, `…` standing for any text.
fn same(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    true
}

#[expect(clippy::disallowed_methods, reason = "the shell and its tools are found by it")]
fn run(folder: &Path, command: &str) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_talmox"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(folder)
        .env_clear()
        .envs([
            ("PATH", path.as_str()),
            ("HOME", folder.to_str().unwrap()),
            ("NO_COLOR", "1"),
            ("COLUMNS", "120"),
        ])
        .output()
        .expect("there is a shell");
    String::from_utf8_lossy(&output.stdout).lines().map(str::trim_end).map(str::to_owned).collect()
}

/// Runs every command of a page in a folder of its own, and compares what it prints.
fn is_true(page: &str, document: &str, at_least: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for block in blocks(document) {
        if let Some(file) = &block.file {
            let file = folder.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, block.text.join("\n") + "\n").unwrap();
        } else if block.kind == "console" {
            for Prompt { line, command, expected } in prompts(&block) {
                let got = run(folder.path(), &command);
                assert!(
                    agrees(&expected, &got),
                    "docs/{page}:{line}: {command}\nsaid to print:\n{}\nprints:\n{}",
                    expected.join("\n"),
                    got.join("\n")
                );
                count += 1;
            }
        }
    }
    assert!(count >= at_least, "only {count} commands were found in {page}");
}

#[test]
fn the_tutorial_is_true() {
    is_true("tutorial.md", include_str!("../../../docs/tutorial.md"), 8);
}

#[test]
fn how_to_scale_is_true() {
    is_true("how-to/scale.md", include_str!("../../../docs/how-to/scale.md"), 3);
}

#[test]
fn how_to_replace_a_node_is_true() {
    is_true("how-to/replace-a-node.md", include_str!("../../../docs/how-to/replace-a-node.md"), 2);
}

#[test]
fn how_to_drain_a_host_is_true() {
    is_true("how-to/drain-a-host.md", include_str!("../../../docs/how-to/drain-a-host.md"), 4);
}

#[test]
fn what_is_not_printed_is_noticed() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(agrees(&lines("one\n...\nfour"), &lines("one\ntwo\nthree\nfour")));
    assert!(agrees(&lines("took … s, … calls"), &lines("took 4.2 s, 17 calls")));
    assert!(!agrees(&lines("one\n...\nfive"), &lines("one\ntwo\nthree\nfour")));
    assert!(!agrees(&lines("took … s"), &lines("took 4.2 s, and more")));
    assert!(!agrees(&lines("one"), &lines("one\ntwo")));
    assert!(!agrees(&lines("one\ntwo"), &lines("one")));
}
