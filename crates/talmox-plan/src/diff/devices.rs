//! Network and PCI devices, and the addresses cloud-init gives.

use talmox_pve::property::{HostPci, IpConfig, NetDevice, Slot, SlotKind};
use talmox_types::sabotage::{Defect, sabotaged};

use super::{Difference, Differences, How, State, Subject};
use crate::Applies;

pub(super) fn compare(subject: &Subject<'_>, found: &mut Differences) {
    for (slot, text) in subject.wanted.slots() {
        let kind = slot.kind();
        if kind == SlotKind::Net {
            net(subject, found, slot, text);
        } else if kind == SlotKind::HostPci {
            host_pci(subject, found, slot, text);
        } else if kind == SlotKind::IpConfig {
            ip_config(subject, found, slot, text);
        }
    }
    let undeclared = |slot: &Slot| {
        matches!(slot.kind(), SlotKind::Net | SlotKind::HostPci | SlotKind::Usb)
            && subject.wanted.get(&slot.to_string()).is_none()
    };
    let foreign = subject.have.slots().filter(|(slot, _)| undeclared(slot));
    found.foreign.extend(foreign.map(|(slot, text)| format!("{slot}: {text}")));
}

fn net(subject: &Subject<'_>, found: &mut Differences, slot: Slot, text: &str) {
    let (key, Ok(wanted)) = (slot.to_string(), NetDevice::parse(text)) else { return };
    let old = subject.have.get(&key);
    let have = old.and_then(|text| NetDevice::parse(text).ok());
    let Some(have) = have else {
        let applies = subject.plug("network");
        let how = How::Set(wanted.to_string());
        found.values.push(Difference::new(&key, net_field(slot), old.map(str::to_owned), how, applies));
        return;
    };
    // What the description does not decide stays: rate, trunks, a link that was taken down.
    let new = NetDevice {
        host_tunnel: have.host_tunnel,
        link_down: have.link_down,
        rate: have.rate.clone(),
        trunks: have.trunks.clone(),
        other: have.other.clone(),
        ..wanted
    };
    if new == have {
        return;
    }
    let same_card = new.model == have.model
        && new.mac == have.mac
        && new.queues.unwrap_or(0) == have.queues.unwrap_or(0)
        && new.mtu == have.mtu;
    let replugs = !same_card && subject.state == State::Running;
    let applies = if replugs { subject.restart() } else { subject.plug("network") };
    let new = if sabotaged(Defect::MacDropped) { NetDevice { mac: None, ..new } } else { new };
    let how = How::Set(new.to_string());
    let difference = Difference::new(&key, net_field(slot), old.map(str::to_owned), how, applies);
    found.values.push(Difference { replugs, ..difference });
}

fn net_field(slot: Slot) -> &'static str {
    if slot.index() == 0 { "network_bridge" } else { "vm_networks" }
}

fn host_pci(subject: &Subject<'_>, found: &mut Differences, slot: Slot, text: &str) {
    let (key, Ok(wanted)) = (slot.to_string(), HostPci::parse(text)) else { return };
    let old = subject.have.get(&key);
    let have = old.and_then(|text| HostPci::parse(text).ok());
    let new = match &have {
        Some(have) => HostPci {
            host: wanted.host,
            mapping: wanted.mapping,
            pcie: wanted.pcie,
            rombar: wanted.rombar,
            ..have.clone()
        },
        None => wanted,
    };
    if have.as_ref() != Some(&new) {
        let how = How::Set(new.to_string());
        let old = old.map(str::to_owned);
        found.values.push(Difference::new(&key, "vm_pci", old, how, subject.restart()));
    }
}

fn ip_config(subject: &Subject<'_>, found: &mut Differences, slot: Slot, text: &str) {
    let (key, Ok(wanted)) = (slot.to_string(), IpConfig::parse(text)) else { return };
    let old = subject.have.get(&key);
    let have = old.and_then(|text| IpConfig::parse(text).ok());
    if have.as_ref() != Some(&wanted) {
        let field = if slot.index() == 0 { "address" } else { "vm_networks" };
        let how = How::Set(wanted.to_string());
        found.values.push(Difference::new(&key, field, old.map(str::to_owned), how, Applies::Now));
    }
}
