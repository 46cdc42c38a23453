//! Storages and what is on them.

use serde::Deserialize;
use talmox_types::{HostName, StorageId, VmId};

use crate::client::encode::path;
use crate::client::{Client, Error, Params, Upid, scalar};
use crate::property::VolumeId;

/// A storage as a host sees it. An unavailable one has `active` off and no sizes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StorageState {
    pub storage: StorageId,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, deserialize_with = "scalar::words")]
    pub content: Vec<String>,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub enabled: bool,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub active: bool,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub shared: bool,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub total: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub used: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub avail: u64,
}

impl StorageState {
    /// Whether this storage is set up to hold such content.
    pub fn holds(&self, content: &str) -> bool {
        self.content.iter().any(|held| held == content)
    }
}

/// A volume of a storage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Volume {
    pub volid: VolumeId,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub content: String,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub format: String,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub size: u64,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub ctime: Option<u64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub vmid: Option<VmId>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub parent: Option<String>,
    #[serde(default, deserialize_with = "scalar::flag")]
    pub protected: bool,
}

/// One volume, looked at closely.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VolumeInfo {
    pub path: String,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub format: String,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub size: u64,
    #[serde(default, deserialize_with = "scalar::or_default")]
    pub used: u64,
}

impl Client {
    /// The storages of a host that the credentials may see.
    pub async fn storages(&self, node: &HostName) -> Result<Vec<StorageState>, Error> {
        self.get(&path(&[&"nodes", node, &"storage"]), Params::new()).await
    }

    /// Volumes of a storage, of one content type or all. What the credentials may not read is left out by Proxmox.
    pub async fn content(
        &self,
        node: &HostName,
        storage: &StorageId,
        content: Option<&str>,
    ) -> Result<Vec<Volume>, Error> {
        let params = Params::new().with_some("content", content);
        self.get(&path(&[&"nodes", node, &"storage", storage, &"content"]), params).await
    }

    pub async fn volume_info(&self, node: &HostName, volume: &VolumeId) -> Result<VolumeInfo, Error> {
        self.get(&volume_path(node, volume), Params::new()).await
    }

    /// Removes a volume. A file that is missing already is no error to Proxmox.
    pub async fn delete_volume(&self, node: &HostName, volume: &VolumeId) -> Result<Option<Upid>, Error> {
        self.delete(&volume_path(node, volume), Params::new()).await
    }
}

fn volume_path(node: &HostName, volume: &VolumeId) -> String {
    path(&[&"nodes", node, &"storage", volume.storage(), &"content", volume])
}
