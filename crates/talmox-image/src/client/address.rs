//! Addresses requests go to. Unlike a factory's own address, that of a file may carry a query: object storages sign
//! theirs, so a query is never shown.

use std::fmt;

/// Shorter values of a query are switches and numbers, which stand in other words as well.
const SHORTEST_SECRET: usize = 6;

/// An absolute `http` or `https` address.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub secure: bool,
    /// Host and perhaps port, as written.
    pub authority: String,
    /// Path and query, beginning with a slash.
    pub target: String,
}

impl Address {
    pub fn parse(text: &str) -> Option<Self> {
        let (secure, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://")?),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        // Credentials would be sent to whoever the address names.
        let valid = !authority.is_empty()
            && !authority.contains('@')
            && authority.bytes().chain(target.bytes()).all(|b| b.is_ascii_graphic());
        valid.then(|| Self { secure, authority: authority.to_owned(), target })
    }

    /// Where a redirect leads: elsewhere, or to another path of the same host.
    pub(super) fn redirect(&self, location: &str) -> Option<Self> {
        match location.strip_prefix('/') {
            Some(rest) if rest.starts_with('/') => {
                Self::parse(&format!("{}:{location}", if self.secure { "https" } else { "http" }))
            }
            Some(_) => Some(Self { target: location.to_owned(), ..self.clone() })
                .filter(|address| address.target.bytes().all(|b| b.is_ascii_graphic())),
            None => Self::parse(location),
        }
    }

    /// A text in which this address' query, and each value in it, is masked.
    pub(super) fn without_query(&self, text: &str) -> String {
        let Some((_, query)) = self.target.split_once('?') else { return text.to_owned() };
        let values = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
        let hidden = std::iter::once(query).chain(values).filter(|part| part.len() >= SHORTEST_SECRET);
        hidden.fold(text.to_owned(), |text, part| text.replace(part, "(masked)"))
    }

    pub(super) fn host(&self) -> &str {
        let host = match self.authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => self.authority.split(':').next(),
        };
        host.unwrap_or_default()
    }

    pub(super) fn port(&self) -> Option<u16> {
        let after = self.authority.rsplit(']').next().unwrap_or_default();
        match after.rsplit_once(':') {
            Some((_, port)) => port.parse().ok(),
            None => Some(if self.secure { 443 } else { 80 }),
        }
    }
}

/// Without the query.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{}://{}{path}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_and_queries_are_not_shown() {
        let address = Address::parse("https://cdn.example:8443/a/b?sig=hunter2#x").unwrap();
        assert_eq!((address.host(), address.port()), ("cdn.example", Some(8443)));
        assert_eq!(address.target, "/a/b?sig=hunter2");
        assert_eq!(
            format!("{address} {address:?}"),
            "https://cdn.example:8443/a/b https://cdn.example:8443/a/b"
        );
        let bare = Address::parse("http://[fd00::1]").unwrap();
        assert_eq!((bare.host(), bare.port(), bare.target.as_str()), ("fd00::1", Some(80), "/"));
        for bad in ["ftp://a", "https://", "https://u:p@a/", "https://a/ b", "a/b", "http://a\n/"] {
            assert!(Address::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_query_that_is_said_back_is_masked() {
        let address = Address::parse("https://cdn.example/f?sig=hunter2&v=1").unwrap();
        assert_eq!(address.without_query("no sig=hunter2&v=1 1 hunter2 here"), "no (masked) 1 (masked) here");
    }

    #[test]
    fn redirects_may_be_relative_to_the_host() {
        let from = Address::parse("https://a.example/x?y").unwrap();
        let to = |location: &str| from.redirect(location).map(|address| address.to_string());
        assert_eq!(to("/z").as_deref(), Some("https://a.example/z"));
        assert_eq!(to("//b.example/z").as_deref(), Some("https://b.example/z"));
        assert_eq!(to("http://c.example/z").as_deref(), Some("http://c.example/z"));
        assert_eq!(to("relative"), None);
    }
}
