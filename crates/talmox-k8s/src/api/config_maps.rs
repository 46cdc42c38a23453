//! Config maps, as far as notes are kept in them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::meta::or_default;
use crate::client::{Call, MERGE_PATCH};
use crate::{Client, Error, Kind, Method};

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default, deserialize_with = "or_default")]
    data: BTreeMap<String, String>,
}

impl Client {
    /// Adds keys to a config map; what else it holds stays.
    pub async fn add_to_config_map(
        &self,
        namespace: &str,
        name: &str,
        data: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        let call = Call::new(Method::Patch, path, format!("change config map {namespace}/{name}"))
            .query("fieldManager", super::FIELD_MANAGER)
            .body(MERGE_PATCH, json!({ "data": data }));
        self.send(call).await.map(drop)
    }

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
