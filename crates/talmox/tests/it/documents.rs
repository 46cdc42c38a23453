//! `docs/tutorial.md`, and every page of `docs/how-to` that says it is run as a test: every command, with what it says it
//! prints.
//!
//! A block of `console` is a session: lines after `$ ` are given to a shell, the lines below are what it prints. A line `...`
//! stands for any lines, `…` within a line for any text. A block of `yaml FILE` or `sh FILE` is that file. Every page has a
//! folder of its own.

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
            // What a page shows does not depend on it; a test would only wait longer.
            ("TALMOX_SPEED", "100"),
        ])
        .output()
        .expect("there is a shell");
    String::from_utf8_lossy(&output.stdout).lines().map(str::trim_end).map(str::to_owned).collect()
}

/// Runs a page, and says what in it is not true.
fn untrue(name: &str, document: &str) -> Result<usize, String> {
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
                if !agrees(&expected, &got) {
                    let (expected, got) = (expected.join("\n"), got.join("\n"));
                    return Err(format!(
                        "docs/{name}:{line}: {command}\nsaid to print:\n{expected}\nprints:\n{got}"
                    ));
                }
                count += 1;
            }
        }
    }
    Ok(count)
}

#[test]
fn the_tutorial_is_true() {
    match untrue("tutorial.md", include_str!("../../../../docs/tutorial.md")) {
        Ok(count) => assert!(count >= 8, "only {count} commands were found"),
        Err(wrong) => panic!("{wrong}"),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "pages are found, so that none is forgotten")]
fn every_how_to_that_says_so_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to");
    let mut pages: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .map(|path| {
            let name = format!("how-to/{}", path.file_name().unwrap().to_str().unwrap());
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .filter(|(_, text)| {
            text.split_whitespace().collect::<Vec<_>>().join(" ").contains("is run as a test")
        })
        .collect();
    pages.sort();
    assert!(!pages.is_empty());
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> =
            pages.iter().map(|(name, text)| scope.spawn(move || untrue(name, text))).collect();
        let ended =
            running.into_iter().zip(&pages).filter_map(|(page, (name, _))| match page.join().unwrap() {
                Ok(0) => Some(format!("docs/{name} runs nothing")),
                Ok(_) => None,
                Err(wrong) => Some(wrong),
            });
        ended.collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
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
