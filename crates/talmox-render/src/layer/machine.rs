//! Install disk, encryption, volumes, modules and extensions.

use talmox_machine::{Map, Value};
use talmox_types::desired::{DiskEncryption, ExtensionService, ExtraDisk};

use super::{Layer, maps, number, quoted, since};
use crate::base::{Machine, install_image};
use crate::inputs::Inputs;

/// The releases whose layouts brought documents for these.
const USER_VOLUMES: u16 = 10;
const VOLUME_ENCRYPTION: u16 = 11;
const DOCUMENTS: u16 = 14;

/// The least a user volume may have. It takes the whole disk anyway; this only has to fit the smallest one.
const LEAST_VOLUME: &str = "512MiB";

pub(super) fn add(layer: &mut Layer, inputs: &Inputs<'_>) {
    install(layer, inputs);
    match inputs.node.disk_encryption {
        DiskEncryption::None => {}
        DiskEncryption::Tpm => encryption(layer, inputs, "tpm"),
        DiskEncryption::NodeId => encryption(layer, inputs, "nodeID"),
    }
    volumes(layer, inputs);
    modules(layer, inputs);
    for service in &inputs.desired.talos.extension_services {
        layer.document("ExtensionServiceConfig", extension_service(service));
    }
}

/// A disk by its serial number; a path is part of the base already.
fn install(layer: &mut Layer, inputs: &Inputs<'_>) {
    let disk = &inputs.node.install_disk;
    if disk.starts_with('/') {
        return;
    }
    if !since(inputs, DOCUMENTS) {
        layer.set(&["machine", "install", "diskSelector", "serial"], disk.as_str());
        return;
    }
    let selector = Map::new().with("match", format!("disk.serial == {}", quoted(disk)));
    // Wiping has to be refused in words: left out, it means yes.
    let provisioning = Map::new().with("diskSelector", selector).with("wipe", false);
    let installer = Map::new().with("image", install_image(inputs, &Machine::of(inputs.node)));
    let body = Map::new().with("installer", installer).with("provisioning", provisioning);
    layer.document("UnattendedInstallConfig", body);
}

fn encryption(layer: &mut Layer, inputs: &Inputs<'_>, kind: &str) {
    let key = Map::new().with("slot", number(0)).with(kind, Map::new());
    let encryption = Map::new().with("provider", "luks2").with("keys", maps([key]));
    for (volume, section) in [("STATE", "state"), ("EPHEMERAL", "ephemeral")] {
        if since(inputs, VOLUME_ENCRYPTION) {
            let body = Map::new().with("name", volume).with("encryption", encryption.clone());
            layer.document("VolumeConfig", body);
        } else {
            layer.set(&["machine", "systemDiskEncryption", section], encryption.clone());
        }
    }
}

fn volumes(layer: &mut Layer, inputs: &Inputs<'_>) {
    let mounted: Vec<(&ExtraDisk, &str)> =
        inputs.node.vm.extra_disks.iter().filter_map(|disk| Some((disk, disk.mount.as_deref()?))).collect();
    if since(inputs, USER_VOLUMES) {
        for (disk, name) in mounted {
            let selector = Map::new().with("match", format!("{} in disk.symlinks", quoted(&link_of(disk))));
            let provisioning =
                Map::new().with("diskSelector", selector).with("minSize", LEAST_VOLUME).with("grow", true);
            layer.document(
                "UserVolumeConfig",
                Map::new().with("name", name).with("provisioning", provisioning),
            );
        }
    } else if !mounted.is_empty() {
        let disk = |(disk, name): (&ExtraDisk, &str)| {
            let partition = Map::new().with("mountpoint", format!("/var/mnt/{name}"));
            Map::new().with("device", link_of(disk)).with("partitions", maps([partition]))
        };
        layer.set(&["machine", "disks"], maps(mounted.into_iter().map(disk)));
    }
}

/// Proxmox tells the guest a disk's slot, and from that comes a link that does not depend on the order disks are found in.
fn link_of(disk: &ExtraDisk) -> String {
    format!("/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi{}", disk.slot)
}

fn modules(layer: &mut Layer, inputs: &Inputs<'_>) {
    let modules = || inputs.node.kernel_modules.iter().map(|name| Map::new().with("name", name.as_str()));
    if since(inputs, DOCUMENTS) {
        for module in modules() {
            layer.document("KernelModuleConfig", module);
        }
    } else if !inputs.node.kernel_modules.is_empty() {
        layer.set(&["machine", "kernel", "modules"], maps(modules()));
    }
}

fn extension_service(service: &ExtensionService) -> Map {
    let files = service.config_files.iter().map(|file| {
        Map::new().with("content", file.content.as_str()).with("mountPath", file.mount_path.as_str())
    });
    let files: Vec<Map> = files.collect();
    let environment = &service.environment;
    Map::new()
        .with("name", service.name.as_str())
        .with_some("configFiles", (!files.is_empty()).then(|| maps(files)))
        .with_some("environment", (!environment.is_empty()).then(|| Value::from(environment.clone())))
}
