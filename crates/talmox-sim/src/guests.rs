//! Machines as those see them who simulate what runs inside: what is switched on, pressed and unplugged, and what the
//! guests do about it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contents::Content;
use crate::drive::{Drive, is_nic, split_key};
use crate::jobs::Work;
use crate::qemu::view::cpus;
use crate::schema;
use crate::storage::visible_size;
use crate::tasks::{Event, Stage};
use crate::vm::{Vm, boot_order_of};
use crate::world::World;

/// Something that befell a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerEvent {
    /// It was switched on.
    On(Machine),
    /// The plug was pulled.
    Off { vmid: u32 },
    /// Somebody pressed the power button, or asked the agent to shut down.
    Button { vmid: u32 },
    /// Somebody pressed the reset button.
    Reset { vmid: u32 },
    /// Something was plugged in or out of a machine that runs: this is what it has now.
    Changed(Machine),
    /// What its disks held was kept under the name of a snapshot.
    Kept { vmid: u32, snapshot: String, disks: Vec<u64> },
    /// Its disks hold again what a snapshot kept.
    PutBack { vmid: u32, snapshot: String },
    /// A snapshot is no more.
    Forgotten { vmid: u32, snapshot: String },
    /// A volume is gone for ever.
    DiskGone { disk: u64 },
}

/// A machine with everything that is plugged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub vmid: u32,
    /// SMBIOS: the system's UUID, in lower case.
    pub uuid: String,
    /// SMBIOS: the system's serial number, decoded.
    pub serial: String,
    /// Bytes.
    pub memory: u64,
    pub cpus: u32,
    pub nics: Vec<MachineNic>,
    /// In the order in which the firmware tries them, then the others.
    pub drives: Vec<MachineDrive>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineNic {
    /// Lower case, with colons.
    pub mac: String,
    pub bridge: String,
    pub vlan: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineDrive {
    Disk {
        /// Its identity, wherever it lies.
        id: u64,
        /// The volume it is a copy of.
        copy_of: Option<u64>,
        /// The name Linux gives it: `sda`, `vda`.
        name: String,
        /// The serial number it was given; empty if it has none.
        serial: String,
        /// Bytes.
        size: u64,
        content: Content,
        /// Of a Talos image: the names of its system extensions.
        extensions: Vec<String>,
    },
    Cd {
        content: Content,
        extensions: Vec<String>,
    },
}

impl World {
    /// Notes down from now on what befalls machines. Those that run are switched on just now, as far as that goes.
    pub fn watch_power(&mut self) {
        if self.power.is_some() {
            return;
        }
        self.power = Some(Vec::new());
        self.volumes.watch();
        let running = self.vms.iter().filter(|(_, vm)| vm.run.is_some());
        for vmid in running.map(|(vmid, _)| *vmid).collect::<Vec<_>>() {
            self.switched_on(vmid);
        }
    }

    /// What befell machines since this was last asked, in order.
    pub fn take_power(&mut self) -> Vec<PowerEvent> {
        let mut events = self.power.as_mut().map(std::mem::take).unwrap_or_default();
        events.extend(self.volumes.take_gone().into_iter().map(|disk| PowerEvent::DiskGone { disk }));
        events
    }

    /// The guest of a machine that runs decides about buttons from now on, and its agent answers this by command; nothing
    /// if no agent runs.
    pub fn guest_says(&mut self, vmid: u32, agent: BTreeMap<String, Value>) {
        if let Some(run) = self.vms.get_mut(&vmid).and_then(|vm| vm.run.as_mut()) {
            run.guest = Some(agent);
        }
    }

    /// The guest switched its machine off. Whoever waits for that waits no longer.
    pub fn guest_went_off(&mut self, vmid: u32) {
        let Some(node) = self.vms.get(&vmid).filter(|vm| vm.run.is_some()).map(|vm| vm.node.clone()) else {
            return;
        };
        let waits = self.tasks.iter().rposition(|task| {
            task.stage == Stage::Working && matches!(&task.work, Some(Work::Power(job)) if job.vmid() == vmid)
        });
        let gone = waits.filter(|task| match &mut self.tasks[*task].work {
            Some(Work::Power(job)) => job.guest_went(),
            _ => false,
        });
        match gone {
            // What follows is the worker's business: it may have to switch the machine on again.
            Some(task) => self.schedule(self.clock, Event::Finish(task)),
            None => self.power_off(&node, vmid),
        }
    }

    pub(crate) fn switched_on(&mut self, vmid: u32) {
        self.write_cloudinit(vmid);
        self.tell(|world| world.machine(vmid).map(PowerEvent::On));
    }

    pub(crate) fn switched_off(&mut self, vmid: u32) {
        self.tell(|world| world.is_on(vmid).then_some(PowerEvent::Off { vmid }));
    }

    pub(crate) fn button_pressed(&mut self, vmid: u32) {
        self.tell(|world| world.is_on(vmid).then_some(PowerEvent::Button { vmid }));
    }

    pub(crate) fn was_reset(&mut self, vmid: u32) {
        self.tell(|world| world.is_on(vmid).then_some(PowerEvent::Reset { vmid }));
    }

    pub(crate) fn devices_changed(&mut self, vmid: u32) {
        self.tell(|world| world.machine(vmid).map(PowerEvent::Changed));
    }

    pub(crate) fn snapshot_taken(&mut self, vmid: u32, snapshot: &str) {
        self.tell(|world| {
            let vm = world.vms.get(&vmid)?;
            let disks = vm.drives().into_iter().filter(|drive| !drive.is_cdrom());
            let disks =
                disks.filter_map(|drive| world.volume(&vm.node, drive.file()).map(|volume| volume.id));
            Some(PowerEvent::Kept { vmid, snapshot: snapshot.to_owned(), disks: disks.collect() })
        });
    }

    pub(crate) fn snapshot_put_back(&mut self, vmid: u32, snapshot: &str) {
        self.tell(|_| Some(PowerEvent::PutBack { vmid, snapshot: snapshot.to_owned() }));
    }

    pub(crate) fn snapshot_removed(&mut self, vmid: u32, snapshot: &str) {
        self.tell(|_| Some(PowerEvent::Forgotten { vmid, snapshot: snapshot.to_owned() }));
    }

    fn tell(&mut self, event: impl FnOnce(&Self) -> Option<PowerEvent>) {
        if self.power.is_none() {
            return;
        }
        let event = event(self);
        if let Some(events) = &mut self.power {
            events.extend(event);
        }
    }

    fn is_on(&self, vmid: u32) -> bool {
        self.vms.get(&vmid).is_some_and(|vm| vm.run.is_some())
    }

    /// A machine that runs, as it stands.
    fn machine(&self, vmid: u32) -> Option<Machine> {
        let vm = self.vms.get(&vmid).filter(|vm| vm.run.is_some())?;
        let smbios =
            vm.config.get("smbios1").map(|text| schema::parse_as("smbios1", text)).unwrap_or_default();
        let encoded = smbios.get("base64").is_some_and(|flag| flag == "1");
        let serial = smbios.get("serial").map(String::as_str).unwrap_or_default();
        Some(Machine {
            vmid,
            uuid: smbios.get("uuid").map(|uuid| uuid.to_lowercase()).unwrap_or_default(),
            serial: if encoded { base64_text(serial) } else { serial.to_owned() },
            memory: vm.memory_bytes(),
            cpus: u32::try_from(cpus(vm, self.host_cpus(&vm.node))).unwrap_or(u32::MAX),
            nics: nics(vm),
            drives: self.machine_drives(vm),
        })
    }

    fn machine_drives(&self, vm: &Vm) -> Vec<MachineDrive> {
        let names = kernel_names(vm);
        let order = boot_order_of(vm.config.get("boot").map(String::as_str));
        let place = |drive: &Drive| order.iter().position(|key| *key == drive.key).unwrap_or(usize::MAX);
        let mut drives: Vec<Drive> =
            vm.drives().into_iter().filter(|drive| bus_of(&drive.key).is_some()).collect();
        drives.sort_by_key(|drive| (place(drive), bus_of(&drive.key)));
        drives.into_iter().filter_map(|drive| self.machine_drive(vm, &drive, &names)).collect()
    }

    fn machine_drive(
        &self,
        vm: &Vm,
        drive: &Drive,
        names: &BTreeMap<String, String>,
    ) -> Option<MachineDrive> {
        let volume = self.volume(&vm.node, drive.file());
        let content = volume.map_or(Content::Empty, |volume| volume.content().clone());
        let extensions = match &content {
            Content::Talos(image) => {
                self.factory.as_ref().map(|factory| factory.extensions(&image.schematic))
            }
            Content::Empty | Content::Cidata(_) | Content::Other => None,
        };
        let extensions = extensions.unwrap_or_default();
        if drive.is_cdrom() {
            return Some(MachineDrive::Cd { content, extensions });
        }
        let volume = volume?;
        Some(MachineDrive::Disk {
            id: volume.id,
            copy_of: volume.copy_of,
            name: names.get(&drive.key)?.clone(),
            serial: drive.get("serial").unwrap_or_default().to_owned(),
            size: visible_size(volume),
            content,
            extensions,
        })
    }
}

fn nics(vm: &Vm) -> Vec<MachineNic> {
    let mut nics: Vec<(u32, MachineNic)> = vm
        .config
        .iter()
        .filter(|(key, _)| is_nic(key))
        .map(|(key, text)| {
            let net = schema::parse_as("net", text);
            let get = |name: &str| net.get(name).cloned().unwrap_or_default();
            let vlan = get("tag").parse().ok();
            let nic = MachineNic { mac: get("macaddr").to_lowercase(), bridge: get("bridge"), vlan };
            (split_key(key).map_or(0, |(_, index)| index), nic)
        })
        .collect();
    nics.sort_by_key(|(index, _)| *index);
    nics.into_iter().map(|(_, nic)| nic).collect()
}

/// Where a drive hangs, in the order in which Linux finds them; none if a guest does not see it as a drive.
fn bus_of(key: &str) -> Option<(u32, u32)> {
    let (bus, index) = split_key(key)?;
    let rank = ["ide", "scsi", "sata", "virtio"].iter().position(|known| *known == bus)?;
    Some((u32::try_from(rank).unwrap_or_default(), index))
}

/// The names Linux gives to disks, by key: `sda` and so on in the order it finds them, `vda` those of virtio.
fn kernel_names(vm: &Vm) -> BTreeMap<String, String> {
    let mut disks: Vec<_> = vm.drives().into_iter().filter(|drive| !drive.is_cdrom()).collect();
    disks.retain(|drive| bus_of(&drive.key).is_some());
    disks.sort_by_key(|drive| bus_of(&drive.key));
    let (mut of_scsi, mut of_virtio) = (0, 0);
    let named = disks.into_iter().map(|drive| {
        let (prefix, count) =
            if drive.key.starts_with("virtio") { ("vd", &mut of_virtio) } else { ("sd", &mut of_scsi) };
        *count += 1;
        let name = format!("{prefix}{}", letters(*count));
        (drive.key, name)
    });
    named.collect()
}

/// `a` to `z`, then `aa`: the n-th, counted from 1.
fn letters(number: u32) -> String {
    let (more, last) = ((number - 1) / 26, (number - 1) % 26);
    let last = char::from(b'a' + u8::try_from(last).unwrap_or_default());
    if more == 0 { last.to_string() } else { format!("{}{last}", letters(more)) }
}

/// Text from base64; what is none is dropped.
fn base64_text(text: &str) -> String {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(value).collect();
    let mut bytes = Vec::new();
    for group in digits.chunks(4) {
        let bits = group.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - group.len()));
        let [_, all @ ..] = bits.to_be_bytes();
        bytes.extend(&all[..(group.len() * 6 / 8)]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
