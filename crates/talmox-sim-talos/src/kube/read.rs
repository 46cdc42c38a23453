//! Reading.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::Store;
use super::failure::Failure;
use super::handle::Call;
use super::path::Place;
use super::selector::{Labels, fields_select};

impl Store {
    pub(super) fn read(&self, place: &Place) -> Result<(u16, Value), Failure> {
        let Place { resource, namespace, name, .. } = place;
        let object = self.get(&resource.table(), namespace, name);
        let object = object.ok_or_else(|| Failure::not_found(resource, name))?;
        Ok((200, served(object.body.clone(), place)))
    }

    /// All of a kind that the selectors want, written out at once: lists are long. A watch ends at once: nothing here waits.
    pub(super) fn list(&self, call: &Call<'_>, place: &Place) -> Result<Bytes, Failure> {
        let Place { resource, namespace, .. } = place;
        let labels = Labels::parse(call.parameter("labelSelector"))?;
        let fields = call.parameter("fieldSelector");
        fields_select(fields, resource, &Value::Null)?;
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let all = self.objects.get(&resource.table()).into_iter().flatten();
        let mut items: Vec<Cow<'_, Value>> = Vec::new();
        for (_, object) in all.filter(|(key, _)| key.starts_with(&prefix)) {
            if labels.select(&object.body) && fields_select(fields, resource, &object.body)? {
                items.push(if resource.custom {
                    Cow::Owned(served(object.body.clone(), place))
                } else {
                    Cow::Borrowed(&object.body)
                });
            }
        }
        let list = List {
            kind: format!("{}List", resource.kind),
            api_version: resource.api_version(),
            metadata: json!({ "resourceVersion": self.revision.to_string() }),
            items,
        };
        serde_json::to_vec(&list).map(Bytes::from).map_err(|error| Failure::new(500, "", error.to_string()))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: String,
    api_version: String,
    metadata: Value,
    items: Vec<Cow<'a, Value>>,
}

/// An object in the version it was asked for in.
fn served(mut body: Value, place: &Place) -> Value {
    if place.resource.custom {
        body["apiVersion"] = place.resource.api_version().into();
    }
    body
}
