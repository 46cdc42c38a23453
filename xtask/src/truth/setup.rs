//! Builds the world a chain of groups starts from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use talmox_sim::{AclEntry, FileFacts, Pool, Site, Storage, Token, User, World};

use super::data::{Chain, Worlds};

/// Images of the recordings whose virtual size nobody wrote down are taken for this big.
const UNRECORDED_VIRTUAL_SIZE: u64 = 64 << 20;
/// The recordings show this instead of a password.
pub(crate) const PASSWORD: &str = "<password>";

pub(crate) fn secret_of(token: &str) -> String {
    format!("secret-of-{token}")
}

pub(crate) fn build(worlds: &Worlds, chain: &Chain, epoch: u64) -> World {
    let mut world = World::new(20_261_115, epoch);
    let common = &worlds.common;
    if let Some(version) = common.pointer("/version/version").and_then(Value::as_str) {
        version.clone_into(&mut world.version);
    }
    if let Some(release) = common.pointer("/version/release").and_then(Value::as_str) {
        release.clone_into(&mut world.release);
    }
    // Nothing boots in the recorded guests.
    world.guests_react = false;
    // Nor does a manager of high availability run on the recorded hosts.
    world.ha_manager = false;
    add_hosts(&mut world, common, chain);
    add_access(&mut world, common);
    world.storages = chain.storages.iter().map(storage).collect();
    for pool in &chain.pools {
        let comment = pool["comment"].as_str().map(str::to_owned);
        world.pools.insert(text(&pool["poolid"]), Pool { comment, ..Pool::default() });
    }
    if let Some(Value::Object(options)) = common.get("options") {
        world.options = options.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    }
    add_sites(&mut world, chain);
    world
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn add_hosts(world: &mut World, common: &Value, chain: &Chain) {
    let facts = &common["host"];
    for host in &chain.hosts {
        let node = world.add_node(&host.name, &host.ip);
        node.nodeid = host.nodeid.unwrap_or(node.nodeid);
        node.cpus = facts["maxcpu"].as_u64().and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(node.cpus);
        node.memory = facts["maxmem"].as_u64().unwrap_or(node.memory);
        node.disk = facts["maxdisk"].as_u64().unwrap_or(node.disk);
        node.bridges = names(&facts["bridges_that_exist_at_start_time"]);
        let interfaces = facts["network_listing"].as_array().into_iter().flatten();
        node.interfaces = interfaces.map(|entry| text(&entry["iface"])).collect();
    }
    world.cluster = chain.cluster.as_ref().filter(|cluster| !cluster.is_null()).map(|cluster| {
        let version = cluster["version"].as_u64().and_then(|version| u32::try_from(version).ok());
        (text(&cluster["name"]), version.unwrap_or(1))
    });
}

fn add_access(world: &mut World, common: &Value) {
    for user in common["users"].as_array().into_iter().flatten() {
        let user_entry = User { password: Some(PASSWORD.into()), ..User::default() };
        world.access.users.insert(text(&user["userid"]), user_entry);
    }
    for token in common["tokens"].as_array().into_iter().flatten() {
        let id = text(&token["token"]);
        let Some((user, name)) = id.split_once('!') else { continue };
        let entry = Token {
            secret: secret_of(&id),
            privsep: token["privsep"].as_u64() == Some(1),
            expire: token["expire"].as_u64().unwrap_or_default(),
            comment: None,
        };
        world.access.users.entry(user.to_owned()).or_default().tokens.insert(name.to_owned(), entry);
    }
    for (role, privileges) in common["roles_beside_the_built_in"].as_object().into_iter().flatten() {
        world.access.roles.insert(role.clone(), names(privileges));
    }
    for entry in common["acl"].as_array().into_iter().flatten() {
        world.access.acl.push(AclEntry {
            path: text(&entry["path"]),
            kind: text(&entry["type"]),
            subject: text(&entry["ugid"]),
            role: text(&entry["roleid"]),
            propagate: entry["propagate"].as_u64() == Some(1),
        });
    }
}

fn storage(value: &Value) -> Storage {
    let id = text(&value["storage"]);
    let kind = text(&value["type"]);
    let default = if id == "local" { "/var/lib/vz".to_owned() } else { format!("/mnt/{id}") };
    let place = value["path"].as_str().or(value["pool"].as_str()).map_or(default, str::to_owned);
    let known = ["storage", "type", "path", "pool", "content", "nodes", "shared", "disable", "total"];
    let rest = value.as_object().into_iter().flatten().filter(|(key, _)| !known.contains(&key.as_str()));
    Storage {
        kind,
        place,
        content: names(&value["content"]),
        nodes: names(&value["nodes"]),
        shared: value["shared"].as_u64() == Some(1),
        disabled: value["disable"].as_u64() == Some(1),
        total: value["total"].as_u64(),
        options: rest.map(|(key, value)| (key.clone(), text(value))).collect(),
        id,
    }
}

/// A key such as `web_server_127.0.0.1_18099` is a web server with its files.
fn add_sites(world: &mut World, chain: &Chain) {
    for (key, value) in &chain.more {
        let Some((host, port)) = key.strip_prefix("web_server_").and_then(|place| place.rsplit_once('_'))
        else {
            continue;
        };
        let entries = value.as_object().into_iter().flatten().filter(|(_, entry)| entry.is_object());
        let mut files: BTreeMap<String, FileFacts> =
            entries.clone().map(|(name, entry)| (name.clone(), facts(entry))).collect();
        for (name, entry) in entries {
            let inner = entry["decompresses_to"].as_str().and_then(|inner| files.get(inner)).cloned();
            if let Some(inner) = inner {
                files.insert(name.clone(), inner);
            }
        }
        world.sites.insert(format!("{host}:{port}"), Site { files });
    }
}

pub(crate) fn facts(entry: &Value) -> FileFacts {
    let format = entry["format"].as_str().map(str::to_owned);
    let algorithms = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];
    let digests =
        algorithms.iter().filter_map(|name| Some(((*name).to_owned(), entry[*name].as_str()?.to_owned())));
    let recorded = entry["virtual_size"].as_u64();
    let guessed = (format.as_deref() == Some("qcow2")).then_some(UNRECORDED_VIRTUAL_SIZE);
    FileFacts {
        size: entry["size"].as_u64().unwrap_or_default(),
        digests: digests.collect(),
        virtual_size: recorded.or(guessed),
        mimetype: entry["mimetype"].as_str().map(str::to_owned),
        format,
        ..FileFacts::default()
    }
}

/// Files whose virtual size is a guess.
pub(crate) fn guessed_sizes(chain: &Chain) -> Vec<String> {
    let served = chain.more.iter().filter(|(key, _)| key.starts_with("web_server_"));
    let served = served.flat_map(|(_, files)| files.as_object().into_iter().flatten());
    let guessed = served
        .chain(&chain.uploads)
        .filter(|(_, entry)| entry["format"] == "qcow2" && entry["virtual_size"].as_u64().is_none());
    guessed.map(|(name, _)| format!("the disk in {name} is {} MiB", UNRECORDED_VIRTUAL_SIZE >> 20)).collect()
}

/// The file an upload carried: declared by name, or else the declared one of the same length.
pub(crate) fn uploaded(chain: &Chain, name: &str, size: u64) -> FileFacts {
    let by_name = chain.uploads.get(name).filter(|entry| entry["size"].as_u64() == Some(size));
    let by_size = || chain.uploads.values().find(|entry| entry["size"].as_u64() == Some(size));
    match by_name.or_else(by_size) {
        Some(entry) => facts(entry),
        None => FileFacts { size, ..FileFacts::default() },
    }
}
