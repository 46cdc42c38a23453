//! Server-side apply of documents somebody else wrote.
//!
//! Definitions and namespaces go first, since what follows may need them; the rest keeps its order. A kind that one of the
//! definitions brings is waited for: the server takes a moment to serve it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::discovery::{Discovery, Resource};
use crate::client::{APPLY_PATCH, Call};
use crate::yaml::{self, InvalidYaml};
use crate::{Client, Error, Kind, Method, Response};

/// Under which the server remembers the fields we set.
pub const FIELD_MANAGER: &str = "talmox";

/// How often a new kind is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// One document. What it says may be a secret: `Debug` only names it.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    body: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidManifest {
    #[error(transparent)]
    Yaml(InvalidYaml),
    /// Counted from 1, empty documents left out.
    #[error("document {document} has no {field}")]
    Incomplete { document: usize, field: &'static str },
}

impl Manifest {
    /// The documents of a text, YAML or JSON; lists are taken apart.
    pub fn read_all(text: &str) -> Result<Vec<Self>, InvalidManifest> {
        let documents = yaml::documents(text).map_err(InvalidManifest::Yaml)?;
        let mut manifests = Vec::new();
        for (index, document) in documents.into_iter().enumerate() {
            Self::take(document, index + 1, &mut manifests)?;
        }
        Ok(manifests)
    }

    fn take(body: Value, document: usize, all: &mut Vec<Self>) -> Result<(), InvalidManifest> {
        if let Value::Array(items) = body {
            return items.into_iter().try_for_each(|item| Self::take(item, document, all));
        }
        let text = |pointer: &str, field: &'static str| {
            let text = body.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or(InvalidManifest::Incomplete { document, field })
        };
        let (api_version, kind) = (text("/apiVersion", "apiVersion")?, text("/kind", "kind")?);
        if kind.ends_with("List")
            && let Some(items) = body.get("items").and_then(Value::as_array)
        {
            return items.iter().try_for_each(|item| Self::take(item.clone(), document, all));
        }
        let name = text("/metadata/name", "metadata.name")?;
        let namespace = text("/metadata/namespace", "metadata.namespace").ok();
        all.push(Self { api_version, kind, namespace, name, body });
        Ok(())
    }

    /// The same with an annotation.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.body["metadata"]["annotations"][key] = value.into();
        self
    }

    /// How inventories call it: `kube-system_kube-proxy_apps_DaemonSet`.
    pub fn inventory_key(&self) -> String {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        let namespace = self.namespace.as_deref().unwrap_or_default();
        // A colon cannot be in a key.
        format!("{namespace}_{}_{group}_{}", self.name.replace(':', "__"), self.kind)
    }

    fn goes_first(&self) -> bool {
        self.is_definition() || (self.api_version == "v1" && self.kind == "Namespace")
    }

    fn is_definition(&self) -> bool {
        self.kind == "CustomResourceDefinition" && self.api_version.starts_with("apiextensions.k8s.io/")
    }

    /// The kinds a definition brings, with the version they are spoken of.
    fn brings(&self) -> Vec<(String, String)> {
        let text = |pointer: &str| self.body.pointer(pointer).and_then(Value::as_str);
        let versions = self.body.pointer("/spec/versions").and_then(Value::as_array);
        match (self.is_definition(), text("/spec/group"), text("/spec/names/kind"), versions) {
            (true, Some(group), Some(kind), Some(versions)) => versions
                .iter()
                .filter_map(|version| version.get("name").and_then(Value::as_str))
                .map(|version| (format!("{group}/{version}"), kind.to_owned()))
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({self})")
    }
}

/// How to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apply {
    /// Takes fields over that somebody else set to something else; without it that is [`Kind::Conflict`].
    pub force: bool,
    /// How long to wait for kinds that definitions among the documents bring.
    pub wait: Duration,
    /// Whose the fields are from then on.
    pub manager: &'static str,
}

impl Default for Apply {
    fn default() -> Self {
        Self { force: false, wait: Duration::from_mins(1), manager: FIELD_MANAGER }
    }
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// `ConfigMap default/settings`.
    pub what: String,
    pub change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Created,
    /// It was there; whether anything in it was different the server does not say.
    Updated,
}

/// How a document compares with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Missing,
    /// Applying it would change nothing but whose the fields are.
    Same,
    Different,
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("could not apply {what}")]
    Call { what: String, source: Error },
    #[error("could not apply {what}: the cluster has no kind {kind} in {api_version}")]
    NoSuchKind { what: String, kind: String, api_version: String },
}

impl Client {
    /// Applies documents one after the other, and stops at the first that does not go.
    pub async fn apply(&self, manifests: &[Manifest], how: Apply) -> Result<Vec<Applied>, ApplyError> {
        let mut discovery = Discovery::default();
        let ends = Instant::now() + how.wait;
        let brought: BTreeSet<_> = manifests.iter().flat_map(Manifest::brings).collect();
        let (first, rest): (Vec<_>, Vec<_>) = manifests.iter().partition(|one| one.goes_first());
        let mut applied = Vec::new();
        for manifest in first.into_iter().chain(rest) {
            let is_new = brought.contains(&(manifest.api_version.clone(), manifest.kind.clone()));
            let until = is_new.then_some(ends);
            let response = self.apply_when_known(&mut discovery, manifest, how, until).await?;
            let change = if response.status == 201 { Change::Created } else { Change::Updated };
            applied.push(Applied { what: manifest.to_string(), change });
        }
        Ok(applied)
    }

    /// What applying a document would do, found out without doing it.
    pub async fn compare(&self, manifest: &Manifest) -> Result<Standing, ApplyError> {
        self.compare_as(manifest, FIELD_MANAGER).await
    }

    /// The same for fields that are somebody else's.
    pub async fn compare_as(
        &self,
        manifest: &Manifest,
        manager: &'static str,
    ) -> Result<Standing, ApplyError> {
        let failed = |source: Error| ApplyError::Call { what: manifest.to_string(), source };
        let resource = self.resource(&mut Discovery::default(), manifest, None).await?;
        let path = resource.path(&manifest.api_version, manifest.namespace.as_deref(), &manifest.name);
        let live: Value = match self.ask(Call::get(path, format!("read {manifest}"))).await {
            Ok(live) => live,
            Err(error) if error.kind() == Kind::NotFound => return Ok(Standing::Missing),
            Err(error) => return Err(failed(error)),
        };
        let call = patch(&resource, manifest, Apply { force: true, manager, ..Apply::default() })
            .query("dryRun", "All");
        let would_be: Value = self.ask(call).await.map_err(failed)?;
        let same = without_accounts(live) == without_accounts(would_be);
        Ok(if same { Standing::Same } else { Standing::Different })
    }

    async fn apply_when_known(
        &self,
        discovery: &mut Discovery,
        manifest: &Manifest,
        how: Apply,
        until: Option<Instant>,
    ) -> Result<Response, ApplyError> {
        loop {
            let resource = self.resource(discovery, manifest, until).await?;
            match self.send(patch(&resource, manifest, how)).await {
                Ok(response) => return Ok(response),
                // Listed already, and not served yet.
                Err(error)
                    if error.kind() == Kind::NotFound && until.is_some_and(|ends| Instant::now() < ends) =>
                {
                    discovery.forget(&manifest.api_version);
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(source) => return Err(ApplyError::Call { what: manifest.to_string(), source }),
            }
        }
    }

    /// How the server calls a document's kind; until then it is looked for if there is a time.
    async fn resource(
        &self,
        discovery: &mut Discovery,
        manifest: &Manifest,
        until: Option<Instant>,
    ) -> Result<Resource, ApplyError> {
        let Manifest { api_version, kind, .. } = manifest;
        loop {
            let found = discovery.find(self, api_version, kind).await;
            match found.map_err(|source| ApplyError::Call { what: manifest.to_string(), source })? {
                Some(resource) => return Ok(resource),
                None if until.is_some_and(|ends| Instant::now() < ends) => {
                    discovery.forget(api_version);
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                None => {
                    return Err(ApplyError::NoSuchKind {
                        what: manifest.to_string(),
                        kind: kind.clone(),
                        api_version: api_version.clone(),
                    });
                }
            }
        }
    }
}

fn patch(resource: &Resource, manifest: &Manifest, how: Apply) -> Call {
    let path = resource.path(&manifest.api_version, manifest.namespace.as_deref(), &manifest.name);
    Call::new(Method::Patch, path, format!("apply {manifest}"))
        .query("fieldManager", how.manager)
        .query("force", how.force.to_string())
        .body(APPLY_PATCH, manifest.body.clone())
}

/// An object without what the server itself keeps count of.
fn without_accounts(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"] {
            metadata.remove(key);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_named_and_lists_taken_apart() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: shop}, stringData: {k: hidden}}\n\
                    - {apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
        let all = Manifest::read_all(text).unwrap();
        assert_eq!(
            format!("{all:?}"),
            "[Manifest(Secret shop/a), Manifest(Namespace shop), Manifest(ConfigMap c)]"
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        let error = |text: &str| Manifest::read_all(text).unwrap_err().to_string();
        assert_eq!(error("a: 1\n"), "document 1 has no apiVersion");
        assert_eq!(error("apiVersion: v1\nkind: Pod\n"), "document 1 has no metadata.name");
        assert_eq!(error("a: [\n"), "line 1 is no YAML");
    }
}
