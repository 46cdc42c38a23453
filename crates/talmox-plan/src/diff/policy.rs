//! What is left alone though it differs: options are taken from the VM before anything is compared, so that a change of
//! the others keeps them.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, IpConfig, NetDevice, SlotKind, Startup, VmConfig};
use talmox_types::desired::DriftPolicy;

use crate::DriveOptions;

/// What is done about differences of a node, by field: what was asked for on the command line first, then what the
/// description says of the node, then of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies<'a> {
    pub asked: Option<&'a BTreeSet<String>>,
    pub node: Option<&'a BTreeMap<String, DriftPolicy>>,
    pub shown: &'a [String],
}

impl Policies<'_> {
    pub(crate) fn of(&self, field: &str) -> DriftPolicy {
        if self.asked.is_some_and(|asked| asked.contains(field)) {
            return DriftPolicy::Show;
        }
        let node = self.node.and_then(|node| node.get(field)).copied();
        node.unwrap_or_else(|| {
            let shown = self.shown.iter().any(|shown| shown == field);
            if shown { DriftPolicy::Show } else { DriftPolicy::Correct }
        })
    }

    pub(crate) fn leaves(&self, field: &str) -> bool {
        self.of(field) != DriftPolicy::Correct
    }

    /// What is wanted, with the options that are left alone as the VM has them.
    pub(crate) fn masked(&self, wanted: &VmConfig, have: &VmConfig) -> VmConfig {
        let mut masked = wanted.clone();
        for (slot, text) in wanted.slots() {
            let key = slot.to_string();
            let Some(held) = have.get(&key) else { continue };
            let kind = slot.kind();
            let new = if kind == SlotKind::Net {
                self.net(text, held, slot.index() == 0)
            } else if kind == SlotKind::IpConfig {
                self.ip_config(text, held, slot.index() == 0)
            } else {
                None
            };
            if let Some(new) = new {
                masked.set(key, &new);
            }
        }
        if let Some(startup) = self.startup(wanted, have) {
            masked.set("startup", &startup);
        }
        masked
    }

    fn net(&self, wanted: &str, have: &str, first: bool) -> Option<String> {
        let (mut new, have) = (NetDevice::parse(wanted).ok()?, NetDevice::parse(have).ok()?);
        let (bridge, tag, mtu, mac) = if first {
            ("network_bridge", "node_vlan_tag", "mtu", "mac_addr")
        } else {
            ("vm_networks", "vm_networks", "vm_networks", "vm_networks")
        };
        if self.leaves(bridge) {
            new.bridge.clone_from(&have.bridge);
        }
        if self.leaves(tag) {
            new.tag = have.tag;
        }
        if self.leaves(mtu) {
            new.mtu = have.mtu;
        }
        if self.leaves(mac) {
            new.mac = have.mac;
        }
        if self.leaves("vm_networks") {
            new.firewall = have.firewall;
        }
        if self.leaves("net_queues") {
            new.queues = have.queues;
        }
        if self.leaves("nic_model") {
            new.model = have.model;
        }
        Some(new.to_string())
    }

    fn ip_config(&self, wanted: &str, have: &str, first: bool) -> Option<String> {
        let (mut new, have) = (IpConfig::parse(wanted).ok()?, IpConfig::parse(have).ok()?);
        let (address, gateway) =
            if first { ("address", "node_gateway") } else { ("vm_networks", "vm_networks") };
        if self.leaves(address) {
            (new.ip, new.ip6) = (have.ip, have.ip6);
        }
        if self.leaves(gateway) {
            (new.gateway, new.gateway6) = (have.gateway, have.gateway6);
        }
        Some(new.to_string())
    }

    fn startup(&self, wanted: &VmConfig, have: &VmConfig) -> Option<Startup> {
        let mut new = wanted.startup().ok()??;
        let have = have.startup().ok()??;
        if self.leaves("vm_startup_order") {
            new.order = have.order;
        }
        if self.leaves("vm_startup_delay") {
            new.up = have.up;
        }
        if self.leaves("vm_shutdown_delay") {
            new.down = have.down;
        }
        Some(new)
    }

    /// Options of a disk, likewise.
    pub(crate) fn drive(&self, wanted: DriveOptions, have: &Disk) -> DriveOptions {
        let held = DriveOptions::of(have);
        let choose = |field: &str, wanted: bool, held: bool| if self.leaves(field) { held } else { wanted };
        DriveOptions {
            discard: choose("disk_discard", wanted.discard, held.discard),
            ssd: choose("disk_ssd", wanted.ssd, held.ssd),
            backup: choose("disk_backup", wanted.backup, held.backup),
            replicate: choose("disk_replicate", wanted.replicate, held.replicate),
        }
    }
}
