//! HA groups: hosts with priorities, of the time before there were rules. They become rules once every host of the cluster
//! knows those; until then hosts of both kinds keep the groups, and nobody makes rules.

use std::collections::BTreeMap;

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
    let missing = |what: &str| ApiError::plain(format!("{what}no such ha group '{id}'"));
    match (method, rest) {
        ("GET", "/groups") => Ok(world.ha_groups.keys().map(|id| entry(world, id)).collect()),
        ("GET", _) if world.ha_groups.contains_key(&id) => Ok(entry(world, &id)),
        ("GET", _) => Err(missing("")),
        ("POST", _) if world.ha_groups.contains_key(&id) => {
            Err(ApiError::plain(format!("create ha group failed: ha group ID '{id}' already defined")))
        }
        ("POST", _) => {
            world.ha_groups.insert(id, fields(call, &KEYS));
            Ok(Value::Null)
        }
        ("PUT", _) => {
            let failed = missing("update ha group failed: ");
            let group = world.ha_groups.get_mut(&id).ok_or(failed)?;
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
        return Err(ApiError::plain(format!("delete ha group failed: ha group is used by service '{sid}'")));
    }
    world.ha_groups.remove(id);
    Ok(Value::Null)
}

fn entry(world: &World, id: &str) -> Value {
    let mut entry = Value::Object(world.ha_groups.get(id).map(shown).unwrap_or_default());
    entry["group"] = json!(id);
    entry["type"] = json!("group");
    entry["digest"] = json!(sha1_hex(&format!("{:?}", world.ha_groups)));
    entry
}

/// A resource may only name a group that is there, where there are groups.
pub(super) fn check(world: &World, call: &Call) -> Result<(), ApiError> {
    match call.args.get("group") {
        Some(_) if have_become_rules(world) => {
            Err(ApiError::plain("invalid parameter 'group': ha groups have been migrated to rules"))
        }
        Some(group) if !world.ha_groups.contains_key(group) => {
            Err(ApiError::plain(format!("ha group '{group}' does not exist")))
        }
        _ => Ok(()),
    }
}

/// A host that knows rules takes a cluster without groups for one whose groups have become rules.
pub(super) fn have_become_rules(world: &World) -> bool {
    world.has(Change::HaRules) && world.ha_groups.is_empty()
}

impl World {
    /// The rules, and the groups as the rules they are going to be.
    pub(crate) fn rules_in_force(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut rules = self.ha_rules.clone();
        for (id, group) in &self.ha_groups {
            let member = |entry: &BTreeMap<String, String>| entry.get("group") == Some(id);
            let members = self.ha_resources.iter().filter(|(_, entry)| member(entry));
            let members: Vec<&str> = members.map(|(sid, _)| sid.as_str()).collect();
            if members.is_empty() {
                continue;
            }
            let own = [("nodes", "nodes"), ("restricted", "strict"), ("comment", "comment")];
            let own = own.iter().filter_map(|(from, to)| Some(((*to).to_owned(), group.get(*from)?.clone())));
            let mut rule: BTreeMap<String, String> = own.collect();
            rule.insert("type".into(), "node-affinity".into());
            rule.insert("resources".into(), members.join(","));
            rules.insert(format!("ha-group-{id}"), rule);
        }
        rules
    }

    /// What the manager does once the last host knows rules.
    pub(crate) fn migrate_groups(&mut self) {
        if self.ha_groups.is_empty() || !self.all_have(Change::HaRules) {
            return;
        }
        self.ha_rules = self.rules_in_force();
        for entry in self.ha_resources.values_mut() {
            let Some(group) = entry.remove("group").and_then(|id| self.ha_groups.get(&id)) else { continue };
            let stays = group.get("nofailback").is_some_and(|flag| flag == "1");
            entry.insert("failback".into(), u8::from(!stays).to_string());
        }
        self.ha_groups.clear();
    }
}
