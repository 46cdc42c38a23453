//! Whether a value that is there means the same as one that is wanted.
//!
//! Proxmox prints some values anew, sorts and lower-cases others, and fills in what a new volume got. None of that is a
//! difference.

use talmox_pve::property::{
    Agent, Boot, CpuModel, Disk, DriveSource, EfiDisk, HostPci, IpConfig, Machine, Memory, NetDevice,
    PropertyError, Slot, SlotKind, Smbios, Startup, Tags, TpmState,
};
use talmox_types::StorageId;

/// Whether `live` is what setting `key` to `wanted` leads to.
pub(super) fn is_there(key: &str, wanted: &str, live: Option<&str>) -> bool {
    let Some(live) = live else { return false };
    if wanted == live {
        return true;
    }
    match Slot::parse(key) {
        Ok(slot) => slot_is_there(slot, wanted, live),
        Err(_) => option_is_there(key, wanted, live),
    }
}

fn option_is_there(key: &str, wanted: &str, live: &str) -> bool {
    match key {
        "agent" => same(Agent::parse, wanted, live),
        "boot" => boot_is_there(wanted, live),
        "cpu" => same(CpuModel::parse, wanted, live),
        "machine" => same(Machine::parse, wanted, live),
        "memory" => same(Memory::parse, wanted, live),
        "smbios1" => same(Smbios::parse, wanted, live),
        "startup" => same(Startup::parse, wanted, live),
        "tags" => same(Tags::parse, wanted, live),
        "nameserver" | "searchdomain" => words(wanted).eq(words(live)),
        // Proxmox never shows a password.
        "cipassword" => true,
        _ => wanted.trim_end() == live.trim_end(),
    }
}

fn slot_is_there(slot: Slot, wanted: &str, live: &str) -> bool {
    match slot.kind() {
        SlotKind::Net => same(NetDevice::parse, wanted, live),
        SlotKind::IpConfig => same(IpConfig::parse, wanted, live),
        SlotKind::HostPci => same(HostPci::parse, wanted, live),
        SlotKind::EfiDisk => volume_is_there(EfiDisk::parse, wanted, live, |wanted, live| {
            on_storage(&wanted.source, &live.source) && wanted.same_options(live)
        }),
        SlotKind::TpmState => volume_is_there(TpmState::parse, wanted, live, |wanted, live| {
            let same_version =
                TpmState { source: live.source.clone(), size: live.size, ..wanted.clone() } == *live;
            on_storage(&wanted.source, &live.source) && same_version
        }),
        SlotKind::Ide | SlotKind::Scsi | SlotKind::Virtio | SlotKind::Sata => {
            volume_is_there(Disk::parse, wanted, live, |wanted, live| {
                let both_cloud_init = wanted.is_cloud_init() && live.is_cloud_init();
                on_storage(&wanted.source, &live.source) && (both_cloud_init || wanted.same_options(live))
            })
        }
        SlotKind::Audio
        | SlotKind::Numa
        | SlotKind::Parallel
        | SlotKind::Rng
        | SlotKind::Serial
        | SlotKind::Unused
        | SlotKind::Usb
        | SlotKind::VirtioFs => false,
    }
}

/// A volume that was to be made is there if one is on its storage; one that was named must be that one.
fn on_storage(wanted: &DriveSource, live: &DriveSource) -> bool {
    let is_on = |storage: &Option<StorageId>| {
        let volume = live.volume();
        volume.is_some_and(|volume| storage.as_ref().is_none_or(|storage| volume.storage() == storage))
    };
    match wanted {
        DriveSource::Allocate { storage, .. } | DriveSource::CloudInit { storage } => is_on(storage),
        named @ (DriveSource::Volume(_)
        | DriveSource::Path(_)
        | DriveSource::Empty
        | DriveSource::HostCdrom) => named == live,
    }
}

fn volume_is_there<T>(
    parse: fn(&str) -> Result<T, PropertyError>,
    wanted: &str,
    live: &str,
    judge: impl Fn(&T, &T) -> bool,
) -> bool {
    matches!((parse(wanted), parse(live)), (Ok(wanted), Ok(live)) if judge(&wanted, &live))
}

/// Proxmox appends every CD drive it is given to the order.
fn boot_is_there(wanted: &str, live: &str) -> bool {
    match (Boot::parse(wanted), Boot::parse(live)) {
        (Ok(Boot::Order(wanted)), Ok(Boot::Order(live))) => live.starts_with(&wanted),
        (Ok(wanted), Ok(live)) => wanted == live,
        _ => false,
    }
}

fn same<T: PartialEq>(parse: fn(&str) -> Result<T, PropertyError>, wanted: &str, live: &str) -> bool {
    matches!((parse(wanted), parse(live)), (Ok(wanted), Ok(live)) if wanted == live)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',', ';']).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proxmox_makes_of_a_value_is_that_value() {
        for (key, wanted, live) in [
            ("cores", "4", "4"),
            ("agent", "1", "enabled=1"),
            ("tags", "talos,Kubernetes", "kubernetes;talos"),
            ("boot", "order=scsi0", "order=scsi0;ide2"),
            ("nameserver", "10.0.0.1 10.0.0.2", "10.0.0.1,10.0.0.2"),
            ("description", "a mark\n", "a mark"),
            ("cipassword", "secret", "**********"),
            (
                "net0",
                "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=7",
                "virtio=BC:24:11:00:00:01,tag=7,bridge=vmbr0",
            ),
            ("ide2", "local-zfs:cloudinit,media=cdrom", "local-zfs:vm-100-cloudinit,media=cdrom,size=4M"),
            ("efidisk0", "local-zfs:1,efitype=4m", "local-zfs:vm-100-disk-0,efitype=4m,size=1M"),
            ("tpmstate0", "local-zfs:1,version=v2.0", "local-zfs:vm-100-disk-1,size=4M,version=v2.0"),
        ] {
            assert!(is_there(key, wanted, Some(live)), "{key}: {wanted} is not {live}");
        }
    }

    #[test]
    fn another_value_is_none() {
        for (key, wanted, live) in [
            ("cores", "4", "2"),
            ("boot", "order=scsi0;net0", "order=scsi0"),
            ("nameserver", "10.0.0.1 10.0.0.2", "10.0.0.2 10.0.0.1"),
            ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0", "virtio=BC:24:11:00:00:02,bridge=vmbr0"),
            ("ide2", "local:cloudinit", "local-zfs:vm-100-cloudinit,media=cdrom"),
            ("efidisk0", "local-zfs:1,efitype=4m", "local-zfs:vm-100-disk-0,efitype=2m"),
            ("tpmstate0", "local-zfs:1,version=v2.0", "local-zfs:vm-100-disk-1,size=4M"),
        ] {
            assert!(!is_there(key, wanted, Some(live)), "{key}: {wanted} is {live}");
        }
        assert!(!is_there("cores", "4", None));
    }
}
