//! HA groups: hosts with priorities, of the time before there were rules.

use serde_json::{Value, json};

use super::{Call, fields, shown};
use crate::files::sha1_hex;
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::world::World;

const KEYS: [&str; 4] = ["comment", "nodes", "nofailback", "restricted"];

pub(super) fn act(world: &mut World, method: &str, rest: &str, call: &Call) -> Answer {
    let id = call.args.text("group").to_owned();
    let missing = || ApiError::plain(format!("no such ha group '{id}'"));
    match (method, rest) {
        ("GET", "/groups") => Ok(world.ha_groups.keys().map(|id| entry(world, id)).collect()),
        ("GET", _) if world.ha_groups.contains_key(&id) => Ok(entry(world, &id)),
        ("GET", _) => Err(missing()),
        ("POST", _) if world.ha_groups.contains_key(&id) => {
            Err(ApiError::plain(format!("create ha group failed: ha group ID '{id}' already defined")))
        }
        ("POST", _) => {
            world.ha_groups.insert(id, fields(call, &KEYS));
            Ok(Value::Null)
        }
        ("PUT", _) => {
            let group = world.ha_groups.get_mut(&id).ok_or_else(missing)?;
            group.extend(fields(call, &KEYS));
            split_list(call.args.text("delete")).for_each(|key| drop(group.remove(key)));
            Ok(Value::Null)
        }
        _ => remove(world, &id),
    }
}

fn remove(world: &mut World, id: &str) -> Answer {
    let user =
        world.ha_resources.iter().find(|(_, entry)| entry.get("group").is_some_and(|group| group == id));
    if let Some((sid, _)) = user {
        return Err(ApiError::plain(format!("delete ha group failed: ha group is used by resource '{sid}'")));
    }
    let gone = world.ha_groups.remove(id);
    gone.map(|_| Value::Null)
        .ok_or_else(|| ApiError::plain(format!("delete ha group failed: no such ha group '{id}'")))
}

fn entry(world: &World, id: &str) -> Value {
    let mut entry = Value::Object(world.ha_groups.get(id).map(shown).unwrap_or_default());
    entry["group"] = json!(id);
    entry["type"] = json!("group");
    entry["digest"] = json!(sha1_hex(&format!("{:?}", world.ha_groups)));
    entry
}

/// A resource may only name a group that is there.
pub(super) fn check(world: &World, call: &Call) -> Result<(), ApiError> {
    match call.args.get("group") {
        Some(group) if !world.has(Change::HaRules) && !world.ha_groups.contains_key(group) => {
            Err(ApiError::plain(format!("ha group '{group}' does not exist")))
        }
        _ => Ok(()),
    }
}
