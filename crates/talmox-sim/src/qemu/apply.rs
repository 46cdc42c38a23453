//! Applies pending changes: all of them to a stopped VM, those that can be plugged to a running one.

use super::perms::is_cloud_init_key;
use crate::drive::{Drive, is_drive, split_key};
use crate::schema::{Errors, split_list};
use crate::vm::Vm;
use crate::world::World;

/// Options a running VM takes at once.
fn applies_live(key: &str) -> bool {
    let family = split_key(key).map_or(key, |(family, _)| family);
    let plain = matches!(
        family,
        "lock"
            | "name"
            | "onboot"
            | "shares"
            | "startup"
            | "description"
            | "protection"
            | "vmstatestorage"
            | "hookscript"
            | "tags"
            | "migrate_speed"
            | "migrate_downtime"
            | "autostart"
            | "cpuunits"
            | "cpulimit"
            | "hotplug"
            | "unused"
    );
    plain || is_cloud_init_key(key)
}

enum Plug {
    Now,
    Later,
    Fails(String),
}

impl World {
    /// Applies what can be applied; the result names the options that could not be plugged.
    pub(crate) fn apply_pending(&mut self, node: &str, vmid: u32, touched: &[String]) -> Errors {
        self.drop_idle_changes(vmid);
        let Some(vm) = self.vms.get(&vmid) else { return Errors::new() };
        if vm.run.is_none() {
            self.apply_all(node, vmid);
            return Errors::new();
        }
        let mut errors = Errors::new();
        let deletes: Vec<(String, bool)> = vm.pending_delete.clone().into_iter().collect();
        let changes: Vec<(String, String)> = vm.pending.clone().into_iter().collect();
        for (key, force) in deletes {
            match self.plug(vmid, &key, None) {
                Plug::Now => self.apply_delete(node, vmid, &key, force),
                Plug::Fails(reason) if touched.contains(&key) => drop(errors.insert(key, reason)),
                Plug::Fails(_) | Plug::Later => {}
            }
        }
        for (key, text) in changes {
            match self.plug(vmid, &key, Some(&text)) {
                Plug::Now => self.apply_change(node, vmid, &key, &text),
                Plug::Fails(reason) if touched.contains(&key) => drop(errors.insert(key, reason)),
                Plug::Fails(_) | Plug::Later => {}
            }
        }
        errors
    }

    /// Everything pending becomes real, as when a VM stops or starts.
    pub(crate) fn apply_all(&mut self, node: &str, vmid: u32) {
        let Some(vm) = self.vms.get(&vmid) else { return };
        let deletes: Vec<(String, bool)> = vm.pending_delete.clone().into_iter().collect();
        let changes: Vec<(String, String)> = vm.pending.clone().into_iter().collect();
        for (key, force) in deletes {
            self.apply_delete(node, vmid, &key, force);
        }
        for (key, text) in changes {
            self.apply_change(node, vmid, &key, &text);
        }
    }

    fn drop_idle_changes(&mut self, vmid: u32) {
        let Some(vm) = self.vms.get_mut(&vmid) else { return };
        let config = vm.config.clone();
        vm.pending.retain(|key, text| config.get(key) != Some(text));
        vm.pending_delete.retain(|key, _| config.contains_key(key));
    }

    fn plug(&self, vmid: u32, key: &str, change: Option<&str>) -> Plug {
        let Some(vm) = self.vms.get(&vmid) else { return Plug::Later };
        if applies_live(key) {
            return Plug::Now;
        }
        let features = hotplug_features(vm);
        let family = split_key(key).map_or(key, |(family, _)| family);
        let busy = || {
            Plug::Fails(format!(
                "hotplug problem - error on hot-unplugging device '{key}' - still busy in guest?"
            ))
        };
        match (family, change) {
            ("net", None) if features.contains(&"network") => {
                if self.reacts(vm) {
                    Plug::Now
                } else {
                    busy()
                }
            }
            ("net", Some(_)) if features.contains(&"network") => Plug::Now,
            ("balloon", Some(text)) => {
                // Without a value the device is there.
                let has_device = vm.config.get("balloon").is_none_or(|now| now != "0");
                if text != "0" && has_device { Plug::Now } else { Plug::Later }
            }
            ("memory", Some(_)) if features.contains(&"memory") => Plug::Now,
            ("vcpus", Some(_)) if features.contains(&"cpu") => Plug::Now,
            ("usb", _) if features.contains(&"usb") => Plug::Now,
            (_, change) if is_drive(key) => {
                self.plug_drive(vm, key, change, features.contains(&"disk"), &busy)
            }
            _ => Plug::Later,
        }
    }

    fn plug_drive(
        &self,
        vm: &Vm,
        key: &str,
        change: Option<&str>,
        allowed: bool,
        busy: &dyn Fn() -> Plug,
    ) -> Plug {
        let family = split_key(key).map_or("", |(family, _)| family);
        let old = vm.config.get(key).map(|text| Drive::parse(key, text));
        let new = change.map(|text| Drive::parse(key, text));
        match (&old, &new) {
            (Some(old), Some(new)) if old.is_cdrom() && new.is_cdrom() => Plug::Now,
            _ if !allowed || !matches!(family, "scsi" | "virtio") => Plug::Later,
            (_, None) if family == "virtio" && !self.reacts(vm) => busy(),
            (Some(old), Some(new)) if old.file() == new.file() && needs_replug(old, new) => Plug::Later,
            _ => Plug::Now,
        }
    }

    fn apply_delete(&mut self, node: &str, vmid: u32, key: &str, force: bool) {
        let Some(vm) = self.vms.get_mut(&vmid) else { return };
        vm.pending_delete.remove(key);
        let Some(old) = vm.config.remove(key) else { return };
        if is_drive(key) {
            self.retire_drive(node, vmid, &Drive::parse(key, &old), force);
        }
    }

    fn apply_change(&mut self, node: &str, vmid: u32, key: &str, text: &str) {
        let Some(vm) = self.vms.get_mut(&vmid) else { return };
        vm.pending.remove(key);
        let old = vm.config.insert(key.to_owned(), text.to_owned());
        if is_drive(key) && !key.starts_with("unused") {
            // A volume that is attached again is no longer unused.
            let file = Drive::parse(key, text).file().to_owned();
            vm.config.retain(|other, value| !other.starts_with("unused") || *value != file);
        }
        let Some(old) = old.filter(|_| is_drive(key)).map(|old| Drive::parse(key, &old)) else { return };
        if old.file() != Drive::parse(key, text).file() {
            self.retire_drive(node, vmid, &old, false);
        }
    }

    /// A volume that lost its drive: kept as `unusedK`, or freed if it is made anew anyway or the caller insists.
    pub(crate) fn retire_drive(&mut self, node: &str, vmid: u32, drive: &Drive, force: bool) {
        if drive.is_none() || drive.is_cdrom() && !drive.is_cloudinit() {
            return;
        }
        let key = self.volume_key(node, drive.file());
        let owned = self.volumes.get(&key).is_some_and(|volume| volume.vmid == Some(vmid));
        if force || drive.is_cloudinit() {
            if owned {
                self.volumes.remove(&key);
            }
            return;
        }
        let Some(vm) = self.vms.get_mut(&vmid).filter(|_| owned) else { return };
        let still_used = vm
            .config
            .values()
            .chain(vm.pending.values())
            .any(|value| value.split(',').next() == Some(drive.file()));
        let slot = (0..256).map(|index| format!("unused{index}")).find(|slot| !vm.config.contains_key(slot));
        if let Some(slot) = slot.filter(|_| !still_used) {
            vm.config.insert(slot, drive.file().to_owned());
        }
    }
}

/// Options of an attached disk that only a new start can change.
fn needs_replug(old: &Drive, new: &Drive) -> bool {
    [
        "aio",
        "discard",
        "iothread",
        "queues",
        "cache",
        "ssd",
        "ro",
        "product",
        "vendor",
        "detect_zeroes",
        "serial",
        "wwn",
    ]
    .iter()
    .any(|name| old.get(name) != new.get(name))
}

fn hotplug_features(vm: &Vm) -> Vec<&str> {
    match vm.config.get("hotplug").map(String::as_str) {
        None | Some("1") => vec!["network", "disk", "usb"],
        Some("0") => Vec::new(),
        Some(list) => split_list(list).collect(),
    }
}
