//! Clusters made by chance: what a description needs, and what others have there.

use std::collections::{BTreeMap, BTreeSet};

use talmox_sim::{Fit, FitHost, FitMapping, FitStorage, FitTemplate, Starter, World};

use crate::chance::Chance;
use crate::line::spec::{Named, Spec, TEMPLATE};

/// Unix milliseconds at which the hosts booted.
const EPOCH: u64 = 1_767_225_600_000;
const GIB: u64 = 1 << 30;

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A cluster with what the description needs and nothing else.
pub(crate) fn fitting(spec: &Spec, seed: u64) -> World {
    let mut world = Starter::bare(seed, EPOCH).world;
    let storages: BTreeSet<&str> = BTreeSet::from([spec.storage, spec.second]);
    let hosts: Vec<String> = (1..=spec.hosts).map(|number| format!("pve{number}")).collect();
    let storage = |id: &&str| FitStorage {
        id: (*id).to_owned(),
        kind: None,
        content: set(&["images", "rootdir"]),
        size: 4096 * GIB,
    };
    let local = FitStorage {
        id: "local".into(),
        kind: None,
        content: set(&["backup", "import", "iso", "vztmpl"]),
        size: 512 * GIB,
    };
    let host =
        |name: &String| FitHost { name: name.clone(), cpus: 64, memory: 512 * GIB, devices: BTreeSet::new() };
    let template = FitTemplate {
        vmid: (spec.template == Named::Id).then_some(9000),
        first_id: 9000,
        name: TEMPLATE.to_owned(),
        tags: set(&["gold", "talos"]),
        hosts: hosts.clone(),
        storage: spec.storage.to_owned(),
        bridge: "vmbr0".to_owned(),
        uefi: spec.uefi,
        talos: None,
    };
    let fit = Fit {
        cluster: "lab".to_owned(),
        hosts: hosts.iter().map(host).collect(),
        storages: storages.iter().map(storage).chain([local]).collect(),
        bridges: set(&["vmbr0", "vmbr1"]),
        templates: vec![template],
        files: Vec::new(),
        mappings: vec![FitMapping { name: "gpu".to_owned(), devices: 8 }],
    };
    world.fit(&fit).unwrap();
    // A pool within another needs that one.
    world.pools.insert("k8s".to_owned(), talmox_sim::Pool::default());
    world
}

/// Puts in what others have: VMs and templates, some on ids one might want, some with our names and tags, and pools.
pub(crate) fn populate(world: &mut World, spec: &Spec, chance: &Chance) {
    for _ in 0..chance.small(0, 6) {
        let id = chance.pick(&[101, 102, 150, 2000, 2001, 2003, 2010, 2999, 5000, 9001, 9050, 9099]);
        if !world.has_vm(id) {
            let host = format!("pve{}", chance.number(1, spec.hosts as u64));
            let (config, running) = foreign_vm(spec, id, chance);
            world.add_vm(&host, id, config, running);
            if chance.percent(25) {
                world.pools.entry("team".to_owned()).or_default().vms.insert(id);
            }
        }
    }
    // What was added by hand is known to the cluster only after its host has told.
    let now = world.clock();
    world.advance_to(now + 20_000);
}

fn foreign_vm(spec: &Spec, id: u32, chance: &Chance) -> (BTreeMap<String, String>, bool) {
    let volume = |number: u64| match spec.storage {
        "vmstore" | "nfs-vm" => format!("{}:{id}/vm-{id}-disk-{number}.qcow2", spec.storage),
        other => format!("{other}:vm-{id}-disk-{number}"),
    };
    let name = chance.pick(&["web", "db", "cp-1", "worker-1", "talos-1.13.9", "backup"]);
    let mut config = BTreeMap::from([
        ("name".to_owned(), name.to_owned()),
        ("memory".to_owned(), "2048".to_owned()),
        ("ostype".to_owned(), "l26".to_owned()),
        ("scsi0".to_owned(), format!("{},size=8G", volume(0))),
        (
            "net0".to_owned(),
            format!("virtio=AA:BB:CC:00:{:02X}:{:02X},bridge=vmbr0", id / 256 % 256, id % 256),
        ),
    ]);
    if chance.percent(40) {
        config.insert("tags".to_owned(), chance.pick(&["kubernetes;talos", "prod", "mine"]).to_owned());
    }
    if chance.percent(40) {
        // A mark of another cluster with the same name, or just words.
        let text = chance.pick(&[
            "talmox:v1 uid=0000111122223333 cluster=lab node=cp-1 vmid=100 incarnation=00000001",
            "somebody's notes\nof two lines",
            "talmox:v1 broken",
        ]);
        config.insert("description".to_owned(), text.to_owned());
    }
    if chance.percent(30) {
        config.insert("scsi1".to_owned(), format!("{},size=2G", volume(1)));
    }
    if chance.percent(20) {
        config.insert("unused0".to_owned(), volume(2));
    }
    let running = chance.percent(50);
    (config, running)
}
