//! What Proxmox holds for a field of the description.

use serde::Serialize;
use talmox_types::NodeName;
use talmox_types::desired::Desired;

use crate::{Guest, Observed, identify};

/// Fields and the key of the VM's configuration that carries them.
const KEYS: &[(&str, &str)] = &[
    ("name", "name"),
    ("vm_cores", "cores"),
    ("vm_sockets", "sockets"),
    ("vm_memory", "memory"),
    ("balloon", "balloon"),
    ("numa", "numa"),
    ("cpu_type", "cpu"),
    ("machine", "machine"),
    ("bios", "bios"),
    ("ostype", "ostype"),
    ("scsi_hw", "scsihw"),
    ("qemu_agent", "agent"),
    ("tags", "tags"),
    ("onboot", "onboot"),
    ("protection", "protection"),
    ("boot", "boot"),
    ("vm_startup_order", "startup"),
    ("vm_startup_delay", "startup"),
    ("vm_shutdown_delay", "startup"),
    ("vm_disk_size", "scsi0"),
    ("proxmox_storage", "scsi0"),
    ("disk_discard", "scsi0"),
    ("disk_ssd", "scsi0"),
    ("disk_backup", "scsi0"),
    ("disk_replicate", "scsi0"),
    ("network_bridge", "net0"),
    ("node_vlan_tag", "net0"),
    ("net_queues", "net0"),
    ("mtu", "net0"),
    ("mac_addr", "net0"),
    ("address", "ipconfig0"),
    ("node_gateway", "ipconfig0"),
    ("dns_servers", "nameserver"),
    ("tpm", "tpmstate0"),
];

/// A value as Proxmox has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Live {
    /// Proxmox's own name of it.
    pub key: &'static str,
    /// None: not set.
    pub value: Option<String>,
    /// What it will be after the next restart, if that is something else.
    pub pending: Option<String>,
}

/// What Proxmox holds for a field of a node. None if the node has no VM of ours that could be read, or the field is not
/// one of the VM's configuration.
pub fn live(desired: &Desired, observed: &Observed, node: &NodeName, field: &str) -> Option<Live> {
    let (_, key) = KEYS.iter().find(|(known, _)| *known == field)?;
    let declared = desired.nodes.iter().find(|declared| declared.name == *node);
    let key = match declared {
        Some(declared) if *key == "scsi0" => declared.vm.disk_bus.first_slot(),
        Some(_) | None => *key,
    };
    let identities = identify(desired, observed);
    let owned = identities.of_node(node).next()?;
    let seen = observed.guests.get(&owned.mark.vmid).and_then(Guest::seen)?;
    let (now, next) = (seen.live.get(key), seen.next.get(key));
    let pending = (now != next).then(|| next.unwrap_or("not set").to_owned());
    Some(Live { key, value: now.map(str::to_owned), pending })
}
