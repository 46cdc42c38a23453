//! Volumes, wherever they lie, and whose they are.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::contents::Content;
use crate::files::FileFacts;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) volid: String,
    pub(crate) content: String,
    pub(crate) format: String,
    pub(crate) size: u64,
    /// Bytes that were written to it: what it takes of a thin storage.
    #[serde(default)]
    pub(crate) data: u64,
    pub(crate) ctime: u64,
    pub(crate) vmid: Option<u32>,
    /// Volume id of the base image of a linked clone.
    pub(crate) parent: Option<String>,
    pub(crate) file: Option<FileFacts>,
    pub(crate) notes: Option<String>,
    pub(crate) protected: bool,
    /// Its identity: as long as there is a world, no other volume has it. 0 until it is among the others.
    #[serde(default)]
    pub(crate) id: u64,
    /// The volume it was made a copy of.
    #[serde(default)]
    pub(crate) copy_of: Option<u64>,
    /// What was on it when it was made, or put there by the host. What a guest writes nobody here knows.
    #[serde(default)]
    pub(crate) holds: Content,
}

impl Volume {
    /// What there is to read.
    pub(crate) fn content(&self) -> &Content {
        self.file.as_ref().map_or(&self.holds, |file| &file.content)
    }
}

/// All volumes by place and id, and which of them belong to a VM: there may be tens of thousands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Volumes {
    all: BTreeMap<String, Volume>,
    owned: BTreeMap<u32, BTreeSet<String>>,
    /// The last identity that was given away.
    #[serde(default)]
    last: u64,
    /// Identities of volumes that are gone and were not asked for yet, if anybody asks at all.
    #[serde(default)]
    gone: Option<BTreeSet<u64>>,
}

impl Volumes {
    pub(crate) fn insert(&mut self, key: String, mut volume: Volume) {
        if volume.id == 0 {
            volume.id = self.new_id();
        }
        if let Some(gone) = &mut self.gone {
            // It was only renamed.
            gone.remove(&volume.id);
        }
        if let Some(owner) = volume.vmid {
            self.owned.entry(owner).or_default().insert(key.clone());
        }
        self.all.insert(key, volume);
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Volume> {
        let volume = self.all.remove(key)?;
        if let Some(keys) = volume.vmid.and_then(|owner| self.owned.get_mut(&owner)) {
            keys.remove(key);
        }
        if let Some(gone) = &mut self.gone {
            gone.insert(volume.id);
        }
        Some(volume)
    }

    fn new_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Remembers from now on which volumes are gone. Those of a world that was saved without identities get theirs.
    pub(crate) fn watch(&mut self) {
        self.gone.get_or_insert_default();
        for volume in self.all.values_mut().filter(|volume| volume.id == 0) {
            self.last += 1;
            volume.id = self.last;
        }
    }

    /// Identities of volumes that are gone since this was last asked.
    pub(crate) fn take_gone(&mut self) -> BTreeSet<u64> {
        self.gone.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The new volume is the old one from now on, wherever it lies; what is left of the old one is a copy.
    pub(crate) fn take_place(&mut self, old: &str, new: &str) {
        let copy = self.new_id();
        let Some(id) = self.all.get_mut(old).map(|volume| std::mem::replace(&mut volume.id, copy)) else {
            return;
        };
        if let Some(volume) = self.all.get_mut(old) {
            volume.copy_of = Some(id);
        }
        if let Some(volume) = self.all.get_mut(new) {
            volume.id = id;
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Volume> {
        self.all.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Volume> {
        self.all.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Volume)> {
        self.all.iter()
    }

    /// Those whose keys begin with that place.
    pub(crate) fn at<'a>(&'a self, place: &'a str) -> impl Iterator<Item = (&'a String, &'a Volume)> {
        self.all.range(place.to_owned()..).take_while(move |(key, _)| key.starts_with(place))
    }

    pub(crate) fn of(&self, owner: u32) -> impl Iterator<Item = &String> {
        self.owned.get(&owner).into_iter().flatten()
    }
}
