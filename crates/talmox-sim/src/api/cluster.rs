//! The cluster as a whole: what there is, where, and in what state.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Call, ha, mapping, subdirs, tasks, unknown};
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::schema::{self, split_list};
use crate::world::{Reach, World};

pub(crate) fn dispatch(world: &mut World, method: &str, template: &str, call: &Call) -> Answer {
    let rest = template.strip_prefix("/cluster").unwrap_or_default();
    if let Some(rest) = rest.strip_prefix("/ha") {
        return ha::dispatch(world, method, rest, call);
    }
    if let Some(rest) = rest.strip_prefix("/mapping") {
        return mapping::dispatch(world, method, rest, call);
    }
    match (method, rest) {
        ("GET", "") => Ok(subdirs(
            "name",
            "acme backup backup-info bulk-action ceph config firewall ha jobs log mapping metrics notifications nextid \
             options qemu replication resources status tasks sdn",
        )),
        ("GET", "/resources") => Ok(resources(world, call)),
        ("GET", "/nextid") => next_id(world, call),
        ("GET", "/status") => Ok(status(world, call)),
        ("GET", "/options") => Ok(options(world, call)),
        ("PUT", "/options") => set_options(world, call),
        ("GET", "/tasks") => Ok(tasks::of_cluster(world, call)),
        ("GET", "/log") => Ok(log(world, call)),
        ("GET", "/config") => Ok(subdirs("name", "nodes totem join qdevice apiversion")),
        ("GET", "/qemu") => Ok(subdirs("name", "cpu-flags custom-cpu-models")),
        ("GET", "/config/nodes") => Ok(config_nodes(world)),
        ("GET", "/config/join") => join_info(world),
        ("GET", "/backup") => Ok(backup_jobs(world)),
        ("GET", "/replication") => Ok(replication_jobs(world, call)),
        ("GET", "/sdn/zones" | "/sdn/vnets" | "/qemu/custom-cpu-models") => Ok(json!([])),
        _ => unknown(method, template),
    }
}

/// Options of a job as the reply has them: numbers are numbers.
fn job(id: &str, options: &BTreeMap<String, String>) -> Map<String, Value> {
    let value = |text: &String| text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
    let options = options.iter().map(|(key, text)| {
        (key.clone(), if matches!(key.as_str(), "vmid" | "exclude") { json!(text) } else { value(text) })
    });
    std::iter::once(("id".to_owned(), json!(id))).chain(options).collect()
}

fn backup_jobs(world: &World) -> Value {
    world.backup_jobs.iter().map(|(id, options)| Value::Object(job(id, options))).collect()
}

/// Only those of guests the caller may look at.
fn replication_jobs(world: &World, call: &Call) -> Value {
    let may_see = world.vm_right(&call.caller, "VM.Audit");
    let jobs = world.replication_jobs.iter().filter_map(|(id, options)| {
        let (guest, number) = id.split_once('-')?;
        let (guest, number): (u32, u32) = (guest.parse().ok()?, number.parse().ok()?);
        let mut entry = job(id, options);
        entry.insert("guest".into(), json!(guest));
        entry.insert("jobnum".into(), json!(number));
        entry.insert("type".into(), json!("local"));
        may_see(guest).then_some(Value::Object(entry))
    });
    jobs.collect()
}

/// A VM as the others know it: before its host's next broadcast that is little.
pub(crate) fn vm_entry(world: &World, vmid: u32) -> Option<Map<String, Value>> {
    let vm = world.vms.get(&vmid)?;
    let mut entry = Map::with_capacity(24);
    let mut put = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
    put("id", json!(format!("qemu/{vmid}")));
    put("type", json!("qemu"));
    put("vmid", json!(vmid));
    put("node", json!(vm.node));
    put("status", json!("unknown"));
    if let Some(stat) = &vm.stat {
        let uptime = if stat.running { (world.clock - stat.since.min(world.clock)) / 1000 } else { 0 };
        put("status", json!(if stat.running { "running" } else { "stopped" }));
        put("name", json!(stat.name));
        put("template", json!(u8::from(stat.template)));
        put("uptime", json!(uptime));
        put("maxcpu", json!(stat.cpus));
        put("maxmem", json!(stat.memory));
        put("maxdisk", json!(stat.disk));
        for figure in ["cpu", "mem", "disk", "netin", "netout", "diskread", "diskwrite"] {
            put(figure, json!(0));
        }
        if world.has(Change::NetworkResources) {
            put("memhost", json!(0));
        }
    }
    for key in ["tags", "lock"] {
        if let Some(text) = vm.config.get(key) {
            put(key, json!(text));
        }
    }
    if let Some((pool, _)) = world.pools.iter().find(|(_, pool)| pool.vms.contains(&vmid)) {
        put("pool", json!(pool));
    }
    if let Some(resource) = world.ha_resources.get(&format!("vm:{vmid}")) {
        put("hastate", json!(resource.get("state").map_or("started", String::as_str)));
    }
    Some(entry)
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

pub(crate) fn storage_entry(world: &World, id: &str, node: &str) -> Option<Value> {
    let storage = world.storage(id).ok().filter(|storage| storage.on(node) && !storage.disabled)?;
    let content: Vec<&str> = storage.content.iter().map(String::as_str).collect();
    let figures = world.figures(storage, node);
    Some(json!({
        "id": format!("storage/{node}/{id}"), "type": "storage", "storage": id, "node": node, "plugintype": storage.kind,
        "status": "available", "shared": u8::from(storage.shared), "content": content.join(","),
        "maxdisk": figures.total, "disk": figures.used,
    }))
}

/// A host; its figures only for those who may audit it, and only while it lives.
pub(crate) fn node_entry(world: &World, call: &Call, name: &str) -> Value {
    let Some(node) = world.nodes.get(name) else { return Value::Null };
    let online = name == call.contact || node.reach != Reach::Unreachable;
    let mut entry = json!({
        "id": format!("node/{name}"), "type": "node", "node": name, "level": "",
        "status": if online { "online" } else { "offline" },
    });
    if world.may(&call.caller, &format!("/nodes/{name}"), "Sys.Audit") {
        merge(&mut entry, json!({"maxcpu": node.cpus, "maxmem": node.memory, "maxdisk": node.disk}));
        if online {
            let mem = node.memory / 16;
            merge(
                &mut entry,
                json!({"cpu": 0.05, "mem": mem, "disk": 1 << 30, "uptime": world.clock / 1000}),
            );
        }
    }
    entry
}

fn resources(world: &World, call: &Call) -> Value {
    let kind = call.args.get("type");
    let wanted = |name: &str| kind.is_none_or(|kind| kind == name);
    let may = |path: &str, privilege: &str| world.may(&call.caller, path, privilege);
    let mut all: Vec<Value> = Vec::new();
    if kind.is_none() {
        let pools = world.pools.keys().filter(|id| may(&format!("/pool/{id}"), "Pool.Audit"));
        all.extend(pools.map(|id| json!({"id": format!("/pool/{id}"), "pool": id, "type": "pool"})));
    }
    if wanted("vm") {
        let may_see = world.vm_right(&call.caller, "VM.Audit");
        let visible = world.vms.keys().filter(|vmid| may_see(**vmid));
        let shown = visible.filter_map(|vmid| vm_entry(world, *vmid)).map(|mut entry| {
            // Which pool it is in is told to those who may look at the pool.
            let is_hidden =
                |pool: &Value| !may(&format!("/pool/{}", pool.as_str().unwrap_or_default()), "Pool.Audit");
            if entry.get("pool").is_some_and(is_hidden) {
                entry.remove("pool");
            }
            Value::Object(entry)
        });
        all.extend(shown);
    }
    if wanted("node") {
        all.extend(world.nodes.keys().map(|name| {
            let mut entry = node_entry(world, call, name);
            entry["cgroup-mode"] = json!(1);
            if world.ha_active() {
                entry["hastate"] = json!(if entry["status"] == "online" { "online" } else { "unknown" });
            }
            entry
        }));
    }
    if wanted("storage") {
        for storage in &world.storages {
            if may(&format!("/storage/{}", storage.id), "Datastore.Audit") {
                all.extend(world.nodes.keys().filter_map(|node| storage_entry(world, &storage.id, node)));
            }
        }
    }
    let sdn_path = "/sdn/zones/localnetwork";
    if wanted("sdn") && may(sdn_path, "SDN.Audit") {
        let new = world.has(Change::NetworkResources);
        all.extend(world.nodes.keys().map(|node| {
            if !new {
                return json!({
                    "id": format!("sdn/{node}/localnetwork"), "type": "sdn", "sdn": "localnetwork", "node": node,
                    "status": "ok",
                });
            }
            json!({
                "id": format!("network/{node}/zone/localnetwork"), "type": "network", "network": "localnetwork",
                "network-type": "zone", "node": node, "status": "ok",
            })
        }));
    }
    Value::Array(all)
}

fn next_id(world: &World, call: &Call) -> Answer {
    if let Some(vmid) = call.args.get("vmid") {
        if world.vms.contains_key(&call.vmid()) {
            return Err(ApiError::parameter("vmid", format!("VM {vmid} already exists")));
        }
        return Ok(json!(vmid));
    }
    let range =
        world.options.get("next-id").map(|text| schema::parse_as("opt-next-id", text)).unwrap_or_default();
    let bound =
        |name: &str, default: u32| range.get(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (low, high) = (bound("lower", 100), bound("upper", 1_000_000));
    let free = (low..high).find(|vmid| !world.vms.contains_key(vmid));
    let exhausted = || ApiError::plain(format!("unable to get any free VMID in range [{low}, {high}]"));
    free.map(|vmid| json!(vmid.to_string())).ok_or_else(exhausted)
}

fn status(world: &World, call: &Call) -> Value {
    let mut all = Vec::new();
    if let Some((name, version)) = &world.cluster {
        all.push(json!({
            "id": "cluster", "type": "cluster", "name": name, "version": version, "nodes": world.nodes.len(),
            "quorate": u8::from(world.quorate()),
        }));
    }
    for (name, node) in &world.nodes {
        let local = *name == call.contact;
        let nodeid = if world.cluster.is_some() { node.nodeid } else { 0 };
        all.push(json!({
            "id": format!("node/{name}"), "type": "node", "name": name, "ip": node.ip, "nodeid": nodeid, "level": "",
            "local": u8::from(local), "online": u8::from(local || node.reach != Reach::Unreachable),
        }));
    }
    Value::Array(all)
}

/// Options that are property strings come back taken apart.
fn options(world: &World, call: &Call) -> Value {
    let mut shown = Map::new();
    let full = world.may(&call.caller, "/", "Sys.Audit");
    for (key, text) in
        world.options.iter().filter(|(key, _)| full || matches!(key.as_str(), "console" | "tag-style"))
    {
        let format = format!("opt-{key}");
        let parsed = schema::parse_as(&format, text);
        let value = match key.as_str() {
            "registered-tags" => json!(split_list(text).collect::<Vec<_>>()),
            _ if !parsed.is_empty() => json!(parsed),
            _ => json!(text),
        };
        shown.insert(key.clone(), value);
    }
    if full {
        shown.entry("description").or_insert(json!(""));
        shown.entry("mac_prefix").or_insert(json!("BC:24:11"));
    }
    shown.insert("allowed-tags".into(), json!(world.allowed_tags(&call.caller).tags));
    Value::Object(shown)
}

fn set_options(world: &mut World, call: &Call) -> Answer {
    if !world.quorate() {
        return Err(ApiError::plain("cfs-lock 'file-datacenter_cfg' error: no quorum!"));
    }
    for (key, text) in &call.args.values {
        if key != "delete" {
            world.options.insert(key.clone(), text.clone());
        }
    }
    for key in split_list(call.args.text("delete")) {
        world.options.remove(key);
    }
    Ok(Value::Null)
}

fn log(world: &World, call: &Call) -> Value {
    let limit = call.args.int("max").and_then(|max| usize::try_from(max).ok()).unwrap_or(50);
    let audit = world.may(&call.caller, "/", "Sys.Syslog");
    let visible =
        world.journal.iter().enumerate().filter(|(_, entry)| audit || entry.user == call.caller.id());
    let newest = visible.rev().take(limit);
    let shown = newest.map(|(index, entry)| {
        json!({
            "uid": index.to_string(), "id": format!("{index}:{}", entry.node), "node": entry.node, "pid": entry.pid, "pri": 6,
            "tag": "pvedaemon", "time": entry.time, "user": entry.user, "msg": entry.message,
        })
    });
    shown.collect()
}

fn config_nodes(world: &World) -> Value {
    let members = world.nodes.iter().filter(|_| world.cluster.is_some());
    let shown = members.map(|(name, node)| {
        json!({"name": name, "node": name, "nodeid": node.nodeid.to_string(), "quorum_votes": "1", "ring0_addr": node.ip})
    });
    shown.collect()
}

fn join_info(world: &World) -> Answer {
    if world.cluster.is_none() {
        return Err(ApiError::Status(424, "node is not in a cluster, no join info available!".into()));
    }
    let nodes: Vec<Value> = world
        .nodes
        .iter()
        .map(|(name, node)| json!({"name": name, "nodeid": node.nodeid.to_string(), "pve_addr": node.ip, "pve_fp": node.fingerprint, "quorum_votes": "1", "ring0_addr": node.ip}))
        .collect();
    Ok(
        json!({"nodelist": nodes, "preferred_node": world.contact, "totem": {}, "config_digest": crate::files::sha1_hex("totem")}),
    )
}
