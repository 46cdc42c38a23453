//! Virtual machines: what their calls do.

pub(crate) mod agent;
pub(crate) mod apply;
pub(crate) mod clone;
pub(crate) mod cloudinit;
pub(crate) mod create;
pub(crate) mod destroy;
pub(crate) mod devices;
pub(crate) mod disks;
pub(crate) mod machine;
pub(crate) mod migrate;
pub(crate) mod perms;
pub(crate) mod power;
pub(crate) mod reassign;
pub(crate) mod reshape;
pub(crate) mod snapshot;
pub(crate) mod update;
pub(crate) mod view;

use std::collections::BTreeMap;

use crate::drive::{Drive, is_nic, split_key};
use crate::vm::{drives_of, print_boot_order};

/// First disk, first CD, first NIC: what PVE writes when nobody gave a boot order.
pub(crate) fn default_boot(config: &BTreeMap<String, String>) -> String {
    let rank = |drive: &&Drive| {
        let (bus, index) = split_key(&drive.key).unwrap_or_default();
        let bus = ["ide", "scsi", "virtio", "sata"].iter().position(|name| *name == bus);
        (bus.unwrap_or(usize::MAX), index)
    };
    let bootable = |drive: &&Drive| !drive.key.starts_with("efidisk") && !drive.key.starts_with("tpmstate");
    let drives = drives_of(config);
    let first = |cdrom: bool| {
        let candidates = drives.iter().filter(bootable).filter(|drive| drive.is_cdrom() == cdrom);
        candidates.min_by_key(rank).map(|drive| drive.key.clone())
    };
    let nics = config.keys().filter(|key| is_nic(key));
    let nic = nics.min_by_key(|key| split_key(key).map_or(0, |(_, index)| index)).cloned();
    let devices: Vec<String> = [first(false), first(true), nic].into_iter().flatten().collect();
    print_boot_order(&devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_order_names_the_first_of_each_kind() {
        let config = |keys: &[(&str, &str)]| -> BTreeMap<String, String> {
            keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(default_boot(&config(&[])), " ");
        let disks = [
            ("scsi10", "st:vm-1-disk-1"),
            ("scsi2", "st:vm-1-disk-0"),
            ("ide2", "st:vm-1-cloudinit,media=cdrom"),
            ("net0", "virtio"),
            ("efidisk0", "st:x"),
        ];
        assert_eq!(default_boot(&config(&disks)), "order=scsi2;ide2;net0");
    }
}
