//! Options of the VM itself.

use std::collections::BTreeSet;

use talmox_pve::property::{Agent, Boot, CpuModel, Machine, Memory, Startup, Tags, VmConfig};
use talmox_types::{Mark, Tag};

use super::{Difference, Differences, How, Impossible, State, Subject};
use crate::Applies;

/// Keys that are a word or a number: what Proxmox means when they are absent, the field, and whether a running VM
/// takes a new value.
const PLAIN: &[(&str, &str, &str, bool)] = &[
    ("name", "", "name", true),
    ("cores", "1", "vm_cores", false),
    ("sockets", "1", "vm_sockets", false),
    ("numa", "0", "numa", false),
    ("ostype", "other", "ostype", false),
    ("scsihw", "lsi", "scsi_hw", false),
    ("serial0", "", "serial0", false),
    ("onboot", "0", "onboot", true),
];

pub(super) fn compare(subject: &Subject<'_>, found: &mut Differences) {
    for (key, default, field, live) in PLAIN {
        plain(subject, found, key, default, field, *live);
    }
    protection(subject, found);
    balloon(subject, found);
    memory(subject, found);
    agent(subject, found);
    cpu(subject, found);
    machine(subject, found);
    boot(subject, found);
    startup(subject, found);
    tags(subject, found);
    name_servers(subject, found);
    mark(subject, found);
    firmware(subject, found);
}

fn plain(subject: &Subject<'_>, found: &mut Differences, key: &str, default: &str, field: &str, live: bool) {
    let Some(wanted) = subject.wanted.get(key) else { return };
    let have = subject.have.get(key);
    // What a clone is given stands in its configuration, even where Proxmox means the same without it.
    let is_so =
        have == Some(wanted) || (have.is_none() && wanted == default && subject.state != State::Fresh);
    if is_so {
        return;
    }
    let applies = if live { Applies::Now } else { subject.restart() };
    set(found, key, field, have, wanted.to_owned(), applies);
}

fn set(found: &mut Differences, key: &str, field: &str, old: Option<&str>, new: String, applies: Applies) {
    found.values.push(Difference::new(key, field, old.map(str::to_owned), How::Set(new), applies));
}

/// What the description leaves out is off.
fn protection(subject: &Subject<'_>, found: &mut Differences) {
    let (wanted, have) = (subject.wanted.flag("protection"), subject.have.flag("protection"));
    if wanted != have {
        let value = if wanted { "1" } else { "0" };
        let old = subject.have.get("protection");
        set(found, "protection", "protection", old, value.to_owned(), Applies::Now);
    }
}

fn memory(subject: &Subject<'_>, found: &mut Differences) {
    let Ok(Some(wanted)) = subject.wanted.memory() else { return };
    // Proxmox gives 512 MiB to a VM that says nothing.
    let have = subject.have.memory().ok().flatten().unwrap_or(Memory::new(512));
    if wanted != have {
        let old = have.to_string();
        // Memory is plugged only into a guest with NUMA, and taken away only if the guest lets go of it.
        let grows = wanted.mib > have.mib && subject.have.flag("numa");
        let applies = if grows { subject.plug("memory") } else { subject.restart() };
        set(found, "memory", "vm_memory", Some(&old), wanted.to_string(), applies);
    }
}

/// A VM that says nothing has the device, and all of the memory it will have. The device itself comes and goes with a restart.
fn balloon(subject: &Subject<'_>, found: &mut Differences) {
    let Some(wanted) = subject.wanted.get("balloon") else { return };
    let have = subject.have.get("balloon");
    let memory = |config: &VmConfig| config.memory().ok().flatten();
    let all = memory(subject.wanted).or(memory(subject.have)).unwrap_or(Memory::new(512)).to_string();
    if have.unwrap_or(&all) == wanted {
        return;
    }
    let moves = wanted != "0" && have != Some("0");
    let applies = if moves { Applies::Now } else { subject.restart() };
    set(found, "balloon", "balloon", have, wanted.to_owned(), applies);
}

fn agent(subject: &Subject<'_>, found: &mut Differences) {
    let wanted = subject.wanted.agent().ok().flatten().is_some_and(|agent| agent.enabled);
    let have = subject.have.agent().ok().flatten();
    if have.as_ref().is_some_and(|agent| agent.enabled) == wanted {
        return;
    }
    let new = Agent { enabled: wanted, ..have.unwrap_or(Agent::new(wanted)) };
    set(found, "agent", "qemu_agent", subject.have.get("agent"), new.to_string(), subject.restart());
}

fn cpu(subject: &Subject<'_>, found: &mut Differences) {
    let Ok(Some(wanted)) = subject.wanted.cpu() else { return };
    let have = subject.have.cpu().ok().flatten().unwrap_or_default();
    // Flags set by hand stay.
    let new = CpuModel { model: wanted.model, ..have.clone() };
    if new != have {
        set(found, "cpu", "cpu_type", subject.have.get("cpu"), new.to_string(), subject.restart());
    }
}

fn machine(subject: &Subject<'_>, found: &mut Differences) {
    let Ok(Some(wanted)) = subject.wanted.machine() else { return };
    let have = subject.have.machine().ok().flatten().unwrap_or_default();
    if chipset(&wanted) == chipset(&have) {
        return;
    }
    let new = Machine { machine_type: wanted.machine_type, ..have };
    set(found, "machine", "machine", subject.have.get("machine"), new.to_string(), subject.restart());
}

/// The chipset without the version it may be pinned to.
fn chipset(machine: &Machine) -> &str {
    let name = machine.machine_type.as_deref().unwrap_or("pc");
    if name == "q35" || name.starts_with("pc-q35") {
        "q35"
    } else if name == "pc" || name.starts_with("pc-i440fx") {
        "pc"
    } else {
        name
    }
}

/// Proxmox appends every CD it is given, so devices after those we want are no difference.
fn boot(subject: &Subject<'_>, found: &mut Differences) {
    let Ok(Some(Boot::Order(wanted))) = subject.wanted.boot() else { return };
    if let Ok(Some(Boot::Order(have))) = subject.have.boot()
        && have.starts_with(&wanted)
    {
        return;
    }
    let new = Boot::Order(wanted).to_string();
    set(found, "boot", "boot", subject.have.get("boot"), new, subject.restart());
}

fn startup(subject: &Subject<'_>, found: &mut Differences) {
    let Ok(Some(wanted)) = subject.wanted.startup() else { return };
    let have = subject.have.startup().ok().flatten();
    if have.as_ref() == Some(&wanted) {
        return;
    }
    let field = startup_field(&wanted, have.as_ref());
    set(found, "startup", field, subject.have.get("startup"), wanted.to_string(), Applies::Now);
}

fn startup_field(wanted: &Startup, have: Option<&Startup>) -> &'static str {
    match have {
        Some(have) if have.order == wanted.order && have.up == wanted.up => "vm_shutdown_delay",
        Some(have) if have.order == wanted.order => "vm_startup_delay",
        _ => "vm_startup_order",
    }
}

/// Tags others added stay. A fresh clone has its template's, which are not the node's.
fn tags(subject: &Subject<'_>, found: &mut Differences) {
    let read = |text: Option<&str>| text.and_then(|text| Tags::parse(text).ok()).unwrap_or_default();
    let wanted: Vec<&Tag> = subject.node.vm.tags.iter().collect();
    let have = read(subject.have.get("tags"));
    let new: Tags = if subject.state == State::Fresh {
        wanted.iter().copied().cloned().collect()
    } else {
        have.iter().chain(wanted.iter().copied()).cloned().collect()
    };
    if new == have {
        return;
    }
    let old = subject.have.get("tags").map(str::to_owned);
    let how = if new.is_empty() { How::Delete } else { How::Set(new.as_written()) };
    found.values.push(Difference::new("tags", "tags", old, how, Applies::Now));
}

/// Their order counts: the first is asked first.
fn name_servers(subject: &Subject<'_>, found: &mut Differences) {
    let Some(wanted) = subject.wanted.get("nameserver") else { return };
    let list = |text: &str| -> Vec<String> {
        text.split([' ', ',', ';']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let have = subject.have.get("nameserver");
    if list(wanted) != list(have.unwrap_or_default()) {
        set(found, "nameserver", "dns_servers", have, wanted.to_owned(), Applies::Now);
    }
}

/// The mark's line follows a cluster that is called something else now; what people wrote stays.
fn mark(subject: &Subject<'_>, found: &mut Differences) {
    let wanted = subject.wanted.description().and_then(Mark::of_description);
    let (Some(wanted), Some(text)) = (wanted, subject.have.description()) else { return };
    let have = Mark::of_description(text);
    if have.as_ref().is_some_and(|have| have.cluster != wanted.cluster) {
        let new = wanted.in_description(text);
        set(found, "description", "cluster_name", Some(text), new, Applies::Now);
    }
    if subject.state == State::Fresh {
        found.values.push(Difference::witness(Applies::Now));
    }
}

/// What is installed boots by the firmware it was installed with.
fn firmware(subject: &Subject<'_>, found: &mut Differences) {
    let Some(wanted) = subject.wanted.get("bios") else { return };
    let have = subject.have.get("bios").unwrap_or("seabios");
    if wanted == have {
        return;
    }
    if subject.state == State::Fresh {
        set(found, "bios", "bios", subject.have.get("bios"), wanted.to_owned(), subject.restart());
        return;
    }
    found.impossible.push(Impossible {
        key: "bios".to_owned(),
        field: "bios",
        problem: format!(
            "the firmware is {have} and cannot become {wanted}: what is installed would not boot"
        ),
        choices: vec![
            format!("bios: {have} for this node"),
            format!("talmox apply --replace {} builds it anew", subject.node.name),
        ],
    });
}

/// Keys the description decides, whatever their value.
pub(crate) fn decided(subject: &Subject<'_>) -> BTreeSet<String> {
    let wanted = subject.wanted.iter().map(|(key, _)| key.to_owned());
    wanted.chain(["agent", "protection", "tags"].map(str::to_owned)).collect()
}
