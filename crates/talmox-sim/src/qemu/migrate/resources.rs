//! What binds a VM to its host beside its disks: devices, raw and mapped.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::schema;
use crate::vm::Vm;
use crate::world::World;

/// Devices of a VM, as far as they matter to a move.
pub(super) struct Resources {
    /// Keys of what stays where it is.
    pub(super) local: BTreeSet<String>,
    /// What a mapping names: the name, and whether a running VM can take it along.
    pub(super) mapped: BTreeMap<String, (String, bool)>,
}

fn family(key: &str) -> &str {
    key.trim_end_matches(|c: char| c.is_ascii_digit())
}

impl Resources {
    pub(super) fn of(world: &World, vm: &Vm) -> Self {
        let mut found = Self { local: BTreeSet::new(), mapped: BTreeMap::new() };
        for (key, text) in &vm.config {
            found.add(world, key, text, vm.run.is_some());
        }
        found
    }

    fn add(&mut self, world: &World, key: &str, text: &str, running: bool) {
        let family = family(key);
        let parsed = match family {
            "usb" | "hostpci" | "virtiofs" => schema::parse_as(family, text),
            _ => BTreeMap::new(),
        };
        let spice = parsed.get("host").is_some_and(|host| host.eq_ignore_ascii_case("spice"));
        let name = parsed.get(if family == "virtiofs" { "dirid" } else { "mapping" });
        let stays = match (family, name) {
            ("hostpci", Some(name)) => {
                let mapping = world.pci_mappings.get(name);
                let moves = mapping
                    .and_then(|mapping| mapping.options.get("live-migration-capable"))
                    .is_some_and(|flag| flag == "1");
                self.mapped.insert(key.to_owned(), (name.clone(), moves));
                running && !moves
            }
            ("usb" | "virtiofs", Some(name)) => {
                self.mapped.insert(key.to_owned(), (name.clone(), false));
                true
            }
            ("usb", None) => !spice,
            ("serial", None) => text != "socket",
            ("hostpci" | "parallel" | "ivshmem", None) => true,
            ("amd-sev", None) => running,
            _ => false,
        };
        if stays {
            self.local.insert(key.to_owned());
        }
    }

    /// What nobody can take along.
    pub(super) fn blocking(&self) -> Vec<&str> {
        self.local.iter().filter(|key| !self.mapped.contains_key(*key)).map(String::as_str).collect()
    }

    /// Mapped devices that a host has no part in.
    pub(super) fn missing_on(&self, world: &World, node: &str) -> Vec<&str> {
        let missing = |key: &str, name: &str| match family(key) {
            "hostpci" => world.mapped_on(name, node).is_none_or(|entries| entries.is_empty()),
            // There are no mappings of other kinds.
            _ => true,
        };
        let all = self.mapped.iter();
        all.filter(|(key, (name, _))| missing(key, name)).map(|(key, _)| key.as_str()).collect()
    }

    /// Mapped devices that a running VM cannot take along.
    fn tied(&self) -> Vec<String> {
        let tied = self.mapped.iter().filter(|(_, (_, moves))| !moves);
        tied.map(|(key, (name, _))| format!("{key}:{name}")).collect()
    }

    /// `mapped-resource-info` of a look at the preconditions.
    pub(super) fn info(&self) -> Value {
        let shown = self.mapped.iter().map(|(key, (name, moves))| {
            let mut entry = json!({"name": name});
            if *moves {
                entry["live-migration"] = json!(1);
            }
            (key.clone(), entry)
        });
        Value::Object(shown.collect::<Map<_, _>>())
    }

    /// Why a VM cannot move because of its devices, or what is said of them if it can.
    pub(super) fn check(
        &self,
        world: &World,
        target: &str,
        running: bool,
        force: bool,
    ) -> Result<Vec<&'static str>, String> {
        let mut lines = Vec::new();
        let blocking = self.blocking();
        if !blocking.is_empty() {
            if running || !force {
                return Err(format!("can't migrate VM which uses local devices: {}", blocking.join(", ")));
            }
            lines.push("migrating VM which uses local devices");
        }
        if self.mapped.is_empty() {
            return Ok(lines);
        }
        let missing = self.missing_on(world, target);
        if !missing.is_empty() {
            return Err(format!(
                "can't migrate to '{target}': missing mapped devices {}",
                missing.join(", ")
            ));
        }
        let tied = self.tied();
        if running && !tied.is_empty() {
            let tied = tied.join(", ");
            return Err(format!("can't live migrate running VM which uses following mapped devices: {tied}"));
        }
        lines.push("migrating VM which uses mapped local devices");
        Ok(lines)
    }
}
