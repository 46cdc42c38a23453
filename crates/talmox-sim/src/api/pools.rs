//! Pools of VMs and storages.

use serde_json::{Value, json};

use super::access::need_user_file;
use super::{Call, unknown};
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::world::{Pool, World};

pub(crate) fn dispatch(world: &mut World, method: &str, template: &str, call: &Call) -> Answer {
    match (method, template) {
        ("GET", "/pools") => list(world, call),
        ("GET", _) => read(world, call),
        ("POST", _) => create(world, call),
        ("PUT", _) => update(world, call),
        ("DELETE", _) => delete(world, call),
        _ => unknown(method, template),
    }
}

fn list(world: &World, call: &Call) -> Answer {
    // Who names a pool is told of it without any right.
    if let Some(id) = call.args.get("poolid") {
        let mut shown = read(world, call)?;
        shown["poolid"] = json!(id);
        return Ok(json!([shown]));
    }
    let visible =
        world.pools.iter().filter(|(id, _)| world.may(&call.caller, &format!("/pool/{id}"), "Pool.Audit"));
    let shown = visible.map(|(id, pool)| {
        let mut entry = json!({"poolid": id});
        if let Some(comment) = &pool.comment {
            entry["comment"] = json!(comment);
        }
        entry
    });
    Ok(shown.collect())
}

fn read(world: &World, call: &Call) -> Answer {
    let id = call.args.text("poolid");
    let pool = world.pools.get(id).ok_or_else(|| ApiError::plain(format!("pool '{id}' does not exist")))?;
    let kind = call.args.get("type");
    let wanted = |name: &str| kind.is_none_or(|kind| kind == name);
    let mut members: Vec<Value> = Vec::new();
    if wanted("qemu") {
        members.extend(pool.vms.iter().filter_map(|vmid| super::cluster::vm_entry(world, *vmid)).map(
            |mut entry| {
                for key in ["tags", "lock", "pool"] {
                    entry.remove(key);
                }
                Value::Object(entry)
            },
        ));
    }
    if wanted("storage") {
        for storage in &pool.storages {
            let nodes = world.nodes.keys();
            members.extend(nodes.filter_map(|node| super::cluster::storage_entry(world, storage, node)));
        }
    }
    let mut shown = json!({"poolid": id, "members": members});
    if let Some(comment) = &pool.comment {
        shown["comment"] = json!(comment);
    }
    Ok(shown)
}

fn create(world: &mut World, call: &Call) -> Answer {
    need_user_file(world, "create pool failed: ")?;
    let id = call.args.text("poolid").to_owned();
    if world.pools.contains_key(&id) {
        return Err(ApiError::plain(format!("create pool failed: pool '{id}' already exists")));
    }
    if let Some((parent, _)) = id.rsplit_once('/').filter(|(parent, _)| !world.pools.contains_key(*parent)) {
        return Err(ApiError::plain(format!(
            "create pool failed: parent '{parent}' of pool '{id}' does not exist"
        )));
    }
    let comment = call.args.get("comment").map(str::to_owned);
    world.pools.insert(id, Pool { comment, ..Pool::default() });
    Ok(Value::Null)
}

fn update(world: &mut World, call: &Call) -> Answer {
    need_user_file(world, "update pools failed: ")?;
    let fail = |text: String| Err(ApiError::plain(format!("update pools failed: {text}")));
    let id = call.args.text("poolid").to_owned();
    if !world.pools.contains_key(&id) {
        return fail(format!("pool '{id}' does not exist"));
    }
    let remove = call.args.flag("delete");
    let vms: Vec<u32> = split_list(call.args.text("vms")).filter_map(|text| text.parse().ok()).collect();
    for vmid in vms {
        // A refusal inside the locked part comes out wrapped, and as 500.
        if let Err(error) = world.need_modify(&call.caller, &format!("/vms/{vmid}")) {
            return fail(error.text());
        }
        let owner =
            world.pools.iter().find(|(_, pool)| pool.vms.contains(&vmid)).map(|(name, _)| name.clone());
        match owner {
            Some(owner) if owner == id && !remove => {
                return fail(format!("VM {vmid} is already a pool member"));
            }
            Some(owner) if owner != id && !remove && !call.args.flag("allow-move") => {
                return fail(format!(
                    "VM {vmid} belongs already to pool '{owner}' and 'allow-move' is not set"
                ));
            }
            owner if remove && owner.as_deref() != Some(&id) => {
                return fail(format!("VM {vmid} is not a pool member"));
            }
            _ => {}
        }
        for pool in world.pools.values_mut() {
            pool.vms.remove(&vmid);
        }
        if let Some(pool) = world.pools.get_mut(&id).filter(|_| !remove) {
            pool.vms.insert(vmid);
        }
    }
    for storage in split_list(call.args.text("storage")) {
        if let Err(error) = world.need_modify(&call.caller, &format!("/storage/{storage}")) {
            return fail(error.text());
        }
        let Some(pool) = world.pools.get_mut(&id) else { break };
        let member = pool.storages.contains(storage);
        match (remove, member) {
            (false, true) => return fail(format!("Storage '{storage}' is already a pool member")),
            (true, false) => return fail(format!("Storage '{storage}' is not a pool member")),
            (false, false) => {
                pool.storages.insert(storage.to_owned());
            }
            (true, true) => {
                pool.storages.remove(storage);
            }
        }
    }
    if let (Some(comment), Some(pool)) = (call.args.get("comment"), world.pools.get_mut(&id)) {
        pool.comment = Some(comment.to_owned());
    }
    Ok(Value::Null)
}

fn delete(world: &mut World, call: &Call) -> Answer {
    need_user_file(world, "delete pool failed: ")?;
    let fail = |text: String| Err(ApiError::plain(format!("delete pool failed: {text}")));
    let id = call.args.text("poolid").to_owned();
    let Some(pool) = world.pools.get(&id) else { return fail(format!("pool '{id}' does not exist")) };
    if let Some(vmid) = pool.vms.iter().find(|vmid| world.vms.contains_key(vmid)) {
        return fail(format!("pool '{id}' is not empty (contains VM {vmid})"));
    }
    if let Some(storage) = pool.storages.iter().next() {
        return fail(format!("pool '{id}' is not empty (contains storage '{storage}')"));
    }
    if world.pools.keys().any(|other| other.starts_with(&format!("{id}/"))) {
        return fail(format!("pool '{id}' is not empty (contains pools)"));
    }
    world.pools.remove(&id);
    Ok(Value::Null)
}
