//! Objects as they are kept.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clock::rfc3339;
use super::kinds::{Resource, find, table};
use super::{Store, kinds};

/// An object, and when things happened to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Object {
    pub(super) body: Value,
    /// Milliseconds since 1970 at which it was made; of a pod, at which it got its node.
    pub(super) since: u64,
    /// When it was asked to go.
    pub(super) leaving: Option<u64>,
}

/// What a JSON pointer leads to. It is asked for at every pod of every look, so nothing is copied for it.
pub(super) fn along<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut steps = pointer.strip_prefix('/').into_iter().flat_map(|rest| rest.split('/'));
    steps.try_fold(value, |value, step| match value {
        Value::Object(map) if step.contains('~') => map.get(&step.replace("~1", "/").replace("~0", "~")),
        Value::Object(map) => map.get(step),
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// The text along a JSON pointer; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    along(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(value: &Value, pointer: &str) -> u64 {
    along(value, pointer).and_then(Value::as_u64).unwrap_or_default()
}

pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    along(value, pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether an object has a condition of that type that is true.
pub(super) fn has_condition(body: &Value, kind: &str) -> bool {
    items(body, "/status/conditions")
        .iter()
        .any(|one| text(one, "/type") == kind && text(one, "/status") == "True")
}

pub(super) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl Store {
    pub(super) fn get(&self, table: &str, namespace: &str, name: &str) -> Option<&Object> {
        self.objects.get(table)?.get(&key(namespace, name))
    }

    pub(super) fn bodies(&self, group: &str, plural: &str) -> impl Iterator<Item = &Value> {
        self.objects.get(&table(group, plural)).into_iter().flatten().map(|(_, object)| &object.body)
    }

    /// Puts an object where it belongs, under the next revision.
    pub(super) fn put(&mut self, resource: &Resource, mut object: Object) -> Value {
        self.revision += 1;
        object.body["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let body = object.body.clone();
        let key = key(text(&body, "/metadata/namespace"), text(&body, "/metadata/name"));
        self.objects.entry(resource.table()).or_default().insert(key, object);
        self.wake = 0;
        body
    }

    /// The same for a body that controllers write; nothing happens if it says what was there.
    pub(super) fn update(&mut self, group: &str, plural: &str, body: Value) {
        let Some(resource) = kinds::find(group, plural) else { return };
        let (namespace, name) = (text(&body, "/metadata/namespace"), text(&body, "/metadata/name"));
        let Some(old) = self.get(&resource.table(), namespace, name) else { return };
        if old.body != body {
            let object = Object { body, ..old.clone() };
            self.put(&resource, object);
        }
    }

    pub(super) fn remove(
        &mut self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Object> {
        let table = table(group, plural);
        let removed = self.objects.get_mut(&table)?.remove(&key(namespace, name))?;
        self.revision += 1;
        self.removed.insert(table, self.revision);
        self.wake = 0;
        Some(removed)
    }

    /// Makes an object that belongs to the cluster itself, unless it is there.
    pub(super) fn ensure(
        &mut self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        mut body: Value,
        now: u64,
    ) {
        let Some(resource) = find(group, plural) else { return };
        if self.get(&resource.table(), namespace, name).is_some() {
            return;
        }
        body["apiVersion"] = resource.api_version().into();
        body["kind"] = resource.kind.as_str().into();
        body["metadata"]["name"] = name.into();
        if !namespace.is_empty() {
            body["metadata"]["namespace"] = namespace.into();
        }
        self.stamp(&resource, &mut body, now);
        self.put(&resource, Object { body, since: now, leaving: None });
    }

    /// What the server itself says of a new object.
    pub(super) fn stamp(&mut self, resource: &Resource, body: &mut Value, now: u64) {
        let uid = self.uid();
        let counted = body.get("spec").is_some()
            && !matches!(resource.plural.as_str(), "nodes" | "namespaces" | "leases");
        body["metadata"]["uid"] = uid.into();
        body["metadata"]["creationTimestamp"] = rfc3339(now).into();
        if counted || resource.custom {
            body["metadata"]["generation"] = 1.into();
        }
    }

    fn uid(&self) -> String {
        let (high, low) = (self.draw(1), self.draw(2));
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff
        )
    }

    /// Five characters, as controllers append them to names.
    pub(super) fn suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut drawn = self.draw(3);
        let mut next = || {
            let index = usize::try_from(drawn % ALPHABET.len() as u64).unwrap_or_default();
            drawn /= ALPHABET.len() as u64;
            char::from(ALPHABET[index])
        };
        (0..5).map(|_| next()).collect()
    }

    /// A number nobody guesses from the last: the revision, stirred (splitmix64).
    fn draw(&self, salt: u64) -> u64 {
        let mut x = self.seed ^ (self.revision << 2 | salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}
