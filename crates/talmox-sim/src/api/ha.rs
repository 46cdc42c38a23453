//! High availability: resources and rules. What the manager makes of them is its own business.

mod groups;
mod status;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Call, subdirs, unknown};
use crate::files::sha1_hex;
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::world::World;

pub(crate) fn dispatch(world: &mut World, method: &str, rest: &str, call: &Call) -> Answer {
    match (method, rest) {
        ("GET", "") if world.has(Change::HaRules) => Ok(subdirs("id", "status resources groups rules")),
        ("GET", "") => Ok(subdirs("id", "status resources groups")),
        ("GET", "/status") => Ok(subdirs("name", "current manager_status disarm-ha arm-ha")),
        ("GET", "/status/current") => Ok(status::current(world, call)),
        ("GET", "/status/manager_status") => Ok(status::manager(world, call)),
        (_, "/groups" | "/groups/{group}") if groups::have_become_rules(world) => no_groups(method, rest),
        (_, "/groups" | "/groups/{group}") => groups::act(world, method, rest, call),
        ("GET", "/resources") => Ok(resources(world, call)),
        ("POST", "/resources") => add_resource(world, call),
        ("GET", "/resources/{sid}") => resource(world, call),
        ("PUT", "/resources/{sid}") => set_resource(world, call),
        ("DELETE", "/resources/{sid}") => remove_resource(world, call),
        ("POST", _) if rest.starts_with("/resources/") => move_resource(world, call),
        ("GET", "/rules") => Ok(rules(world, call)),
        ("POST", "/rules") => add_rule(world, call),
        ("GET", "/rules/{rule}") => rule(world, call),
        ("PUT", "/rules/{rule}") => set_rule(world, call),
        ("DELETE", "/rules/{rule}") => Ok(remove_rule(world, call)),
        _ => unknown(method, rest),
    }
}

impl World {
    pub(crate) fn ha_state(&self, vmid: u32) -> Value {
        match self.ha_resources.get(&format!("vm:{vmid}")) {
            Some(_) if self.ha_active() && self.ha_failed(&format!("vm:{vmid}"), vmid) => {
                json!({"managed": 1, "state": "error"})
            }
            Some(entry) if self.ha_active() => {
                json!({"managed": 1, "state": entry.get("state").map_or("started", String::as_str)})
            }
            Some(_) => json!({"managed": 1, "state": null}),
            None => json!({"managed": 0}),
        }
    }

    /// The manager sleeps until there is something to manage, and takes a while to look around.
    pub(crate) fn ha_active(&self) -> bool {
        self.ha_manager && self.ha_since.is_some_and(|since| self.clock >= since + MANAGER_WAKES)
    }
}

fn no_groups(method: &str, rest: &str) -> Answer {
    let what = match (method, rest) {
        ("GET", "/groups") => "index groups",
        ("GET", _) => "read group",
        ("POST", _) => "create group",
        ("PUT", _) => "update group",
        _ => "delete group",
    };
    Err(ApiError::plain(format!("cannot {what}: ha groups have been migrated to rules")))
}

/// Milliseconds from the first resource to a manager that knows its hosts.
const MANAGER_WAKES: u64 = 10_000;

/// A resource may be named by its VM's id alone.
fn sid_of(call: &Call) -> String {
    let sid = call.args.text("sid");
    if sid.contains(':') { sid.to_owned() } else { format!("vm:{sid}") }
}

fn digest(world: &World) -> String {
    sha1_hex(&format!("{:?}", world.ha_resources))
}

/// Numbers come back as numbers.
fn shown(entry: &BTreeMap<String, String>) -> Map<String, Value> {
    let value = |text: &String| text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
    entry.iter().map(|(key, text)| (key.clone(), value(text))).collect()
}

fn shown_resource(world: &World, sid: &str, entry: &BTreeMap<String, String>) -> Value {
    let mut shown = shown(entry);
    shown.insert("sid".into(), json!(sid));
    shown.insert("type".into(), json!(sid.split(':').next().unwrap_or_default()));
    shown.insert("digest".into(), json!(digest(world)));
    Value::Object(shown)
}

fn resources(world: &World, call: &Call) -> Value {
    let kind = call.args.get("type");
    let wanted = world.ha_resources.iter().filter(|(sid, _)| kind.is_none_or(|kind| sid.starts_with(kind)));
    wanted.map(|(sid, entry)| shown_resource(world, sid, entry)).collect()
}

fn resource(world: &World, call: &Call) -> Answer {
    let sid = sid_of(call);
    let missing = || ApiError::plain(format!("no such resource '{sid}'"));
    Ok(shown_resource(world, &sid, world.ha_resources.get(&sid).ok_or_else(missing)?))
}

const RESOURCE_KEYS: [&str; 6] = ["comment", "failback", "group", "max_relocate", "max_restart", "state"];

fn fields(call: &Call, keys: &[&str]) -> BTreeMap<String, String> {
    keys.iter().filter_map(|key| Some(((*key).to_owned(), call.args.get(key)?.to_owned()))).collect()
}

fn add_resource(world: &mut World, call: &Call) -> Answer {
    let sid = sid_of(call);
    groups::check(world, call)?;
    let vmid: Option<u32> = sid.split_once(':').and_then(|(_, id)| id.parse().ok());
    if !vmid.is_some_and(|vmid| world.vms.contains_key(&vmid)) {
        return Err(ApiError::plain(format!("resource '{sid}' does not exist in cluster")));
    }
    if !world.quorate() {
        return Err(ApiError::plain(
            "create resource failed: cfs-lock 'file-ha_resources_cfg' error: no quorum!",
        ));
    }
    if world.ha_resources.contains_key(&sid) {
        return Err(ApiError::plain(format!("create resource failed: resource ID '{sid}' already defined")));
    }
    world.ha_resources.insert(sid, fields(call, &RESOURCE_KEYS));
    world.wake_ha(MANAGER_WAKES);
    Ok(Value::Null)
}

fn set_resource(world: &mut World, call: &Call) -> Answer {
    let sid = sid_of(call);
    groups::check(world, call)?;
    let Some(entry) = world.ha_resources.get_mut(&sid) else {
        return Err(ApiError::plain(format!("update resource failed: no such resource '{sid}'")));
    };
    entry.extend(fields(call, &RESOURCE_KEYS));
    for key in split_list(call.args.text("delete")) {
        entry.remove(key);
    }
    // Another wish, another try.
    world.ha_tries.remove(&sid);
    Ok(Value::Null)
}

fn remove_resource(world: &mut World, call: &Call) -> Answer {
    let sid = sid_of(call);
    if world.ha_resources.remove(&sid).is_none() {
        return Err(ApiError::plain(format!("cannot delete service '{sid}', not HA managed!")));
    }
    Ok(Value::Null)
}

fn move_resource(world: &mut World, call: &Call) -> Answer {
    let sid = sid_of(call);
    if !world.ha_resources.contains_key(&sid) {
        return Err(ApiError::plain(format!("no such resource '{sid}'")));
    }
    let node = call.args.text("node");
    if !world.nodes.contains_key(node) {
        return Err(ApiError::plain(format!("no such cluster node '{node}'")));
    }
    let mut reply = json!({"sid": sid, "requested-node": node});
    let blocking = kept_apart(world, &sid, node);
    if !blocking.is_empty() {
        let entries = blocking.iter().map(|sid| json!({"sid": sid, "cause": "resource-affinity"}));
        reply["blocking-resources"] = entries.collect();
    } else if let Some(vmid) = crate::ha::vm_of(&sid).filter(|_| world.ha_active()) {
        crate::qemu::migrate::move_for_ha(world, vmid, node);
    }
    Ok(reply)
}

/// Resources on that host which a rule keeps apart from this one.
pub(crate) fn kept_apart(world: &World, sid: &str, node: &str) -> Vec<String> {
    let apart =
        world.ha_rules.values().filter(|rule| rule.get("affinity").is_some_and(|kind| kind == "negative"));
    let lists = apart.filter_map(|rule| rule.get("resources"));
    let mut found = Vec::new();
    for list in lists.filter(|list| split_list(list).any(|item| item == sid)) {
        let there = |other: &&str| {
            let vmid = other.split_once(':').and_then(|(_, id)| id.parse::<u32>().ok());
            *other != sid && vmid.and_then(|vmid| world.vms.get(&vmid)).is_some_and(|vm| vm.node == node)
        };
        found.extend(split_list(list).filter(there).map(str::to_owned));
    }
    found
}

fn shown_rule(world: &World, id: &str, entry: &BTreeMap<String, String>) -> Value {
    let mut shown = shown(entry);
    let order = world.rules_in_force().keys().position(|other| other == id).unwrap_or_default() + 1;
    shown.insert("rule".into(), json!(id));
    shown.insert("order".into(), json!(order));
    shown.insert("digest".into(), json!(sha1_hex(&format!("{:?}", world.ha_rules))));
    Value::Object(shown)
}

fn rules(world: &World, call: &Call) -> Value {
    let kind = call.args.get("type");
    let resource = call.args.get("resource");
    let all = world.rules_in_force();
    let wanted = all.iter().filter(|(_, entry)| {
        let of_kind = kind.is_none_or(|kind| entry.get("type").is_some_and(|own| own == kind));
        let holds =
            |sid: &str| entry.get("resources").is_some_and(|list| split_list(list).any(|item| item == sid));
        of_kind && resource.is_none_or(holds)
    });
    wanted.map(|(id, entry)| shown_rule(world, id, entry)).collect()
}

fn rule(world: &World, call: &Call) -> Answer {
    let id = call.args.text("rule");
    let missing = || ApiError::plain(format!("no such ha rule '{id}'"));
    Ok(shown_rule(world, id, world.rules_in_force().get(id).ok_or_else(missing)?))
}

const RULE_KEYS: [&str; 7] = ["affinity", "comment", "disable", "nodes", "resources", "strict", "type"];

/// Why a rule could never be kept.
fn rule_faults(world: &World, entry: &BTreeMap<String, String>) -> Option<String> {
    if entry.get("type").is_none_or(|kind| kind != "resource-affinity") {
        return None;
    }
    let count = entry.get("resources").map_or(0, |list| split_list(list).count());
    let apart = entry.get("affinity").is_some_and(|affinity| affinity == "negative");
    let mut faults = Vec::new();
    if count < 2 {
        faults.push("rule is ineffective as there are less than two resources");
    }
    // A manager that still sleeps knows of no host at all.
    let hosts = if world.ha_active() { world.nodes.len() } else { 0 };
    if apart && count > hosts {
        faults.push("rule defines more resources than available nodes");
    }
    (!faults.is_empty()).then(|| faults.join(", "))
}

fn check_rule(
    world: &World,
    id: &str,
    entry: &BTreeMap<String, String>,
    failed: &str,
) -> Result<(), ApiError> {
    let Some(faults) = rule_faults(world, entry) else { return Ok(()) };
    Err(ApiError::plain(format!("{failed}: 400 Rule '{id}' is invalid.\nresources: {faults}\n")))
}

/// Rules are not touched while there are groups, and speak of resources and hosts that are there.
fn check_subjects(world: &World, call: &Call, verb: &str, failed: &str) -> Result<(), ApiError> {
    if !world.ha_groups.is_empty() {
        return Err(ApiError::plain(format!("cannot {verb} ha rule: ha groups have not been migrated yet")));
    }
    let missing = |key: &str, known: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let mut names: Vec<&str> =
            split_list(call.args.get(key).unwrap_or_default()).filter(|name| !known(name)).collect();
        names.sort_unstable();
        names
    };
    let resources = missing("resources", &|sid| world.ha_resources.contains_key(sid));
    let nodes =
        missing("nodes", &|node| world.nodes.contains_key(node.split(':').next().unwrap_or_default()));
    let fail = |what: &str, names: &[&str]| {
        Err(ApiError::plain(format!("{failed}: cannot use {what} {}.", names.join(", "))))
    };
    if !resources.is_empty() {
        return fail("unmanaged resource(s)", &resources);
    }
    if nodes.is_empty() { Ok(()) } else { fail("non-existant node(s)", &nodes) }
}

fn add_rule(world: &mut World, call: &Call) -> Answer {
    let id = call.args.text("rule").to_owned();
    if world.ha_rules.contains_key(&id) {
        return Err(ApiError::plain(format!("create ha rule failed: HA rule '{id}' already defined")));
    }
    check_subjects(world, call, "create", "create ha rule failed")?;
    let entry = fields(call, &RULE_KEYS);
    check_rule(world, &id, &entry, "create ha rule failed")?;
    world.ha_rules.insert(id, entry);
    Ok(Value::Null)
}

fn set_rule(world: &mut World, call: &Call) -> Answer {
    let id = call.args.text("rule").to_owned();
    let missing = || ApiError::plain(format!("update HA rules failed: HA rule '{id}' does not exist"));
    let mut entry = world.ha_rules.get(&id).cloned().ok_or_else(missing)?;
    check_subjects(world, call, "update", "update HA rules failed")?;
    entry.extend(fields(call, &RULE_KEYS));
    for key in split_list(call.args.text("delete")) {
        entry.remove(key);
    }
    check_rule(world, &id, &entry, "update HA rules failed")?;
    world.ha_rules.insert(id, entry);
    Ok(Value::Null)
}

fn remove_rule(world: &mut World, call: &Call) -> Value {
    world.ha_rules.remove(call.args.text("rule"));
    Value::Null
}
