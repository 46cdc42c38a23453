//! What nodes write to their disks: it outlives every boot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hardware::{Content, Disk, Image};
use crate::images::Stored;

/// A disk as a node finds it.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Written {
    /// The boot loader and what it starts; without one the disk cannot be booted.
    pub(crate) loader: Option<Loader>,
    /// The META partition: there from the moment Talos is installed.
    pub(crate) meta: Option<BTreeMap<u8, Vec<u8>>>,
    /// The STATE partition, once there is one.
    pub(crate) state: Option<State>,
    /// The EPHEMERAL partition, once there is one.
    pub(crate) ephemeral: Option<Ephemeral>,
    /// What lies on the disk besides: files under the label `cidata`, or something foreign.
    pub(crate) other: Content,
}

/// Two places for Talos, of which one is booted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loader {
    pub(crate) current: Image,
    /// What was there before the last upgrade.
    pub(crate) previous: Option<Image>,
    /// The current one has not reached `running` and `ready` yet: if its boot fails, the previous one is booted again.
    pub(crate) on_trial: bool,
}

impl Loader {
    /// The new image takes the other place, on trial.
    pub(crate) fn upgrade(&mut self, image: Image) {
        self.previous = Some(std::mem::replace(&mut self.current, image));
        self.on_trial = true;
    }

    /// Back to what was there before; false if there is nothing.
    pub(crate) fn roll_back(&mut self) -> bool {
        let Some(previous) = self.previous.take() else { return false };
        self.previous = Some(std::mem::replace(&mut self.current, previous));
        self.on_trial = false;
        true
    }
}

/// Does not show the configuration, which holds secrets.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// The persisted machine configuration.
    pub(crate) config: Option<String>,
    /// The node's own identity, drawn at the first boot.
    pub(crate) identity: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ephemeral {
    /// etcd's data directory: of which cluster, and which member of it this is.
    pub(crate) etcd: Option<EtcdData>,
    /// This is a copy that was taken then; nothing as soon as etcd runs on it.
    pub(crate) as_of: Option<u64>,
    /// The member left, and took the folder of its data along.
    pub(crate) etcd_folder_gone: bool,
    /// A snapshot that was uploaded for a recovery.
    pub(crate) snapshot: Option<Vec<u8>>,
    /// Images in the store of containers, by reference.
    pub(crate) images: Vec<Stored>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EtcdData {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
}

impl Written {
    /// A disk as the hypervisor made it.
    pub(crate) fn new(disk: &Disk) -> Self {
        match &disk.content {
            Content::Talos(image) if image.installed => Self {
                loader: Some(Loader { current: image.clone(), previous: None, on_trial: false }),
                meta: Some(BTreeMap::new()),
                ..Self::default()
            },
            other @ (Content::Empty | Content::Talos(_) | Content::Cidata(_) | Content::Other) => {
                Self { other: other.clone(), ..Self::default() }
            }
        }
    }

    /// Puts Talos on it. What was there before is gone.
    pub(crate) fn install(&mut self, image: Image) {
        let image = Image { installed: true, ..image };
        *self = Self {
            loader: Some(Loader { current: image, previous: None, on_trial: false }),
            meta: Some(BTreeMap::new()),
            ..Self::default()
        };
    }

    /// The persisted machine configuration.
    pub(crate) fn config(&self) -> Option<&str> {
        self.state.as_ref()?.config.as_deref()
    }
}
