//! A shell that knows two commands: the lines of `check --setup`, carried out as root would.

use secrecy::SecretString;
use serde_json::Value;
use talmox_pve::client::{Client, Error, Params};

/// Carries the lines out; gives the secret of the token they make.
pub(crate) async fn paste(root: &Client, block: &str) -> Option<SecretString> {
    let mut secret = None;
    for line in block.lines().filter(|line| !line.starts_with('#')) {
        let (command, _why) = line.split_once("  # ").unwrap_or_else(|| panic!("without a reason: {line}"));
        // What is told to nobody may fail.
        let (quiet, last) =
            command.split_once(" 2>/dev/null; ").map_or((None, command), |(a, b)| (Some(a), b));
        if let Some(quiet) = quiet {
            let _ = run(root, &words(quiet)).await;
        }
        let answer = run(root, &words(last)).await.unwrap_or_else(|error| panic!("{last}: {error}"));
        secret = answer["value"].as_str().map(SecretString::from).or(secret);
    }
    secret
}

/// Words as a shell splits them.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in text.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (' ', None) => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            (c, _) => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// One command: arguments by place, then options.
async fn run(root: &Client, words: &[String]) -> Result<Value, String> {
    let option = words.iter().position(|word| word.starts_with("--")).unwrap_or(words.len());
    let (plain, options) = words.split_at(option);
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    let mut params = Params::new();
    for pair in options.chunks(2) {
        let [name, value] = pair else { panic!("an option without a value: {words:?}") };
        params = params.with(name.trim_start_matches("--"), value);
    }
    let done: Result<Value, Error> = match plain.as_slice() {
        ["pveum", "pool", "add", pool] => root.post("/pools", params.with("poolid", pool)).await,
        ["pvesm", "set", storage] => root.put(&format!("/storage/{storage}"), params).await,
        ["pveum", "role", "add", role] => root.post("/access/roles", params.with("roleid", role)).await,
        ["pveum", "role", "modify", role] => root.put(&format!("/access/roles/{role}"), params).await,
        ["pveum", "user", "add", user] => root.post("/access/users", params.with("userid", user)).await,
        ["pveum", "user", "token", "add", user, token] => {
            root.post(&format!("/access/users/{user}/token/{token}"), params).await
        }
        ["pveum", "acl", "modify", path] => root.put("/access/acl", params.with("path", path)).await,
        _ => panic!("no such command: {words:?}"),
    };
    done.map_err(|error| error.words().to_owned())
}

/// The block once for each thing it grants, without that thing: `role privilege` or `path`, and the rest.
pub(crate) fn each_left_out(block: &str) -> Vec<(String, String)> {
    let mut variants = Vec::new();
    for line in block.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split_whitespace().collect();
        match parts.as_slice() {
            ["pveum", "role", "add", _, _, "pveum", "role", "modify", role, "--privs", list, ..] => {
                for privilege in list.split(',') {
                    let rest: Vec<&str> = list.split(',').filter(|one| *one != privilege).collect();
                    let left = if rest.is_empty() {
                        without(block, |other| other.contains(&format!(" {role} ")))
                    } else {
                        block.replace(line, &line.replace(list, &rest.join(",")))
                    };
                    variants.push((format!("{role} {privilege}"), left));
                }
            }
            ["pveum", "acl", "modify", path, ..] => {
                variants.push(((*path).to_owned(), without(block, |other| other == line)));
            }
            _ => {}
        }
    }
    variants
}

fn without(block: &str, drop: impl Fn(&str) -> bool) -> String {
    block.lines().filter(|line| !drop(line)).map(|line| format!("{line}\n")).collect()
}

/// Paths and privileges a block grants, by reading it again.
pub(crate) fn granted(block: &str) -> Vec<(String, String)> {
    let lines = || block.lines().filter(|line| !line.starts_with('#'));
    let roles: Vec<(&str, &str)> = lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["pveum", "role", "add", _, _, "pveum", "role", "modify", role, "--privs", list, ..] => {
                Some((*role, *list))
            }
            _ => None,
        })
        .collect();
    let entries = lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["pveum", "acl", "modify", path, "--roles", role, ..] => Some((*path, *role)),
        _ => None,
    });
    entries
        .flat_map(|(path, role)| {
            let list = roles.iter().find(|(name, _)| *name == role).map_or("", |(_, list)| list);
            list.split(',').map(move |privilege| (path.to_owned(), privilege.to_owned()))
        })
        .collect()
}
