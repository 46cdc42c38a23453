//! Options of the VM itself.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use talmox_config::edit::Yaml;
use talmox_plan::{Power, addresses};
use talmox_pve::property::{Disk, Ipv4Setting, Ipv6Setting, Tags, VmConfig};
use talmox_types::desired::{
    Bios, ConfigDelivery, MachineType, NetworkMode, NodeAddress, Power as WantedPower, ScsiController,
};
use talmox_types::{FamilyPair, Tag};

use super::{Subject, Wanted};

pub(super) fn derive(subject: &Subject<'_>, wanted: &mut Wanted) {
    identity(subject, wanted);
    numbers(subject, wanted);
    words(subject, wanted);
    flags(subject, wanted);
    startup(subject, wanted);
    tags(subject, wanted);
    network(subject, wanted);
}

fn identity(subject: &Subject<'_>, wanted: &mut Wanted) {
    let (vm, guest) = (&subject.node.vm, subject.guest);
    if vm.id != Some(guest.vmid) && !subject.desired.proxmox.template_vmid_range.contains(guest.vmid) {
        wanted.number("vm_id", u64::from(guest.vmid.get()));
    }
    if vm.host.as_ref().is_some_and(|host| *host != guest.host) {
        wanted.value("vm_host", Yaml::text(&guest.host));
    }
    let runs = guest.power == Power::Running;
    if runs != (vm.power == WantedPower::Running) {
        wanted.value("vm_power", Yaml::text(if runs { "running" } else { "stopped" }));
    }
    if guest.ha.is_some() != vm.ha_managed {
        wanted.value("ha_managed", Yaml::Bool(guest.ha.is_some()));
    }
}

fn numbers(subject: &Subject<'_>, wanted: &mut Wanted) {
    let (vm, config) = (&subject.node.vm, subject.config);
    let read = |key: &str, default: u64| config.number(key).ok().flatten().unwrap_or(default);
    let memory = config.memory().ok().flatten().map_or(512, |memory| memory.mib);
    let table: [(&'static str, u64, u32, RangeInclusive<u64>); 4] = [
        ("vm_cores", read("cores", 1), vm.cores, 1..=768),
        ("vm_sockets", read("sockets", 1), vm.sockets, 1..=4),
        ("vm_memory", memory, vm.memory, 1024..=33_554_432),
        // A VM that says nothing has the device, and all of its memory.
        ("balloon", read("balloon", memory), vm.balloon, 0..=33_554_432),
    ];
    for (field, have, described, range) in table {
        if have == u64::from(described) {
            continue;
        }
        if range.contains(&have) { wanted.number(field, have) } else { wanted.leave(field) }
    }
}

fn words(subject: &Subject<'_>, wanted: &mut Wanted) {
    let (vm, config) = (&subject.node.vm, subject.config);
    let model = config.cpu().ok().flatten().and_then(|cpu| cpu.model).unwrap_or_else(|| "kvm64".to_owned());
    if model != vm.cpu_type {
        wanted.value("cpu_type", Yaml::text(model));
    }
    let os_type = config.get("ostype").unwrap_or("other");
    if os_type != vm.os_type {
        wanted.value("ostype", Yaml::text(os_type));
    }
    let bios = config.get("bios").unwrap_or("seabios");
    if (bios == "ovmf") != (vm.bios == Bios::Ovmf) {
        wanted.value("bios", Yaml::text(bios));
    }
    machine(subject, wanted);
    let controller = match config.get("scsihw").unwrap_or("lsi") {
        "virtio-scsi-pci" => Some(ScsiController::VirtioScsiPci),
        "virtio-scsi-single" => Some(ScsiController::VirtioScsiSingle),
        "lsi" => Some(ScsiController::Lsi),
        _ => None,
    };
    match controller {
        Some(have) if have == vm.scsi_hw => {}
        Some(_) => wanted.value("scsi_hw", Yaml::text(config.get("scsihw").unwrap_or("lsi"))),
        None => wanted.leave("scsi_hw"),
    }
}

fn machine(subject: &Subject<'_>, wanted: &mut Wanted) {
    let name = subject.config.machine().ok().flatten().and_then(|machine| machine.machine_type);
    let name = name.unwrap_or_else(|| "pc".to_owned());
    let have = if name == "q35" || name.starts_with("pc-q35") {
        MachineType::Q35
    } else if name == "pc" || name.starts_with("pc-i440fx") {
        MachineType::I440fx
    } else {
        return wanted.leave("machine");
    };
    if have != subject.node.vm.machine {
        wanted.value("machine", Yaml::text(if have == MachineType::Q35 { "q35" } else { "i440fx" }));
    }
}

fn flags(subject: &Subject<'_>, wanted: &mut Wanted) {
    let (vm, config) = (&subject.node.vm, subject.config);
    let agent = config.agent().ok().flatten().is_some_and(|agent| agent.enabled);
    for (key, have, described) in [
        ("numa", config.flag("numa"), vm.numa),
        ("qemu_agent", agent, vm.agent),
        ("protection", config.flag("protection"), vm.protection),
        // Nothing is said of it: then it is left as it is.
        ("onboot", config.flag("onboot"), vm.on_boot.unwrap_or(config.flag("onboot"))),
    ] {
        if have != described {
            wanted.value(key, Yaml::Bool(have));
        }
    }
}

fn startup(subject: &Subject<'_>, wanted: &mut Wanted) {
    let Ok(Some(have)) = subject.config.startup() else { return };
    let described = subject.node.vm.startup;
    let table: [(&'static str, Option<u32>, u16, RangeInclusive<u32>); 3] = [
        ("vm_startup_order", have.order, described.order, 1..=100),
        ("vm_startup_delay", have.up, described.up, 0..=300),
        ("vm_shutdown_delay", have.down, described.down, 0..=600),
    ];
    for (field, have, described, range) in table {
        if let Some(have) = have.filter(|have| *have != u32::from(described) && range.contains(have)) {
            wanted.number(field, u64::from(have));
        }
    }
}

/// Tags others added stay anyway; only those the VM lacks would be a difference.
fn tags(subject: &Subject<'_>, wanted: &mut Wanted) {
    let have = subject.config.get("tags").and_then(|text| Tags::parse(text).ok()).unwrap_or_default();
    let lacks = |tag: &&Tag| !have.iter().any(|own| own.as_str().eq_ignore_ascii_case(tag.as_str()));
    if subject.node.vm.tags.iter().any(|tag| lacks(&tag)) {
        wanted.value("tags", Yaml::List(have.iter().map(Yaml::text).collect()));
    }
}

/// What the cloud-init drive says, if there is one.
fn network(subject: &Subject<'_>, wanted: &mut Wanted) {
    let (node, config) = (subject.node, subject.config);
    let has_drive = config.disks().unwrap_or_default().values().any(Disk::is_cloud_init);
    if has_drive != node.vm.cloud_init {
        // A drive of our own for the configuration leaves no room for this one, and what fetches it reads none.
        if has_drive && subject.desired.talos.config_delivery != ConfigDelivery::Maintenance {
            return wanted.leave("cloud_init");
        }
        wanted.value("cloud_init", Yaml::text(if has_drive { "on" } else { "off" }));
    }
    if !has_drive {
        return;
    }
    let configs = config.ip_configs().unwrap_or_default();
    let Some(first) = configs.iter().find(|(slot, _)| slot.index() == 0).map(|(_, config)| config) else {
        return;
    };
    let by_dhcp = first.ip == Some(Ipv4Setting::Dhcp) || first.ip6 == Some(Ipv6Setting::Dhcp);
    if by_dhcp != (node.vm.network_mode == NetworkMode::Dhcp) {
        wanted.value("node_network", Yaml::text(if by_dhcp { "dhcp" } else { "static" }));
    }
    let mut held = addresses(&only_first(config)).into_iter();
    let pair = match (held.next(), held.next()) {
        (Some(one), Some(two)) => FamilyPair::two(one, two),
        (Some(one), None) => Some(FamilyPair::one(one)),
        (None, _) => None,
    };
    if let (Some(pair), NodeAddress::Declared(described)) = (pair, &node.address)
        && pair != *described
    {
        wanted.value("address", written(&pair));
    }
}

/// The configuration with the addresses of the first device alone.
fn only_first(config: &VmConfig) -> VmConfig {
    config.iter().filter(|(key, _)| *key == "ipconfig0").collect()
}

/// Addresses as a description has them.
pub(crate) fn written(pair: &FamilyPair<IpAddr>) -> Yaml {
    let all: Vec<Yaml> = pair.iter().map(Yaml::text).collect();
    if let [one] = all.as_slice() { one.clone() } else { Yaml::List(all) }
}
