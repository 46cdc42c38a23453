//! Volumes that hang on a node.

use serde::Deserialize;

use super::meta::{Meta, Selection};
use crate::{Client, Error};

/// A volume at a node. A node is not free of its pods' storage before the last of them is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    pub metadata: Meta,
    pub spec: VolumeAttachmentSpec,
    pub status: VolumeAttachmentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSpec {
    pub attacher: String,
    pub node_name: String,
    pub source: VolumeSource,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSource {
    pub persistent_volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeAttachmentStatus {
    pub attached: bool,
}

impl Client {
    /// Those of every node: the API cannot select by node.
    pub async fn volume_attachments(&self) -> Result<Vec<VolumeAttachment>, Error> {
        self.list("/apis/storage.k8s.io/v1", "volumeattachments", &Selection::all()).await
    }
}
