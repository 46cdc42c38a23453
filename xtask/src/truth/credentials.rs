//! How a recorded request identified itself: the recordings describe credentials in words instead of showing them.

/// What the words of `auth` mean.
#[derive(Debug, PartialEq)]
pub(crate) enum Credentials {
    None,
    /// The scheme up to and with what separates it from the token, and the token's id.
    Token {
        scheme: String,
        id: String,
        right_secret: bool,
    },
    /// A header as it is.
    Header(String),
    BrokenTicket,
    Ticket {
        user: String,
        csrf: Csrf,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) enum Csrf {
    Right,
    Wrong,
    Missing,
}

fn is_bad(words: &str) -> bool {
    ["wrong", "garbage", "malformed", "invalid", "broken", "bad "].iter().any(|word| words.contains(word))
}

/// Nothing, if the words are not understood.
pub(crate) fn credentials(auth: &str) -> Option<Credentials> {
    let auth = auth.trim_matches('"');
    if auth == "none" {
        return Some(Credentials::None);
    }
    if let Some(header) = auth.strip_prefix("Authorization: ") {
        return Some(Credentials::Header(header.to_owned()));
    }
    if let Some(rest) = auth.strip_prefix("PVEAPIToken") {
        let separator = rest.chars().next()?;
        let id = rest[separator.len_utf8()..].split('=').next()?.to_owned();
        return Some(Credentials::Token {
            scheme: format!("PVEAPIToken{separator}"),
            id,
            right_secret: true,
        });
    }
    let names_somebody = |rest: &str| rest.split([',', ' ']).next().is_some_and(|name| name.contains('@'));
    if let Some(rest) = auth.strip_prefix("token ").filter(|rest| names_somebody(rest)) {
        let (id, words) = rest.split_once(", ").unwrap_or((rest, ""));
        let right_secret = words.is_empty();
        let understood = right_secret || is_bad(words);
        let scheme = "PVEAPIToken=".to_owned();
        return understood.then(|| Credentials::Token { scheme, id: id.to_owned(), right_secret });
    }
    if let Some(rest) = auth.strip_prefix("ticket ").filter(|rest| names_somebody(rest)) {
        let (user, words) = rest.split_once([',', ' ']).unwrap_or((rest, ""));
        let csrf = match words.trim() {
            "" => Csrf::Missing,
            words if !words.contains("CSRF") => return None,
            words if is_bad(words) => Csrf::Wrong,
            words if words.starts_with('+') || words.starts_with("with ") => Csrf::Right,
            words if words.starts_with("no ") || words.starts_with("without ") => Csrf::Missing,
            _ => return None,
        };
        return Some(Credentials::Ticket { user: user.to_owned(), csrf });
    }
    match auth {
        words if is_bad(words) && words.contains("token") => {
            Some(Credentials::Header("PVEAPIToken=malformed".into()))
        }
        words if is_bad(words) && words.contains("ticket") => Some(Credentials::BrokenTicket),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_not() {
        let token = |right_secret| {
            let (scheme, id) = ("PVEAPIToken=".into(), "a@pam!x".into());
            Some(Credentials::Token { scheme, id, right_secret })
        };
        assert_eq!(credentials("token a@pam!x"), token(true));
        assert_eq!(credentials("token a@pam!x, wrong secret"), token(false));
        assert_eq!(credentials("token a@pam!x, on a Tuesday"), None);
        let ticket = |csrf| Some(Credentials::Ticket { user: "a@pve".into(), csrf });
        assert_eq!(credentials("ticket a@pve"), ticket(Csrf::Missing));
        assert_eq!(credentials("ticket a@pve, no CSRF header"), ticket(Csrf::Missing));
        assert_eq!(credentials("ticket a@pve, wrong CSRF header"), ticket(Csrf::Wrong));
        assert_eq!(credentials("ticket a@pve + CSRF header"), ticket(Csrf::Right));
        assert_eq!(credentials("an invalid ticket"), Some(Credentials::BrokenTicket));
        assert_eq!(credentials("a smile"), None);
    }
}
