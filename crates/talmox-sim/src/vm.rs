//! A VM: its configuration as text, what is pending, and what runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::drive::{self, Drive};
use crate::files::sha1_hex;
use crate::qemu::machine::machine_on;
use crate::reply::ApiError;
use crate::schema::{self, Kind, vm_option};
use crate::status::VmStat;
use crate::wire::percent_encode;
use crate::world::World;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) node: String,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) pending: BTreeMap<String, String>,
    /// Keys to be removed, and whether their volumes go too.
    pub(crate) pending_delete: BTreeMap<String, bool>,
    pub(crate) snapshots: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) run: Option<Run>,
    /// What the host last told the others about it.
    pub(crate) stat: Option<VmStat>,
    /// Does the guest react to the power button and unplugging; none leaves it to the world.
    pub(crate) reacts: Option<bool>,
    /// Answers of a guest agent by command; empty if no agent runs.
    pub(crate) agent: BTreeMap<String, Value>,
    /// The agent gives signs of life and answers nothing in time.
    #[serde(default)]
    pub(crate) agent_late: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) since: u64,
    pub(crate) pid: u32,
    pub(crate) paused: bool,
    /// Halted by QEMU, because a disk did not take what was written.
    #[serde(default)]
    pub(crate) io_error: bool,
    /// The machine it runs on, with its version.
    #[serde(default)]
    pub(crate) machine: String,
    /// Addresses of the host's devices it has taken over.
    #[serde(default)]
    pub(crate) devices: Vec<String>,
    /// Somebody else says what the guest does, and what its agent answers by command: nothing if none runs.
    #[serde(default)]
    pub(crate) guest: Option<BTreeMap<String, Value>>,
}

impl Vm {
    pub(crate) fn lock(&self) -> Option<&str> {
        self.config.get("lock").map(String::as_str)
    }

    pub(crate) fn is_template(&self) -> bool {
        self.config.get("template").is_some_and(|flag| flag == "1")
    }

    pub(crate) fn check_lock(&self) -> Result<(), String> {
        self.lock().map_or(Ok(()), |lock| Err(format!("VM is locked ({lock})")))
    }

    pub(crate) fn check_protection(&self, what: &str) -> Result<(), String> {
        let protected = self.config.get("protection").is_some_and(|flag| flag == "1");
        if protected { Err(format!("{what} - protection mode enabled")) } else { Ok(()) }
    }

    /// The configuration file as text, which the digest names.
    pub(crate) fn digest(&self) -> String {
        let description = self.config.get("description").map(|text| percent_encode(text));
        let mut text = format!("#{}\n{}", description.unwrap_or_default(), section(&self.config));
        let deletes: Vec<String> = self
            .pending_delete
            .iter()
            .map(|(key, force)| format!("{}{key}", if *force { "!" } else { "" }))
            .collect();
        let _ = write!(text, "\n[PENDING]\n{}delete: {}\n", section(&self.pending), deletes.join(","));
        for (name, snapshot) in &self.snapshots {
            let _ = write!(text, "\n[{name}]\n{}", section(snapshot));
        }
        sha1_hex(&text)
    }

    pub(crate) fn check_digest(&self, digest: Option<&str>) -> Result<(), String> {
        match digest {
            Some(digest) if digest != self.digest() => {
                Err("checksum mismatch (file change by other user?)".into())
            }
            _ => Ok(()),
        }
    }

    /// The configuration with pending changes merged in.
    pub(crate) fn merged(&self) -> BTreeMap<String, String> {
        let mut config = self.config.clone();
        config.retain(|key, _| !self.pending_delete.contains_key(key));
        config.extend(self.pending.clone());
        config
    }

    /// Attached drives by key, in the order of their keys.
    pub(crate) fn drives(&self) -> Vec<Drive> {
        drives_of(&self.config)
    }

    pub(crate) fn boot_order(&self) -> Vec<String> {
        boot_order_of(self.merged().get("boot").map(String::as_str))
    }

    pub(crate) fn agent_enabled(&self) -> bool {
        let parsed = self.config.get("agent").map(|text| schema::parse_as("agent", text));
        parsed.is_some_and(|parsed| parsed.get("enabled").is_some_and(|flag| flag == "1"))
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let text = self.config.get("memory").map(|text| schema::parse_as("memory", text));
        let mib: u64 = text.and_then(|parsed| parsed.get("current")?.parse().ok()).unwrap_or(512);
        mib << 20
    }

    pub(crate) fn name(&self, vmid: u32) -> String {
        self.config.get("name").cloned().unwrap_or_else(|| format!("VM {vmid}"))
    }

    /// Tells NICs without an address from those that have one; used by clones, which change every one.
    pub(crate) fn nic_keys(&self) -> Vec<String> {
        self.config.keys().filter(|key| drive::is_nic(key)).cloned().collect()
    }
}

/// One section of a configuration file.
fn section(map: &BTreeMap<String, String>) -> String {
    map.iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "{key}: {}", value.trim_end());
        text
    })
}

pub(crate) fn drives_of(config: &BTreeMap<String, String>) -> Vec<Drive> {
    let attached = config.iter().filter(|(key, _)| drive::is_drive(key) && !key.starts_with("unused"));
    attached.map(|(key, value)| Drive::parse(key, value)).collect()
}

pub(crate) fn boot_order_of(boot: Option<&str>) -> Vec<String> {
    let parsed = boot.map(|text| schema::parse_as("boot", text)).unwrap_or_default();
    parsed
        .get("order")
        .map(|order| schema::split_list(order).map(str::to_owned).collect())
        .unwrap_or_default()
}

pub(crate) fn print_boot_order(devices: &[String]) -> String {
    if devices.is_empty() { " ".to_owned() } else { format!("order={}", devices.join(";")) }
}

/// A value as replies show it: whole numbers and booleans are numbers, the rest is text.
pub(crate) fn shown(key: &str, text: &str) -> Value {
    let numeric =
        vm_option(key).is_some_and(|prop| matches!(prop.kind, Kind::Int | Kind::Bool)) || key == "snaptime";
    let number = text.parse::<i64>().ok().filter(|_| numeric);
    match (key, number) {
        ("cipassword", _) => Value::from("**********"),
        (_, Some(number)) => Value::from(number),
        _ => Value::from(text),
    }
}

pub(crate) fn shown_config(config: &BTreeMap<String, String>) -> Map<String, Value> {
    config.iter().map(|(key, text)| (key.clone(), shown(key, text))).collect()
}

pub(crate) fn no_config(node: &str, vmid: u32) -> String {
    format!("Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")
}

pub(crate) fn not_found(node: &str, vmid: u32) -> String {
    format!("unable to find configuration file for VM {vmid} on node '{node}'")
}

impl World {
    /// The VM if it lives on that host.
    pub(crate) fn vm_on(&self, node: &str, vmid: u32) -> Result<&Vm, ApiError> {
        let found = self.vms.get(&vmid).filter(|vm| vm.node == node);
        found.ok_or_else(|| ApiError::plain(no_config(node, vmid)))
    }

    pub(crate) fn vm_for_job(&self, node: &str, vmid: u32) -> Result<&Vm, String> {
        self.vm_on(node, vmid).map_err(|error| error.text())
    }

    pub(crate) fn vm_mut(&mut self, vmid: u32) -> Result<&mut Vm, String> {
        self.vms.get_mut(&vmid).ok_or_else(|| format!("VM {vmid} does not exist"))
    }

    /// A VM that starts now on that host.
    pub(crate) fn new_run(
        &mut self,
        node: &str,
        config: &BTreeMap<String, String>,
        devices: Vec<String>,
    ) -> Run {
        let machine = machine_on(config, self.release_of(node));
        Run {
            since: self.clock,
            pid: self.take_pid(node),
            paused: false,
            io_error: false,
            machine,
            devices,
            guest: None,
        }
    }

    pub(crate) fn reacts(&self, vm: &Vm) -> bool {
        vm.reacts.unwrap_or(self.guests_react)
    }

    /// Puts a VM there as if somebody had made it by other means.
    pub fn add_vm(&mut self, node: &str, vmid: u32, mut config: BTreeMap<String, String>, running: bool) {
        let uuid = self.random.uuid();
        config.entry("smbios1".into()).or_insert(format!("uuid={uuid}"));
        let generation = self.random.uuid();
        config.entry("vmgenid".into()).or_insert(generation);
        let ctime = self.unix();
        let qemu = self.release_of(node).qemu;
        config.entry("meta".into()).or_insert(format!("creation-qemu={qemu},ctime={ctime}"));
        let default_boot = crate::qemu::default_boot(&config);
        config.entry("boot".into()).or_insert(default_boot);
        let run = running.then(|| self.new_run(node, &config, Vec::new()));
        for drive in drives_of(&config) {
            self.adopt_volume(node, vmid, &drive);
        }
        self.vms.insert(vmid, Vm { node: node.to_owned(), config, run, ..Vm::default() });
        if running {
            self.switched_on(vmid);
        }
    }

    /// Removes a VM and its volumes without a trace, as if by other means.
    pub fn remove_vm(&mut self, vmid: u32) {
        self.switched_off(vmid);
        let volumes = self.volumes_of(vmid);
        for key in &volumes {
            self.volumes.remove(key);
        }
        self.vms.remove(&vmid);
        for pool in self.pools.values_mut() {
            pool.vms.remove(&vmid);
        }
    }

    pub fn has_vm(&self, vmid: u32) -> bool {
        self.vms.contains_key(&vmid)
    }

    /// Sets or clears a VM's lock as the host's administrator would.
    pub fn set_lock(&mut self, vmid: u32, lock: Option<&str>) {
        let Some(vm) = self.vms.get_mut(&vmid) else { return };
        match lock {
            Some(lock) => drop(vm.config.insert("lock".into(), lock.to_owned())),
            None => drop(vm.config.remove("lock")),
        }
    }

    /// The digest of a VM's configuration file.
    pub fn config_digest(&self, vmid: u32) -> Option<String> {
        self.vms.get(&vmid).map(Vm::digest)
    }

    pub fn lock_of_vm(&self, vmid: u32) -> Option<&str> {
        self.vms.get(&vmid).and_then(Vm::lock)
    }

    /// Says whether a VM's agent takes longer to answer than anybody waits.
    pub fn set_agent_late(&mut self, vmid: u32, late: bool) {
        if let Some(vm) = self.vms.get_mut(&vmid) {
            vm.agent_late = late;
        }
    }

    /// Says whether a VM's guest reacts, and what its agent answers by command.
    pub fn set_guest(&mut self, vmid: u32, reacts: bool, agent: BTreeMap<String, Value>) {
        if let Some(vm) = self.vms.get_mut(&vmid) {
            vm.reacts = Some(reacts);
            vm.agent = agent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_only_where_the_option_is_one() {
        assert_eq!(shown("cores", "2"), Value::from(2));
        assert_eq!(shown("onboot", "1"), Value::from(1));
        assert_eq!(shown("memory", "512"), Value::from("512"));
        assert_eq!(shown("cpulimit", "2"), Value::from("2"));
        assert_eq!(shown("cipassword", "x"), Value::from("**********"));
    }

    #[test]
    fn pending_changes_show_in_the_merged_view_and_in_the_digest() {
        let mut vm = Vm {
            config: BTreeMap::from([("cores".into(), "2".into()), ("name".into(), "a".into())]),
            ..Vm::default()
        };
        let before = vm.digest();
        vm.pending.insert("cores".into(), "4".into());
        vm.pending_delete.insert("name".into(), false);
        assert_eq!(vm.merged(), BTreeMap::from([("cores".into(), "4".into())]));
        assert_ne!(vm.digest(), before);
        assert!(vm.check_digest(Some(&before)).is_err() && vm.check_digest(None).is_ok());
    }
}
