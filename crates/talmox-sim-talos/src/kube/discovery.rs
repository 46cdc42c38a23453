//! What the server says it has.

use serde_json::{Value, json};

use super::Store;
use super::kinds::{Resource, built_in};
use super::path::Target;

impl Store {
    /// None: there is no such group.
    pub(super) fn describe(&self, target: &Target) -> Option<Value> {
        match target {
            Target::Version => Some(self.version_info()),
            Target::Core => {
                Some(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }))
            }
            Target::Groups => {
                let groups: Vec<Value> = self
                    .groups()
                    .iter()
                    .filter(|name| !name.is_empty())
                    .map(|name| self.group(name))
                    .collect();
                Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
            }
            Target::Group(name) => self.groups().contains(name).then(|| {
                let mut group = self.group(name);
                group["kind"] = "APIGroup".into();
                group["apiVersion"] = "v1".into();
                group
            }),
            Target::Kinds { group, version } => self.kinds(group, version),
            Target::Openapi(path) if path.is_empty() => Some(self.openapi_index()),
            Target::Openapi(path) => self.openapi(path),
            Target::Health | Target::Nothing | Target::Objects(_) => None,
        }
    }

    fn version_info(&self) -> Value {
        let mut parts = self.version.split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        json!({
            "major": major, "minor": minor, "gitVersion": format!("v{}", self.version), "gitCommit": "",
            "gitTreeState": "clean", "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
        })
    }

    fn every_kind(&self) -> impl Iterator<Item = Resource> {
        built_in().chain(self.custom_resources())
    }

    /// Those the server was born with first, then by name.
    fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        for Resource { group, .. } in self.every_kind() {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    fn group(&self, name: &str) -> Value {
        let mut versions: Vec<String> =
            self.every_kind().filter(|one| one.group == name).map(|one| one.version).collect();
        versions.dedup();
        let listed: Vec<Value> = versions
            .iter()
            .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
            .collect();
        json!({ "name": name, "versions": listed, "preferredVersion": listed.first() })
    }

    fn kinds(&self, group: &str, version: &str) -> Option<Value> {
        let of = |one: &Resource| one.group == group && one.version == version;
        let kinds: Vec<Resource> = self.every_kind().filter(of).collect();
        let group_version = kinds.first()?.api_version();
        let resources: Vec<Value> = kinds.iter().flat_map(listed).collect();
        Some(
            json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources }),
        )
    }
}

/// A kind, and what hangs on it.
fn listed(one: &Resource) -> Vec<Value> {
    let Resource { plural, singular, kind, namespaced, short, .. } = one;
    let mut whole = json!({
        "name": plural, "singularName": singular, "namespaced": namespaced, "kind": kind,
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    });
    if !short.is_empty() {
        whole["shortNames"] = short.clone().into();
    }
    let mut all = vec![whole];
    if plural == "pods" {
        all.push(json!({
            "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Eviction", "verbs": ["create"],
        }));
    }
    if one.has_status {
        all.push(json!({
            "name": format!("{plural}/status"), "singularName": "", "namespaced": namespaced, "kind": kind,
            "verbs": ["get", "patch", "update"],
        }));
    }
    all
}
