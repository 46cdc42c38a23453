//! Users, tokens, roles and access control entries.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Call, subdirs, unknown, users};
use crate::access::{AclEntry, Caller, Token};
use crate::auth;
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::world::{Pool, World};

pub(crate) fn dispatch(world: &mut World, method: &str, template: &str, call: &Call) -> Answer {
    match (method, template) {
        ("GET", "/access") => {
            Ok(subdirs("subdir", "users groups roles acl domains openid tfa ticket password"))
        }
        ("POST", "/access/ticket") => auth::login(world, call),
        ("GET", "/access/ticket") => Ok(Value::Null),
        ("GET", "/access/permissions") => permissions(world, call),
        ("GET", "/access/acl") => Ok(acl(world, call)),
        ("PUT", "/access/acl") => set_acl(world, call),
        ("GET", "/access/roles") => Ok(roles(world)),
        ("GET", "/access/roles/{roleid}") => role(world, call),
        (_, "/access/roles" | "/access/roles/{roleid}") => set_role(world, method, call),
        ("GET", "/access/domains") => Ok(domains()),
        ("PUT", "/access/password") => set_password(world, call),
        (_, "/access/users" | "/access/users/{userid}") => users::dispatch(world, method, template, call),
        (_, path) if path.starts_with("/access/groups") => users::groups(world, method, template, call),
        ("GET", "/access/users/{userid}/token") => tokens(world, call),
        ("GET", "/access/users/{userid}/token/{tokenid}") => token(world, call),
        (_, "/access/users/{userid}/token/{tokenid}") => set_token(world, method, call),
        _ => unknown(method, template),
    }
}

/// Places whose rights are worth telling apart when nobody names a path.
const TOP_PATHS: [&str; 9] =
    ["/", "/access", "/access/groups", "/mapping", "/nodes", "/pool", "/sdn", "/storage", "/vms"];

fn permissions(world: &World, call: &Call) -> Answer {
    let asked = call.args.get("userid").map(|id| {
        let (user, token) =
            id.split_once('!').map_or((id, None), |(user, token)| (user, Some(token.to_owned())));
        Caller { user: user.to_owned(), token }
    });
    if asked.as_ref().is_some_and(|asked| asked.user != call.caller.user) {
        world.need(&call.caller, "/access", "Sys.Audit")?;
    }
    let subject = asked.unwrap_or_else(|| call.caller.clone());
    let on = |path: &str| -> Map<String, Value> {
        world
            .privileges(&subject, path)
            .into_iter()
            .map(|(name, reach)| (name, json!(u8::from(reach))))
            .collect()
    };
    if let Some(path) = call.args.get("path") {
        return Ok(json!({path: on(path)}));
    }
    let mut paths: BTreeSet<&str> = TOP_PATHS.into();
    paths.extend(world.access.acl.iter().map(|entry| entry.path.as_str()));
    let members: Vec<String> = world.pools.values().flat_map(members_of).collect();
    paths.extend(members.iter().map(String::as_str));
    let all = paths.into_iter().map(|path| (path.to_owned(), on(path))).filter(|(_, held)| !held.is_empty());
    Ok(Value::Object(all.map(|(path, held)| (path, Value::Object(held))).collect()))
}

/// The paths of what a pool holds.
fn members_of(pool: &Pool) -> impl Iterator<Item = String> + '_ {
    let vms = pool.vms.iter().map(|vmid| format!("/vms/{vmid}"));
    vms.chain(pool.storages.iter().map(|storage| format!("/storage/{storage}")))
}

fn acl(world: &World, call: &Call) -> Value {
    let audit = world.may(&call.caller, "/access", "Sys.Audit");
    let visible =
        world.access.acl.iter().filter(|entry| audit || world.need_modify(&call.caller, &entry.path).is_ok());
    let shown = visible.map(|entry| {
        json!({
            "path": entry.path, "type": entry.kind, "ugid": entry.subject, "roleid": entry.role,
            "propagate": u8::from(entry.propagate),
        })
    });
    shown.collect()
}

fn set_acl(world: &mut World, call: &Call) -> Answer {
    need_user_file(world, "ACL update failed: ")?;
    let path = call.args.text("path").to_owned();
    let propagate = call.args.get("propagate").is_none_or(|flag| flag == "1");
    for role in split_list(call.args.text("roles")) {
        if world.access.role(role).is_none() {
            return Err(ApiError::plain(format!("ACL update failed: role '{role}' does not exist")));
        }
        for (name, kind) in [("users", "user"), ("groups", "group"), ("tokens", "token")] {
            for subject in split_list(call.args.text(name)) {
                need_subject(world, kind, subject)?;
                let entry = AclEntry {
                    path: path.clone(),
                    kind: kind.into(),
                    subject: subject.to_owned(),
                    role: role.to_owned(),
                    propagate,
                };
                let same = |other: &AclEntry| {
                    (&other.path, &other.kind, &other.subject, &other.role)
                        == (&entry.path, &entry.kind, &entry.subject, &entry.role)
                };
                world.access.acl.retain(|other| !same(other));
                if !call.args.flag("delete") {
                    world.access.acl.push(entry);
                }
            }
        }
    }
    Ok(Value::Null)
}

/// Rights are given to those who are there.
fn need_subject(world: &World, kind: &str, subject: &str) -> Result<(), ApiError> {
    let (user, token) = subject.split_once('!').map_or((subject, None), |(user, token)| (user, Some(token)));
    let known = world.access.users.get(user);
    match (kind, known, token) {
        ("user" | "token", None, _) => {
            Err(ApiError::plain(format!("ACL update failed: no such user ('{user}')")))
        }
        ("token", Some(entry), Some(token)) if !entry.tokens.contains_key(token) => {
            Err(ApiError::plain(format!("ACL update failed: no such token '{token}' for user '{user}'")))
        }
        _ => Ok(()),
    }
}

/// Users, pools and rights share one file, which cannot be written without quorum.
pub(crate) fn need_user_file(world: &World, what: &str) -> Result<(), ApiError> {
    if world.quorate() {
        return Ok(());
    }
    Err(ApiError::plain(format!("{what}cfs-lock 'file-user_cfg' error: no quorum!")))
}

fn roles(world: &World) -> Value {
    let one = |name: &String, privileges: &BTreeSet<String>, special: u8| {
        let known = privileges.iter().filter(|name| world.access.knows(name));
        let list: Vec<&str> = known.map(String::as_str).collect();
        json!({"roleid": name, "privs": list.join(","), "special": special})
    };
    let built_in = world.access.built_in().iter().map(|(name, privileges)| one(name, privileges, 1));
    built_in.chain(world.access.roles.iter().map(|(name, privileges)| one(name, privileges, 0))).collect()
}

fn role(world: &World, call: &Call) -> Answer {
    let name = call.args.text("roleid");
    let missing = || ApiError::plain(format!("role '{name}' does not exist"));
    let privileges = world.access.role(name).ok_or_else(missing)?;
    let known = privileges.iter().filter(|name| world.access.knows(name));
    Ok(Value::Object(known.map(|name| (name.clone(), json!(1))).collect()))
}

fn set_role(world: &mut World, method: &str, call: &Call) -> Answer {
    let name = call.args.text("roleid").to_owned();
    let verb = match method {
        "POST" => "create",
        "PUT" => "update",
        _ => "delete",
    };
    need_user_file(world, &format!("{verb} role failed: "))?;
    let fail = |text: String| Err(ApiError::plain(format!("{verb} role failed: {text}")));
    if world.access.built_in().contains_key(&name) && method != "POST" {
        return fail(format!(
            "auto-generated role '{name}' cannot be {}",
            if method == "PUT" { "modified" } else { "deleted" }
        ));
    }
    let known = world.access.role(&name).is_some();
    match method {
        "POST" if known => return fail(format!("role '{name}' already exists")),
        "PUT" | "DELETE" if !known => return fail(format!("role '{name}' does not exist")),
        "DELETE" => drop(world.access.roles.remove(&name)),
        _ => {
            let mut privileges: BTreeSet<String> =
                split_list(call.args.text("privs")).map(str::to_owned).collect();
            if call.args.flag("append") {
                privileges.extend(world.access.roles.get(&name).cloned().unwrap_or_default());
            }
            world.access.roles.insert(name, privileges);
        }
    }
    Ok(Value::Null)
}

fn domains() -> Value {
    json!([
        {"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
        {"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
    ])
}

fn set_password(world: &mut World, call: &Call) -> Answer {
    let name = call.args.text("userid");
    let missing = || ApiError::plain(format!("no such user ('{name}')"));
    world.access.users.get_mut(name).ok_or_else(missing)?.password =
        call.args.get("password").map(str::to_owned);
    Ok(Value::Null)
}

pub(super) fn shown_token(token: &Token) -> Value {
    let mut shown = json!({"expire": token.expire, "privsep": u8::from(token.privsep)});
    if let Some(comment) = &token.comment {
        shown["comment"] = json!(comment);
    }
    shown
}

fn tokens(world: &World, call: &Call) -> Answer {
    let name = call.args.text("userid");
    let missing = || ApiError::plain(format!("no such user ('{name}')"));
    let user = world.access.users.get(name).ok_or_else(missing)?;
    let shown = user.tokens.iter().map(|(id, token)| {
        let mut shown = shown_token(token);
        shown["tokenid"] = json!(id);
        shown
    });
    Ok(shown.collect())
}

fn no_token(call: &Call) -> ApiError {
    ApiError::plain(format!(
        "no such token '{}' for user '{}'",
        call.args.text("tokenid"),
        call.args.text("userid")
    ))
}

fn token(world: &World, call: &Call) -> Answer {
    let user = world.access.users.get(call.args.text("userid"));
    let found = user.and_then(|user| user.tokens.get(call.args.text("tokenid")));
    found.map(shown_token).ok_or_else(|| no_token(call))
}

fn set_token(world: &mut World, method: &str, call: &Call) -> Answer {
    let (user, id) = (call.args.text("userid").to_owned(), call.args.text("tokenid").to_owned());
    need_user_file(world, "")?;
    let secret = world.random.uuid();
    let Some(entry) = world.access.users.get_mut(&user) else {
        return Err(ApiError::plain(format!("no such user ('{user}')")));
    };
    let known = entry.tokens.contains_key(&id);
    match method {
        "POST" if known => Err(ApiError::parameter("tokenid", "Token already exists.")),
        "POST" => {
            let token = Token {
                secret: secret.clone(),
                privsep: call.args.get("privsep").is_none_or(|flag| flag == "1"),
                expire: call.args.int("expire").unwrap_or_default(),
                comment: call.args.get("comment").map(str::to_owned),
            };
            let mut info = json!({"privsep": u8::from(token.privsep).to_string()});
            for name in ["comment", "expire"] {
                if let Some(text) = call.args.get(name) {
                    info[name] = json!(text);
                }
            }
            entry.tokens.insert(id.clone(), token);
            Ok(json!({"full-tokenid": format!("{user}!{id}"), "info": info, "value": secret}))
        }
        _ if !known => Err(no_token(call)),
        "DELETE" => {
            entry.tokens.remove(&id);
            let full = format!("{user}!{id}");
            world.access.acl.retain(|rule| rule.subject != full);
            Ok(Value::Null)
        }
        _ => {
            let token = entry.tokens.entry(id).or_default();
            token.privsep = call.args.get("privsep").map_or(token.privsep, |flag| flag == "1");
            token.expire = call.args.int("expire").unwrap_or(token.expire);
            token.comment = call.args.get("comment").map(str::to_owned).or(token.comment.take());
            Ok(shown_token(token))
        }
    }
}
