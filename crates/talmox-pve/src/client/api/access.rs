//! What the credentials may do.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::client::encode::path;
use crate::client::{Client, Error, Params, scalar};

/// What is known of a token beside its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct TokenInfo {
    /// Unix seconds; 0: never, or with its user.
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub expire: u64,
    /// Whether it has only what both it and its user are granted.
    #[serde(default = "separated", deserialize_with = "scalar::flag")]
    pub privsep: bool,
}

fn separated() -> bool {
    true
}

/// Privileges by path, as Proxmox worked them out for the credentials.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Permissions(BTreeMap<String, BTreeMap<String, Value>>);

impl Permissions {
    /// Whether a privilege is granted at exactly this path. Ask Proxmox about a path to have inheritance resolved.
    pub fn has(&self, path: &str, privilege: &str) -> bool {
        self.0.get(path).is_some_and(|granted| granted.contains_key(privilege))
    }

    /// The paths and the privileges granted there.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.0.iter().map(|(path, granted)| (path.as_str(), granted.keys().map(String::as_str).collect()))
    }

    /// The privileges at each path, each with whether it reaches further down.
    pub fn into_map(self) -> BTreeMap<String, BTreeMap<String, bool>> {
        let reaches = |value: &Value| {
            value.as_u64() == Some(1) || value.as_str() == Some("1") || value == &Value::Bool(true)
        };
        let at = |held: BTreeMap<String, Value>| {
            held.into_iter().map(|(privilege, value)| (privilege, reaches(&value))).collect()
        };
        self.0.into_iter().map(|(path, held)| (path, at(held))).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Client {
    /// The credentials' privileges: everywhere, or resolved for one path.
    pub async fn permissions(&self, path: Option<&str>) -> Result<Permissions, Error> {
        self.get("/access/permissions", Params::new().with_some("path", path)).await
    }
    /// A token by its user and name. A token may not even read its own entry: that takes `User.Modify`.
    pub async fn token_info(&self, user: &str, name: &str) -> Result<TokenInfo, Error> {
        self.get(&path(&[&"access", &"users", &user, &"token", &name]), Params::new()).await
    }
}
