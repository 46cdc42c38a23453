//! Reading VMs: configuration, what is pending, status, lists.

use serde_json::{Map, Value, json};

use crate::api::{Call, subdirs};
use crate::drive::is_nic;
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::schema;
use crate::vm::{Vm, shown, shown_config};
use crate::world::World;

pub(crate) fn config(world: &World, call: &Call) -> Answer {
    let vm = world.vm_on(&call.node, call.vmid())?;
    let mut shown = match call.args.get("snapshot") {
        Some(name) => {
            let missing = || ApiError::plain(format!("snapshot '{name}' does not exist"));
            shown_config(vm.snapshots.get(name).ok_or_else(missing)?)
        }
        None if call.args.flag("current") => shown_config(&vm.config),
        None => shown_config(&vm.merged()),
    };
    shown.insert("digest".into(), json!(vm.digest()));
    Ok(Value::Object(shown))
}

pub(crate) fn pending(world: &World, call: &Call) -> Answer {
    let vm = world.vm_on(&call.node, call.vmid())?;
    let mut entries = vec![json!({"key": "digest", "value": vm.digest()})];
    for (key, text) in &vm.config {
        let mut entry = json!({"key": key, "value": shown(key, text)});
        if let Some(change) = vm.pending.get(key) {
            entry["pending"] = shown(key, change);
        }
        if let Some(force) = vm.pending_delete.get(key) {
            entry["delete"] = json!(if *force { 2 } else { 1 });
        }
        entries.push(entry);
    }
    let fresh = vm.pending.iter().filter(|(key, _)| !vm.config.contains_key(*key));
    entries.extend(fresh.map(|(key, text)| json!({"key": key, "pending": shown(key, text)})));
    Ok(Value::Array(entries))
}

pub(crate) fn index() -> Value {
    subdirs(
        "subdir",
        "config cloudinit pending status unlink vncproxy termproxy migrate resize move rrd rrddata monitor agent snapshot \
         spiceproxy sendkey firewall mtunnel remote_migrate",
    )
}

/// What every view of a VM's state shows.
fn summary(world: &World, vmid: u32, vm: &Vm) -> Map<String, Value> {
    let mut entry = Map::new();
    let running = vm.run.as_ref();
    let mut put = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
    put("vmid", json!(vmid));
    put("name", json!(vm.name(vmid)));
    put("status", json!(if running.is_some() { "running" } else { "stopped" }));
    put("cpus", json!(cpus(vm, world.host_cpus(&vm.node))));
    put("cpu", json!(0));
    put("maxmem", json!(vm.memory_bytes()));
    put("mem", json!(0));
    if world.has(Change::NetworkResources) {
        put("memhost", json!(0));
    }
    put("maxdisk", json!(boot_disk_size(vm)));
    put("disk", json!(0));
    put("netin", json!(0));
    put("netout", json!(0));
    put("uptime", json!(running.map_or(0, |run| (world.clock - run.since) / 1000)));
    if let Some(run) = running {
        put("pid", json!(run.pid));
    }
    for key in ["lock", "tags"] {
        if let Some(text) = vm.config.get(key) {
            put(key, json!(text));
        }
    }
    if vm.is_template() {
        put("template", json!(1));
    }
    if vm.config.keys().any(|key| key.starts_with("serial")) {
        put("serial", json!(1));
    }
    if let Some(balloon) =
        vm.config.get("balloon").and_then(|text| text.parse::<u64>().ok()).filter(|mib| *mib > 0)
    {
        put("balloon_min", json!(balloon << 20));
        let shares = vm.config.get("shares").and_then(|text| text.parse::<u64>().ok());
        put("shares", json!(shares.unwrap_or(1000)));
    }
    entry
}

/// As many as the host has, at most, unless `vcpus` says otherwise.
pub(crate) fn cpus(vm: &Vm, host: u64) -> u64 {
    let number = |key: &str| vm.config.get(key).and_then(|text| text.parse::<u64>().ok());
    let wanted = number("cores").unwrap_or(1) * number("sockets").unwrap_or(1);
    number("vcpus").unwrap_or(wanted.min(host))
}

/// The size of the first disk of the boot order.
pub(crate) fn boot_disk_size(vm: &Vm) -> u64 {
    let drives = vm.drives();
    let order = crate::vm::boot_order_of(vm.config.get("boot").map(String::as_str));
    let disk =
        order.iter().find_map(|key| drives.iter().find(|drive| drive.key == *key && !drive.is_cdrom()));
    disk.map_or(0, crate::drive::Drive::size)
}

fn qmp_status(vm: &Vm) -> &'static str {
    match &vm.run {
        None => "stopped",
        Some(run) if run.io_error => "io-error",
        Some(run) if run.paused => "paused",
        Some(_) => "running",
    }
}

pub(crate) fn current(world: &World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let vm = world.vm_on(&call.node, vmid)?;
    let mut entry = summary(world, vmid, vm);
    entry.insert("qmpstatus".into(), json!(qmp_status(vm)));
    entry.insert("ha".into(), world.ha_state(vmid));
    let vga = vm.config.get("vga").map(|text| schema::parse_as("vga", text)).unwrap_or_default();
    if vga.get("type").is_some_and(|kind| kind.starts_with("qxl")) {
        entry.insert("spice".into(), json!(1));
    }
    if vm.agent_enabled() {
        entry.insert("agent".into(), json!(1));
    }
    if vm.run.is_some() {
        let nics = vm.nic_keys();
        let taps =
            nics.iter().map(|key| (format!("tap{vmid}i{}", &key[3..]), json!({"netin": 0, "netout": 0})));
        let taps: Map<String, Value> = taps.collect();
        if !taps.is_empty() {
            entry.insert("nics".into(), Value::Object(taps));
        }
        let kinds: &[&str] = if world.has(Change::NetworkResources) { &["cpu", "io", "memory"] } else { &[] };
        for kind in kinds {
            for share in ["some", "full"] {
                entry.insert(format!("pressure{kind}{share}"), json!(0));
            }
        }
    }
    Ok(Value::Object(entry))
}

pub(crate) fn list(world: &World, call: &Call) -> Value {
    let may_see = world.vm_right(&call.caller, "VM.Audit");
    let visible = world.vms.iter().filter(|(vmid, vm)| vm.node == call.node && may_see(**vmid));
    let entries = visible.map(|(vmid, vm)| {
        let mut entry = summary(world, *vmid, vm);
        if call.args.flag("full") {
            entry.insert("qmpstatus".into(), json!(qmp_status(vm)));
        }
        Value::Object(entry)
    });
    entries.collect()
}

pub(crate) fn nic_bridge(key: &str, text: &str) -> Option<String> {
    is_nic(key).then(|| schema::parse_as("net", text)).and_then(|net| net.get("bridge").cloned())
}

pub(crate) fn feature(world: &World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let vm = world.vm_on(&call.node, vmid)?;
    let disks: Vec<_> = vm.drives().into_iter().filter(|drive| !drive.is_cdrom()).collect();
    let of_snapshot = call.args.get("snapname").is_some();
    let has = match call.args.text("feature") {
        "clone" => {
            disks.iter().all(|drive| super::clone::has_feature(world, drive.file(), false, of_snapshot))
        }
        "snapshot" => super::snapshot::can_snapshot(world, vmid),
        _ => disks.iter().all(|drive| super::clone::has_feature(world, drive.file(), true, of_snapshot)),
    };
    let reachable = |node: &&String| {
        let mut storages = disks.iter().filter_map(|drive| crate::storage::split_volid(drive.file()));
        **node == call.node
            || storages
                .all(|(id, _)| world.storage(id).is_ok_and(|storage| storage.shared && storage.on(node)))
    };
    let nodes: Vec<&String> = world.nodes.keys().filter(reachable).collect();
    Ok(json!({"hasFeature": u8::from(has), "nodes": nodes}))
}
