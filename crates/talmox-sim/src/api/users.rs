//! Users and groups of users.

use serde_json::{Map, Value, json};

use super::access::{need_user_file, shown_token};
use super::{Call, unknown};
use crate::access::{Caller, User};
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::world::World;

/// What is noted down of a user and only shown back.
const DETAILS: [&str; 5] = ["firstname", "lastname", "email", "comment", "keys"];

pub(super) fn dispatch(world: &mut World, method: &str, template: &str, call: &Call) -> Answer {
    match method {
        "GET" if template == "/access/users" => Ok(list(world, call)),
        "GET" => read(world, call),
        "POST" => create(world, call),
        "PUT" => update(world, call),
        "DELETE" => remove(world, call),
        _ => unknown(method, template),
    }
}

fn cares(world: &World, caller: &Caller, path: &str, privileges: &[&str]) -> bool {
    privileges.iter().any(|privilege| world.may(caller, path, privilege))
}

fn group_path(group: &str) -> String {
    format!("/access/groups/{group}")
}

/// What is told of a user, its groups and tokens apart.
fn shown(user: &User) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("enable".into(), json!(u8::from(!user.disabled)));
    shown.insert("expire".into(), json!(user.expire));
    shown.extend(user.details.iter().map(|(key, text)| (key.clone(), json!(text))));
    shown
}

fn list(world: &World, call: &Call) -> Value {
    let privileges = ["User.Modify", "Sys.Audit"];
    let caller = &call.caller;
    let all = cares(world, caller, "/access/groups", &privileges);
    let of_group =
        |user: &User| user.groups.iter().any(|group| cares(world, caller, &group_path(group), &privileges));
    let is_caller = |name: &str| caller.token.is_none() && name == caller.user;
    let enabled = call.args.get("enabled").map(|flag| flag == "1");
    let visible = world.access.users.iter().filter(|(name, user)| {
        (all || is_caller(name) || of_group(user)) && enabled.is_none_or(|wanted| wanted != user.disabled)
    });
    let entries = visible.map(|(name, user)| {
        let mut entry = shown(user);
        let realm = name.split_once('@').map_or("", |(_, realm)| realm);
        entry.insert("userid".into(), json!(name));
        entry.insert("realm-type".into(), json!(realm));
        if call.args.flag("full") {
            let groups: Vec<&str> = user.groups.iter().map(String::as_str).collect();
            let tokens = user.tokens.iter().map(|(id, token)| {
                let mut shown = shown_token(token);
                shown["tokenid"] = json!(id);
                shown
            });
            entry.insert("groups".into(), json!(groups.join(",")));
            entry.insert("tokens".into(), tokens.collect());
        }
        Value::Object(entry)
    });
    entries.collect()
}

fn missing(name: &str) -> ApiError {
    ApiError::plain(format!("no such user ('{name}')"))
}

fn read(world: &World, call: &Call) -> Answer {
    let name = call.args.text("userid");
    let user = world.access.users.get(name).ok_or_else(|| missing(name))?;
    let tokens: Map<String, Value> =
        user.tokens.iter().map(|(id, token)| (id.clone(), shown_token(token))).collect();
    let mut entry = shown(user);
    entry.insert("groups".into(), json!(user.groups));
    entry.insert("tokens".into(), Value::Object(tokens));
    Ok(Value::Object(entry))
}

/// Fails unless every group that is named is there.
fn check_groups(world: &World, call: &Call, failed: &str) -> Result<(), ApiError> {
    let unknown =
        split_list(call.args.text("groups")).find(|group| !world.access.groups.contains_key(*group));
    match unknown {
        Some(group) => Err(ApiError::plain(format!("{failed}: no such group '{group}'"))),
        None => Ok(()),
    }
}

fn create(world: &mut World, call: &Call) -> Answer {
    let failed = "create user failed";
    need_user_file(world, &format!("{failed}: "))?;
    let name = call.args.text("userid").to_owned();
    if world.access.users.contains_key(&name) {
        return Err(ApiError::plain(format!("{failed}: user '{name}' already exists")));
    }
    check_groups(world, call, failed)?;
    let mut user = User { password: call.args.get("password").map(str::to_owned), ..User::default() };
    change(&mut user, call);
    world.access.users.insert(name, user);
    Ok(Value::Null)
}

fn update(world: &mut World, call: &Call) -> Answer {
    let failed = "update user failed";
    need_user_file(world, &format!("{failed}: "))?;
    let name = call.args.text("userid");
    if !world.access.users.contains_key(name) {
        return Err(ApiError::plain(format!("{failed}: no such user ('{name}')")));
    }
    check_groups(world, call, failed)?;
    if let Some(user) = world.access.users.get_mut(name) {
        change(user, call);
    }
    Ok(Value::Null)
}

fn change(user: &mut User, call: &Call) {
    user.disabled = call.args.get("enable").map_or(user.disabled, |flag| flag == "0");
    user.expire = call.args.int("expire").unwrap_or(user.expire);
    if let Some(groups) = call.args.get("groups") {
        if !call.args.flag("append") {
            user.groups.clear();
        }
        user.groups.extend(split_list(groups).map(str::to_owned));
    }
    for key in DETAILS {
        if let Some(text) = call.args.get(key) {
            user.details.insert(key.to_owned(), text.to_owned());
        }
    }
    user.details.retain(|_, text| !text.is_empty());
}

/// With a user go its tokens and what was granted to both.
fn remove(world: &mut World, call: &Call) -> Answer {
    need_user_file(world, "delete user failed: ")?;
    let name = call.args.text("userid");
    world.access.users.remove(name);
    let tokens = format!("{name}!");
    let of_user = |subject: &str, kind: &str| match kind {
        "user" => subject == name,
        "token" => subject.starts_with(&tokens),
        _ => false,
    };
    world.access.acl.retain(|entry| !of_user(&entry.subject, &entry.kind));
    Ok(Value::Null)
}

pub(super) fn groups(world: &mut World, method: &str, template: &str, call: &Call) -> Answer {
    let id = call.args.text("groupid").to_owned();
    let comment = call.args.get("comment").map(str::to_owned);
    let known = world.access.groups.contains_key(&id);
    let failed = match method {
        "GET" if template == "/access/groups" => return Ok(group_list(world, call)),
        "GET" => "",
        "POST" => "create group failed: ",
        "PUT" => "update group failed: ",
        _ => "delete group failed: ",
    };
    if method != "GET" {
        need_user_file(world, failed)?;
    }
    match method {
        "POST" if known => Err(ApiError::plain(format!("{failed}group '{id}' already exists"))),
        "GET" | "PUT" | "DELETE" if !known => {
            Err(ApiError::plain(format!("{failed}group '{id}' does not exist")))
        }
        "GET" => Ok(group(world, &id)),
        "POST" | "PUT" => {
            let noted = world.access.groups.entry(id).or_default();
            *noted = comment.or_else(|| noted.take()).filter(|text| !text.is_empty());
            Ok(Value::Null)
        }
        "DELETE" => {
            world.access.groups.remove(&id);
            for user in world.access.users.values_mut() {
                user.groups.remove(&id);
            }
            world.access.acl.retain(|entry| entry.kind != "group" || entry.subject != id);
            Ok(Value::Null)
        }
        _ => unknown(method, template),
    }
}

fn members(world: &World, group: &str) -> Vec<String> {
    let members = world.access.users.iter().filter(|(_, user)| user.groups.contains(group));
    members.map(|(name, _)| name.clone()).collect()
}

fn group(world: &World, id: &str) -> Value {
    let mut shown = json!({"members": members(world, id)});
    if let Some(comment) = world.access.groups.get(id).and_then(Option::as_ref) {
        shown["comment"] = json!(comment);
    }
    shown
}

fn group_list(world: &World, call: &Call) -> Value {
    let privileges = ["User.Modify", "Sys.Audit", "Group.Allocate"];
    let visible =
        world.access.groups.iter().filter(|(id, _)| cares(world, &call.caller, &group_path(id), &privileges));
    let entries = visible.map(|(id, comment)| {
        let mut entry = json!({"groupid": id, "users": members(world, id).join(",")});
        if let Some(comment) = comment {
            entry["comment"] = json!(comment);
        }
        entry
    });
    entries.collect()
}
