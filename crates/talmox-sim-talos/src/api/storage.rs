//! Disks.

use talmox_proto::storage::disk::DiskType;
use talmox_proto::storage::{
    BlockDeviceWipe, BlockDeviceWipeRequest, BlockDeviceWipeResponse, Disk, Disks, DisksResponse,
};

use super::machine::run;
use super::{Asked, Handlers};
use crate::disk::Written;
use crate::hardware::{Drive, MachineId};
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers =
    &[("/storage.StorageService/Disks", disks), ("/storage.StorageService/BlockDeviceWipe", wipe)];

type Reply = Result<ApiReply, Status>;

/// Besides what one would expect there are Talos' own root, read-only, and CD drives.
fn disks(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let run = run(nodes, asked)?;
    let mut found = Vec::new();
    if !run.is_container() {
        found.push(Disk {
            device_name: "/dev/loop0".to_owned(),
            bus_path: "/virtual".to_owned(),
            size: 100_130_816,
            readonly: true,
            subsystem: "/sys/class/block".to_owned(),
            ..Disk::default()
        });
        found.extend(nodes.machines.get(&asked.machine).into_iter().flat_map(|machine| {
            let system = run.system;
            let drives = machine.hardware.drives.iter().enumerate();
            drives.map(move |(at, drive)| match drive {
                Drive::Disk(disk) => Disk {
                    device_name: format!("/dev/{}", disk.name),
                    serial: disk.serial.clone(),
                    size: disk.size,
                    r#type: if disk.name.starts_with("nvme") { DiskType::Nvme } else { DiskType::Hdd }.into(),
                    bus_path: format!("/pci0000:00/0000:00:05.0/virtio{at}"),
                    system_disk: system == Some(disk.id),
                    subsystem: "/sys/class/block".to_owned(),
                    ..Disk::default()
                },
                Drive::Cd(_) => Disk {
                    device_name: format!("/dev/sr{at}"),
                    model: "QEMU DVD-ROM".to_owned(),
                    serial: format!("QEMU_DVD-ROM_QM0000{at}"),
                    modalias: "scsi:t-0x05".to_owned(),
                    r#type: DiskType::Cd.into(),
                    bus_path: format!("/pci0000:00/0000:00:01.1/ata{at}"),
                    readonly: true,
                    subsystem: "/sys/class/block".to_owned(),
                    ..Disk::default()
                },
            })
        }));
    }
    Ok(nodes.reply(&DisksResponse { messages: vec![Disks { metadata: None, disks: found }] }))
}

fn wipe(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: BlockDeviceWipeRequest = asked.request()?;
    for device in &request.devices {
        let name = &device.device;
        let Some(disk) = disk_of(nodes, asked.machine, name) else {
            return Err(Status::new(Code::NotFound, format!("blockdevice \"{name}\" not found")));
        };
        let system = run(nodes, asked)?.system == Some(disk.0);
        let used = if disk.1 { "EPHEMERAL" } else { "STATE" };
        if system && run(nodes, asked)?.volumes {
            let words = format!("blockdevice \"{name}\" is in use by volume \"{used}\"");
            return Err(Status::new(Code::FailedPrecondition, words));
        }
        nodes.disks.insert(disk.0, Written::default());
    }
    Ok(nodes.reply(&BlockDeviceWipeResponse { messages: vec![BlockDeviceWipe { metadata: None }] }))
}

/// A disk by its name or that of one of its partitions, and whether the whole disk is meant.
fn disk_of(nodes: &Nodes, machine: MachineId, name: &str) -> Option<(crate::hardware::DiskId, bool)> {
    nodes.machines.get(&machine)?.hardware.drives.iter().find_map(|drive| match drive {
        Drive::Disk(disk) => {
            let rest = name.strip_prefix(&disk.name)?;
            rest.bytes().all(|byte| byte.is_ascii_digit()).then_some((disk.id, rest.is_empty()))
        }
        Drive::Cd(_) => None,
    })
}
