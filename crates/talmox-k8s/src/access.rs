//! Where the API is, who we are to it, and what it must be to us.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::yaml;

/// A server, and the identity to show it.
#[derive(Clone, Debug)]
pub struct Access {
    pub server: Server,
    pub identity: Arc<Identity>,
}

/// Why a kubeconfig leads nowhere. No text of it is repeated: it holds a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAccess {
    #[error("the kubeconfig is no YAML")]
    Yaml,
    #[error("the kubeconfig names no current context")]
    NoContext,
    #[error("the kubeconfig has no {list} entry \"{name}\"")]
    NoEntry { list: &'static str, name: String },
    #[error("the kubeconfig's server \"{0}\" is no https address")]
    Server(String),
    /// Tokens, passwords, plugins and files beside the kubeconfig are not read.
    #[error("the kubeconfig has no {0}")]
    Missing(&'static str),
    #[error("the authority is no certificate in PEM form")]
    Authority,
    #[error("the client certificate is none in PEM form")]
    Certificate,
    #[error("the client key is none in PEM form")]
    Key,
}

impl Access {
    /// The current context of a kubeconfig with everything in it, as Talos writes them.
    pub fn from_kubeconfig(text: &SecretString) -> Result<Self, InvalidAccess> {
        let documents = yaml::documents(text.expose_secret()).map_err(|_| InvalidAccess::Yaml)?;
        let root = documents.first().ok_or(InvalidAccess::Yaml)?;
        let current = text_at(root, "/current-context").ok_or(InvalidAccess::NoContext)?;
        let context = entry(root, "contexts", "context", current)?;
        let named = |key: &'static str, pointer: &str| {
            text_at(context, pointer).ok_or(InvalidAccess::Missing(key)).map(str::to_owned)
        };
        let cluster = entry(root, "clusters", "cluster", &named("cluster in its context", "/cluster")?)?;
        let user = entry(root, "users", "user", &named("user in its context", "/user")?)?;
        let server = text_at(cluster, "/server").ok_or(InvalidAccess::Missing("server"))?;
        let authority = decoded(cluster, "/certificate-authority-data", "certificate-authority-data")?;
        let certificate = decoded(user, "/client-certificate-data", "client-certificate-data")?;
        let key = decoded(user, "/client-key-data", "client-key-data")?;
        let identity = Identity::from_pem(&authority, &certificate, &SecretString::from(key))?;
        Ok(Self { server: Server::from_url(server)?, identity: Arc::new(identity) })
    }

    /// The same identity at another address, of one control plane in particular.
    #[must_use]
    pub fn at(&self, server: Server) -> Self {
        Self { server, identity: Arc::clone(&self.identity) }
    }
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn entry<'a>(root: &'a Value, list: &'static str, key: &str, name: &str) -> Result<&'a Value, InvalidAccess> {
    let entries = root.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = entries.iter().find(|entry| text_at(entry, "/name") == Some(name));
    found
        .and_then(|entry| entry.get(key))
        .ok_or_else(|| InvalidAccess::NoEntry { list, name: name.to_owned() })
}

fn decoded(entry: &Value, pointer: &str, name: &'static str) -> Result<String, InvalidAccess> {
    let encoded = text_at(entry, pointer).ok_or(InvalidAccess::Missing(name))?;
    let bytes = STANDARD.decode(encoded).map_err(|_| InvalidAccess::Missing(name))?;
    String::from_utf8(bytes).map_err(|_| InvalidAccess::Missing(name))
}

/// A host, by address or name, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// Without brackets.
    pub host: String,
    pub port: u16,
}

/// Where Talos has the Kubernetes API unless told otherwise.
const HTTPS_PORT: u16 = 443;

impl Server {
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// From `https://HOST[:PORT]`. Nothing may follow: a path would belong to a proxy, which is not spoken to.
    pub fn from_url(url: &str) -> Result<Self, InvalidAccess> {
        let wrong = || InvalidAccess::Server(url.to_owned());
        let rest = url.strip_prefix("https://").ok_or_else(wrong)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| wrong())?,
            None if port.is_empty() => HTTPS_PORT,
            None => return Err(wrong()),
        };
        let strange = |c: char| !(c.is_ascii_alphanumeric() || ".-:_".contains(c));
        if host.is_empty() || host.contains(strange) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A client certificate with its key, and the authority servers must have theirs from.
pub struct Identity {
    pub(crate) authority: Vec<CertificateDer<'static>>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    earlier: Option<Earlier>,
}

/// Who we were under the authority before, and the servers that know us by that only.
struct Earlier {
    identity: Arc<Identity>,
    servers: Mutex<BTreeSet<Server>>,
}

impl Identity {
    /// From PEM texts.
    pub fn from_pem(authority: &str, certificate: &str, key: &SecretString) -> Result<Self, InvalidAccess> {
        let read = |text: &str, wrong: InvalidAccess| {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            all.ok().filter(|all| !all.is_empty()).ok_or(wrong)
        };
        Ok(Self {
            authority: read(authority, InvalidAccess::Authority)?,
            chain: read(certificate, InvalidAccess::Certificate)?,
            key: PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
                .map_err(|_| InvalidAccess::Key)?,
            earlier: None,
        })
    }

    /// The same, and another to show to servers that do not know this one yet.
    #[must_use]
    pub fn or_earlier(self, identity: Arc<Self>) -> Self {
        Self { earlier: Some(Earlier { identity, servers: Mutex::default() }), ..self }
    }

    /// Who we are to a server, the likeliest first.
    pub(crate) fn in_turn(self: &Arc<Self>, server: &Server) -> Vec<Arc<Self>> {
        let Some(earlier) = &self.earlier else { return vec![Arc::clone(self)] };
        let by_earlier = earlier.servers.lock().unwrap_or_else(PoisonError::into_inner).contains(server);
        let both = [Arc::clone(self), Arc::clone(&earlier.identity)];
        if by_earlier { both.into_iter().rev().collect() } else { both.into() }
    }

    /// Remembers which of them a server knew.
    pub(crate) fn known_to(self: &Arc<Self>, server: &Server, as_whom: &Arc<Self>) {
        let Some(earlier) = &self.earlier else { return };
        let mut servers = earlier.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(self, as_whom) {
            servers.remove(server);
        } else {
            servers.insert(server.clone());
        }
    }

    /// The client certificate in DER, for transports that have no TLS to show it in.
    pub fn certificate(&self) -> &[u8] {
        self.chain.first().map(AsRef::as_ref).unwrap_or_default()
    }

    /// The authorities servers are believed by, in DER.
    pub fn authorities(&self) -> impl Iterator<Item = &[u8]> {
        self.authority.iter().map(AsRef::as_ref)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_urls() {
        let table = [
            ("https://10.0.0.5:6443", Some("10.0.0.5:6443")),
            ("https://Cluster.example/", Some("cluster.example:443")),
            ("https://[fd00::5]:6443", Some("[fd00::5]:6443")),
            ("http://10.0.0.5:6443", None),
            ("https://10.0.0.5:6443/k8s/clusters/c-1", None),
            ("https://user@10.0.0.5", None),
            ("https://[fd00::5]6443", None),
            ("https://:6443", None),
            ("https://host:port", None),
        ];
        for (url, expected) in table {
            let server = Server::from_url(url).ok().map(|server| server.to_string());
            assert_eq!(server.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_kubeconfig_that_leads_nowhere_is_told_without_its_text() {
        let error = |text: &str| Access::from_kubeconfig(&SecretString::from(text)).unwrap_err().to_string();
        assert_eq!(error("kind: Config\n"), "the kubeconfig names no current context");
        assert_eq!(error("a: [hidden\n"), "the kubeconfig is no YAML");
        let incomplete = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n\
                          clusters: [{name: c, cluster: {server: 'https://h:1'}}]\n";
        assert_eq!(error(incomplete), "the kubeconfig has no users entry \"u\"");
        let token = format!("{incomplete}users: [{{name: u, user: {{token: hidden}}}}]\n");
        assert_eq!(error(&token), "the kubeconfig has no certificate-authority-data");
    }
}
