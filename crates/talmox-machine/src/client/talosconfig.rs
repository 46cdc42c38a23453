//! talosconfig: contexts to reach clusters by, merged as `talosctl` does.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use talmox_types::Realm;
use talmox_yaml::Span;

use super::{ClientCertificate, ClientFile};
use crate::document::read_values;
use crate::fault::{Fault, Faults, Path, Source};
use crate::pki::Certificate;
use crate::print::print;
use crate::secrets::Bundle;
use crate::value::{Map, Value};

/// A talosconfig file. What this program does not know of it is kept. `Debug` names contexts and shows no keys.
#[derive(Clone, PartialEq)]
pub struct Talosconfig {
    root: Map,
}

/// A context that got another name because its own was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    pub from: String,
    pub to: String,
}

/// A context did not get another client certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    #[error("there is no context {0}")]
    NoContext(String),
    #[error("the context {0} is of another cluster: its authority is not the one of these secrets")]
    OtherCluster(String),
}

/// How one cluster is reached.
pub struct Context<'a> {
    pub name: &'a str,
    pub endpoints: &'a [String],
    pub nodes: &'a [String],
}

impl Talosconfig {
    /// A file with one context, which is the current one. While an authority is being replaced it trusts both; the client is
    /// whoever the machines let in.
    pub fn new(context: &Context<'_>, bundle: &Bundle, client: &ClientCertificate) -> Self {
        let (certificate, key) = client.encoded();
        let nodes = (!context.nodes.is_empty()).then(|| context.nodes.to_vec());
        let body = Map::new()
            .with("endpoints", context.endpoints.to_vec())
            .with_some("nodes", nodes)
            .with("ca", STANDARD.encode(bundle.trusted(Realm::Talos)))
            .with("crt", certificate)
            .with("key", key);
        let root =
            Map::new().with("context", context.name).with("contexts", Map::new().with(context.name, body));
        Self { root }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.root.get("contexts").and_then(Value::as_map).into_iter().flat_map(Map::keys)
    }

    fn context(&self, name: &str) -> Option<&Map> {
        self.root.get("contexts")?.at(&[name])?.as_map()
    }

    /// Where a context's cluster is reached, and the nodes it is about.
    pub fn places(&self, context: &str) -> (Vec<String>, Vec<String>) {
        let list = |key: &str| {
            let items = self.context(context).and_then(|body| body.get(key)).and_then(Value::as_list);
            let items = items.unwrap_or_default().iter();
            items.filter_map(|item| item.as_text().map(str::to_owned)).collect::<Vec<String>>()
        };
        (list("endpoints"), list("nodes"))
    }

    /// Authority, certificate and key of a context, as PEM.
    pub fn identity(&self, context: &str) -> Option<(String, String, SecretString)> {
        let part = |key| self.pem(context, key);
        Some((part("ca")?, part("crt")?, part("key").map(SecretString::from)?))
    }

    fn pem(&self, context: &str, key: &str) -> Option<String> {
        let encoded = self.context(context)?.get(key)?.as_text()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    }

    /// Adds the contexts of another file. One whose name is taken becomes `name-1`, `name-2` and so on; the other file's
    /// current context becomes the current one.
    pub fn merge(&mut self, other: &Self) -> Vec<Rename> {
        let current = other.current().map(str::to_owned);
        let mut renames = Vec::new();
        for name in other.names() {
            let Some(body) = other.context(name) else { continue };
            let free = self.free_name(name);
            self.set_context(&free, body.clone());
            if current.as_deref() == Some(name) {
                self.root.set("context", free.as_str());
            }
            if free != name {
                renames.push(Rename { from: name.to_owned(), to: free });
            }
        }
        renames
    }

    /// Puts another client certificate into a context of the same cluster, which trusts what the bundle has; all else stays.
    pub fn replace_client(
        &mut self,
        context: &str,
        bundle: &Bundle,
        client: &ClientCertificate,
    ) -> Result<(), ReplaceError> {
        let mut body =
            self.context(context).cloned().ok_or_else(|| ReplaceError::NoContext(context.to_owned()))?;
        let ours = Realm::Talos;
        let known = [Some(bundle.present(ours)), bundle.next(ours)].into_iter().flatten();
        let trusts = self.trusts(context);
        if !known.into_iter().any(|authority| trusts.contains(authority.certificate.pem().trim())) {
            return Err(ReplaceError::OtherCluster(context.to_owned()));
        }
        let (certificate, key) = client.encoded();
        body.set("ca", STANDARD.encode(bundle.trusted(ours)));
        body.set("crt", certificate);
        body.set("key", key);
        self.set_context(context, body);
        Ok(())
    }

    fn free_name(&self, name: &str) -> String {
        let taken = |name: &str| self.context(name).is_some();
        let mut candidates = (1..).map(|number| format!("{name}-{number}"));
        if taken(name) { candidates.find(|name| !taken(name)).unwrap_or_default() } else { name.to_owned() }
    }

    fn set_context(&mut self, name: &str, body: Map) {
        if self.root.get("contexts").and_then(Value::as_map).is_none() {
            self.root.set("contexts", Map::new());
        }
        if let Some(Value::Map(contexts)) = self.root.get_mut("contexts") {
            contexts.set(name, body);
        }
    }
}

impl ClientFile for Talosconfig {
    fn parse(source: Source<'_>) -> Result<Self, Faults> {
        let mut values = read_values(source)?;
        let root = match values.pop() {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Map(root)) if is_talosconfig(&root) => root,
            Some(_) => {
                let place = source.place(Span::default(), &Path::default());
                return Err(Faults(vec![Fault { place, message: "not a talosconfig".to_owned() }]));
            }
        };
        Ok(Self { root })
    }

    fn to_yaml(&self) -> SecretString {
        let empty = Value::Map(Map::new());
        let mut contexts = self.root.get("contexts").unwrap_or(&empty).clone();
        if let Value::Map(contexts) = &mut contexts {
            contexts.sort();
        }
        let current = self.root.get("context").cloned().unwrap_or_else(|| Value::text(""));
        let mut root = Map::new().with("context", current).with("contexts", contexts);
        for (key, value) in self.root.iter().filter(|(key, _)| !["context", "contexts"].contains(key)) {
            root.set(key, value.clone());
        }
        SecretString::from(print(&Value::Map(root)))
    }

    fn current(&self) -> Option<&str> {
        self.root.get("context").and_then(Value::as_text).filter(|name| !name.is_empty())
    }

    fn contexts(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        names
    }

    fn certificate(&self, context: &str) -> Option<Certificate> {
        self.pem(context, "crt").and_then(|pem| Certificate::parse(&pem).ok())
    }

    fn authority(&self, context: &str) -> Option<&str> {
        self.context(context)?.get("ca")?.as_text()
    }

    fn leads_alike(&self, context: &str, other: &Self) -> bool {
        let of =
            |file: &Self, name: &str, key: &str| file.context(name).and_then(|map| map.get(key)).cloned();
        other.current().is_some_and(|theirs| {
            ["endpoints", "nodes"].iter().all(|key| of(self, context, key) == of(other, theirs, key))
        })
    }

    fn says_the_same(&self, context: &str, other: &Self) -> bool {
        let said = |file: &Self, name: &str| {
            let mut body = file.context(name)?.clone();
            for key in ["crt", "key"] {
                body.remove(key);
            }
            Some(body)
        };
        other
            .current()
            .and_then(|theirs| said(other, theirs))
            .is_some_and(|made| said(self, context).is_some_and(|found| found == made))
    }

    fn add(&mut self, other: &Self) -> Vec<Rename> {
        self.merge(other)
    }

    fn replace(&mut self, mine: &str, theirs: &str, other: &Self) {
        let mut body = self.context(mine).cloned().unwrap_or_default();
        for key in ["endpoints", "nodes", "ca", "crt", "key"] {
            if let Some(value) = other.context(theirs).and_then(|context| context.get(key)) {
                body.set(key, value.clone());
            }
        }
        self.set_context(mine, body);
    }

    fn set_current(&mut self, context: &str) {
        self.root.set("context", context);
    }

    fn drop_context(&mut self, context: &str) {
        if let Some(Value::Map(contexts)) = self.root.get_mut("contexts") {
            contexts.remove(context);
        }
    }
}

fn is_talosconfig(root: &Map) -> bool {
    let contexts = root.get("contexts").is_none_or(|value| matches!(value, Value::Map(_) | Value::Null));
    contexts && (root.contains("contexts") || root.contains("context") || root.is_empty())
}

impl fmt::Debug for Talosconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talosconfig")
            .field("context", &self.current())
            .field("contexts", &self.names().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
