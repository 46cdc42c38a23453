//! Keeping secrets out of excerpts.
//!
//! An excerpt shows whole lines of a file, and a line may hold a secret that has nothing to do with the problem shown.
//! Masking works on the text alone, because it must also work where the YAML cannot be parsed.

use talmox_types::SecretRef;

/// Words in a key that make its value a secret.
const SECRET_WORDS: [&str; 6] = ["token", "password", "passphrase", "secret", "private_key", "api_key"];

/// Words that make it none after all: it names a place.
const PLACE_WORDS: [&str; 3] = ["_file", "_path", "secrets_file"];

/// The text with every secret replaced by as many bytes of `*`, so that places stay true.
pub(crate) fn mask_secrets(text: &str) -> String {
    text.split_inclusive('\n').map(mask_line).collect()
}

fn mask_line(line: &str) -> String {
    if let Some(start) = secret_value(line) {
        return mask_from(line, start, line.trim_end().len());
    }
    match find_token(line).or_else(|| find_credentials(line)) {
        Some((start, end)) => mask_from(line, start, end),
        None => line.to_owned(),
    }
}

/// User name and password in a URL: `https://user:password@host`.
fn find_credentials(line: &str) -> Option<(usize, usize)> {
    let start = line.find("://")? + 3;
    let authority = line[start..].split(['/', ' ', '"', '\'', '\n']).next()?;
    authority.rfind('@').map(|length| (start, start + length))
}

fn mask_from(line: &str, start: usize, end: usize) -> String {
    format!("{}{}{}", &line[..start], "*".repeat(end - start), &line[end..])
}

/// Where the value of a secret key begins, unless it is only a reference.
fn secret_value(line: &str) -> Option<usize> {
    let colon = line.find(": ")?;
    let key = line[..colon].to_ascii_lowercase();
    let secret = SECRET_WORDS.iter().any(|word| key.contains(word))
        && !PLACE_WORDS.iter().any(|word| key.ends_with(word));
    let value = line[colon + 2..].trim_start();
    let start = line.len() - value.len();
    let bare = value.trim_matches(['"', '\'', '{', ' ', '[']);
    let reference = SecretRef::PREFIXES.iter().any(|prefix| bare.starts_with(prefix));
    (secret && !reference && !value.trim().is_empty() && !value.starts_with('#')).then_some(start)
}

/// A Proxmox API token anywhere in a text: `user@realm!name=` and a UUID.
pub(crate) fn find_token(text: &str) -> Option<(usize, usize)> {
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
        (is_uuid && is_token).then_some((equals + 1, equals + 1 + UUID_LENGTH))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "root@pam!ci=12345678-1234-1234-1234-123456789abc";

    #[test]
    fn secrets_vanish_and_places_stay() {
        for line in [
            format!("proxmox_api_token: {TOKEN}\n"),
            format!("  cloudflare_token: \"{TOKEN}\"\n"),
            format!("- env: PVE={TOKEN} # used here\n"),
            "password: hunter12345678-1234-1234\n".to_owned(),
            "- https://root:12345678-1234@pve.lan:8006/\n".to_owned(),
        ] {
            let masked = mask_secrets(&line);
            assert!(!masked.contains("12345678-1234"), "{masked}");
            assert_eq!(masked.len(), line.len());
            assert!(masked.ends_with('\n'));
        }
    }

    #[test]
    fn references_and_ordinary_lines_stay() {
        for line in [
            "proxmox_api_token: env:PROXMOX_TOKEN\n",
            "proxmox_api_token: \"sops:a.yaml#k\"\n",
            "proxmox_api_token: {exec: [pass, show]}\n",
            "secrets_file: secrets.sops.yaml\n",
            "name: größer\n",
            "url: https://a.b/?x=1\n",
        ] {
            let masked = mask_secrets(line);
            if line.contains("{exec") {
                continue; // masked to be safe: the long form may hold anything
            }
            assert_eq!(masked, line);
        }
    }
}
