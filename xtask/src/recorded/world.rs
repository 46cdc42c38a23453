//! The world a recording starts from, as far as its replies show it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use talmox_sim::{Storage, Token, User, World};

use super::file::Recording;

/// What the recordings show instead of a password.
pub(crate) const REDACTED: &str = "REDACTED";
/// The name of the token that recordings without a login were made with.
pub(crate) const TOKEN: &str = "sdk";
const EPOCH: u64 = 1_783_000_000_000;

/// Storages of a fresh installation, where a recording shows none.
const USUAL: [(&str, &str, &str, &str); 2] = [
    ("local", "dir", "/var/lib/vz", "backup,vztmpl,iso,import"),
    ("local-zfs", "zfspool", "rpool/data", "rootdir,images"),
];

pub(crate) fn build(recording: &Recording, all: &[Recording]) -> World {
    let mut world = World::new(20_261_115, EPOCH);
    let family: Vec<&Recording> = match recording.cluster() {
        Some(name) => all.iter().filter(|other| other.cluster() == Some(name)).collect(),
        None => vec![recording],
    };
    for host in hosts(&family) {
        world.add_node(&host, "192.0.2.1");
    }
    let count = u32::try_from(world.nodes.len()).unwrap_or_default();
    world.cluster = recording.cluster().map(|name| (name.to_owned(), count));
    set_version(&mut world, recording);
    let shown = family.iter().flat_map(|one| &one.exchanges).find(|exchange| exchange.path == "/storage");
    world.storages = match shown {
        Some(exchange) => exchange.entries().map(shown_storage).collect(),
        None => {
            USUAL.into_iter().map(|(id, kind, place, content)| storage(id, kind, place, content)).collect()
        }
    };
    let token = Token { secret: REDACTED.into(), privsep: false, ..Token::default() };
    // A login shows no tokens; without one there is that of the recorder.
    let tokens =
        if recording.cluster().is_some() { BTreeMap::new() } else { BTreeMap::from([(TOKEN.into(), token)]) };
    let root = User { password: Some(REDACTED.into()), tokens, ..User::default() };
    world.access.users.insert("root@pam".into(), root);
    world
}

/// The host that was asked first: paths begin with it. The others follow.
fn hosts(family: &[&Recording]) -> Vec<String> {
    let mut names = BTreeSet::new();
    for exchange in family.iter().flat_map(|one| &one.exchanges) {
        names.extend(exchange.path.strip_prefix("/nodes/").and_then(|rest| rest.split('/').next()));
        let nodes = exchange.entries().filter(|entry| entry["type"] == "node");
        names.extend(nodes.filter_map(|entry| entry["node"].as_str()));
    }
    if names.is_empty() {
        names.insert("pve");
    }
    names.into_iter().map(str::to_owned).collect()
}

fn set_version(world: &mut World, recording: &Recording) {
    let Some(shown) = recording.exchanges.iter().find(|exchange| exchange.path == "/version") else { return };
    let text = |name: &str| shown.data()[name].as_str().unwrap_or_default().to_owned();
    (world.version, world.release, world.repoid) = (text("version"), text("release"), text("repoid"));
}

fn shown_storage(entry: &Value) -> Storage {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    let known = ["storage", "type", "path", "content", "digest"];
    let rest = entry.as_object().into_iter().flatten().filter(|(key, _)| !known.contains(&key.as_str()));
    let options = rest.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
    Storage {
        options: options.collect(),
        ..storage(text("storage"), text("type"), text("path"), text("content"))
    }
}

fn storage(id: &str, kind: &str, place: &str, content: &str) -> Storage {
    Storage {
        id: id.into(),
        kind: kind.into(),
        place: place.into(),
        content: content.split(',').map(str::to_owned).collect(),
        total: Some(512 << 30),
        ..Storage::default()
    }
}
