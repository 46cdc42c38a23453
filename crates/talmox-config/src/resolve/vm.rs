//! The virtual machine of a node.

use std::collections::BTreeMap;

use talmox_types::desired::{
    ConfigDelivery, DiskEncryption, DiskOptions, DriftPolicy, ExtraDisk, Nic, PciDevice, PciSource, Startup,
    Vm,
};
use talmox_types::{StorageId, VmId};

use super::computed::startup_order;
use crate::derive::mac_address;
use crate::description::Description;
use crate::file::{CloudInit, DiskBlock, NetworkBlock};
use crate::layers::Member;
use crate::read::At;

pub(super) fn vm(description: &Description, member: &Member<'_>) -> Vm {
    let encrypted = member.value(|s| s.disk_encryption.as_ref()) == DiskEncryption::Tpm;
    let storage = member.value(|s| s.storage.as_ref());
    // A VM never has two configuration drives: Talos takes the first it finds. One that fetches its configuration reads none.
    let own_way =
        description.top_default(|file| file.config_delivery.as_ref()) != ConfigDelivery::Maintenance;
    Vm {
        id: member
            .node
            .and_then(|node| node.vm_id.as_ref())
            .and_then(|at| VmId::try_from(at.value.to::<u32>()).ok()),
        host: member.pick(|s| s.host.as_ref()).map(|at| at.value.clone()),
        cores: member.value(|s| s.cores.as_ref()).to(),
        sockets: member.value(|s| s.sockets.as_ref()).to(),
        memory: member.value(|s| s.memory.as_ref()).to(),
        balloon: member.value(|s| s.advanced.balloon.as_ref()).to(),
        numa: member.value(|s| s.advanced.numa.as_ref()),
        cpu_type: member.value(|s| s.advanced.cpu_type.as_ref()).0,
        machine: member.value(|s| s.advanced.machine.as_ref()),
        bios: member.value(|s| s.advanced.bios.as_ref()),
        os_type: member.value(|s| s.advanced.ostype.as_ref()).0,
        scsi_hw: member.value(|s| s.advanced.scsi_hw.as_ref()),
        agent: member.value(|s| s.advanced.qemu_agent.as_ref()),
        tags: member.value(|s| s.advanced.tags.as_ref()).into_iter().map(|tag| tag.value).collect(),
        boot: description.boot(member),
        template: member.pick(|s| s.template.as_ref()).map(|at| at.value.clone()),
        secure_boot: member.value(|s| s.secure_boot.as_ref()),
        tpm: member.value(|s| s.tpm.as_ref()) || encrypted,
        cloud_init: member.value(|s| s.cloud_init.as_ref()) == CloudInit::On && !own_way,
        network_mode: member.value(|s| s.node_network.as_ref()),
        disk_bus: member.value(|s| s.disk_bus.as_ref()),
        disk_size: member.value(|s| s.disk_size.as_ref()).to(),
        disk_options: disk_options(member),
        extra_disks: extra_disks(member, &storage),
        storage,
        nics: nics(description, member),
        pci: pci(member),
        startup: startup(member),
        on_boot: member.pick(|s| s.onboot.as_ref()).map(|at| at.value),
        protection: member.value(|s| s.protection.as_ref()),
        ha_managed: member.value(|s| s.ha_managed.as_ref()),
        power: member.value(|s| s.power.as_ref()),
        drift: drift(member),
    }
}

fn disk_options(member: &Member<'_>) -> DiskOptions {
    DiskOptions {
        discard: member.value(|s| s.advanced.disk_discard.as_ref()),
        ssd: member.value(|s| s.advanced.disk_ssd.as_ref()),
        backup: member.value(|s| s.advanced.disk_backup.as_ref()),
        replicate: member.value(|s| s.advanced.disk_replicate.as_ref()),
    }
}

fn extra_disks(member: &Member<'_>, storage: &StorageId) -> Vec<ExtraDisk> {
    let disk = |block: &At<DiskBlock>| {
        Some(ExtraDisk {
            slot: block.slot.as_ref()?.value.to(),
            size: block.size.as_ref()?.value.to(),
            storage: block.storage.as_ref().map_or_else(|| storage.clone(), |at| at.value.clone()),
            keep: block.keep.as_ref().is_some_and(|at| at.value),
            mount: block.mount.as_ref().map(|at| at.value.0.clone()),
        })
    };
    let listed = member.pick(|s| s.vm_disks.as_ref());
    let mut disks: Vec<ExtraDisk> = listed.iter().flat_map(|at| &at.value).filter_map(disk).collect();
    disks.sort_by_key(|disk| disk.slot);
    disks
}

/// Slot 0 is always there and carries the node's address; an element of `vm_networks` may change it.
fn nics(description: &Description, member: &Member<'_>) -> Vec<Nic> {
    let listed = member.pick(|s| s.vm_networks.as_ref());
    let blocks: Vec<&NetworkBlock> = listed.iter().flat_map(|at| &at.value).map(|at| &at.value).collect();
    let slot = |block: &NetworkBlock| block.slot.as_ref().map_or(0, |at| at.value.to::<u8>());
    let mut slots: Vec<u8> = blocks.iter().map(|block| slot(block)).chain([0]).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
        .into_iter()
        .map(|number| {
            let block = blocks.iter().find(|block| slot(block) == number).copied();
            nic(description, member, number, block)
        })
        .collect()
}

fn nic(description: &Description, member: &Member<'_>, slot: u8, block: Option<&NetworkBlock>) -> Nic {
    let is_first = slot == 0;
    let own = member.node.and_then(|node| node.mac_addr.as_ref()).filter(|_| is_first);
    let declared = own.or_else(|| block.and_then(|block| block.mac.as_ref())).map(|at| at.value);
    let uid = description.cluster.file.cluster_uid.as_ref().map(|at| &at.value);
    let bridge = block.and_then(|block| block.bridge.as_ref()).map(|at| at.value.clone());
    let vlan = block.and_then(|block| block.vlan.as_ref()).map(|at| at.value.0);
    let node_vlan =
        || member.pick(|s| s.node_vlan_tag.as_ref()).and_then(|at| at.value.0).filter(|_| is_first);
    let mtu = block.and_then(|block| block.mtu.as_ref()).map(|at| at.value.to());
    let node_mtu = || member.pick(|s| s.mtu.as_ref()).map(|at| at.value.to()).filter(|_| is_first);
    Nic {
        slot,
        mac: declared.unwrap_or_else(|| mac_address(uid, &description.cluster_name(), &member.name, slot)),
        mac_derived: declared.is_none(),
        bridge: bridge.unwrap_or_else(|| member.value(|s| s.advanced.network_bridge.as_ref())),
        vlan: vlan.unwrap_or_else(node_vlan),
        mtu: mtu.or_else(node_mtu),
        queues: member.value(|s| s.advanced.net_queues.as_ref()).to(),
        firewall: block.and_then(|block| block.firewall.as_ref()).is_some_and(|at| at.value),
        addresses: block
            .and_then(|block| block.addresses.as_ref())
            .iter()
            .flat_map(|at| &at.value.0)
            .map(|cidr| cidr.value)
            .collect(),
    }
}

/// `gpu_pci_bdf` first, then the elements of `vm_pci`.
fn pci(member: &Member<'_>) -> Vec<PciDevice> {
    let gpu = member.pick(|s| s.gpu_pci_bdf.as_ref()).map(|at| PciDevice {
        source: PciSource::Address(at.value),
        pcie: member.value(|s| s.gpu_pcie_mode.as_ref()),
        rombar: member.value(|s| s.gpu_rombar.as_ref()),
    });
    let listed = member.pick(|s| s.vm_pci.as_ref());
    let others = listed.iter().flat_map(|at| &at.value).filter_map(|block| {
        let mapping = block.mapping.as_ref().map(|at| PciSource::Mapping(at.value.clone()));
        let address = block.bdf.as_ref().map(|at| PciSource::Address(at.value));
        Some(PciDevice {
            source: mapping.or(address)?,
            pcie: block.pcie.as_ref().is_none_or(|at| at.value),
            rombar: block.rombar.as_ref().is_none_or(|at| at.value),
        })
    });
    gpu.into_iter().chain(others).collect()
}

/// Policies of every layer together; for one field the nearest layer wins.
pub(crate) fn drift(member: &Member<'_>) -> BTreeMap<String, DriftPolicy> {
    member.all(|s| s.drift.as_ref()).flat_map(|(_, at)| at.value.0.clone()).collect()
}

fn startup(member: &Member<'_>) -> Startup {
    let order = member
        .pick(|s| s.startup_order.as_ref())
        .map_or_else(|| u16::try_from(startup_order(member)).unwrap_or(u16::MAX), |at| at.value.to());
    Startup {
        order,
        up: member.value(|s| s.startup_delay.as_ref()).to(),
        down: member.value(|s| s.shutdown_delay.as_ref()).to(),
    }
}
