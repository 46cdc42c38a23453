//! Where a Proxmox API is.

use std::fmt;

use serde::{Deserialize, Serialize};
use talmox_types::Fingerprint;

/// The port Proxmox's API listens on.
pub const DEFAULT_PORT: u16 = 8006;

/// Host and port of a Proxmox API, always reached over TLS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// A name in lower case or an address, IPv6 without brackets.
    host: String,
    port: u16,
}

/// A text that names no endpoint. The text itself is not repeated: people put passwords into URLs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    #[error("the Proxmox API is reached over https only: write https:// or leave the scheme out")]
    Scheme,
    #[error("credentials do not belong into the endpoint's address: give them on their own")]
    Credentials,
    #[error("`{host}` is not a host name or address")]
    Host { host: String },
    #[error("`{port}` is not a port")]
    Port { port: String },
    #[error("the endpoint ends with host and port: `{path}` is too much")]
    Path { path: String },
}

impl Endpoint {
    pub fn new(host: &str, port: u16) -> Result<Self, InvalidEndpoint> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        let valid =
            host.parse::<std::net::Ipv6Addr>().is_ok() || (!host.is_empty() && host.bytes().all(name));
        if valid { Ok(Self { host, port }) } else { Err(InvalidEndpoint::Host { host }) }
    }

    /// Reads `https://pve1.example:8006`, `https://pve1/api2/json`, `pve1`, `192.0.2.1:8006` or `[2001:db8::1]:8006`.
    pub fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => rest,
            Some(_) => return Err(InvalidEndpoint::Scheme),
            None => text,
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(InvalidEndpoint::Credentials);
        }
        if !["", "api2/json", "api2"].contains(&path.trim_matches('/')) {
            return Err(InvalidEndpoint::Path { path: path.to_owned() });
        }
        let (host, port) = split_port(authority)?;
        let port = port.map_or(Ok(DEFAULT_PORT), |port| {
            port.parse().map_err(|_| InvalidEndpoint::Port { port: port.to_owned() })
        })?;
        Self::new(host, port)
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as a URL or a `Host` header has them.
    pub fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), InvalidEndpoint> {
    if let Some(rest) = authority.strip_prefix('[') {
        let invalid = || InvalidEndpoint::Host { host: authority.to_owned() };
        let (host, port) = rest.split_once(']').ok_or_else(invalid)?;
        return match port.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if port.is_empty() => Ok((host, None)),
            None => Err(invalid()),
        };
    }
    // A bare IPv6 address has several colons and no port.
    match authority.split_once(':') {
        Some((host, port)) if !port.contains(':') => Ok((host, Some(port))),
        _ => Ok((authority, None)),
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority())
    }
}

impl std::str::FromStr for Endpoint {
    type Err = InvalidEndpoint;
    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Endpoint {
    type Error = InvalidEndpoint;
    fn try_from(text: String) -> Result<Self, InvalidEndpoint> {
        Self::parse(&text)
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

/// An endpoint and the certificates it alone may show, besides what is trusted everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub endpoint: Endpoint,
    pub fingerprints: Vec<Fingerprint>,
}

impl From<Endpoint> for Target {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, fingerprints: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_endpoint_in_many_spellings() {
        for text in [
            "https://PVE1.example:8006/api2/json/",
            "pve1.example",
            "https://pve1.example/",
            "pve1.example.:8006",
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), "https://pve1.example:8006", "{text}");
        }
        assert_eq!(Endpoint::parse("[2001:db8::1]:443").unwrap().to_string(), "https://[2001:db8::1]:443");
        assert_eq!(Endpoint::parse("2001:db8::1").unwrap().to_string(), "https://[2001:db8::1]:8006");
    }

    #[test]
    fn a_password_in_the_address_is_not_repeated() {
        let error = Endpoint::parse("https://root:hunter2@pve1:8006").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        for bad in
            ["http://pve1:8006", "", "https://", "pve1:99999", "pve1/ui", "pve 1", "[::1", "https://pve1?x=1"]
        {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
    }
}
