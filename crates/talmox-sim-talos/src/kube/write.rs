//! Making and changing objects.

use serde_json::{Value, json};

use super::Store;
use super::apply::apply;
use super::failure::Failure;
use super::fields::{Writer, note_update};
use super::handle::Call;
use super::kinds::Resource;
use super::object::{Object, items, number, text};
use super::patch::{json_patch, merge, strategic};
use super::path::Place;
use super::protobuf;

const CHANGED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Store {
    pub(super) fn create(&mut self, call: &Call<'_>, place: &Place) -> Result<(u16, Value), Failure> {
        let mut body = decoded(call, place)?;
        if text(&body, "/metadata/name").is_empty() {
            let prefix = text(&body, "/metadata/generateName");
            if prefix.is_empty() {
                return Err(Failure::invalid(
                    &place.resource,
                    "",
                    "metadata.name",
                    "Required value: name or generateName is required",
                ));
            }
            body["metadata"]["name"] = format!("{prefix}{}", self.suffix()).into();
        }
        let name = text(&body, "/metadata/name").to_owned();
        if self.get(&place.resource.table(), &place.namespace, &name).is_some() {
            return Err(Failure::already_exists(&place.resource, &name));
        }
        if !text(&body, "/metadata/resourceVersion").is_empty() {
            return Err(Failure::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let place = Place { name, ..place.clone() };
        note_update(None, &mut body, &writer(call, &place));
        self.insert(call, &place, body).map(|body| (201, body))
    }

    pub(super) fn replace(&mut self, call: &Call<'_>, place: &Place) -> Result<(u16, Value), Failure> {
        let Place { resource, namespace, name, .. } = place;
        let mut body = decoded(call, place)?;
        let Some(old) = self.get(&resource.table(), namespace, name).cloned() else {
            if !resource.is_made_by_put() {
                return Err(Failure::not_found(resource, name));
            }
            note_update(None, &mut body, &writer(call, place));
            return self.insert(call, place, body).map(|body| (201, body));
        };
        if text(&body, "/metadata/resourceVersion").is_empty() && !resource.overwrites_blindly() {
            return Err(Failure::no_version(resource, name));
        }
        self.change(call, place, &old, body, true).map(|body| (200, body))
    }

    pub(super) fn patch(&mut self, call: &Call<'_>, place: &Place) -> Result<(u16, Value), Failure> {
        let Place { resource, namespace, name, .. } = place;
        let sent: Value = parsed(call)?;
        let old = self.get(&resource.table(), namespace, name).cloned();
        let kind = call.content_type.split(';').next().unwrap_or_default().trim();
        if kind == "application/apply-patch+yaml" {
            return self.apply_patch(call, place, old.as_ref(), sent);
        }
        let old = old.ok_or_else(|| Failure::not_found(resource, name))?;
        let mut body = old.body.clone();
        match kind {
            "application/merge-patch+json" => merge(&mut body, &sent),
            "application/strategic-merge-patch+json" if !resource.custom => strategic(&mut body, &sent),
            "application/json-patch+json" => json_patch(&mut body, &sent)?,
            _ => {
                let message = "the body of the request was in an unknown format - accepted media types include: \
                               application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                return Err(Failure::new(415, "UnsupportedMediaType", message));
            }
        }
        // A patch that names no version is for whichever is there.
        self.change(call, place, &old, body, true).map(|body| (200, body))
    }

    fn apply_patch(
        &mut self,
        call: &Call<'_>,
        place: &Place,
        old: Option<&Object>,
        mut sent: Value,
    ) -> Result<(u16, Value), Failure> {
        if call.parameter("fieldManager").is_empty() {
            let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(Failure::new(422, "Invalid", message));
        }
        checked(&mut sent, place)?;
        let force = call.parameter("force") == "true";
        let empty = json!({ "apiVersion": sent["apiVersion"], "kind": sent["kind"], "metadata": {} });
        let live = old.map_or(&empty, |old| &old.body);
        complete(&place.resource, &mut sent);
        let body = apply(live, &sent, &writer(call, place), force)?;
        match old {
            Some(old) => self.change(call, place, old, body, false).map(|body| (200, body)),
            None => self.insert(call, place, body).map(|body| (201, body)),
        }
    }

    /// A new object.
    fn insert(&mut self, call: &Call<'_>, place: &Place, mut body: Value) -> Result<Value, Failure> {
        let resource = &place.resource;
        if resource.namespaced && self.get("/namespaces", "", &place.namespace).is_none() {
            let message = format!("namespaces \"{}\" not found", place.namespace);
            return Err(Failure::new(404, "NotFound", message));
        }
        valid_name(resource, text(&body, "/metadata/name"))?;
        begin(resource, &mut body);
        Self::admit_definition(resource, &body)?;
        self.stamp(resource, &mut body, call.now);
        if call.is_dry_run() {
            return Ok(body);
        }
        Ok(self.put(resource, Object { body, since: call.now, leaving: None }))
    }

    /// An object that is there, as it shall be.
    fn change(
        &mut self,
        call: &Call<'_>,
        place: &Place,
        old: &Object,
        mut body: Value,
        note: bool,
    ) -> Result<Value, Failure> {
        let Place { resource, name, subresource, .. } = place;
        let versions =
            (text(&body, "/metadata/resourceVersion"), text(&old.body, "/metadata/resourceVersion"));
        if !versions.0.is_empty() && versions.0 != versions.1 {
            return Err(Failure::conflict(resource, name, CHANGED));
        }
        let uids = (text(&body, "/metadata/uid"), text(&old.body, "/metadata/uid"));
        if !uids.0.is_empty() && uids.0 != uids.1 {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                uids.0, uids.1
            );
            return Err(Failure::conflict(resource, name, &why));
        }
        if subresource == "status" {
            let managed = body["metadata"]["managedFields"].take();
            body = json!({ "apiVersion": old.body["apiVersion"], "kind": old.body["kind"], "metadata": old.body["metadata"],
                           "spec": old.body["spec"], "status": body["status"] });
            restore_rest(&mut body, &old.body);
            body["metadata"]["managedFields"] = managed;
        } else if resource.has_status {
            keep(&mut body, &old.body, "status");
        }
        for field in [
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "resourceVersion",
            "managedFields",
        ] {
            if field != "managedFields" || note {
                let kept = old.body["metadata"].get(field).cloned();
                restore(&mut body["metadata"], field, kept);
            }
        }
        complete(resource, &mut body);
        if note {
            note_update(Some(&old.body), &mut body, &writer(call, place));
        }
        if without_managers(&body) == without_managers(&old.body) && (note || body == old.body) {
            return Ok(old.body.clone());
        }
        if old.body.pointer("/metadata/generation").is_some() && body.get("spec") != old.body.get("spec") {
            body["metadata"]["generation"] = (number(&old.body, "/metadata/generation") + 1).into();
        }
        if call.is_dry_run() {
            return Ok(body);
        }
        if old.leaving.is_some()
            && items(&body, "/metadata/finalizers").is_empty()
            && resource.plural != "pods"
        {
            self.remove(&resource.group, &resource.plural, &place.namespace, name);
            return Ok(body);
        }
        Ok(self.put(resource, Object { body, ..old.clone() }))
    }
}

fn without_managers(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    body
}

fn keep(body: &mut Value, old: &Value, field: &str) {
    let kept = old.get(field).cloned();
    restore(body, field, kept);
}

fn restore(section: &mut Value, field: &str, kept: Option<Value>) {
    match kept {
        Some(value) => section[field] = value,
        None => {
            if let Value::Object(map) = section {
                map.remove(field);
            }
        }
    }
}

/// What stands beside `spec` and `status`, and neither of them where there was none.
fn restore_rest(body: &mut Value, old: &Value) {
    for (key, value) in old.as_object().into_iter().flatten() {
        if key != "status" {
            body[key] = value.clone();
        }
    }
    if let Value::Object(map) = body {
        map.retain(|_, value| !value.is_null());
    }
}

/// Who writes: without a name, the client that says none.
fn writer<'a>(call: &'a Call<'_>, place: &'a Place) -> Writer<'a> {
    let manager = match call.parameter("fieldManager") {
        "" => "unknown",
        manager => manager,
    };
    Writer { manager, subresource: &place.subresource, now: call.now }
}

fn parsed(call: &Call<'_>) -> Result<Value, Failure> {
    serde_json::from_slice(call.body)
        .map_err(|error| Failure::bad_request(format!("error decoding the body: {error}")))
}

/// An object, as it was sent, that is of the kind and at the place the path says.
fn decoded(call: &Call<'_>, place: &Place) -> Result<Value, Failure> {
    let mut body = if call.content_type.starts_with(protobuf::MEDIA_TYPE) {
        let message = format!(
            "the body of the request was in an unknown format - {} is not read as protocol buffers here",
            place.resource.kind
        );
        protobuf::object(call.body).ok_or_else(|| Failure::new(415, "UnsupportedMediaType", message))?
    } else {
        parsed(call)?
    };
    checked(&mut body, place)?;
    complete(&place.resource, &mut body);
    Ok(body)
}

fn checked(body: &mut Value, place: &Place) -> Result<(), Failure> {
    let Place { resource, namespace, name, .. } = place;
    let (api_version, kind) = (resource.api_version(), resource.kind.as_str());
    if !body.is_object() || body.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
        return Err(Failure::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {kind}",
            resource.version
        )));
    }
    let said = (text(body, "/apiVersion"), text(body, "/kind"));
    if said != (api_version.as_str(), kind) {
        return Err(Failure::bad_request(wrong_kind(resource, said)));
    }
    let own = text(body, "/metadata/name").to_owned();
    if !name.is_empty() && own != *name && !own.is_empty() {
        let message = format!("the name of the object ({own}) does not match the name on the URL ({name})");
        return Err(Failure::bad_request(message));
    }
    let own = text(body, "/metadata/namespace").to_owned();
    if !own.is_empty() && own != *namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(message));
    }
    if !name.is_empty() {
        body["metadata"]["name"] = name.as_str().into();
    }
    if resource.namespaced {
        body["metadata"]["namespace"] = namespace.as_str().into();
    }
    Ok(())
}

/// What the server says to an object of another kind.
fn wrong_kind(resource: &Resource, said: (&str, &str)) -> String {
    let (api_version, kind) = (resource.api_version(), &resource.kind);
    if resource.custom {
        return format!(
            "the API version in the data ({}) does not match the expected API version ({api_version})",
            said.0
        );
    }
    let version = said.0.rsplit('/').next().unwrap_or_default();
    let package = match resource.group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    let given = said.1;
    format!(
        "{given} in version \"{version}\" cannot be handled as a {kind}: converting ({version}.{given}) to \
         ({package}.{kind}): unknown conversion"
    )
}

fn valid_name(resource: &Resource, name: &str) -> Result<(), Failure> {
    // Roles and their bindings may be called anything that fits a path.
    let free = resource.group == "rbac.authorization.k8s.io";
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if free
        || (name.len() <= 253
            && name.chars().all(fits)
            && edge(name.chars().next())
            && edge(name.chars().last()))
    {
        return Ok(());
    }
    let why = format!(
        "Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
         or '.', and must start and end with an alphanumeric character"
    );
    Err(Failure::invalid(resource, name, "metadata.name", &why))
}

/// What the server makes of fields that are only for writing.
fn complete(resource: &Resource, body: &mut Value) {
    if resource.plural != "secrets" || !resource.group.is_empty() {
        return;
    }
    let Some(Value::Object(texts)) = body.as_object_mut().and_then(|map| map.remove("stringData")) else {
        return;
    };
    for (key, value) in texts {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        body["data"][key] = encoded.into();
    }
}

/// How an object begins its life, whatever was sent of it.
fn begin(resource: &Resource, body: &mut Value) {
    if resource.has_status
        && !matches!(resource.plural.as_str(), "nodes" | "pods" | "namespaces")
        && let Value::Object(map) = body
    {
        map.remove("status");
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => {
            body["status"] = json!({ "phase": "Pending", "qosClass": "BestEffort" });
            for (field, value) in [
                ("restartPolicy", json!("Always")),
                ("schedulerName", json!("default-scheduler")),
                ("terminationGracePeriodSeconds", json!(30)),
            ] {
                if body["spec"].get(field).is_none() {
                    body["spec"][field] = value;
                }
            }
        }
        ("", "namespaces") => {
            body["spec"] = json!({ "finalizers": ["kubernetes"] });
            body["status"] = json!({ "phase": "Active" });
        }
        // Admission taints a node until somebody says that it is ready.
        ("", "nodes") => super::kubelet::taint(body, "node.kubernetes.io/not-ready", "NoSchedule"),
        ("", "secrets") if body.get("type").is_none() => body["type"] = "Opaque".into(),
        ("apps", "deployments" | "statefulsets" | "replicasets")
            if body["spec"].get("replicas").is_none() =>
        {
            body["spec"]["replicas"] = 1.into();
        }
        _ => {}
    }
}
