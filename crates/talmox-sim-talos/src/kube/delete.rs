//! Deleting.

use serde_json::Value;

use super::Store;
use super::clock::rfc3339;
use super::failure::Failure;
use super::handle::{Call, success};
use super::kinds::Resource;
use super::object::{Object, items, number, text};
use super::path::Place;

impl Store {
    pub(super) fn delete(&mut self, call: &Call<'_>, place: &Place) -> Result<(u16, Value), Failure> {
        let options: Value = if call.body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(call.body).map_err(|error| Failure::bad_request(error.to_string()))?
        };
        let Place { resource, namespace, name, .. } = place;
        let found = self.get(&resource.table(), namespace, name);
        let object = found.ok_or_else(|| Failure::not_found(resource, name))?.clone();
        check_preconditions(&options, resource, &object)?;
        if call.is_dry_run() {
            return Ok((200, success(&resource.details(name))));
        }
        let asked = call.parameter("gracePeriodSeconds").parse().ok();
        let grace = asked.or_else(|| options.get("gracePeriodSeconds").and_then(Value::as_u64));
        Ok((200, self.take_leave(resource, object, grace, call.now)))
    }

    /// A pod on a node goes when its kubelet has ended it, what has finalizers when they are gone, everything else at once.
    pub(super) fn take_leave(
        &mut self,
        resource: &Resource,
        object: Object,
        grace: Option<u64>,
        now: u64,
    ) -> Value {
        let (namespace, name) =
            (text(&object.body, "/metadata/namespace"), text(&object.body, "/metadata/name"));
        let is_pod = resource.plural == "pods" && resource.group.is_empty();
        let runs = is_pod && !text(&object.body, "/spec/nodeName").is_empty() && !is_over(&object.body);
        let held = !items(&object.body, "/metadata/finalizers").is_empty();
        if (runs && grace != Some(0)) || held {
            if object.leaving.is_some() {
                return object.body;
            }
            let mut body = object.body.clone();
            let grace = if runs {
                grace.unwrap_or_else(|| number(&body, "/spec/terminationGracePeriodSeconds"))
            } else {
                0
            };
            body["metadata"]["deletionTimestamp"] = rfc3339(now + grace * 1000).into();
            body["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            return self.put(resource, Object { body, leaving: Some(now), ..object });
        }
        self.remove(&resource.group, &resource.plural, namespace, name);
        self.remove_dependents(resource, &object.body);
        if is_pod {
            return object.body;
        }
        let mut details = resource.details(name);
        details["uid"] = object.body["metadata"]["uid"].clone();
        success(&details)
    }

    /// A namespace takes what is in it along, a definition its objects, an owner what it owns.
    fn remove_dependents(&mut self, resource: &Resource, body: &Value) {
        let (name, uid) = (text(body, "/metadata/name"), text(body, "/metadata/uid"));
        match resource.plural.as_str() {
            "namespaces" => {
                let prefix = format!("{name}/");
                for table in self.objects.values_mut() {
                    table.retain(|key, _| !key.starts_with(&prefix));
                }
            }
            "customresourcedefinitions" => {
                let table = super::kinds::table(text(body, "/spec/group"), text(body, "/spec/names/plural"));
                self.objects.remove(&table);
            }
            _ => {
                let owned = |object: &Object| {
                    let owners = items(&object.body, "/metadata/ownerReferences");
                    !owners.is_empty() && owners.iter().all(|owner| text(owner, "/uid") == uid)
                };
                for table in self.objects.values_mut() {
                    table.retain(|_, object| !owned(object));
                }
            }
        }
    }
}

fn is_over(body: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(body, "/status/phase"))
}

pub(super) fn check_preconditions(
    options: &Value,
    resource: &Resource,
    object: &Object,
) -> Result<(), Failure> {
    let (wanted, uid) = (text(options, "/preconditions/uid"), text(&object.body, "/metadata/uid"));
    if wanted.is_empty() || wanted == uid {
        return Ok(());
    }
    Err(Failure::other_uid(resource, text(&object.body, "/metadata/name"), wanted, uid))
}
