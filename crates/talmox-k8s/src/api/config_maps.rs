//! Config maps, as far as notes are kept in them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::meta::or_default;
use crate::client::Call;
use crate::{Client, Error, Kind};

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default, deserialize_with = "or_default")]
    data: BTreeMap<String, String>,
}

impl Client {
    /// What a config map holds; none if there is no such.
    pub async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        match self.ask::<ConfigMap>(Call::get(path, format!("read config map {namespace}/{name}"))).await {
            Ok(found) => Ok(Some(found.data)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
