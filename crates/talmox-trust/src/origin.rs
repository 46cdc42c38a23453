//! Scheme, host and port: what of an address decides who is contacted.

use std::fmt;

use talmox_types::Url;

/// `https://host:port`, with the host in lower case and the port written out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

/// A text that names no server. It is not repeated, since people put passwords into addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address looks like https://host:port, without user name, password or query")]
pub struct InvalidOrigin;

impl Origin {
    /// The server of a URL. Path and query are dropped: a grant is for the server, whatever it is asked for.
    pub fn of_url(text: &str) -> Result<Self, InvalidOrigin> {
        Self::with_port(text, None)
    }

    /// The same for a Proxmox API, whose port is 8006 where none is written.
    pub fn of_api(text: &str) -> Result<Self, InvalidOrigin> {
        Self::with_port(text, Some(8006))
    }

    fn with_port(text: &str, port: Option<u16>) -> Result<Self, InvalidOrigin> {
        let end = text.find(['?', '#']).unwrap_or(text.len());
        let url = Url::parse(&text[..end]).map_err(|_| InvalidOrigin)?;
        let scheme = if url.is_https() { "https" } else { "http" };
        let usual = port.unwrap_or(if url.is_https() { 443 } else { 80 });
        let port = url.port().unwrap_or(usual);
        let host = url.host().trim_end_matches('.').to_ascii_lowercase();
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Self(format!("{scheme}://{host}:{port}")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_server_are_equal() {
        let url = |text: &str| Origin::of_url(text).unwrap().to_string();
        assert_eq!(url("https://Example.ORG/a/b.yaml?x=1#y"), "https://example.org:443");
        assert_eq!(url("http://example.org"), "http://example.org:80");
        assert_eq!(url("https://[2001:DB8::1]:8443/x"), "https://[2001:db8::1]:8443");
        assert_eq!(Origin::of_api("https://pve.lan").unwrap().as_str(), "https://pve.lan:8006");
    }

    #[test]
    fn another_scheme_or_port_is_another_server() {
        let url = |text: &str| Origin::of_url(text).unwrap();
        assert_ne!(url("https://a"), url("http://a"));
        assert_ne!(url("https://a"), url("https://a:8443"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "a", "ftp://a", "https://", "https://u:p@a", "file:///etc/passwd"] {
            assert!(Origin::of_url(text).is_err(), "{text}");
        }
    }
}
