//! How full storages are, and what their tools say when something does not fit.

use super::kinds::EXTENT;
use super::{NewImage, Storage, Volume};
use crate::world::World;

/// What the host itself takes of its disk.
const SYSTEM: u64 = 1 << 30;

/// Capacity in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) total: u64,
    pub(crate) used: u64,
}

impl Figures {
    pub(crate) fn free(self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share for people to read")]
    pub(crate) fn fraction(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 / self.total as f64 }
    }
}

/// What a volume takes: all of its size, or what was written to it.
fn footprint(storage: &Storage, volume: &Volume) -> u64 {
    let whole = volume.vmid.is_none() || storage.is_thick() && volume.parent.is_none();
    if whole { volume.size } else { volume.data }
}

impl World {
    pub(crate) fn figures(&self, storage: &Storage, node: &str) -> Figures {
        if let Some(total) = storage.total {
            return Figures { total, used: self.taken(storage, node).min(total) };
        }
        // Without a size of its own it lies on the host's disk, with all others that do.
        let total = self.nodes.get(node).map_or(0, |node| node.disk);
        let beside = self.storages.iter().filter(|other| other.total.is_none() && other.on(node));
        let used = SYSTEM + beside.map(|other| self.taken(other, node)).sum::<u64>();
        Figures { total, used: used.min(total) }
    }

    fn taken(&self, storage: &Storage, node: &str) -> u64 {
        let place = self.volume_key(node, &format!("{}:", storage.id));
        self.volumes.at(&place).map(|(_, volume)| footprint(storage, volume)).sum()
    }

    /// Lets a guest write to its disk, so that thin storages fill up. Returns whether there is such a volume.
    pub fn write_to(&mut self, node: &str, volid: &str, bytes: u64) -> bool {
        let Some(volume) = self.volume_mut(node, volid) else { return false };
        volume.data = (volume.data + bytes).min(volume.size);
        true
    }

    /// Is there room for a new image? Thin ones need some for what is copied into them at once.
    pub(super) fn check_space(
        &self,
        storage: &Storage,
        node: &str,
        name: &str,
        image: &NewImage<'_>,
    ) -> Result<(), String> {
        let free = self.figures(storage, node).free();
        let size = storage.traits().round(image.size);
        let (group, place) = (storage.volume_group(), &storage.place);
        let needed = if storage.is_thick() { size } else { image.data };
        let writes = storage.is_thick() || image.data > 0 || image.format != "raw" || !storage.holds_files();
        if needed <= free && (free > 0 || !writes) {
            return Ok(());
        }
        Err(match storage.traits().name {
            "zfspool" => format!("zfs error: cannot create '{place}/{name}': out of space"),
            // The check compares bytes with kibibytes, so that as a rule the tool speaks.
            "lvm" if free < size >> 10 => format!("not enough free space ({free} < {})", size >> 10),
            "lvm" => {
                let (there, wanted) = (free / EXTENT, size / EXTENT);
                format!(
                    "lvcreate '{group}/{name}' error:   Volume group \"{group}\" has insufficient free space ({there} \
                     extents): {wanted} required."
                )
            }
            "lvmthin" if free == 0 => {
                let pool = storage.thin_pool();
                format!(
                    "lvcreate '{group}/{name}' error:   Cannot create new thin volume, free space in thin pool \
                     {group}/{pool} reached threshold."
                )
            }
            "rbd" if free == 0 => {
                format!("rbd create '{name}' error: rbd: create error: (28) No space left on device")
            }
            _ if image.data > 0 => {
                "copy failed: qemu-img: error while writing: No space left on device".into()
            }
            _ => "unable to create image: qemu-img: No space left on device".into(),
        })
    }

    /// Is there room to let a volume grow?
    pub(crate) fn check_growth(
        &self,
        storage: &Storage,
        node: &str,
        name: &str,
        by: u64,
    ) -> Result<(), String> {
        let free = self.figures(storage, node).free();
        if !storage.is_thick() || by <= free {
            return Ok(());
        }
        let (group, place) = (storage.volume_group(), &storage.place);
        Err(match storage.traits().name {
            "lvm" => format!(
                "error resizing volume '/dev/{group}/{name}':   Insufficient free space: {} extents needed, but only {} \
                 available",
                by / EXTENT,
                free / EXTENT
            ),
            _ => format!(
                "zfs error: cannot set property for '{place}/{name}': size is greater than available space"
            ),
        })
    }

    /// Is there room for a file?
    pub(crate) fn has_room(&self, node: &str, storage: &str, bytes: u64) -> bool {
        self.storage(storage).is_ok_and(|storage| self.figures(storage, node).free() >= bytes)
    }
}
