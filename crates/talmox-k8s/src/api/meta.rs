//! What all objects have, and how some of many are asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use talmox_types::excerpt;

use crate::client::Call;
use crate::{Client, Error};

/// Go writes an empty list or map as nothing, as `null`, or as what it is.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Words for people, written by whatever runs on a node.
pub(crate) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    or_default::<D, String>(deserializer).map(|text| excerpt(&text))
}

/// Who an object is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<Owner>,
    /// When it was asked to go, if it was.
    pub deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub kind: String,
    pub name: String,
    /// Whether it is the one that makes the object anew.
    pub controller: bool,
}

/// Something about an object that is so, is not, or is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(deserialize_with = "words")]
    pub reason: String,
    /// On one line, fit to be shown.
    #[serde(deserialize_with = "words")]
    pub message: String,
}

/// Some of many, by Kubernetes' own selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// None: of all namespaces.
    pub namespace: Option<String>,
    /// `k8s-app=kube-proxy`.
    pub labels: Option<String>,
    /// `spec.nodeName=cp-1`.
    pub fields: Option<String>,
}

impl Selection {
    pub fn all() -> Self {
        Self::default()
    }

    pub fn in_namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    #[must_use]
    pub fn with_labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    #[must_use]
    pub fn with_fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }
}

#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct List<T> {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<T>,
}

impl Client {
    /// All objects of a kind; `prefix` is `/api/v1` or `/apis/GROUP/VERSION`.
    pub(crate) async fn list<T: for<'de> Deserialize<'de>>(
        &self,
        prefix: &str,
        plural: &str,
        selection: &Selection,
    ) -> Result<Vec<T>, Error> {
        let Selection { namespace, labels, fields } = selection;
        let path = match namespace {
            Some(namespace) => format!("{prefix}/namespaces/{namespace}/{plural}"),
            None => format!("{prefix}/{plural}"),
        };
        let mut call = Call::get(path, format!("list {plural}"));
        for (key, selector) in [("labelSelector", labels), ("fieldSelector", fields)] {
            if let Some(selector) = selector {
                call = call.query(key, selector);
            }
        }
        Ok(self.ask::<List<T>>(call).await?.items)
    }
}
