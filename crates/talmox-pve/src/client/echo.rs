//! What we say in secret and a server, or a proxy before it, says back.
//!
//! An error page may repeat the request it is about, headers included, and errors end up in terminals, logs and bug
//! reports. So before an error leaves this client, the secrets of its session are masked in it, also as they look in a
//! URL and in base64.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret as _, SecretString};
use talmox_types::visible;

/// What stands in a secret's place.
const MASK: &str = "(masked)";
/// A shorter secret would be found in words it has nothing to do with; Proxmox takes no password of less than five.
const SHORTEST: usize = 4;
/// How many tickets of the past are remembered: an answer may come after the next login.
const TICKETS: usize = 8;

/// The secrets of one session.
#[derive(Default)]
pub(crate) struct Echo {
    /// Token secret or password, and the newest tickets.
    secrets: Mutex<Vec<SecretString>>,
}

impl Echo {
    /// Adds a secret from now on.
    pub(crate) fn remember(&self, secret: &SecretString) {
        if secret.expose_secret().len() < SHORTEST {
            return;
        }
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        // The first is what the session began with.
        if secrets.len() > TICKETS * 2 {
            secrets.remove(1);
        }
        secrets.push(secret.clone());
    }

    /// The text with every secret masked.
    pub(crate) fn masked<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut masked = Cow::Borrowed(text);
        for secret in secrets.iter() {
            if let Some(without) = without(&masked, secret.expose_secret()) {
                masked = Cow::Owned(without);
            }
        }
        masked
    }
}

/// The text without a secret in any form; none where it is not in it.
fn without(text: &str, secret: &str) -> Option<String> {
    let plain = url_decoded(text);
    let mut hidden: Vec<(usize, usize)> = Vec::new();
    let mut forms = vec![secret.to_owned(), visible(secret).into_owned(), secret.replace(' ', "+")];
    // As JSON and HTML write it.
    forms.push(secret.replace('\\', r"\\").replace('"', r#"\""#));
    let escaped = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    forms.push(escaped.replace('"', "&quot;").replace('\'', "&#39;"));
    for form in &forms {
        hidden.extend(found(&plain, form.as_bytes()));
    }
    for core in base64_cores(secret.as_bytes()) {
        hidden.extend(found(&plain, core.as_bytes()));
    }
    if hidden.is_empty() {
        return None;
    }
    hidden.sort_unstable();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (start, end) in hidden {
        if end <= at {
            continue;
        }
        if start >= at {
            out.push_str(&text[at..start]);
            out.push_str(MASK);
        }
        at = end;
    }
    out.push_str(&text[at..]);
    Some(out)
}

/// A byte, and where in the text it is written.
struct Written {
    byte: u8,
    start: usize,
    end: usize,
}

/// The bytes of a text with what is percent-encoded decoded, whichever characters the encoder chose and in either case.
fn url_decoded(text: &str) -> Vec<Written> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = (digit(at + 1), digit(at + 2));
        let (byte, length) = match (byte, pair) {
            (b'%', (Some(high), Some(low))) => (u8::try_from(high * 16 + low).unwrap_or(b'%'), 3),
            _ => (*byte, 1),
        };
        decoded.push(Written { byte, start: at, end: at + length });
        at += length;
    }
    decoded
}

/// Where bytes stand in a text that was decoded, by the places they are written at.
fn found<'w>(text: &'w [Written], part: &[u8]) -> impl Iterator<Item = (usize, usize)> + 'w {
    let part = part.to_vec();
    let length = part.len().max(1);
    text.windows(length).filter_map(move |window| {
        let same = window.iter().map(|written| written.byte).eq(part.iter().copied());
        same.then(|| Some((window.first()?.start, window.last()?.end))).flatten()
    })
}

/// What a secret looks like inside of anything that is base64, as the whole of it or a part at any offset: without the
/// digits at both ends that depend on its neighbours.
fn base64_cores(secret: &[u8]) -> Vec<String> {
    let mut cores = Vec::new();
    for before in 0..3 {
        let padded = [&vec![0; before][..], secret].concat();
        // Digits that hold bits of what stands before.
        let first = (before * 8).div_ceil(6);
        // Whole digits of the secret's own bits.
        let last = padded.len() * 8 / 6;
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = engine.encode(&padded);
            cores.extend(text.get(first..last).filter(|core| core.len() >= SHORTEST).map(str::to_owned));
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    const SECRET: &str = "d8b5/b5f0+7d6c 4a?e>9a51";

    fn echo() -> Echo {
        let echo = Echo::default();
        echo.remember(&SecretString::from(SECRET));
        echo
    }

    #[test]
    fn every_usual_form_is_masked() {
        let echo = echo();
        for before in ["", "u", "us", "PVEAPIToken=talmox@pve!ci="] {
            for after in ["", "x", "yz"] {
                let whole = format!("{before}{SECRET}{after}");
                for text in [
                    whole.clone(),
                    crate::client::percent_encode(&whole),
                    crate::client::percent_encode(&whole).to_lowercase(),
                    whole.replace('/', "%2f"),
                    whole.replace(' ', "+"),
                    STANDARD.encode(&whole),
                    URL_SAFE.encode(&whole),
                    crate::client::percent_encode(&STANDARD.encode(&whole)),
                ] {
                    let masked = echo.masked(&text);
                    assert!(masked.contains(MASK), "{text} -> {masked}");
                    // Nothing of the secret that is longer than a base64 digit's worth at either end is left.
                    assert!(
                        !masked.contains(&SECRET[..4]) && !masked.contains(&STANDARD.encode(SECRET)[2..8])
                    );
                }
            }
        }
        assert_eq!(
            echo.masked("401 PVEAPIToken=u@r!n=d8b5/b5f0+7d6c 4a?e>9a51."),
            "401 PVEAPIToken=u@r!n=(masked)."
        );
        assert_eq!(echo.masked("nothing of it, 100% and %zz"), "nothing of it, 100% and %zz");
    }

    #[test]
    fn html_and_json_spell_it_differently() {
        let echo = Echo::default();
        echo.remember(&SecretString::from("a\"b<c>&d'e\\f"));
        assert_eq!(echo.masked("x a&quot;b&lt;c&gt;&amp;d&#39;e\\f y"), "x (masked) y");
        assert_eq!(echo.masked(r#"x a\"b<c>&d'e\\f y"#), "x (masked) y");
    }

    #[test]
    fn a_secret_too_short_to_be_one_garbles_nothing() {
        let echo = Echo::default();
        echo.remember(&SecretString::from("VM"));
        echo.remember(&SecretString::from(""));
        assert_eq!(echo.masked("VM is locked"), "VM is locked");
    }

    #[test]
    fn the_first_secret_outlives_many_tickets() {
        let echo = echo();
        for number in 0..100 {
            echo.remember(&SecretString::from(format!("ticket-{number}-")));
        }
        assert_eq!(echo.masked(SECRET), MASK);
        assert_eq!(echo.masked("ticket-99- ticket-93-"), "(masked) (masked)");
        assert!(echo.secrets.lock().unwrap().len() <= TICKETS * 2 + 1);
    }
}
