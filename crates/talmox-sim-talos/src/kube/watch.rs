//! Watches: what is there, then what changes.
//!
//! ```text
//!  begin ─▶ ADDED … (BOOKMARK: that was all there is) ─▶ ADDED · MODIFIED · DELETED, whenever somebody looks again
//! ```
//!
//! Nothing is written down for those who watch: each knows what it was told, and hears of the difference. Of several
//! changes between two looks only the last is told; an object that was made anew is told as gone and there.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::Store;
use super::failure::Failure;
use super::handle::Call;
use super::object::text;
use super::path::Place;
use super::selector::{Labels, fields_select};

/// Says that everything that was there has been told.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// What somebody watches, and what it was told.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    place: Place,
    labels: Labels,
    fields: String,
    /// By namespace and name, as they were.
    told: BTreeMap<String, Value>,
    /// How many seconds it goes on; without end if nothing is said.
    pub(crate) seconds: Option<u64>,
}

impl Store {
    /// Begins to watch; gives what is told at once, a line for each event.
    pub(super) fn watch(&self, call: &Call<'_>, place: Place) -> Result<(Watch, Vec<Bytes>), Failure> {
        let labels = Labels::parse(call.parameter("labelSelector"))?;
        let fields = call.parameter("fieldSelector").to_owned();
        fields_select(&fields, &place.resource, &Value::Null)?;
        let seconds = call.parameter("timeoutSeconds").parse().ok();
        let mut watch = Watch { place, labels, fields, told: BTreeMap::new(), seconds };
        let from = call.parameter("resourceVersion");
        if call.parameter("sendInitialEvents") == "true" {
            let mut lines = self.news(&mut watch);
            lines.push(line("BOOKMARK", &self.all_told(&watch.place)));
            return Ok((watch, lines));
        }
        if from.is_empty() || from == "0" {
            let lines = self.news(&mut watch);
            return Ok((watch, lines));
        }
        let from =
            from.parse().map_err(|_| Failure::bad_request(format!("invalid resource version: {from}")))?;
        let lines = self.since(&mut watch, from)?;
        Ok((watch, lines))
    }

    /// What became other since a revision. What was removed since then nobody knows any more.
    fn since(&self, watch: &mut Watch, from: u64) -> Result<Vec<Bytes>, Failure> {
        let removed = self.removed.get(&watch.place.resource.table()).copied().unwrap_or_default();
        if removed > from {
            let message = format!("too old resource version: {from} ({removed})");
            return Err(Failure::new(410, "Expired", message));
        }
        watch.told = self.watched(watch);
        let later =
            |body: &&Value| text(body, "/metadata/resourceVersion").parse().is_ok_and(|own: u64| own > from);
        Ok(watch.told.values().filter(later).map(|body| line("MODIFIED", body)).collect())
    }

    /// What a watch has not been told yet.
    pub(super) fn news(&self, watch: &mut Watch) -> Vec<Bytes> {
        let now = self.watched(watch);
        let told = std::mem::replace(&mut watch.told, now);
        let mut lines = Vec::new();
        for (key, body) in &told {
            let anew = |now: &Value| text(now, "/metadata/uid") != text(body, "/metadata/uid");
            if watch.told.get(key).is_none_or(anew) {
                lines.push(line("DELETED", body));
            }
        }
        for (key, body) in &watch.told {
            match told.get(key) {
                Some(before) if text(before, "/metadata/uid") == text(body, "/metadata/uid") => {
                    if before != body {
                        lines.push(line("MODIFIED", body));
                    }
                }
                _ => lines.push(line("ADDED", body)),
            }
        }
        lines
    }

    fn watched(&self, watch: &Watch) -> BTreeMap<String, Value> {
        let Place { resource, namespace, .. } = &watch.place;
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let all = self.objects.get(&resource.table()).into_iter().flatten();
        let wanted = |body: &Value| {
            watch.labels.select(body) && fields_select(&watch.fields, resource, body).unwrap_or_default()
        };
        all.filter(|(key, object)| key.starts_with(&prefix) && wanted(&object.body))
            .map(|(key, object)| {
                let mut body = object.body.clone();
                if resource.custom {
                    body["apiVersion"] = resource.api_version().into();
                }
                (key.clone(), body)
            })
            .collect()
    }

    fn all_told(&self, place: &Place) -> Value {
        json!({
            "kind": place.resource.kind, "apiVersion": place.resource.api_version(),
            "metadata": { "resourceVersion": self.revision.to_string(), "annotations": { INITIAL_END: "true" } },
        })
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })))
}

/// Whether a request wants to be told of changes.
pub(super) fn is_wanted(call: &Call<'_>, place: &Place) -> bool {
    call.method == "GET" && place.name.is_empty() && ["true", "1"].contains(&call.parameter("watch"))
}
