//! Network and PCI devices.

use talmox_config::edit::{Item, Setting, Yaml};
use talmox_pve::property::{HostPci, IpConfig, Ipv4Setting, Ipv6Setting, NetDevice, Slot, SlotKind};
use talmox_types::Cidr;
use talmox_types::desired::{Nic, PciDevice, PciSource};

use super::{Subject, Wanted};

pub(super) fn derive(subject: &Subject<'_>, wanted: &mut Wanted) {
    networks(subject, wanted);
    pci(subject, wanted);
}

fn networks(subject: &Subject<'_>, wanted: &mut Wanted) {
    let held = subject.config.net_devices().unwrap_or_default();
    let find = |number: u8| held.iter().find(|(slot, _)| slot.index() == number).map(|(_, device)| device);
    let mut items: Vec<Item> = Vec::new();
    for nic in &subject.node.vm.nics {
        match (nic.slot, find(nic.slot)) {
            (0, Some(device)) => items.extend(first(subject, nic, device, wanted)),
            (_, Some(device)) => items.push(declared(nic, device)),
            (0, None) => {}
            (_, None) => items.push(Item { changed: Vec::new(), ..described(nic) }),
        }
    }
    for (slot, device) in &held {
        let is_new = subject.node.vm.nics.iter().all(|nic| nic.slot != slot.index());
        if is_new {
            items.extend(new_device(subject, *slot, device));
        }
    }
    if items.iter().any(|item| !item.changed.is_empty()) {
        items.sort_by_key(|item| item.slot);
        wanted.settings.push(Setting::Items { key: "vm_networks", items });
    }
}

/// The first device is spoken of by keys of the node itself, unless a list of devices does.
fn first(subject: &Subject<'_>, nic: &Nic, device: &NetDevice, wanted: &mut Wanted) -> Option<Item> {
    let listed = &subject.first_device;
    let mut item = Item { slot: 0, entries: Vec::new(), changed: Vec::new() };
    let mut say = |inner: &'static str, outer: &'static str, value: Yaml, differs: bool| {
        if listed.contains(&inner) || inner == "firewall" {
            if differs {
                item.changed.push(inner);
            }
            if differs || listed.contains(&inner) {
                item.entries.push((inner, value));
            }
        } else if differs {
            wanted.value(outer, value);
        }
    };
    if let Some(mac) = device.mac {
        say("mac", "mac_addr", Yaml::text(mac), mac != nic.mac);
    }
    if let Some(bridge) = &device.bridge {
        say("bridge", "network_bridge", Yaml::text(bridge), *bridge != nic.bridge);
    }
    say("vlan", "node_vlan_tag", vlan(device.tag), device.tag != nic.vlan);
    if let Some(mtu) = device.mtu.filter(|mtu| (1450..=9000).contains(mtu)) {
        say("mtu", "mtu", Yaml::Integer(i64::from(mtu)), Some(mtu) != nic.mtu.map(u32::from));
    }
    let firewall = device.firewall.unwrap_or(false);
    say("firewall", "firewall", Yaml::Bool(firewall), firewall != nic.firewall);
    let queues = device.queues.unwrap_or(0);
    if queues != u16::from(nic.queues) && queues <= 16 {
        wanted.number("net_queues", u64::from(queues));
    }
    (!item.entries.is_empty()).then_some(item)
}

fn vlan(tag: Option<u16>) -> Yaml {
    tag.map_or_else(|| Yaml::text(""), |tag| Yaml::Integer(i64::from(tag)))
}

/// A further device as the description has it.
fn described(nic: &Nic) -> Item {
    let mut entries = vec![("bridge", Yaml::text(&nic.bridge))];
    entries.extend(nic.vlan.map(|tag| ("vlan", vlan(Some(tag)))));
    entries.extend(nic.mtu.map(|mtu| ("mtu", Yaml::Integer(i64::from(mtu)))));
    if !nic.mac_derived {
        entries.push(("mac", Yaml::text(nic.mac)));
    }
    if !nic.addresses.is_empty() {
        entries.push(("addresses", Yaml::List(nic.addresses.iter().map(Yaml::text).collect())));
    }
    if nic.firewall {
        entries.push(("firewall", Yaml::Bool(true)));
    }
    Item { slot: nic.slot, entries, changed: Vec::new() }
}

/// A further device that is described and there.
fn declared(nic: &Nic, device: &NetDevice) -> Item {
    let mut item = described(nic);
    let mut set = |key: &'static str, value: Yaml| {
        item.entries.retain(|(name, _)| *name != key);
        item.entries.push((key, value));
        item.changed.push(key);
    };
    if let Some(bridge) = device.bridge.as_ref().filter(|bridge| **bridge != nic.bridge) {
        set("bridge", Yaml::text(bridge));
    }
    if device.tag != nic.vlan {
        set("vlan", vlan(device.tag));
    }
    if let Some(mtu) =
        device.mtu.filter(|mtu| (576..=65_520).contains(mtu) && Some(*mtu) != nic.mtu.map(u32::from))
    {
        set("mtu", Yaml::Integer(i64::from(mtu)));
    }
    if let Some(mac) = device.mac.filter(|mac| *mac != nic.mac) {
        set("mac", Yaml::text(mac));
    }
    let firewall = device.firewall.unwrap_or(false);
    if firewall != nic.firewall {
        set("firewall", Yaml::Bool(firewall));
    }
    item
}

/// A further device the description does not have. None: it cannot be said, so it stays undeclared and is left alone.
fn new_device(subject: &Subject<'_>, slot: Slot, device: &NetDevice) -> Option<Item> {
    let mut entries = vec![("bridge", Yaml::text(device.bridge.as_ref()?))];
    entries.extend(device.tag.map(|tag| ("vlan", vlan(Some(tag)))));
    match device.mtu {
        Some(mtu) if (576..=65_520).contains(&mtu) => entries.push(("mtu", Yaml::Integer(i64::from(mtu)))),
        Some(_) => return None,
        None => {}
    }
    entries.push(("mac", Yaml::text(device.mac?)));
    let addresses = addresses(subject, slot);
    if !addresses.is_empty() {
        entries.push(("addresses", Yaml::List(addresses.iter().map(Yaml::text).collect())));
    }
    if device.firewall.unwrap_or(false) {
        entries.push(("firewall", Yaml::Bool(true)));
    }
    let changed = entries.iter().map(|(key, _)| *key).collect();
    Some(Item { slot: slot.index(), entries, changed })
}

/// Static addresses cloud-init gives a further device; one with a gateway of its own cannot be said.
fn addresses(subject: &Subject<'_>, net: Slot) -> Vec<Cidr> {
    let configs = subject.config.ip_configs().unwrap_or_default();
    let own = configs.iter().find(|(slot, _)| slot.index() == net.index()).map(|(_, config)| config);
    match own {
        Some(IpConfig { ip, ip6, gateway: None, gateway6: None, .. }) => {
            let four = match ip {
                Some(Ipv4Setting::Static(cidr)) => Some(*cidr),
                Some(Ipv4Setting::Dhcp | Ipv4Setting::Manual) | None => None,
            };
            let six = match ip6 {
                Some(Ipv6Setting::Static(cidr)) => Some(*cidr),
                Some(Ipv6Setting::Auto | Ipv6Setting::Dhcp | Ipv6Setting::Manual) | None => None,
            };
            four.into_iter().chain(six).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

fn pci(subject: &Subject<'_>, wanted: &mut Wanted) {
    let described = &subject.node.vm.pci;
    let slots: Vec<(Slot, &str)> =
        subject.config.slots().filter(|(slot, _)| slot.kind() == SlotKind::HostPci).collect();
    let in_order = slots.iter().enumerate().all(|(index, (slot, _))| usize::from(slot.index()) == index);
    let devices: Option<Vec<PciDevice>> = slots.iter().map(|(_, text)| device(text)).collect();
    match devices.filter(|_| in_order) {
        Some(devices) if devices == *described => {}
        Some(devices) => wanted.value("vm_pci", Yaml::List(devices.iter().map(listed).collect())),
        None if described.is_empty() => {}
        None => wanted.leave("vm_pci"),
    }
}

fn device(text: &str) -> Option<PciDevice> {
    let device = HostPci::parse(text).ok()?;
    let source = match (&device.mapping, device.host.as_ref().map(|host| host.0.as_slice())) {
        (Some(mapping), None) => PciSource::Mapping(mapping.clone()),
        (None, Some([address])) => PciSource::Address(*address),
        _ => return None,
    };
    Some(PciDevice { source, pcie: device.pcie.unwrap_or(false), rombar: device.rombar.unwrap_or(true) })
}

fn listed(device: &PciDevice) -> Yaml {
    let source = match &device.source {
        PciSource::Mapping(mapping) => ("mapping", Yaml::text(mapping)),
        PciSource::Address(address) => ("bdf", Yaml::text(address)),
    };
    let mut entries = vec![source];
    if !device.pcie {
        entries.push(("pcie", Yaml::Bool(false)));
    }
    if !device.rombar {
        entries.push(("rombar", Yaml::Bool(false)));
    }
    Yaml::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
