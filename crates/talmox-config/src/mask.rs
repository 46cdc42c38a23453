//! Keeping secrets out of excerpts.
//!
//! An excerpt shows whole lines of a file, and a line may hold a secret that has nothing to do with the problem shown.
//! Masking works on the text alone, because it must also work where the YAML cannot be parsed, and errs on the side of
//! hiding too much. Problems about a value that may be a secret conceal its place besides.

use std::ops::Range;

use talmox_types::SecretRef;

/// Words in a key that make its value a secret.
const SECRET_WORDS: [&str; 7] =
    ["token", "password", "passphrase", "secret", "private_key", "api_key", "authkey"];

/// Endings of keys that name a place, not a secret.
const PLACE_ENDINGS: [&str; 2] = ["_file", "_path"];

/// The beginning of an age identity.
const AGE_KEY: &str = "AGE-SECRET-KEY-1";

/// A text of a description with every secret in it replaced, line by line, for people to look at.
pub fn without_secrets(text: &str) -> String {
    mask_secrets(text, &[])
}

/// The text with every secret, and every concealed place, replaced by as many bytes of `*`, so that places stay true.
pub(crate) fn mask_secrets(text: &str, concealed: &[Range<usize>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut hide = |range: Range<usize>| {
        for byte in bytes.get_mut(range).into_iter().flatten() {
            // Line ends stay, so that lines keep their numbers.
            if !matches!(*byte, b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    };
    concealed.iter().cloned().for_each(&mut hide);
    let mut offset = 0;
    let mut inside = Inside::Nothing;
    for line in text.split_inclusive('\n') {
        for range in secrets_of(line, &mut inside) {
            hide(offset + range.start..offset + range.end);
        }
        offset += line.len();
    }
    // Whole secrets are replaced, so no character is cut in two; should one be, the damage is shown, not a panic.
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What a line continues.
enum Inside {
    Nothing,
    /// A private key, until its last line.
    PrivateKey,
    /// The value of a secret key, as long as lines are indented deeper than the key.
    Value {
        indent: usize,
    },
}

/// The parts of a line that must not be shown.
fn secrets_of(line: &str, inside: &mut Inside) -> Vec<Range<usize>> {
    let body = line.trim_end();
    let indent = body.len() - body.trim_start().len();
    let whole = || vec![Range { start: indent, end: body.len() }];
    match inside {
        Inside::PrivateKey => {
            if body.contains("-----END") {
                *inside = Inside::Nothing;
            }
            return whole();
        }
        Inside::Value { indent: key } if body.is_empty() || indent > *key => return whole(),
        Inside::Value { .. } | Inside::Nothing => *inside = Inside::Nothing,
    }
    if is_private_key(body) {
        *inside = Inside::PrivateKey;
        return whole();
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    if let Some(value) = secret_value(body) {
        let bare = body[value.clone()].trim();
        if bare.is_empty() || bare.starts_with(['|', '>', '&', '!']) {
            *inside = Inside::Value { indent };
        }
        found.push(value);
    }
    found.extend(find_token(body));
    found.extend(find_credentials(body));
    found.extend(find_age_key(body));
    found
}

pub(crate) fn is_private_key(line: &str) -> bool {
    line.contains("-----BEGIN") && line.contains("PRIVATE KEY")
}

pub(crate) fn find_age_key(line: &str) -> Option<Range<usize>> {
    let start = line.find(AGE_KEY)?;
    let length = line[start..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'-').count();
    Some(start..start + length)
}

/// The value of the first secret key of a line, up to the line's end, unless it is nothing but a reference.
fn secret_value(line: &str) -> Option<Range<usize>> {
    let lower = line.to_ascii_lowercase();
    let part_of_key = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'"' || b == b'\'';
    let words = SECRET_WORDS.iter().flat_map(|word| lower.match_indices(word).map(|(at, _)| at));
    words
        .filter_map(|at| {
            let rest = lower[at..].bytes().take_while(|b| part_of_key(*b)).count();
            let before = lower[..at].bytes().rev().take_while(|b| part_of_key(*b)).count();
            let key = lower[at - before..at + rest].trim_matches(['"', '\'']);
            let colon = at + rest + lower[at + rest..].find(|c: char| !c.is_whitespace())?;
            let names_place = PLACE_ENDINGS.iter().any(|ending| key.ends_with(ending));
            (lower.as_bytes().get(colon) == Some(&b':') && !names_place).then_some(colon + 1)
        })
        .min()
        .map(|colon| line.len() - line[colon..].trim_start().len()..line.len())
        .filter(|range| !is_reference(&line[range.clone()]))
}

/// Whether a text is a whole reference to a secret, with or without quotes and a comment after it.
fn is_reference(text: &str) -> bool {
    let text = text.split(" #").next().unwrap_or_default().trim();
    let unquoted = text.strip_prefix(['"', '\'']).and_then(|t| t.strip_suffix(['"', '\''])).unwrap_or(text);
    let named = SecretRef::parse(unquoted).is_ok_and(|reference| !matches!(reference, SecretRef::Exec(_)));
    named && !unquoted.contains(char::is_whitespace)
}

/// User name and password in a URL: `https://user:password@host`.
fn find_credentials(line: &str) -> Option<Range<usize>> {
    let start = line.find("://")? + 3;
    let authority = line[start..].split(['/', ' ', '"', '\'']).next()?;
    authority.rfind('@').map(|length| start..start + length)
}

/// The secret of a Proxmox API token anywhere in a text: what follows `user@realm!name=`, a UUID.
pub(crate) fn find_token(text: &str) -> Option<Range<usize>> {
    const UUID_LENGTH: usize = 36;
    text.match_indices('=').find_map(|(equals, _)| {
        let uuid = text.get(equals + 1..equals + 1 + UUID_LENGTH)?;
        let is_uuid =
            uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') && uuid.matches('-').count() == 4;
        let before = &text[..equals];
        let user_starts = |(at, character): (usize, char)| {
            (character.is_whitespace() || "\"'=,".contains(character)).then_some(at + character.len_utf8())
        };
        let start = before.char_indices().rev().find_map(user_starts).unwrap_or(0);
        let user = &before[start..];
        let is_token =
            user.split_once('@').is_some_and(|(name, rest)| !name.is_empty() && rest.contains('!'));
        (is_uuid && is_token).then_some(equals + 1..equals + 1 + UUID_LENGTH)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "root@pam!ci=12345678-1234-1234-1234-123456789abc";

    #[test]
    fn secrets_vanish_and_places_stay() {
        for text in [
            format!("proxmox_api_token: {TOKEN}\n"),
            format!("  cloudflare_token: \"{TOKEN}\"\n"),
            format!("- env: PVE={TOKEN} # used here\n"),
            "password: hunter2\n".to_owned(),
            "- https://root:hunter2@pve.lan:8006/\n".to_owned(),
            "proxmox_api_token:\n  hunter2\nname: a\n".to_owned(),
            "proxmox_api_token: >-\n\n  hunter2\n".to_owned(),
            "proxmox_api_token:hunter2\n".to_owned(),
            "proxmox_api_token:\thunter2\n".to_owned(),
            "x: {proxmox_api_token: hunter2, y: 1}\n".to_owned(),
            "proxmox_api_token: env:hunter2 s3cr3t\n".to_owned(),
            "proxmox_api_token: sops:hunter2\n".to_owned(),
            "\"api_token\" : hunter2\n".to_owned(),
            "environment: [SECRET: hunter2]\n".to_owned(),
            "age: AGE-SECRET-KEY-1HUNTER2QQ\n".to_owned(),
            "k: |\n  -----BEGIN EC PRIVATE KEY-----\n  hunter2\n  -----END EC PRIVATE KEY-----\n".to_owned(),
        ] {
            let masked = mask_secrets(&text, &[]);
            let lower = masked.to_ascii_lowercase();
            assert!(!lower.contains("hunter2") && !lower.contains("12345678-1234"), "{masked}");
            assert_eq!((masked.len(), masked.lines().count()), (text.len(), text.lines().count()));
        }
    }

    #[test]
    fn references_and_ordinary_lines_stay() {
        for line in [
            "proxmox_api_token: env:PROXMOX_TOKEN\n",
            "proxmox_api_token: \"sops:a.yaml#k\" # from there\n",
            "secrets_file: secrets.sops.yaml\n",
            "name: größer\n",
            "url: https://a.b/c\n",
            "# the token is elsewhere\n",
        ] {
            assert_eq!(mask_secrets(line, &[]), line);
        }
    }

    #[test]
    fn what_follows_a_secret_is_shown_again() {
        let masked = mask_secrets("a_secret:\n  hunter2\nname: home\n", &[]);
        assert_eq!(masked, "a_secret:\n  *******\nname: home\n");
    }

    #[test]
    fn concealed_places_are_hidden() {
        assert_eq!(
            mask_secrets("proxmox_api_tokn: hunter2\nb: é\n", &[Range { start: 18, end: 25 }]),
            "proxmox_api_tokn: *******\nb: é\n"
        );
    }
}
