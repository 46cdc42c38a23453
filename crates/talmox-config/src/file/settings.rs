//! What can be set for one node, for all nodes of a pool or role, or for all.

use talmox_types::{
    BridgeName, Cidr, HostName, MacAddress, MappingName, PciAddress, SchematicId, StorageId, Taint,
    desired::{Boot, DiskBus, DiskEncryption, NetworkMode, Patch, Power, TemplateRef},
};

use super::{Advanced, CloudInit, Drift};
use crate::read::{Annotations, At, Int, Labels, OneOrMore, Text, VlanTag, VolumeName, Word, block};

block! {
    /// Settings of a VM and its machine. The nearest place wins: node, pool, role, cluster, built in.
    /// `labels`, `annotations` and `drift` are merged key by key, `patches` add up; every other list is taken whole.
    pub struct Settings as "proxmox_vm_defaults" {
        /// CPU cores per socket.
        cores: Int<1, 768> = "vm_cores" | "cores",
        /// CPU sockets.
        sockets: Int<1, 4> = "vm_sockets" | "sockets",
        /// Memory in MiB.
        memory: Int<1024, 33_554_432> = "vm_memory" | "memory" | "memory_mb",
        /// Size of the system disk in GiB. It can grow later, never shrink.
        disk_size: Int<10, 65_536> = "vm_disk_size" | "disk_size" | "disk_gb",
        /// Bus of the system disk, which is in its slot 0. New VMs are best with `scsi`.
        disk_bus: DiskBus = "disk_bus",
        /// Storage of the disks.
        storage: StorageId = "proxmox_storage" | "storage_pool" | "disk_pool",
        /// The Proxmox host the VM is on. Default: placed on one of `proxmox_nodes`.
        host: HostName = "vm_host" | "node" | "proxmox_node",
        /// Disk Talos installs to: a path, or a serial number if it does not begin with `/`. Matters for ISO boots only.
        /// On the bus `virtio` the default is `/dev/vda`.
        disk: Text = "disk",
        /// Disks beside the system disk.
        vm_disks: Vec<At<DiskBlock>> = "vm_disks",
        /// Network devices. Slot 0 is there anyway; listing it changes it.
        vm_networks: Vec<At<NetworkBlock>> = "vm_networks",
        /// PCI devices passed through.
        vm_pci: Vec<At<PciBlock>> = "vm_pci",
        /// A GPU passed through, by its PCI address on the host. Short for one element of `vm_pci`.
        gpu_pci_bdf: PciAddress = "gpu_pci_bdf",
        /// Whether the GPU is a PCIe device to the guest (needs machine `q35`).
        gpu_pcie_mode: bool = "gpu_pcie_mode",
        /// Whether the GPU's ROM is visible to the guest.
        gpu_rombar: bool = "gpu_rombar",
        /// Position in the host's start order. Default: the node's position, counted from 1, plus 3; at most 100.
        startup_order: Int<1, 100> = "vm_startup_order" | "startup_order",
        /// Seconds the host waits after starting it.
        startup_delay: Int<0, 300> = "vm_startup_delay" | "startup_delay",
        /// Seconds the host waits for its shutdown.
        shutdown_delay: Int<0, 600> = "vm_shutdown_delay" | "shutdown_delay",
        /// Whether the VM starts with its host. Default: left as it is.
        onboot: bool = "onboot",
        /// Whether Proxmox refuses to remove the VM and its disks.
        protection: bool = "protection",
        /// Whether the VM runs. What is started or stopped by hand is put back.
        power: Power = "vm_power" | "power",
        /// Whether Proxmox HA looks after the VM.
        ha_managed: bool = "ha_managed",
        /// MTU of the first network device and of the link inside. Default: the bridge's.
        mtu: Int<1450, 9000> = "mtu",
        /// VLAN tag of the first network device, on the Proxmox side only.
        node_vlan_tag: VlanTag = "node_vlan_tag",
        /// Whether addresses are static or come by DHCP (then `address` is the reservation).
        node_network: NetworkMode = "node_network",
        /// Whether Proxmox's cloud-init drive gives address and name for the first boot.
        cloud_init: CloudInit = "cloud_init",
        /// Where the first boot comes from.
        boot: Boot = "boot",
        /// A template somebody else made, by name, VMID or tags, cloned instead of a managed one.
        template: TemplateRef = "talos_template" | "template",
        /// An Image Factory schematic by its id, instead of `schematic`.
        schematic_id: SchematicId = "schematic_id",
        /// Whether the machine boots with Secure Boot (UEFI only).
        secure_boot: bool = "secure_boot" | "secureboot",
        /// Whether the VM has a TPM 2.0.
        tpm: bool = "tpm",
        /// Encryption of Talos's STATE and EPHEMERAL volumes: `tpm` seals the key to the TPM, `node-id` derives it from the
        /// machine's uuid. `encrypt_disk: true` means `tpm`.
        disk_encryption: DiskEncryption = "disk_encryption" | "encrypt_disk",
        /// Kernel modules to load.
        kernel_modules: Vec<At<Word>> = "kernel_modules",
        /// What is done about a field of the VM that is not as described: `correct` it, only `show` it, or `ignore` it.
        drift: Drift = "drift",
        /// Kubernetes node labels.
        labels: Labels = "labels",
        /// Kubernetes node annotations.
        annotations: Annotations = "annotations",
        /// Kubernetes node taints, as `key=value:Effect`.
        taints: Vec<At<Taint>> = "taints",
        /// Patches to the Talos machine configuration: YAML in place, or the name of a file.
        patches: Vec<At<Patch>> = "patches",
        ..advanced: Advanced,
    }
}

block! {
    /// A disk beside the system disk, on the SCSI bus.
    pub struct DiskBlock as "vm_disks" {
        /// The number in `scsiN`. Required.
        slot: Int<1, 30> = "slot",
        /// Size in GiB. It can grow later, never shrink. Required.
        size: Int<1, 65_536> = "size",
        /// Storage of the disk. Default: the node's `proxmox_storage`.
        storage: StorageId = "storage",
        /// Whether the disk survives the VM. Default: false.
        keep: bool = "keep",
        /// Name of the Talos user volume made on it, mounted at `/var/mnt/<name>`.
        mount: VolumeName = "mount",
    }
}

block! {
    /// A network device.
    pub struct NetworkBlock as "vm_networks" {
        /// The number in `netN`. Required. Slot 0 carries the node's address.
        slot: Int<0, 31> = "slot",
        /// Bridge. Default: the node's.
        bridge: BridgeName = "bridge",
        /// VLAN tag on the Proxmox side.
        vlan: VlanTag = "vlan",
        /// MTU of the device and of the link inside.
        mtu: Int<576, 65_520> = "mtu",
        /// MAC address. Default: derived from cluster, node and slot.
        mac: MacAddress = "mac",
        /// Static addresses with prefix length, for devices beside slot 0.
        addresses: OneOrMore<Cidr> = "addresses",
        /// Whether the Proxmox firewall filters it. Default: false.
        firewall: bool = "firewall",
    }
}

block! {
    /// A PCI device passed through: a mapping of the data centre, or an address on the host.
    pub struct PciBlock as "vm_pci" {
        /// Name of a PCI mapping. Preferred: a token may use it.
        mapping: MappingName = "mapping",
        /// Address on the host. Only root@pam by password may use it.
        bdf: PciAddress = "bdf",
        /// Whether it is a PCIe device to the guest (needs machine `q35`). Default: true.
        pcie: bool = "pcie",
        /// Whether its ROM is visible to the guest. Default: true.
        rombar: bool = "rombar",
    }
}
