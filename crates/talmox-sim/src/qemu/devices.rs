//! Devices of a host that VMs take over: those a mapping names, and those named by their address.
//!
//! A device is one VM's from the start of that VM to its end. A mapping may name several for a host, of which a VM takes the
//! first that is free; a device named by its address has no alternative.

use std::collections::{BTreeMap, BTreeSet};

use crate::schema::{self, Parsed};
use crate::world::{PciDevice, World};

/// Keys of this kind a VM can have.
const MOST: u32 = 16;

/// What stands under one `hostpciN`.
struct Wanted {
    key: String,
    /// Each a list of functions that go together.
    alternatives: Vec<Vec<String>>,
    /// A part of a device, which others may have parts of as well.
    mediated: bool,
}

/// Who has a device, and whether it runs already.
struct Holder {
    vmid: u32,
    runs: bool,
}

impl World {
    /// What a mapping says of a host; none if there is no such mapping.
    pub(crate) fn mapped_on(&self, id: &str, node: &str) -> Option<Vec<Parsed>> {
        let entries = self.pci_mappings.get(id)?.map.iter().map(|text| schema::parse_as("map", text));
        Some(entries.filter(|entry| entry.get("node").is_some_and(|name| name == node)).collect())
    }

    /// Does the device a mapping speaks of look as the mapping says?
    pub(crate) fn check_mapped(&self, id: &str, entry: &Parsed, node: &str) -> Result<(), String> {
        let paths = entry.get("path").map(String::as_str).unwrap_or_default();
        for (index, path) in paths.split(';').enumerate() {
            // A whole device stands for its first function here.
            let path = if path.contains('.') { path.to_owned() } else { format!("{path}.0") };
            let device = self.devices_at(node, &path).next();
            let device = device.ok_or_else(|| format!("pci device '{path}' not found"))?;
            check_properties(id, entry, &path, device, index == 0)?;
        }
        Ok(())
    }

    /// Devices whose address begins like that.
    fn devices_at(&self, node: &str, path: &str) -> impl Iterator<Item = &PciDevice> {
        let full = if path.split(':').count() < 3 { format!("0000:{path}") } else { path.to_owned() };
        let all = self.nodes.get(node).into_iter().flat_map(|node| &node.pci);
        all.filter(move |device| device.address.starts_with(&full))
    }

    fn alternatives(&self, node: &str, parsed: &Parsed) -> Result<Vec<Vec<String>>, String> {
        let paths: Vec<String> = match (parsed.get("host"), parsed.get("mapping")) {
            (Some(_), Some(_)) => return Err("Cannot set both 'host' and 'mapping'.".into()),
            (None, None) => return Err("Either 'host' or 'mapping' must be set.".into()),
            (Some(host), None) => vec![host.clone()],
            (None, Some(id)) => {
                let entries = self.mapped_on(id, node).filter(|entries| !entries.is_empty());
                let entries = entries.ok_or_else(|| format!("PCI device mapping not found for '{id}'"))?;
                for entry in &entries {
                    self.check_mapped(id, entry, node).map_err(|error| {
                        format!("PCI device mapping invalid (hardware probably changed): {error}\n")
                    })?;
                }
                entries.iter().filter_map(|entry| entry.get("path").cloned()).collect()
            }
        };
        let functions = |path: &str| -> Result<Vec<String>, String> {
            let found: Vec<String> =
                self.devices_at(node, path).map(|device| device.address.clone()).collect();
            if found.is_empty() { Err(format!("no PCI device found for '{path}'")) } else { Ok(found) }
        };
        let one = |paths: &String| -> Result<Vec<String>, String> {
            Ok(paths.split(';').map(functions).collect::<Result<Vec<_>, _>>()?.concat())
        };
        paths.iter().map(one).collect()
    }

    fn wanted_devices(&self, node: &str, config: &BTreeMap<String, String>) -> Result<Vec<Wanted>, String> {
        let machine = config.get("machine").map(|text| schema::parse_as("machine", text)).unwrap_or_default();
        let is_q35 = machine.get("type").is_some_and(|kind| kind.contains("q35"));
        let mut all = Vec::new();
        for key in (0..MOST).map(|number| format!("hostpci{number}")) {
            let Some(text) = config.get(&key) else { continue };
            let parsed = schema::parse_as("hostpci", text);
            let alternatives = self.alternatives(node, &parsed)?;
            let mediated = parsed.contains_key("mdev");
            if mediated && alternatives.iter().any(|functions| functions.len() > 1) {
                return Err("cannot use mediated device with multifunction device".into());
            }
            if !is_q35 && parsed.get("pcie").is_some_and(|flag| flag == "1") {
                return Err("q35 machine model is not enabled".into());
            }
            all.push(Wanted { key, alternatives, mediated });
        }
        Ok(all)
    }

    /// Devices of a host that somebody else has.
    fn taken_devices(&self, node: &str, vmid: u32) -> BTreeMap<&str, Holder> {
        let mut taken = BTreeMap::new();
        let starting = self.tasks.iter().filter(|task| task.node == node).filter_map(|task| {
            let (vmid, devices) = task.work.as_ref()?.reserved_devices()?;
            Some((vmid, devices, false))
        });
        let running = self.vms.iter().filter(|(_, vm)| vm.node == node).filter_map(|(vmid, vm)| {
            let run = vm.run.as_ref()?;
            Some((*vmid, run.devices.as_slice(), true))
        });
        for (holder, devices, runs) in starting.chain(running).filter(|(holder, _, _)| *holder != vmid) {
            let entries = devices.iter().map(|device| (device.as_str(), Holder { vmid: holder, runs }));
            taken.extend(entries);
        }
        taken
    }

    /// Chooses devices for a VM that starts, or says why there are none for it.
    pub(crate) fn choose_devices(
        &self,
        node: &str,
        vmid: u32,
        config: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, String> {
        let wanted = self.wanted_devices(node, config)?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let taken = self.taken_devices(node, vmid);
        let mut own: BTreeSet<&str> = BTreeSet::new();
        for Wanted { key, alternatives, .. } in wanted.iter().filter(|wanted| !wanted.mediated) {
            let chosen = if let [only] = alternatives.as_slice() {
                only
            } else {
                let free = |function: &String| {
                    !own.contains(function.as_str()) && !taken.contains_key(function.as_str())
                };
                let found = alternatives.iter().find(|functions| functions.iter().all(free));
                found.ok_or_else(|| format!("could not find a free device for '{key}'"))?
            };
            if let Some(twice) = chosen.iter().find(|function| own.contains(function.as_str())) {
                return Err(format!("device '{twice}' assigned more than once"));
            }
            own.extend(chosen.iter().map(String::as_str));
        }
        for device in &own {
            match taken.get(device) {
                Some(Holder { vmid, runs: true }) => {
                    return Err(format!("PCI device '{device}' already in use by VMID '{vmid}'"));
                }
                Some(Holder { vmid, runs: false }) => {
                    return Err(format!(
                        "PCI device '{device}' is currently reserved for use by VMID '{vmid}'"
                    ));
                }
                None => {}
            }
        }
        // Without an IOMMU a device is in no group.
        let bound = |device: &&str| self.devices_at(node, device).all(|device| device.iommu_group >= 0);
        if !own.iter().all(bound) {
            return Err("cannot prepare PCI pass-through, IOMMU not present".into());
        }
        Ok(own.into_iter().map(str::to_owned).collect())
    }
}

/// Compares a mapping with the device at the address it names, property by property.
fn check_properties(
    id: &str,
    entry: &Parsed,
    path: &str,
    device: &PciDevice,
    is_first: bool,
) -> Result<(), String> {
    let bare = |text: &str| text.replace("0x", "");
    let ids = format!("{}:{}", bare(&device.vendor), bare(&device.device));
    let expected = [
        ("id", ids.clone()),
        ("iommugroup", device.iommu_group.to_string()),
        // The devices here are boards of their makers.
        ("subsystem-id", ids),
    ];
    // Of several devices only the first one's group is noted down.
    for (key, expected) in expected.iter().filter(|(key, _)| is_first || *key != "iommugroup") {
        let Some(said) = entry.get(*key) else {
            return Err(format!("missing expected property '{key}' for device '{path}'"));
        };
        if bare(said) != *expected {
            return Err(format!("'{key}' does not match for '{id}' ({expected} != {})", bare(said)));
        }
    }
    Ok(())
}
