//! What there is, without what chance decides.

use std::collections::BTreeMap;

use talmox_sim::Dump;
use talmox_types::{Mark, TemplateMark};

use crate::matrix::bed::{FOREIGN, POOL};

/// Everything of the cluster under the names of its nodes, and what is not the cluster's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Norm {
    /// Host, whether it runs, and configuration.
    nodes: BTreeMap<String, (String, bool, BTreeMap<String, String>)>,
    /// How many templates of a name are on a host.
    templates: BTreeMap<(String, String), usize>,
    files: Vec<String>,
    has_pool: bool,
    foreign: Option<(bool, BTreeMap<String, String>)>,
    /// VMs with neither mark.
    others: usize,
}

pub(crate) fn norm(dump: &Dump) -> Norm {
    let mut norm = Norm {
        nodes: BTreeMap::new(),
        templates: BTreeMap::new(),
        files: dump.volumes.iter().filter(|(_, v)| v.owner.is_none()).map(|(key, _)| key.clone()).collect(),
        has_pool: dump.pools.contains_key(POOL),
        foreign: dump.vms.get(&FOREIGN).map(|vm| (vm.running, vm.config.clone())),
        others: 0,
    };
    for vm in dump.vms.values() {
        let description = vm.config.get("description").map(String::as_str).unwrap_or_default();
        if let Some(mark) = Mark::of_description(description) {
            let chance = ["vmgenid", "meta", "smbios1", "description"];
            let held = vm.config.iter().chain(&vm.pending).filter(|(key, _)| !chance.contains(&key.as_str()));
            let config = held.map(|(key, value)| (key.clone(), neutral(value))).collect();
            let twice = norm.nodes.insert(mark.node.to_string(), (vm.node.clone(), vm.running, config));
            norm.others += usize::from(twice.is_some());
        } else if TemplateMark::of_description(description).is_some() {
            let state = if vm.config.contains_key("template") { "" } else { " (unfinished)" };
            let name = format!("{}{state}", vm.config["name"]);
            *norm.templates.entry((name, vm.node.clone())).or_default() += 1;
        } else {
            norm.others += 1;
        }
    }
    norm
}

/// A value without ids: numbers of three digits and more, and the numbers of disks.
fn neutral(value: &str) -> String {
    let mut text = String::new();
    let mut digits = String::new();
    for character in value.chars().chain(['\0']) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let is_id = digits.len() > 2 || text.ends_with("-disk-");
        text.push_str(if is_id && !digits.is_empty() { "#" } else { &digits });
        digits.clear();
        if character != '\0' {
            text.push(character);
        }
    }
    text
}

/// Volumes no VM names, and VMs that are locked.
pub(crate) fn left_behind(dump: &Dump) -> (Vec<String>, Vec<u32>) {
    let names = |vm: &talmox_sim::VmDump, name: &str| vm.config.values().any(|value| value.contains(name));
    let orphans = dump.volumes.iter().filter(|(key, volume)| {
        let name = key.rsplit(['/', ':']).next().unwrap_or(key);
        volume.owner.is_some_and(|owner| dump.vms.get(&owner).is_none_or(|vm| !names(vm, name)))
    });
    let locked = dump.vms.iter().filter(|(_, vm)| vm.config.contains_key("lock"));
    (orphans.map(|(key, _)| key.clone()).collect(), locked.map(|(vmid, _)| *vmid).collect())
}
