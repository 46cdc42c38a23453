//! What kinds of objects a server has, and how it calls them in paths.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::meta::or_default;
use crate::client::Call;
use crate::{Client, Error, Kind};

/// A kind, as paths name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    plural: String,
    namespaced: bool,
}

impl Resource {
    /// Of one object, whose namespace is `default` unless it says one.
    pub(super) fn path(&self, api_version: &str, namespace: Option<&str>, name: &str) -> String {
        let prefix = prefix(api_version);
        if self.namespaced {
            format!("{prefix}/namespaces/{}/{}/{name}", namespace.unwrap_or("default"), self.plural)
        } else {
            format!("{prefix}/{}/{name}", self.plural)
        }
    }
}

fn prefix(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    kind: String,
    namespaced: bool,
}

/// What was asked so far: each group and version once, unless it is forgotten.
#[derive(Default)]
pub(super) struct Discovery {
    known: BTreeMap<String, BTreeMap<String, Resource>>,
}

impl Discovery {
    /// None: the server has no such kind, or not yet.
    pub(super) async fn find(
        &mut self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Resource>, Error> {
        if !self.known.contains_key(api_version) {
            let call = Call::get(prefix(api_version), format!("list the kinds of {api_version}"));
            let list = match client.ask::<ResourceList>(call).await {
                Ok(list) => list.resources,
                Err(error) if error.kind() == Kind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            };
            // Subresources have a slash.
            let kinds = list.into_iter().filter(|one| !one.name.contains('/')).map(|one| {
                let Listed { name, kind, namespaced } = one;
                (kind, Resource { plural: name, namespaced })
            });
            self.known.insert(api_version.to_owned(), kinds.collect());
        }
        Ok(self.known.get(api_version).and_then(|kinds| kinds.get(kind)).cloned())
    }

    /// Looks anew the next time.
    pub(super) fn forget(&mut self, api_version: &str) {
        self.known.remove(api_version);
    }
}
