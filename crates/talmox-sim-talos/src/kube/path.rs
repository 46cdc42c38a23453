//! What a request's path means.

use super::Store;
use super::kinds::{Resource, built_in};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `/readyz` and its like.
    Health,
    Version,
    /// `/api`, `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`.
    Core,
    Groups,
    Group(String),
    /// `/openapi/v3`, and what it leads to.
    Openapi(String),
    Kinds {
        group: String,
        version: String,
    },
    Objects(Place),
    /// No such kind, in a group there is.
    Nothing,
}

/// One object or all of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) resource: Resource,
    /// Empty for what has none, and for all namespaces.
    pub(super) namespace: String,
    /// Empty for all.
    pub(super) name: String,
    /// `status`, `eviction`; mostly empty.
    pub(super) subresource: String,
}

impl Store {
    /// None: there is no such path.
    pub(super) fn target(&self, path: &str) -> Option<Target> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["readyz" | "livez" | "healthz", ..] => Some(Target::Health),
            ["version"] => Some(Target::Version),
            ["api"] => Some(Target::Core),
            ["openapi", "v3", rest @ ..] => Some(Target::Openapi(rest.join("/"))),
            ["apis"] => Some(Target::Groups),
            ["api", "v1"] => Some(Target::Kinds { group: String::new(), version: "v1".to_owned() }),
            ["apis", group] => Some(Target::Group((*group).to_owned())),
            ["apis", group, version] => {
                Some(Target::Kinds { group: (*group).to_owned(), version: (*version).to_owned() })
            }
            ["api", "v1", rest @ ..] => {
                Some(self.place("", "v1", rest).map_or(Target::Nothing, Target::Objects))
            }
            ["apis", group, version, rest @ ..] => match self.place(group, version, rest) {
                Some(place) => Some(Target::Objects(place)),
                None => self.has_group(group, version).then_some(Target::Nothing),
            },
            _ => None,
        }
    }

    fn place(&self, group: &str, version: &str, rest: &[&str]) -> Option<Place> {
        let (namespace, rest) = match rest {
            // A namespace's own subresources look like the objects in it.
            ["namespaces", _, "status" | "finalize"] | ["namespaces", _] => ("", rest),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", rest),
        };
        let [plural, rest @ ..] = rest else { return None };
        let resource = self.resource(group, version, plural)?;
        let (name, subresource) = match rest {
            [] => ("", ""),
            [name] => (*name, ""),
            [name, subresource] => (*name, *subresource),
            _ => return None,
        };
        let misplaced = if resource.namespaced {
            namespace.is_empty() && !name.is_empty()
        } else {
            !namespace.is_empty()
        };
        let known = match subresource {
            "" => true,
            "status" => resource.has_status,
            "eviction" => resource.plural == "pods",
            _ => false,
        };
        let own = |text: &str| text.to_owned();
        (!misplaced && known).then(|| Place {
            resource,
            namespace: own(namespace),
            name: own(name),
            subresource: own(subresource),
        })
    }

    fn has_group(&self, group: &str, version: &str) -> bool {
        built_in().chain(self.custom_resources()).any(|one| one.group == group && one.version == version)
    }

    pub(super) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Resource> {
        let fits = |one: &Resource| one.group == group && one.version == version && one.plural == plural;
        built_in().find(fits).or_else(|| self.custom_resources().into_iter().find(fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_objects() {
        let store = Store::new(1, "1.36.3", 0);
        let place = |path: &str| match store.target(path) {
            Some(Target::Objects(Place { resource, namespace, name, subresource })) => {
                Some([resource.plural, namespace, name, subresource].join("|"))
            }
            _ => None,
        };
        let table = [
            ("/api/v1/nodes", Some("nodes|||")),
            ("/api/v1/nodes/a", Some("nodes||a|")),
            ("/api/v1/namespaces", Some("namespaces|||")),
            ("/api/v1/namespaces/a", Some("namespaces||a|")),
            ("/api/v1/namespaces/a/status", Some("namespaces||a|status")),
            ("/api/v1/namespaces/a/pods", Some("pods|a||")),
            ("/api/v1/namespaces/a/pods/b/eviction", Some("pods|a|b|eviction")),
            ("/apis/apps/v1/deployments", Some("deployments|||")),
            ("/api/v1/namespaces/a/nodes", None),
            ("/api/v1/pods/b", None),
            ("/apis/apps/v2/deployments", None),
            ("/apis/coordination.k8s.io/v1/namespaces/a/leases/b/status", None),
        ];
        for (path, expected) in table {
            assert_eq!(place(path).as_deref(), expected, "{path}");
        }
    }
}
