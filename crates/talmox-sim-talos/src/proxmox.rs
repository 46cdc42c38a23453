//! Nodes in the machines of a simulated Proxmox.
//!
//! ```text
//!  World ── switched on, off, pressed, plugged ──▶ Nodes
//!    ◀── went off by itself, what the agent answers ──┘        both on one clock: the next moment is the earlier of both
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};
use talmox_sim::{MachineDrive, PowerEvent, World};

use crate::disk::Written;
use crate::{Content, Disk, DiskId, Drive, Hardware, Image, MachineId, News, Nic, Nodes, Platform};

impl Nodes {
    /// Nodes for the machines of a world, on its clock. Machines that run already begin to boot with the first
    /// [`link`].
    pub fn for_world(world: &World, seed: u64) -> Self {
        let mut nodes = Self::new(seed, world.epoch());
        nodes.advance_to(world.clock());
        nodes
    }

    /// Something was plugged in or out of a machine that runs. Nobody looks before it boots the next time.
    fn replug(&mut self, hardware: Hardware) {
        let Some(machine) = self.machines.get_mut(&hardware.id) else { return };
        for drive in &hardware.drives {
            let Drive::Disk(disk) = drive else { continue };
            self.disks.entry(disk.id).or_insert_with(|| Written::new(disk));
        }
        machine.hardware = hardware;
    }

    /// Whether somebody installed Talos on a disk, or on the one it is a copy of.
    fn has_talos(&self, disk: &Disk) -> bool {
        let written = self.disks.get(&disk.id).or_else(|| self.disks.get(&disk.copy_of?));
        written.is_some_and(|written| written.loader.is_some())
    }

    fn first_mac(&self, machine: MachineId) -> Option<String> {
        self.machines.get(&machine)?.hardware.nics.first().map(|nic| nic.mac.clone())
    }

    fn prefix_of(&self, machine: MachineId, ip: IpAddr) -> u8 {
        let addresses = self.run(machine).map(|run| run.network.addresses.as_slice()).unwrap_or_default();
        addresses.iter().find(|address| address.ip == ip).map_or(32, |address| address.bits)
    }
}

/// Lets time pass for both until then, and carries over what happens when it happens. Gives whether anything happened.
pub fn advance(world: &mut World, nodes: &mut Nodes, now: u64) -> bool {
    link(world, nodes);
    let mut happened = false;
    while let Some(at) = next_event(world, nodes).filter(|at| *at <= now) {
        world.advance_to(at);
        nodes.advance_to(at);
        link(world, nodes);
        happened = true;
    }
    world.advance_to(now);
    nodes.advance_to(now);
    happened
}

/// When something happens by itself next.
pub fn next_event(world: &World, nodes: &Nodes) -> Option<u64> {
    [world.next_event(), nodes.next_event()].into_iter().flatten().min()
}

/// Tells each of both what happened in the other, until there is nothing left to tell. For after every call.
pub fn link(world: &mut World, nodes: &mut Nodes) {
    world.watch_power();
    learn_schematics(world, nodes);
    loop {
        let (power, news) = (world.take_power(), nodes.take_news());
        if power.is_empty() && news.is_empty() {
            return;
        }
        for event in power {
            befall(world, nodes, event);
        }
        for one in news {
            hear(world, nodes, one);
        }
    }
}

/// Installers come from the same factory as images.
fn learn_schematics(world: &World, nodes: &mut Nodes) {
    let Some(factory) = &world.factory else { return };
    if factory.count() != nodes.schematics.len() {
        nodes.schematics = factory.schematics();
    }
}

fn befall(world: &mut World, nodes: &mut Nodes, event: PowerEvent) {
    match event {
        PowerEvent::On(machine) => {
            let vmid = machine.vmid;
            let hardware = hardware(machine);
            if boots_talos(&hardware, nodes) {
                nodes.power_on(hardware);
                world.guest_says(vmid, BTreeMap::new());
            }
        }
        PowerEvent::Off { vmid } => nodes.power_off(MachineId(vmid)),
        PowerEvent::Button { vmid } => drop(nodes.press_power(MachineId(vmid))),
        PowerEvent::Reset { vmid } => nodes.reset(MachineId(vmid)),
        PowerEvent::Changed(machine) => nodes.replug(hardware(machine)),
        PowerEvent::Kept { vmid, snapshot, disks } => {
            let disks: Vec<DiskId> = disks.into_iter().map(DiskId).collect();
            let saved = nodes.save_disks(&disks);
            nodes.snapshots.insert(snapshot_key(vmid, &snapshot), saved);
        }
        PowerEvent::PutBack { vmid, snapshot } => {
            if let Some(saved) = nodes.snapshots.get(&snapshot_key(vmid, &snapshot)).cloned() {
                nodes.restore_disks(&saved);
            }
        }
        PowerEvent::Forgotten { vmid, snapshot } => {
            nodes.snapshots.remove(&snapshot_key(vmid, &snapshot));
        }
        PowerEvent::DiskGone { disk } => nodes.remove_disk(DiskId(disk)),
    }
}

fn snapshot_key(vmid: u32, snapshot: &str) -> String {
    format!("{vmid}/{snapshot}")
}

fn hear(world: &mut World, nodes: &Nodes, news: News) {
    match news {
        News::PoweredOff(MachineId(vmid)) => world.guest_went_off(vmid),
        // The machine goes on with the process it has.
        News::Rebooted(_) => {}
        News::Address { machine, addresses, hostname, agent } => {
            let answers =
                if agent { answers(nodes, machine, &addresses, &hostname) } else { BTreeMap::new() };
            world.guest_says(machine.0, answers);
        }
    }
}

/// Whether a machine has Talos to boot, from the hypervisor or from an installation since.
fn boots_talos(hardware: &Hardware, nodes: &Nodes) -> bool {
    hardware.drives.iter().any(|drive| match drive {
        Drive::Disk(disk) => matches!(disk.content, Content::Talos(_)) || nodes.has_talos(disk),
        Drive::Cd(content) => matches!(content, Content::Talos(_)),
    })
}

/// What a guest agent says. Links are named as Talos' images have them named.
fn answers(
    nodes: &Nodes,
    machine: MachineId,
    addresses: &[IpAddr],
    hostname: &str,
) -> BTreeMap<String, Value> {
    let entry = |ip: &IpAddr, prefix: u8| {
        let kind = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
        json!({"ip-address": ip.to_string(), "ip-address-type": kind, "prefix": prefix})
    };
    let mac = nodes.first_mac(machine).unwrap_or_default();
    let own: Vec<Value> = addresses.iter().map(|ip| entry(ip, nodes.prefix_of(machine, *ip))).collect();
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let interfaces = json!([
        {"name": "lo", "hardware-address": "00:00:00:00:00:00", "ip-addresses": [entry(&loopback, 8)]},
        {"name": "eth0", "hardware-address": mac, "ip-addresses": own},
    ]);
    let answers = [
        ("network-get-interfaces", interfaces),
        ("get-host-name", json!({"host-name": hostname})),
        ("get-osinfo", json!({"id": "talos", "name": "Talos", "machine": "x86_64"})),
    ];
    answers.map(|(command, answer)| (command.to_owned(), answer)).into()
}

fn hardware(machine: talmox_sim::Machine) -> Hardware {
    let talmox_sim::Machine { vmid, uuid, serial, memory, cpus, nics, drives } = machine;
    let nics = nics.into_iter().map(|talmox_sim::MachineNic { mac, bridge, vlan }| Nic { mac, bridge, vlan });
    Hardware {
        id: MachineId(vmid),
        uuid,
        serial,
        memory,
        cpus,
        nics: nics.collect(),
        drives: drives.into_iter().map(drive).collect(),
    }
}

fn drive(drive: MachineDrive) -> Drive {
    match drive {
        MachineDrive::Cd { content, extensions } => Drive::Cd(self::content(content, extensions)),
        MachineDrive::Disk { id, copy_of, name, serial, size, content, extensions } => Drive::Disk(Disk {
            id: DiskId(id),
            copy_of: copy_of.map(DiskId),
            name,
            serial,
            size,
            content: self::content(content, extensions),
        }),
    }
}

fn content(content: talmox_sim::Content, extensions: Vec<String>) -> Content {
    match content {
        talmox_sim::Content::Empty => Content::Empty,
        talmox_sim::Content::Other => Content::Other,
        talmox_sim::Content::Cidata(files) => {
            Content::Cidata(files.into_iter().map(|(name, file)| (name, file.0)).collect())
        }
        talmox_sim::Content::Talos(image) => match platform(&image.platform) {
            Some(platform) => Content::Talos(Image {
                version: image.version,
                schematic: image.schematic,
                extensions,
                platform,
                installed: !image.iso,
            }),
            None => Content::Other,
        },
    }
}

/// Images of other clouds do not find their way on this hypervisor.
fn platform(name: &str) -> Option<Platform> {
    match name {
        "nocloud" => Some(Platform::Nocloud),
        "metal" => Some(Platform::Metal),
        _ => None,
    }
}
