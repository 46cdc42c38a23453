//! `proxmox_vm_advanced`: the fifteen keys of the VM's hardware profile.

use talmox_types::{
    BridgeName, Tag,
    desired::{Bios, MachineType, ScsiController},
};

use crate::read::{At, Int, Word, block};

block! {
    /// The hardware profile. Everything here can also stand in a role's block, a pool or a node.
    pub struct Advanced as "proxmox_vm_advanced" {
        /// Firmware: `ovmf` is UEFI, `seabios` the legacy BIOS.
        bios: Bios = "bios",
        /// Machine type. PCI passthrough with PCIe needs `q35`.
        machine: MachineType = "machine",
        /// CPU model, as Proxmox names it. Talos needs x86-64-v2 or better.
        cpu_type: Word = "cpu_type",
        /// SCSI controller.
        scsi_hw: ScsiController = "scsi_hw",
        /// Memory in MiB the balloon device may shrink the VM to; 0 leaves the device out.
        balloon: Int<0, 33_554_432> = "balloon",
        /// Whether the VM sees a NUMA topology.
        numa: bool = "numa",
        /// Whether Proxmox talks to a guest agent. Nothing ever waits for it.
        qemu_agent: bool = "qemu_agent",
        /// Queues of each network device; 0 leaves the option out.
        net_queues: Int<0, 16> = "net_queues",
        /// Whether the guest may give freed blocks back to the storage.
        disk_discard: bool = "disk_discard",
        /// Whether disks present themselves as SSDs.
        disk_ssd: bool = "disk_ssd",
        /// Tags shown in Proxmox.
        tags: Vec<At<Tag>> = "tags",
        /// Bridge the first network device is on.
        network_bridge: BridgeName = "network_bridge" | "proxmox_bridge",
        /// Operating system type, as Proxmox names it.
        ostype: Word = "ostype",
        /// Whether disks are part of Proxmox backups.
        disk_backup: bool = "disk_backup",
        /// Whether disks take part in Proxmox replication.
        disk_replicate: bool = "disk_replicate",
    }
}
