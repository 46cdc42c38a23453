//! Changes of single options within a value: `net0` is one key, its queues are what differs.

use std::collections::BTreeMap;

use talmox_pve::property::{
    Agent, Discard, Disk, HostPci, IpConfig, NetDevice, Slot, SlotKind, Startup, Tags,
};

use crate::SubChange;

type Options = BTreeMap<&'static str, String>;

/// The options that differ between two values of a key, in the order of their names. Empty for a value without options,
/// and where there is no old or no new value.
pub(crate) fn sub_changes(key: &str, old: Option<&str>, new: Option<&str>) -> Vec<SubChange> {
    let (Some(old), Some(new)) = (old, new) else { return Vec::new() };
    if key == "tags" {
        return tags(old, new);
    }
    let (Some(old), Some(new)) = (options(key, old), options(key, new)) else { return Vec::new() };
    let names: std::collections::BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let differing = names.into_iter().filter(|name| old.get(name) != new.get(name));
    differing
        .map(|name| SubChange {
            option: name.to_owned(),
            old: old.get(name).cloned(),
            new: new.get(name).cloned(),
            field: field_of(key, name).map(str::to_owned),
        })
        .collect()
}

/// The field of the description that decides an option.
pub(crate) fn field_of(key: &str, option: &str) -> Option<&'static str> {
    let slot = Slot::parse(key).ok();
    let first = slot.is_none_or(|slot| slot.index() == 0);
    match slot.map(Slot::kind) {
        Some(SlotKind::Net) => Some(net_field(option, first)),
        Some(SlotKind::IpConfig) => Some(match option {
            _ if !first => "vm_networks",
            "gw" | "gw6" => "node_gateway",
            _ => "address",
        }),
        Some(SlotKind::HostPci) => Some("vm_pci"),
        Some(kind) if is_disk(kind) => match option {
            "discard" => Some("disk_discard"),
            "ssd" => Some("disk_ssd"),
            "backup" => Some("disk_backup"),
            "replicate" => Some("disk_replicate"),
            _ => None,
        },
        None if key == "startup" => match option {
            "order" => Some("vm_startup_order"),
            "up" => Some("vm_startup_delay"),
            _ => Some("vm_shutdown_delay"),
        },
        Some(_) | None => None,
    }
}

fn net_field(option: &str, first: bool) -> &'static str {
    match (option, first) {
        ("queues", _) => "net_queues",
        ("model", _) => "nic_model",
        ("firewall", _) | (_, false) => "vm_networks",
        ("tag", true) => "node_vlan_tag",
        ("mtu", true) => "mtu",
        ("mac", true) => "mac_addr",
        (_, true) => "network_bridge",
    }
}

fn is_disk(kind: SlotKind) -> bool {
    matches!(kind, SlotKind::Ide | SlotKind::Scsi | SlotKind::Virtio | SlotKind::Sata)
}

fn options(key: &str, text: &str) -> Option<Options> {
    match Slot::parse(key).ok().map(Slot::kind) {
        Some(SlotKind::Net) => NetDevice::parse(text).ok().map(|device| net(&device)),
        Some(SlotKind::IpConfig) => IpConfig::parse(text).ok().map(|config| ip(&config)),
        Some(SlotKind::HostPci) => HostPci::parse(text).ok().map(|device| host_pci(&device)),
        Some(kind) if is_disk(kind) => {
            Disk::parse(text).ok().filter(|disk| !disk.is_cdrom()).map(|d| disk(&d))
        }
        None if key == "startup" => Startup::parse(text).ok().map(|startup| start(&startup)),
        None if key == "agent" => {
            Agent::parse(text).ok().map(|agent| Options::from([("enabled", flag(agent.enabled))]))
        }
        Some(_) | None => None,
    }
}

fn flag(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn collect(pairs: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Options {
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn net(device: &NetDevice) -> Options {
    collect([
        ("model", Some(device.model.to_string())),
        ("mac", device.mac.map(|mac| mac.to_string())),
        ("bridge", device.bridge.as_ref().map(ToString::to_string)),
        ("firewall", Some(flag(device.firewall.unwrap_or(false)))),
        ("link_down", Some(flag(device.link_down.unwrap_or(false)))),
        ("mtu", device.mtu.map(|mtu| mtu.to_string())),
        ("queues", Some(device.queues.unwrap_or(0).to_string())),
        ("tag", device.tag.map(|tag| tag.to_string())),
    ])
}

fn ip(config: &IpConfig) -> Options {
    let text = config.to_string();
    let parts = text.split(',').filter_map(|part| part.split_once('='));
    parts
        .filter_map(|(name, value)| {
            let known = ["ip", "gw", "ip6", "gw6"].into_iter().find(|known| *known == name)?;
            Some((known, value.to_owned()))
        })
        .collect()
}

fn host_pci(device: &HostPci) -> Options {
    collect([
        ("device", device.host.as_ref().map(ToString::to_string)),
        ("mapping", device.mapping.as_ref().map(ToString::to_string)),
        ("pcie", Some(flag(device.pcie.unwrap_or(false)))),
        ("rombar", Some(flag(device.rombar.unwrap_or(true)))),
    ])
}

fn disk(disk: &Disk) -> Options {
    collect([
        ("discard", Some(flag(disk.discard == Some(Discard::On)))),
        ("ssd", Some(flag(disk.ssd.unwrap_or(false)))),
        ("backup", Some(flag(disk.backup.unwrap_or(true)))),
        ("replicate", Some(flag(disk.replicate.unwrap_or(true)))),
    ])
}

fn start(startup: &Startup) -> Options {
    collect([
        ("order", startup.order.map(|order| order.to_string())),
        ("up", startup.up.map(|up| up.to_string())),
        ("down", startup.down.map(|down| down.to_string())),
    ])
}

/// Tags that come and tags that go.
fn tags(old: &str, new: &str) -> Vec<SubChange> {
    let read = |text: &str| Tags::parse(text).unwrap_or_default();
    let (old, new) = (read(old), read(new));
    let sub = |tag: &str, comes: bool| {
        let (there, gone) = (Some(flag(true)), Some(flag(false)));
        let (old, new) = if comes { (gone, there) } else { (there, gone) };
        SubChange { option: tag.to_owned(), old, new, field: Some("tags".to_owned()) }
    };
    let comes =
        new.iter().filter(|tag| !old.iter().any(|other| other == *tag)).map(|tag| sub(tag.as_str(), true));
    let goes =
        old.iter().filter(|tag| !new.iter().any(|other| other == *tag)).map(|tag| sub(tag.as_str(), false));
    comes.chain(goes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, old: &str, new: &str) -> Vec<String> {
        let subs = sub_changes(key, Some(old), Some(new));
        subs.iter().map(|sub| format!("{sub} ({})", sub.field.as_deref().unwrap_or("-"))).collect()
    }

    #[test]
    fn only_the_options_that_differ_are_told() {
        let net = "virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=4";
        assert_eq!(told("net0", net, &net.replace("queues=4", "queues=8")), ["queues 4 → 8 (net_queues)"]);
        assert_eq!(
            told("net0", net, "e1000=BC:24:11:00:00:01,bridge=vmbr1,tag=20,firewall=1"),
            [
                "bridge vmbr0 → vmbr1 (network_bridge)",
                "firewall off → on (vm_networks)",
                "model virtio → e1000 (nic_model)",
                "queues 4 → 0 (net_queues)",
                "tag none → 20 (node_vlan_tag)"
            ]
        );
        let disk = "local-zfs:vm-100-disk-0,discard=on,size=8G";
        assert_eq!(
            told("scsi0", disk, &format!("{disk},ssd=1,backup=0")),
            ["backup on → off (disk_backup)", "ssd off → on (disk_ssd)"]
        );
        assert_eq!(
            told("startup", "order=3", "order=4,up=15,down=60"),
            [
                "down none → 60 (vm_shutdown_delay)",
                "order 3 → 4 (vm_startup_order)",
                "up none → 15 (vm_startup_delay)"
            ]
        );
        assert_eq!(
            told("ipconfig0", "ip=10.0.7.11/24,gw=10.0.7.1", "ip=10.0.7.11/24,gw=10.0.7.254"),
            ["gw 10.0.7.1 → 10.0.7.254 (node_gateway)"]
        );
        assert_eq!(told("tags", "a;b", "a;c"), ["c off → on (tags)", "b on → off (tags)"]);
        assert_eq!(told("agent", "0", "1,fstrim_cloned_disks=1"), ["enabled off → on (-)"]);
        assert_eq!(told("memory", "1024", "2048"), [] as [&str; 0]);
        assert_eq!(told("net0", "nonsense", net), [] as [&str; 0]);
    }
}
