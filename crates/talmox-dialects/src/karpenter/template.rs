//! `ProxmoxTemplate`: what is built.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_config::read::{At, Int, Reading, Text, Value as _, block};
use talmox_config::{Code, Problem};
use talmox_types::desired::{Template, templates_pool};
use talmox_types::{BridgeName, MappingName, StorageId, Tag};

use super::image::{self, SourceImage};
use super::manifest::{Found, Kind};
use super::values::{
    Address4, Address6, AgentType, Bios, CpuFlag, CpuType, Machine, Mdev, Mtu, NetName, NicModel,
    ResourcePool, TpmVersion, VgaType, one_region,
};
use crate::Listed;

block! {
    /// What a `ProxmoxTemplate` says.
    pub struct TemplateSpec as "the spec of a ProxmoxTemplate" {
        /// The Proxmox cluster it is for.
        region: Text = "region",
        /// What its description in Proxmox says.
        description: Text = "description",
        /// Where its image comes from.
        source_image: SourceImage = "sourceImage",
        /// Storages for image and disk, in order of preference.
        storage_ids: Listed<StorageId, 1, { usize::MAX }> = "storageIDs",
        /// Chipset.
        machine: Machine = "machine",
        /// Firmware.
        bios: Bios = "bios",
        /// A trusted platform module.
        tpm: TpmBlock = "tpm",
        /// The QEMU guest agent.
        agent: AgentBlock = "agent",
        /// The processor.
        cpu: CpuBlock = "cpu",
        /// The display.
        vga: VgaBlock = "vga",
        /// Network interfaces.
        network: Listed<NetworkBlock, 1, 6> = "network",
        /// Devices of the host.
        pci_devices: Listed<PciBlock, 0, 6> = "pciDevices",
        /// Tags of the template.
        tags: Listed<Tag, 0, 10> = "tags",
        /// The resource pool it is in.
        resource_pool: ResourcePool = "resourcePool",
        /// Whether it starts with its host.
        on_boot: bool = "onBoot",
    }
}

block! {
    /// A trusted platform module.
    pub struct TpmBlock as "tpm" {
        /// Which standard it follows.
        version: TpmVersion = "version",
    }
}

block! {
    /// The QEMU guest agent.
    pub struct AgentBlock as "agent" {
        /// Whether the guest runs it.
        enabled: bool = "enabled",
        /// The device it talks through.
        kind: AgentType = "type",
        /// Whether file systems are frozen for a backup.
        freeze: bool = "fsFreezeOnBackup",
        /// Whether free blocks are given back after a clone.
        trim: bool = "fsTrimClonedDisks",
    }
}

block! {
    /// The processor.
    pub struct CpuBlock as "cpu" {
        /// Its model.
        kind: CpuType = "type",
        /// What it can beside that, or cannot.
        flags: Listed<CpuFlag, 0, 10> = "flags",
    }
}

block! {
    /// The display.
    pub struct VgaBlock as "vga" {
        /// The card.
        kind: VgaType = "type",
        /// MiB.
        memory: Int<4, 512> = "memory",
    }
}

block! {
    /// A network interface.
    pub struct NetworkBlock as "network" {
        /// Its number, as Proxmox writes it.
        name: NetName = "name",
        /// What it is connected to.
        bridge: BridgeName = "bridge",
        /// The card.
        model: NicModel = "model",
        /// The largest packet.
        mtu: Mtu = "mtu",
        /// The VLAN its packets are in.
        vlan: Int<1, 4094> = "vlan",
        /// Whether Proxmox's firewall looks at it.
        firewall: bool = "firewall",
        /// Its IPv4 address.
        address4: Address4 = "address4",
        /// Its IPv6 address.
        address6: Address6 = "address6",
        /// The way out over IPv4.
        gateway4: IpAddr = "gateway4",
        /// The way out over IPv6.
        gateway6: IpAddr = "gateway6",
        /// Name servers.
        dns_servers: Listed<IpAddr, 0, { usize::MAX }> = "dnsServers",
    }
}

block! {
    /// A device of the host.
    pub struct PciBlock as "pciDevices" {
        /// The resource mapping it is one of.
        mapping: MappingName = "mapping",
        /// Which part of it.
        mdev: Mdev = "mdev",
        /// Whether it is a PCI Express device.
        pcie: bool = "pcie",
        /// Whether it is the display.
        xvga: bool = "xvga",
    }
}

/// What the controller sets of every template.
const ALWAYS: [(&str, &str); 10] = [
    ("acpi", "1"),
    ("balloon", "0"),
    ("boot", "order=scsi0"),
    ("cores", "1"),
    ("memory", "1024"),
    ("numa", "1"),
    ("ostype", "l26"),
    ("scsihw", "virtio-scsi-single"),
    ("sockets", "1"),
    ("tablet", "0"),
];

type Options = BTreeMap<String, String>;

/// The interface of one MTU in all of the world, unless somebody says otherwise.
const MTU: Mtu = Mtu(1500);

/// The template; none after having reported why.
pub(super) fn read(found: &Found, reading: &mut Reading<'_>) -> Option<Template> {
    let spec = TemplateSpec::read(&found.spec, reading)?;
    one_region(spec.region.as_ref(), reading);
    let name = found.name.value.clone();
    for (key, is_there) in [
        ("sourceImage", spec.source_image.is_some()),
        ("storageIDs", spec.storage_ids.is_some()),
        ("network", spec.network.is_some()),
    ] {
        if !is_there && !spec.broken.contains(&key) {
            let location = reading.location(&found.spec);
            reading.report(
                Problem::error(Code::MissingKey, format!("a ProxmoxTemplate needs {key}"))
                    .at(location, format!("no {key}"))
                    .hint(example(key)),
            );
        }
    }
    let before = reading.problems.len();
    let image = spec.source_image.as_ref().and_then(|source| image::read(source, &name, reading));
    let options = options(&spec, reading);
    let sound =
        !reading.problems[before..].iter().any(|problem| problem.severity == talmox_config::Severity::Error);
    let (image, storages) = (image?, spec.storage_ids.as_ref()?);
    if !sound || !spec.broken.is_empty() || spec.network.is_none() {
        return None;
    }
    let storages: Vec<StorageId> = storages.value.iter().cloned().collect();
    Some(Template {
        owner: Some(format!("{}/{name}", Kind::Template.word())),
        name,
        image,
        image_storages: storages.clone(),
        disk_storages: storages,
        options,
        disk_options: "iothread=1".to_owned(),
        efi: value(spec.bios.as_ref()).unwrap_or_default() == Bios::Ovmf,
        tpm: spec.tpm.as_ref().map(|tpm| value(tpm.version.as_ref()).unwrap_or_default().show()),
        tags: spec.tags.iter().flat_map(|tags| tags.value.iter()).cloned().collect(),
        notes: spec.description.as_ref().map(|text| text.value.0.clone()),
        pool: Some(spec.resource_pool.as_ref().map_or_else(templates_pool, |pool| pool.value.0.clone())),
    })
}

fn example(key: &str) -> &'static str {
    match key {
        "sourceImage" => "sourceImage: {url: https://…, imageName: ubuntu-amd64.qcow2}",
        "storageIDs" => {
            "storageIDs: [local, local-zfs]; one that takes import content and one that takes disks"
        }
        _ => "network: [{bridge: vmbr0}]",
    }
}

fn value<T: Copy>(at: Option<&At<T>>) -> Option<T> {
    at.map(|at| at.value)
}

fn flag(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

fn options(spec: &TemplateSpec, reading: &mut Reading<'_>) -> Options {
    let mut options: Options =
        ALWAYS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut set = |key: &str, value: String| drop(options.insert(key.to_owned(), value));
    set("machine", value(spec.machine.as_ref()).unwrap_or_default().show());
    set("cpu", cpu(spec.cpu.as_ref().map(|at| &at.value)));
    if let Some(agent) = &spec.agent {
        set("agent", self::agent(&agent.value));
    }
    if let Some(vga) = &spec.vga {
        set("vga", self::vga(&vga.value));
        if value(vga.value.kind.as_ref()) == Some(VgaType::Serial0) {
            set("serial0", "socket".to_owned());
        }
    }
    if let Some(on_boot) = value(spec.on_boot.as_ref()) {
        set("onboot", flag(on_boot).to_owned());
    }
    for (index, device) in spec.pci_devices.iter().flat_map(|list| &list.value.0).enumerate() {
        if let Some(text) = pci(device, spec.machine.as_ref(), reading) {
            set(&format!("hostpci{index}"), text);
        }
    }
    network(spec, &mut options, reading);
    options
}

/// Flags are joined by `;`: a comma would begin the next option.
fn cpu(block: Option<&CpuBlock>) -> String {
    let kind = block.and_then(|block| value(block.kind.as_ref())).unwrap_or_default().show();
    let flags = block.and_then(|block| block.flags.as_ref());
    let flags: Vec<&str> =
        flags.iter().flat_map(|flags| flags.value.iter()).map(|flag| flag.0.as_str()).collect();
    if flags.is_empty() { kind } else { format!("{kind},flags={}", flags.join(";")) }
}

fn agent(block: &AgentBlock) -> String {
    let AgentBlock { enabled, kind, freeze, trim, broken: _ } = block;
    let mut parts = vec![format!("enabled={}", flag(value(enabled.as_ref()).unwrap_or_default()))];
    let freeze = value(freeze.as_ref()).map(|on| format!("freeze-fs-on-backup={}", flag(on)));
    let trim = value(trim.as_ref()).map(|on| format!("fstrim_cloned_disks={}", flag(on)));
    parts.extend(freeze.into_iter().chain(trim));
    parts.push(format!("type={}", value(kind.as_ref()).unwrap_or_default().show()));
    parts.join(",")
}

fn vga(block: &VgaBlock) -> String {
    let kind = value(block.kind.as_ref()).unwrap_or_default().show();
    let memory = block.memory.as_ref().map(|memory| memory.value.show());
    memory.map_or(kind.clone(), |memory| format!("{kind},memory={memory}"))
}

fn pci(device: &At<PciBlock>, machine: Option<&At<Machine>>, reading: &mut Reading<'_>) -> Option<String> {
    let PciBlock { mapping, mdev, pcie, xvga, broken } = &device.value;
    let Some(mapping) = mapping else {
        if !broken.contains(&"mapping") {
            reading.report(
                Problem::error(Code::MissingKey, "a device is named by its mapping")
                    .at(device.location, "no mapping")
                    .hint("mapping: NAME, as it stands under Datacenter, Resource Mappings"),
            );
        }
        return None;
    };
    if let (Some(pcie), Some(machine)) = (pcie, machine)
        && pcie.value
        && machine.value == Machine::Pc
    {
        reading.report(
            Problem::error(Code::Hardware, "a machine of type pc has no PCI Express")
                .at(pcie.location, "needs PCI Express")
                .related(machine.location, "has none")
                .hint("machine: q35, or leave pcie out"),
        );
        return None;
    }
    let mdev = mdev.as_ref().map(|mdev| format!(",mdev={}", mdev.value.0)).unwrap_or_default();
    let on = |at: Option<&At<bool>>, text: &'static str| if value(at) == Some(true) { text } else { "" };
    let (pcie, xvga) = (on(pcie.as_ref(), ",pcie=1"), on(xvga.as_ref(), ",x-vga=1"));
    Some(format!("mapping={}{mdev}{pcie}{xvga}", mapping.value))
}

fn network(spec: &TemplateSpec, options: &mut Options, reading: &mut Reading<'_>) {
    let mut servers: Vec<String> = Vec::new();
    let mut seen: BTreeMap<u8, talmox_config::Location> = BTreeMap::new();
    for (index, nic) in spec.network.iter().flat_map(|list| &list.value.0).enumerate() {
        let named = nic.value.name.as_ref().and_then(|name| NetName::number(&name.value.0));
        let number = named.unwrap_or_else(|| u8::try_from(index).unwrap_or(u8::MAX));
        let place = nic.value.name.as_ref().map_or(nic.location, |name| name.location);
        if let Some(first) = seen.insert(number, place) {
            reading.report(
                Problem::error(Code::DuplicateSlot, format!("there are two net{number}"))
                    .at(place, if named.is_some() { "again" } else { "without a name it is this one" })
                    .related(first, "first here")
                    .hint("give every interface a name of its own, or none a name"),
            );
        }
        if let Some(text) = device(nic, reading) {
            options.insert(format!("net{number}"), text);
        }
        options.insert(format!("ipconfig{number}"), addresses(nic, reading));
        for server in nic.value.dns_servers.iter().flat_map(|list| list.value.iter()).map(ToString::to_string)
        {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    if !servers.is_empty() {
        options.insert("nameserver".to_owned(), servers.join(" "));
    }
}

fn device(nic: &At<NetworkBlock>, reading: &mut Reading<'_>) -> Option<String> {
    let NetworkBlock { bridge, model, mtu, vlan, firewall, broken, .. } = &nic.value;
    let Some(bridge) = bridge else {
        if !broken.contains(&"bridge") {
            reading.report(
                Problem::error(Code::MissingKey, "an interface needs a bridge")
                    .at(nic.location, "no bridge")
                    .hint("bridge: vmbr0"),
            );
        }
        return None;
    };
    let model = value(model.as_ref()).unwrap_or_default();
    let mut text = format!("{},bridge={}", model.show(), bridge.value);
    if value(firewall.as_ref()) == Some(true) {
        text.push_str(",firewall=1");
    }
    if model == NicModel::Virtio {
        text.push_str(&format!(",mtu={}", value(mtu.as_ref()).unwrap_or(MTU).0));
    } else if let Some(mtu) = mtu {
        reading.report(
            Problem::warning(Code::Hardware, format!("mtu is left out: {} cannot be told one", model.show()))
                .at(mtu.location, "only virtio can")
                .hint("model: virtio, or leave mtu out"),
        );
    }
    if let Some(vlan) = vlan {
        text.push_str(&format!(",tag={}", vlan.value.show()));
    }
    Some(text)
}

/// What Proxmox hands to the guest; without any address it asks the network.
fn addresses(nic: &At<NetworkBlock>, reading: &mut Reading<'_>) -> String {
    let NetworkBlock { address4, address6, gateway4, gateway6, .. } = &nic.value;
    let (mut parts, mut asks) = (Vec::new(), address4.is_none() && address6.is_none());
    let text4 = address4.as_ref().map(|at| at.value.0.as_str());
    let text6 = address6.as_ref().map(|at| at.value.0.as_str());
    for (key, address, way, gateway, is_ours) in [
        ("ip", text4, "gw", gateway4.as_ref(), IpAddr::is_ipv4 as fn(&IpAddr) -> bool),
        ("ip6", text6, "gw6", gateway6.as_ref(), IpAddr::is_ipv6),
    ] {
        parts.extend(address.map(|address| format!("{key}={address}")));
        let Some(gateway) = gateway else { continue };
        let number = if key == "ip" { 4 } else { 6 };
        let problem = if !is_ours(&gateway.value) {
            Problem::error(Code::AddressFamily, format!("gateway{number} is an IPv{number} address"))
                .at(gateway.location, "of the other family")
        } else if address.is_none_or(|address| ["dhcp", "auto"].contains(&address)) {
            Problem::error(Code::MissingKey, format!("gateway{number} needs an address beside it"))
                .at(gateway.location, "whoever asks for an address is told the gateway too")
                .hint(format!("address{number}: ADDRESS/LENGTH, or leave gateway{number} out"))
        } else {
            parts.push(format!("{way}={}", gateway.value));
            continue;
        };
        asks = false;
        reading.report(problem);
    }
    if asks { "ip=dhcp,ip6=auto".to_owned() } else { parts.join(",") }
}
