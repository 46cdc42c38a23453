//! URLs, as far as talmox needs to understand them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// An `http` or `https` URL without credentials, query or fragment; a final slash is dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    secure: bool,
    /// Host and port as written.
    authority: String,
    path: String,
}

impl Url {
    /// The error never repeats the text: a mistyped URL may hold a password.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| {
            Invalid::new("a URL", "(not shown)", "https://host:port, without user name, password or query")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (secure, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://")?),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let path = path.trim_end_matches('/');
        let clean = |c: char| c.is_ascii_graphic() && !"?#@\"<>\\^`{|}".contains(c);
        let valid = host_and_port(authority).is_some() && path.chars().all(clean);
        valid.then(|| Self { secure, authority: authority.to_owned(), path: path.to_owned() })
    }

    pub fn is_https(&self) -> bool {
        self.secure
    }

    /// What follows host and port; empty or beginning with a slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The host alone, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        host_and_port(&self.authority).map_or(&self.authority, |(host, _)| host)
    }

    /// The port, if one is written.
    pub fn port(&self) -> Option<u16> {
        host_and_port(&self.authority).and_then(|(_, port)| port)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.secure { "https" } else { "http" }, self.authority, self.path)
    }
}

text_conversions!(Url);

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`, if both parts are valid.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        let port = if after.is_empty() { None } else { Some(port(after.strip_prefix(':')?)?) };
        return Some((host, port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, text)) => (host, Some(port(text)?)),
        None => (authority, None),
    };
    is_host(host).then_some((host, port))
}

fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
}

/// Whether a text is a DNS name or an IP address. A name whose last label is a number would be a broken IPv4 address.
pub fn is_host(text: &str) -> bool {
    if text.parse::<IpAddr>().is_ok() {
        return true;
    }
    is_dns_name(text) && text.rsplit('.').next().is_some_and(|last| !last.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a text is a DNS name: labels of letters, digits and `-`, joined by dots.
pub fn is_dns_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_told_apart() {
        let parts = |text: &str| {
            let url = Url::parse(text).unwrap();
            (url.host().to_owned(), url.port())
        };
        assert_eq!(parts("https://pve.lab:8006/x"), ("pve.lab".to_owned(), Some(8006)));
        assert_eq!(parts("https://[fd00::1]"), ("fd00::1".to_owned(), None));
        assert_eq!(parts("https://10.0.0.1:1"), ("10.0.0.1".to_owned(), Some(1)));
    }

    #[test]
    fn urls_round_trip() {
        for text in [
            "https://pve.lan:8006",
            "http://10.0.7.1",
            "https://[fd00::1]:6443",
            "https://a.b/c/d.yaml",
            "https://pve",
        ] {
            assert_eq!(Url::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Url::parse("https://a/").unwrap().to_string(), "https://a");
    }

    #[test]
    fn what_is_none_is_refused_and_not_repeated() {
        for bad in [
            "",
            "pve.lan:8006",
            "https://",
            "https://:8006",
            "https://a:0",
            "https://a:99999",
            "https://a:x",
            "https://[fd00::zz]",
            "https://a..b",
            "https://-a",
            "https://a_b",
            "https://1.2.3",
            "https://u:hunter2@a",
            "https://a/?t=hunter2",
            "https://a/ b",
            "https://[::1]x",
            "ftp://a",
        ] {
            let error = Url::parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{bad}");
        }
    }
}
