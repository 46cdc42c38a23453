//! What people do to our VMs by hand.

use std::collections::BTreeMap;

use talmox_sim::{Dump, VmDump, World};

use crate::chance::Chance;
use crate::line::bed::{Bed, ours};
use crate::line::spec::Spec;

/// What was done that is not ours to undo: by VM, a key and a text its value must go on containing.
pub(crate) type Traces = Vec<(u32, String, String)>;

/// Changes some VMs by hand, each in one or two ways.
pub(crate) fn drift(bed: &Bed, spec: &Spec, chance: &Chance) -> Traces {
    let mut traces = Traces::new();
    let vms: BTreeMap<u32, VmDump> = {
        let dump = bed.dump();
        let ours = ours(&dump, &spec.uid);
        dump.vms.into_iter().filter(|(vmid, _)| ours.contains(vmid)).collect()
    };
    for vmid in vms.keys().filter(|_| chance.percent(60)) {
        for _ in 0..chance.small(1, 2) {
            let vm = bed.dump().vms[vmid].clone();
            bed.lab.world(|world| traces.extend(change(world, *vmid, &vm, chance)));
        }
    }
    traces
}

fn change(world: &mut World, vmid: u32, vm: &VmDump, chance: &Chance) -> Option<(u32, String, String)> {
    let path = format!("/nodes/{}/qemu/{vmid}", vm.node);
    let mut set = |key: &str, value: &str| {
        world.root_call("PUT", &format!("{path}/config"), &[(key, value)]).unwrap();
    };
    let trace = |key: &str, value: &str| Some((vmid, key.to_owned(), value.to_owned()));
    match chance.number(0, 14) {
        0 => set("memory", "1536"),
        1 => set("cores", "7"),
        2 => set("delete", "tags"),
        3 => {
            let tags = vm.config.get("tags").map_or_else(String::new, |tags| format!("{tags};"));
            set("tags", &format!("{tags}mine"));
            // Another change may take them all away again; what counts is that we do not.
            return None;
        }
        4 => set("name", "renamed"),
        5 if !vm.config.contains_key("scsi13") => return attach(world, vmid, vm, chance),
        6 => {
            let mark = vm.config["description"].lines().last().unwrap().to_owned();
            set("description", &format!("watch the disk\n\n{mark}"));
            return trace("description", "watch the disk\n\ntalmox:v1");
        }
        7 => set("net0", &vm.config["net0"].replace("bridge=vmbr0", "bridge=vmbr1")),
        8 => {
            set("net9", "virtio=AA:BB:CC:DD:EE:FF,bridge=vmbr1,rate=5");
            return trace("net9", "rate=5");
        }
        9 if vm.config.contains_key("ide2") && !vm.config.contains_key("protection") => set("delete", "ide2"),
        10 => set("startup", "order=1"),
        11 => set("protection", "1"),
        12 => set("delete", "serial0"),
        13 => {
            let verb = if vm.running { "stop" } else { "start" };
            world.root_call("POST", &format!("{path}/status/{verb}"), &[]).unwrap();
            let now = world.clock();
            world.advance_to(now + 5_000);
        }
        _ => set("onboot", "1"),
    }
    None
}

/// Hangs a disk of another VM of that host on ours, as a storage driver would.
fn attach(world: &mut World, vmid: u32, vm: &VmDump, chance: &Chance) -> Option<(u32, String, String)> {
    let dump = world.dump();
    let others: Vec<String> = dump
        .vms
        .values()
        .filter(|other| other.node == vm.node && !other.config.contains_key("template"))
        .filter_map(|other| other.config.get("scsi1")?.split(',').next().map(str::to_owned))
        .filter(|volume| !volume.contains(&format!("vm-{vmid}-")))
        .filter(|volume| {
            dump.vms.values().all(|other| {
                !other.config.get("scsi13").is_some_and(|held| held.starts_with(volume.as_str()))
            })
        })
        .collect();
    if others.is_empty() {
        return None;
    }
    let volume = chance.pick(&others);
    let path = format!("/nodes/{}/qemu/{vmid}/config", vm.node);
    world.root_call("PUT", &path, &[("scsi13", &volume)]).unwrap();
    Some((vmid, "scsi13".to_owned(), volume))
}

/// What others did to our VMs is still there.
pub(crate) fn assert_kept(dump: &Dump, traces: &Traces, seed: u64) {
    for (vmid, key, text) in traces {
        let value = dump.vms[vmid].config.get(key);
        assert!(
            value.is_some_and(|value| value.contains(text)),
            "seed {seed}: {key} of {vmid} is {value:?}, not {text}"
        );
    }
}
