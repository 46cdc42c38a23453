//! Definitions of kinds, and the objects they bring. What a definition's schema says is not held against them.

use serde_json::{Value, json};

use super::Store;
use super::clock::rfc3339;
use super::failure::Failure;
use super::kinds::Resource;
use super::object::{has_condition, items, text};

/// How long the server takes to serve a kind that was defined.
const ESTABLISHING: u64 = 800;

pub(super) fn namespace(name: &str) -> Value {
    json!({
        "metadata": { "labels": { "kubernetes.io/metadata.name": name } },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    })
}

impl Store {
    /// The kinds of definitions that are established.
    pub(super) fn custom_resources(&self) -> Vec<Resource> {
        let definitions = self.bodies("apiextensions.k8s.io", "customresourcedefinitions");
        definitions.filter(|body| has_condition(body, "Established")).flat_map(resources_of).collect()
    }

    /// A definition has to define something, under its own name.
    pub(super) fn admit_definition(resource: &Resource, body: &Value) -> Result<(), Failure> {
        if resource.plural != "customresourcedefinitions" {
            return Ok(());
        }
        let name = text(body, "/metadata/name");
        let (plural, group) = (text(body, "/spec/names/plural"), text(body, "/spec/group"));
        let invalid = |field: &str, why: &str| Err(Failure::invalid(resource, name, field, why));
        if name != format!("{plural}.{group}") {
            return invalid(
                "metadata.name",
                &format!("Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group"),
            );
        }
        if text(body, "/spec/names/kind").is_empty() {
            return invalid("spec.names.kind", "Required value");
        }
        if !["Cluster", "Namespaced"].contains(&text(body, "/spec/scope")) {
            return invalid("spec.scope", "Unsupported value: supported values: \"Cluster\", \"Namespaced\"");
        }
        let versions = items(body, "/spec/versions");
        if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
            return invalid(
                "spec.versions",
                "Invalid value: must have exactly one version marked as storage version",
            );
        }
        for version in versions {
            if version.pointer("/schema/openAPIV3Schema").is_none() {
                return invalid(
                    "spec.versions[0].schema.openAPIV3Schema",
                    "Required value: schemas are required",
                );
            }
        }
        Ok(())
    }

    /// Serves what has been defined for long enough; gives when the next is due.
    pub(super) fn establish(&mut self, now: u64) -> Option<u64> {
        let table = self.objects.get("apiextensions.k8s.io/customresourcedefinitions")?;
        let waiting = table.values().filter(|object| !has_condition(&object.body, "Established"));
        let (due, later): (Vec<_>, Vec<_>) = waiting
            .map(|object| (object.since + ESTABLISHING, object.body.clone()))
            .partition(|(at, _)| *at <= now);
        for (at, mut body) in due {
            let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": rfc3339(at), "reason": reason, "message": message });
            let stored: Vec<Value> = items(&body, "/spec/versions")
                .iter()
                .filter(|one| one["storage"] == true)
                .map(|one| one["name"].clone())
                .collect();
            body["status"] = json!({
                "conditions": [
                    condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                    condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
                ],
                "acceptedNames": body["spec"]["names"],
                "storedVersions": stored,
            });
            self.update("apiextensions.k8s.io", "customresourcedefinitions", body);
        }
        later.iter().map(|(at, _)| *at).min()
    }
}

fn resources_of(definition: &Value) -> Vec<Resource> {
    let names = |field: &str| text(definition, &format!("/spec/names/{field}")).to_owned();
    let short =
        items(definition, "/spec/names/shortNames").iter().filter_map(Value::as_str).map(str::to_owned);
    let short: Vec<String> = short.collect();
    let served = items(definition, "/spec/versions").iter().filter(|version| version["served"] == true);
    served
        .map(|version| Resource {
            group: text(definition, "/spec/group").to_owned(),
            version: text(version, "/name").to_owned(),
            plural: names("plural"),
            singular: match names("singular") {
                singular if singular.is_empty() => names("kind").to_lowercase(),
                singular => singular,
            },
            kind: names("kind"),
            namespaced: text(definition, "/spec/scope") == "Namespaced",
            has_status: version.pointer("/subresources/status").is_some(),
            short: short.clone(),
            custom: true,
        })
        .collect()
}
