//! Hosts: what they are, and the calls under them that are not about VMs.

use serde_json::{Value, json};

use super::{Call, cluster, storage, subdirs, tasks, transfer, unknown, version};
use crate::access::Caller;
use crate::qemu::machine::REVISIONS;
use crate::reply::{Answer, ApiError};
use crate::schema::cpu_models;
use crate::world::World;

pub(crate) fn dispatch(world: &mut World, method: &str, template: &str, call: &Call) -> Answer {
    let Some(rest) = template.strip_prefix("/nodes/{node}") else {
        return Ok(list(world, call));
    };
    if let Some(rest) = rest.strip_prefix("/storage") {
        return storage::on_node(world, method, rest, call);
    }
    match (method, rest) {
        ("GET", "") => Ok(index()),
        ("GET", "/version") => Ok(version(world, &call.node)),
        ("GET", "/status") => Ok(status(world, call)),
        ("GET", "/time") => Ok(time(world)),
        ("GET", "/network") => Ok(network(world, call)),
        ("GET", "/network/{iface}") => interface(world, call),
        ("GET", "/hardware/usb" | "/lxc") => Ok(json!([])),
        ("GET", "/dns") => {
            Ok(json!({"dns1": world.nodes.get(&call.node).map(|node| node.name_server.clone())}))
        }
        ("GET", "/hardware") => Ok(subdirs("type", "pci usb")),
        ("GET", "/hardware/pci") => Ok(pci(world, call)),
        ("GET", "/capabilities") => Ok(subdirs("name", "qemu")),
        ("GET", "/capabilities/qemu") => Ok(subdirs("name", "cpu cpu-flags machines migration")),
        ("GET", "/capabilities/qemu/cpu") => Ok(cpus()),
        ("GET", "/capabilities/qemu/machines") => Ok(machines(world)),
        ("GET", "/vzdump/defaults") => Ok(backup_defaults()),
        ("GET", "/query-url-metadata") => transfer::url_metadata(world, call),
        ("GET", "/tasks") => Ok(tasks::list(world, call)),
        ("GET", "/tasks/{upid}") => Ok(subdirs("name", "log status")),
        ("GET", "/tasks/{upid}/status") => tasks::status(world, call),
        ("GET", "/tasks/{upid}/log") => tasks::log(world, call),
        ("DELETE", "/tasks/{upid}") => tasks::stop(world, call),
        _ => unknown(method, template),
    }
}

fn index() -> Value {
    subdirs(
        "name",
        "aplinfo apt capabilities ceph certificates config disks dns firewall hardware hosts journal lxc migrateall netstat \
         network qemu query-oci-repo-tags query-url-metadata replication report rrd rrddata scan sdn services spiceshell \
         startall status stopall storage subscription suspendall syslog tasks termproxy time version vncshell vzdump wakeonlan",
    )
}

fn list(world: &World, call: &Call) -> Value {
    let shown = world.nodes.iter().map(|(name, node)| {
        let mut entry = cluster::node_entry(world, call, name);
        entry["ssl_fingerprint"] = json!(node.fingerprint);
        entry
    });
    shown.collect()
}

/// Hosts agree on the time of day, and keep it in UTC.
fn time(world: &World) -> Value {
    json!({"time": world.unix(), "localtime": world.unix(), "timezone": "UTC"})
}

fn status(world: &World, call: &Call) -> Value {
    let Some(node) = world.nodes.get(&call.node) else { return Value::Null };
    let used = node.memory / 16;
    let disk = 1_u64 << 30;
    let kernel = world.known_release().kernel;
    json!({
        "cpu": 0.05, "idle": 0, "wait": 0, "uptime": world.clock / 1000, "loadavg": ["0.10", "0.08", "0.05"],
        "kversion": format!("Linux {kernel} #1 SMP PREEMPT_DYNAMIC"),
        "current-kernel": {"sysname": "Linux", "release": kernel, "version": "#1 SMP PREEMPT_DYNAMIC", "machine": "x86_64"},
        "boot-info": {"mode": "efi"},
        "pveversion": format!("pve-manager/{}/{}", world.version_of(&call.node), world.repoid),
        "cpuinfo": {
            "cores": node.cpus, "cpus": node.cpus, "sockets": 1, "model": "QEMU Virtual CPU", "vendor": "AuthenticAMD",
            "family": "25", "flags": "fpu sse sse2 svm aes", "hvm": "1", "mhz": "2600.000", "user_hz": 100,
        },
        "ksm": {"shared": 0},
        "memory": {"total": node.memory, "used": used, "free": node.memory.saturating_sub(used), "available": node.memory.saturating_sub(used)},
        "swap": {"total": 0, "used": 0, "free": 0},
        "rootfs": {"total": node.disk, "used": disk, "free": node.disk.saturating_sub(disk), "avail": node.disk.saturating_sub(disk)},
    })
}

/// Interfaces; a bridge only for those who may use or see it.
fn network(world: &World, call: &Call) -> Value {
    let Some(node) = world.nodes.get(&call.node) else { return json!([]) };
    let kind = call.args.get("type");
    let mut all: Vec<Value> = Vec::new();
    if kind.is_none_or(|kind| kind == "eth") {
        all.extend(node.interfaces.iter().map(|name| {
            json!({
                "iface": name, "type": "eth", "active": 1, "exists": 1, "method": "manual", "method6": "manual",
                "families": ["inet"], "priority": 3,
            })
        }));
    }
    if kind.is_none_or(|kind| matches!(kind, "bridge" | "any_bridge" | "any_local_bridge")) {
        let visible = node.bridges.iter().filter(|name| world.may_see_bridge(&call.caller, name));
        all.extend(visible.map(|name| {
            json!({
                "iface": name, "type": "bridge", "active": 1, "autostart": 1, "method": "manual", "method6": "manual",
                "families": ["inet"], "priority": 4, "bridge_ports": "", "bridge_stp": "off", "bridge_fd": "0",
            })
        }));
    }
    Value::Array(all)
}

impl World {
    /// A privilege on the bridge, or on one of its VLANs.
    fn may_see_bridge(&self, caller: &Caller, bridge: &str) -> bool {
        let path = format!("/sdn/zones/localnetwork/{bridge}");
        let below = format!("{path}/");
        let vlans = self.access.acl.iter().map(|entry| &entry.path).filter(|entry| entry.starts_with(&below));
        std::iter::once(&path).chain(vlans).any(|path| {
            let held = self.privileges(caller, path);
            ["SDN.Audit", "SDN.Use", "SDN.Allocate"].iter().any(|privilege| held.contains_key(*privilege))
        })
    }
}

fn interface(world: &World, call: &Call) -> Answer {
    let name = call.args.text("iface");
    let all = network(world, call);
    let found = all.as_array().into_iter().flatten().find(|entry| entry["iface"] == name).cloned();
    found.ok_or_else(|| ApiError::parameter("iface", "interface does not exist"))
}

fn pci(world: &World, call: &Call) -> Value {
    let devices = world.nodes.get(&call.node).into_iter().flat_map(|node| &node.pci);
    let shown = devices.map(|device| {
        json!({
            "id": device.address, "class": device.class, "vendor": device.vendor, "device": device.device,
            "subsystem_vendor": device.vendor, "subsystem_device": device.device, "iommugroup": device.iommu_group,
        })
    });
    shown.collect()
}

fn cpus() -> Value {
    let shown = cpu_models().iter().map(|(name, vendor)| {
        let mut entry = json!({"name": name, "vendor": vendor, "custom": 0});
        if name.starts_with("x86-64-") {
            entry["abstract"] = json!(1);
        }
        entry
    });
    shown.collect()
}

/// Machine versions, newest first; `+pveN` where PVE changed something of its own.
fn machines(world: &World) -> Value {
    // No newer than the QEMU that is there.
    let mut versions: Vec<String> = ["10.0"]
        .iter()
        .filter(|one| world.known_release().qemu.starts_with(*one))
        .map(|one| (*one).to_owned())
        .collect();
    versions
        .extend((4..=9).rev().flat_map(|major| (0..=2).rev().map(move |minor| format!("{major}.{minor}"))));
    versions.extend(["3.1", "3.0"].map(str::to_owned));
    versions.extend((4..=12).rev().map(|minor| format!("2.{minor}")));
    let mut all = Vec::new();
    for version in versions {
        for (_, own, changes) in REVISIONS.iter().filter(|(of, _, _)| *of == version) {
            for kind in ["i440fx", "q35"] {
                let full = format!("{version}+pve{own}");
                all.push(json!({"id": format!("pc-{kind}-{full}"), "type": kind, "version": full, "changes": changes}));
            }
        }
        for kind in ["i440fx", "q35"] {
            all.push(json!({"id": format!("pc-{kind}-{version}"), "type": kind, "version": version}));
        }
    }
    Value::Array(all)
}

fn backup_defaults() -> Value {
    json!({
        "all": 0, "bwlimit": 0, "compress": "0", "dumpdir": "/var/lib/vz/dump", "fleecing": {"enabled": 0}, "ionice": 7,
        "lockwait": 180, "mailnotification": "always", "mode": "snapshot", "notification-mode": "auto",
        "performance": {"max-workers": 16, "pbs-entries-max": 1_048_576}, "pigz": 0, "prune-backups": "keep-all=1",
        "quiet": 0, "remove": 1, "stdexcludes": 1, "stop": 0, "stopwait": 10, "storage": "local", "zstd": 1,
    })
}
