//! The server itself.

use serde::Deserialize;

use crate::client::Call;
use crate::{Client, Error};

/// What runs there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Version {
    /// `v1.36.3`.
    pub git_version: String,
}

impl Client {
    pub async fn version(&self) -> Result<Version, Error> {
        self.ask(Call::get("/version", "read the version")).await
    }

    /// Whether the server is ready to serve, etcd included; the error's words are its list of checks.
    pub async fn ready(&self) -> Result<(), Error> {
        let call = Call::get("/readyz", "ask whether the API server is ready").query("verbose", "true");
        self.send(call).await.map(drop)
    }
}
