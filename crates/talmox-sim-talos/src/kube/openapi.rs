//! As much of the server's OpenAPI documents as `kubectl apply` looks for: that unknown fields are the server's business.

use serde_json::{Map, Value, json};

use super::Store;
use super::kinds::{Resource, built_in};

impl Store {
    /// The documents there are, one for each group and version.
    pub(super) fn openapi_index(&self) -> Value {
        let mut paths = Map::new();
        for one in built_in().chain(self.custom_resources()) {
            let path = prefix(&one);
            paths.insert(path.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{path}") }));
        }
        json!({ "paths": paths })
    }

    /// One of them: every kind can be patched, and fields are checked if that is asked for.
    pub(super) fn openapi(&self, path: &str) -> Option<Value> {
        let mut paths = Map::new();
        for one in built_in().chain(self.custom_resources()).filter(|one| prefix(one) == path) {
            let scope = if one.namespaced { "/namespaces/{namespace}" } else { "" };
            let parameter =
                json!({ "name": "fieldValidation", "in": "query", "schema": { "type": "string" } });
            let patch = json!({
                "parameters": [parameter],
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": { "group": one.group, "version": one.version, "kind": one.kind },
            });
            paths.insert(format!("/{path}{scope}/{}/{{name}}", one.plural), json!({ "patch": patch }));
        }
        let info = json!({ "title": "Kubernetes", "version": format!("v{}", self.version) });
        (!paths.is_empty()).then(|| json!({ "openapi": "3.0.0", "info": info, "paths": paths }))
    }
}

fn prefix(one: &Resource) -> String {
    let version = one.api_version();
    if one.group.is_empty() { format!("api/{version}") } else { format!("apis/{version}") }
}
