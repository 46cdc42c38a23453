//! kubeconfig: an administrator's access to Kubernetes, merged into a file that may know other clusters.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use talmox_types::Realm;
use talmox_yaml::Span;

use super::{ClientCertificate, ClientFile, Rename};
use crate::document::read_values;
use crate::fault::{Fault, Faults, Path, Source};
use crate::pki::Certificate;
use crate::print::print;
use crate::secrets::Bundle;
use crate::value::{Map, Value};

/// A kubeconfig file. What this program does not know of it is kept. `Debug` names contexts and shows no keys.
#[derive(Clone, PartialEq)]
pub struct Kubeconfig {
    root: Map,
}

/// What to do where an entry of that name is there and says something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Give the new one another name.
    Rename,
    /// Put the new one in its place.
    Overwrite,
}

/// The lists of a kubeconfig, and the key of what an entry holds.
const CLUSTERS: (&str, &str) = ("clusters", "cluster");
const USERS: (&str, &str) = ("users", "user");
const CONTEXTS: (&str, &str) = ("contexts", "context");

/// Where a cluster's entry has the certificate of its authority.
const AUTHORITY: &str = "certificate-authority-data";

impl Kubeconfig {
    /// A file for one cluster. While an authority is being replaced it trusts both; the client is whoever the machines let in.
    pub fn new(cluster: &str, endpoint: &str, bundle: &Bundle, client: &ClientCertificate) -> Self {
        let (certificate, key) = client.encoded();
        let admin = format!("admin@{cluster}");
        let entry = |name: &str, key: &str, body: Map| {
            vec![Value::Map(Map::new().with("name", name).with(key, body))]
        };
        let server = Map::new()
            .with("server", endpoint)
            .with(AUTHORITY, STANDARD.encode(bundle.trusted(Realm::Kubernetes)));
        let user = Map::new().with("client-certificate-data", certificate).with("client-key-data", key);
        let context =
            Map::new().with("cluster", cluster).with("namespace", "default").with("user", admin.as_str());
        let root = Map::new()
            .with("apiVersion", "v1")
            .with("kind", "Config")
            .with(CLUSTERS.0, entry(cluster, CLUSTERS.1, server))
            .with(USERS.0, entry(&admin, USERS.1, user))
            .with(CONTEXTS.0, entry(&admin, CONTEXTS.1, context))
            .with("current-context", admin.as_str());
        Self { root }
    }

    /// Adds another file's clusters, users and contexts, and makes its current context the current one. Entries that
    /// say the same are kept as they are. As with `talosctl`, a user is named after its cluster and a context after its
    /// user: where one got another name, the next has it in its own.
    pub fn merge(&mut self, other: &Self, conflict: Conflict) -> Vec<Rename> {
        let clusters = self.new_names(other, CLUSTERS, conflict, &[]);
        let users = self.new_names(other, USERS, conflict, &clusters);
        let contexts = self.new_names(other, CONTEXTS, conflict, &users);
        self.add(other, CLUSTERS, &clusters, &[]);
        self.add(other, USERS, &users, &[]);
        self.add(other, CONTEXTS, &contexts, &[("cluster", &clusters), ("user", &users)]);
        if let Some(current) = other.current() {
            let target = contexts.iter().find(|name| name.from == current);
            self.root.set("current-context", target.map_or(current, |name| &name.to));
        }
        clusters.into_iter().chain(users).chain(contexts).filter(|name| name.from != name.to).collect()
    }

    fn drop_entry(&mut self, (list, _): (&str, &str), name: &str) {
        let named = |entry: &Value| entry.at(&["name"]).and_then(Value::as_text) == Some(name);
        let left: Vec<Value> = self.entries(list).iter().filter(|entry| !named(entry)).cloned().collect();
        self.root.set(list, Value::List(left));
    }

    fn cluster_of(&self, context: &str) -> Option<&Value> {
        let cluster = self.entry(CONTEXTS, context)?.at(&["cluster"])?.as_text()?;
        self.entry(CLUSTERS, cluster)
    }

    fn entries(&self, list: &str) -> &[Value] {
        self.root.get(list).and_then(Value::as_list).unwrap_or_default()
    }

    fn entry(&self, (list, key): (&str, &str), name: &str) -> Option<&Value> {
        let named = |entry: &&Value| entry.at(&["name"]).and_then(Value::as_text) == Some(name);
        self.entries(list).iter().find(named)?.at(&[key])
    }

    /// Under which names the entries of another file's list come here; `inside` are names that may be part of theirs.
    fn new_names(
        &self,
        other: &Self,
        (list, key): (&str, &str),
        conflict: Conflict,
        inside: &[Rename],
    ) -> Vec<Rename> {
        let names = other.entries(list).iter().filter_map(|entry| {
            let from = entry.at(&["name"]).and_then(Value::as_text)?.to_owned();
            let name = inside.iter().fold(from.clone(), |name, known| name.replace(&known.from, &known.to));
            let existing = self.entry((list, key), &name);
            let differs = existing.is_some_and(|existing| Some(existing) != entry.at(&[key]));
            let to = if differs && conflict == Conflict::Rename {
                self.free_name((list, key), &name)
            } else {
                name
            };
            Some(Rename { from, to })
        });
        names.collect()
    }

    /// Adds the entries of one list; `references` are fields that name entries of others.
    fn add(
        &mut self,
        other: &Self,
        (list, key): (&str, &str),
        names: &[Rename],
        references: &[(&str, &[Rename])],
    ) {
        for name in names {
            let mut body = other.entry((list, key), &name.from).cloned().unwrap_or(Value::Null);
            follow(&mut body, references);
            self.set((list, key), &name.to, body);
        }
    }

    fn free_name(&self, list: (&str, &str), name: &str) -> String {
        let mut candidates = (1..).map(|number| format!("{name}-{number}"));
        candidates.find(|name| self.entry(list, name).is_none()).unwrap_or_default()
    }

    fn set(&mut self, (list, key): (&str, &str), name: &str, body: Value) {
        let mut items = self.entries(list).to_vec();
        let existing =
            items.iter_mut().find(|entry| entry.at(&["name"]).and_then(Value::as_text) == Some(name));
        match existing {
            Some(Value::Map(entry)) => entry.set(key, body),
            Some(_) | None => items.push(Value::Map(Map::new().with("name", name).with(key, body))),
        }
        self.root.set(list, Value::List(items));
    }
}

fn follow(body: &mut Value, references: &[(&str, &[Rename])]) {
    for (field, renames) in references {
        let Some(map) = body.as_map_mut() else { return };
        let renamed = map.get(field).and_then(Value::as_text).and_then(|name| {
            renames.iter().find(|rename| rename.from == name).map(|rename| rename.to.clone())
        });
        if let Some(name) = renamed {
            map.set(*field, name);
        }
    }
}

impl ClientFile for Kubeconfig {
    fn parse(source: Source<'_>) -> Result<Self, Faults> {
        let mut values = read_values(source)?;
        match values.pop() {
            None | Some(Value::Null) => {
                Ok(Self { root: Map::new().with("apiVersion", "v1").with("kind", "Config") })
            }
            Some(Value::Map(root)) if root.get("kind").and_then(Value::as_text) == Some("Config") => {
                Ok(Self { root })
            }
            Some(_) => {
                let place = source.place(Span::default(), &Path::default());
                Err(Faults(vec![Fault { place, message: "not a kubeconfig".to_owned() }]))
            }
        }
    }

    fn to_yaml(&self) -> SecretString {
        SecretString::from(print(&Value::Map(self.root.clone())))
    }

    fn current(&self) -> Option<&str> {
        self.root.get("current-context").and_then(Value::as_text).filter(|name| !name.is_empty())
    }

    fn contexts(&self) -> Vec<&str> {
        self.entries(CONTEXTS.0).iter().filter_map(|entry| entry.at(&["name"])?.as_text()).collect()
    }

    fn certificate(&self, context: &str) -> Option<Certificate> {
        let user = self.entry(CONTEXTS, context)?.at(&["user"])?.as_text()?;
        let encoded = self.entry(USERS, user)?.at(&["client-certificate-data"])?.as_text()?;
        let pem = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        Certificate::parse(&pem).ok()
    }

    fn authority(&self, context: &str) -> Option<&str> {
        self.cluster_of(context)?.at(&[AUTHORITY])?.as_text()
    }

    fn leads_alike(&self, context: &str, other: &Self) -> bool {
        let server =
            |file: &Self, name: &str| file.cluster_of(name).and_then(|one| one.at(&["server"])).cloned();
        other.current().is_some_and(|theirs| server(self, context) == server(other, theirs))
    }

    fn says_the_same(&self, context: &str, other: &Self) -> bool {
        /// A context with what it refers to, without the names of those and without certificate and key.
        fn said(file: &Kubeconfig, context: &str) -> Option<[Map; 3]> {
            let mut body = file.entry(CONTEXTS, context)?.as_map()?.clone();
            let name = |key: &str| body.get(key).and_then(Value::as_text).map(str::to_owned);
            let (cluster, user) = (name("cluster")?, name("user")?);
            let cluster = file.entry(CLUSTERS, &cluster)?.as_map()?.clone();
            let mut user = file.entry(USERS, &user)?.as_map()?.clone();
            for key in ["cluster", "user"] {
                body.remove(key);
            }
            for key in ["client-certificate-data", "client-key-data"] {
                user.remove(key);
            }
            Some([body, cluster, user])
        }
        other
            .current()
            .and_then(|theirs| said(other, theirs))
            .is_some_and(|made| said(self, context).is_some_and(|found| found == made))
    }

    fn add(&mut self, other: &Self) -> Vec<Rename> {
        self.merge(other, Conflict::Rename)
    }

    fn replace(&mut self, mine: &str, theirs: &str, other: &Self) {
        for (part, key, fields) in [
            (CLUSTERS, "cluster", ["server", AUTHORITY]),
            (USERS, "user", ["client-certificate-data", "client-key-data"]),
        ] {
            let name = |file: &Self, context: &str| {
                file.entry(CONTEXTS, context)?.at(&[key])?.as_text().map(str::to_owned)
            };
            let (Some(mine), Some(theirs)) = (name(self, mine), name(other, theirs)) else { continue };
            let Some(mut body) = self.entry(part, &mine).and_then(Value::as_map).cloned() else { continue };
            for field in fields {
                if let Some(value) = other.entry(part, &theirs).and_then(|entry| entry.at(&[field])) {
                    body.set(field, value.clone());
                }
            }
            self.set(part, &mine, Value::Map(body));
        }
    }

    fn set_current(&mut self, context: &str) {
        self.root.set("current-context", context);
    }

    fn drop_context(&mut self, context: &str) {
        let body = self.entry(CONTEXTS, context).cloned().unwrap_or(Value::Null);
        self.drop_entry(CONTEXTS, context);
        for (part, key) in [(CLUSTERS, "cluster"), (USERS, "user")] {
            let Some(name) = body.at(&[key]).and_then(Value::as_text) else { continue };
            let used = |one: &Value| one.at(&[CONTEXTS.1, key]).and_then(Value::as_text) == Some(name);
            if !self.entries(CONTEXTS.0).iter().any(used) {
                self.drop_entry(part, name);
            }
        }
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("current", &self.current())
            .field("contexts", &self.contexts())
            .finish_non_exhaustive()
    }
}
