//! Storages: definitions, content, uploads and downloads.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Call, subdirs, transfer, unknown};
use crate::drive::{scale, too_large};
use crate::files::sha1_hex;
use crate::jobs::Work;
use crate::qemu::perms::Subject;
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::storage::{Allocations, Figures, Kind, NewImage, Storage, Volume, split_volid, visible_size};
use crate::tasks::Job;
use crate::world::World;

/// `/storage`: the definitions, the same for all hosts.
pub(crate) fn dispatch(world: &mut World, method: &str, template: &str, call: &Call) -> Answer {
    match (method, template) {
        ("GET", "/storage") => Ok(definitions(world, call)),
        ("POST", "/storage") => create(world, call),
        ("GET", _) => {
            let found = world.storage(call.args.text("storage")).map_err(ApiError::Plain)?;
            Ok(definition(world, found))
        }
        ("PUT", _) => update(world, call),
        ("DELETE", _) => {
            need_storage_file(world, "delete")?;
            let id = call.args.text("storage").to_owned();
            world.storage(&id).map_err(|text| ApiError::plain(format!("delete storage failed: {text}")))?;
            world.storages.retain(|storage| storage.id != id);
            Ok(Value::Null)
        }
        _ => unknown(method, template),
    }
}

fn definition(world: &World, storage: &Storage) -> Value {
    let content: Vec<&str> = storage.content.iter().map(String::as_str).collect();
    let digest = sha1_hex(&format!("{:?}", world.storages));
    let mut shown =
        json!({"storage": storage.id, "type": storage.kind, "content": content.join(","), "digest": digest});
    if let Some(place) = storage.traits().place {
        shown[place] = json!(storage.place);
    }
    if !storage.nodes.is_empty() {
        shown["nodes"] = json!(storage.nodes.iter().map(String::as_str).collect::<Vec<_>>().join(","));
    }
    for (flag, name) in [(storage.shared, "shared"), (storage.disabled, "disable")] {
        if flag {
            shown[name] = json!(1);
        }
    }
    for (key, text) in &storage.options {
        shown[key] = text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
    }
    shown
}

fn may_see(world: &World, call: &Call, id: &str) -> bool {
    let held = world.privileges(&call.caller, &format!("/storage/{id}"));
    ["Datastore.Audit", "Datastore.AllocateSpace"].iter().any(|name| held.contains_key(*name))
}

fn definitions(world: &World, call: &Call) -> Value {
    let kind = call.args.get("type");
    let visible = world.storages.iter().filter(|storage| may_see(world, call, &storage.id));
    let wanted = visible.filter(|storage| kind.is_none_or(|kind| kind == storage.kind));
    wanted.map(|storage| definition(world, storage)).collect()
}

fn options(call: &Call) -> BTreeMap<String, String> {
    let known =
        ["storage", "type", "path", "pool", "content", "nodes", "shared", "disable", "delete", "digest"];
    let rest = call.args.values.iter().filter(|(key, _)| !known.contains(&key.as_str()));
    rest.map(|(key, text)| (key.clone(), text.clone())).collect()
}

/// The definitions are one file of the cluster's.
fn need_storage_file(world: &World, verb: &str) -> Result<(), ApiError> {
    if world.quorate() {
        return Ok(());
    }
    Err(ApiError::plain(format!("{verb} storage failed: cfs-lock 'file-storage_cfg' error: no quorum!")))
}

fn create(world: &mut World, call: &Call) -> Answer {
    need_storage_file(world, "create")?;
    let (id, kind) = (call.args.text("storage").to_owned(), call.args.text("type").to_owned());
    if world.storage(&id).is_ok() {
        return Err(ApiError::plain(format!("create storage failed: storage ID '{id}' already defined")));
    }
    let traits = Kind::named(&kind);
    if let Some(name) = traits.required.iter().find(|name| call.args.get(name).is_none()) {
        return Err(ApiError::plain(format!("missing value for required option '{name}'")));
    }
    let place = match traits.place {
        Some("path") => call.args.get("path").map_or_else(|| format!("/mnt/pve/{id}"), str::to_owned),
        Some(name) => call.args.get(name).unwrap_or("rbd").to_owned(),
        None => String::new(),
    };
    let content = match call.args.get("content") {
        Some(list) => possible_content(traits, list)?,
        None => traits.default_content.iter().map(|name| (*name).to_owned()).collect(),
    };
    world.storages.push(Storage {
        id: id.clone(),
        kind: kind.clone(),
        place,
        content,
        nodes: split_list(call.args.text("nodes")).map(str::to_owned).collect(),
        shared: traits.shared || call.args.flag("shared"),
        disabled: call.args.flag("disable"),
        total: None,
        options: options(call),
    });
    Ok(json!({"storage": id, "type": kind}))
}

/// What a storage of that type cannot hold is left out without a word, unless nothing is left.
fn possible_content(traits: &Kind, list: &str) -> Result<BTreeSet<String>, ApiError> {
    let content: BTreeSet<String> =
        split_list(list).filter(|name| traits.content.contains(name)).map(str::to_owned).collect();
    if content.contains("none") && content.len() > 1 {
        return Err(ApiError::plain("unable to combine 'none' with other content types"));
    }
    if content.is_empty() && !traits.content.contains(&"none") {
        return Err(ApiError::plain("storage does not support content type 'none'"));
    }
    Ok(content)
}

fn update(world: &mut World, call: &Call) -> Answer {
    need_storage_file(world, "update")?;
    let id = call.args.text("storage").to_owned();
    let missing = ApiError::plain(format!("update storage failed: storage '{id}' does not exist"));
    let storage = world.storages.iter_mut().find(|storage| storage.id == id).ok_or(missing)?;
    if let Some(flag) = call.args.get("disable") {
        storage.disabled = flag == "1";
    }
    if let Some(flag) = call.args.get("shared") {
        storage.shared = flag == "1";
    }
    if let Some(list) = call.args.get("content") {
        storage.content = possible_content(storage.traits(), list)?;
    }
    if let Some(list) = call.args.get("nodes") {
        storage.nodes = split_list(list).map(str::to_owned).collect();
    }
    storage.options.extend(options(call));
    for key in split_list(call.args.text("delete")) {
        match key {
            "disable" => storage.disabled = false,
            "shared" => storage.shared = false,
            "nodes" => storage.nodes.clear(),
            other => drop(storage.options.remove(other)),
        }
    }
    Ok(json!({"storage": id, "type": storage.kind}))
}

/// `/nodes/{node}/storage…`: the storages as a host sees them.
pub(crate) fn on_node(world: &mut World, method: &str, rest: &str, call: &Call) -> Answer {
    match (method, rest) {
        ("GET", "") => Ok(list(world, call)),
        ("GET", "/{storage}") => Ok(subdirs(
            "subdir",
            "content download-url file-restore identity import-metadata oci-registry-pull prunebackups rrd rrddata status upload",
        )),
        ("GET", "/{storage}/status") => status(world, call),
        ("GET", "/{storage}/content") => content(world, call),
        ("POST", "/{storage}/content") => allocate(world, call),
        ("GET", "/{storage}/content/{volume}") => attributes(world, call),
        ("PUT", "/{storage}/content/{volume}") => annotate(world, call),
        ("DELETE", "/{storage}/content/{volume}") => delete(world, call),
        ("POST", "/{storage}/upload") => transfer::upload(world, call),
        ("POST", "/{storage}/download-url") => transfer::download(world, call),
        _ => Err(ApiError::plain("copying volumes is not simulated")),
    }
}

fn state(world: &World, storage: &Storage, node: &str) -> Value {
    let usable = storage.on(node) && !storage.disabled;
    let content: Vec<&str> = storage.content.iter().map(String::as_str).collect();
    let figures = if usable { world.figures(storage, node) } else { Figures::default() };
    json!({
        "type": storage.kind, "content": content.join(","), "enabled": u8::from(usable), "active": u8::from(usable),
        "shared": u8::from(storage.shared), "total": figures.total, "used": figures.used, "avail": figures.free(),
    })
}

fn list(world: &World, call: &Call) -> Value {
    let wanted: BTreeSet<&str> = split_list(call.args.text("content")).collect();
    let mut all = Vec::new();
    for storage in world.storages.iter().filter(|storage| may_see(world, call, &storage.id)) {
        let usable = storage.on(&call.node) && !storage.disabled;
        let named = call.args.get("storage").is_none_or(|id| id == storage.id);
        let holds =
            wanted.is_empty() || (usable && wanted.iter().any(|kind| storage.content.contains(*kind)));
        if !named || !holds || (call.args.flag("enabled") && !usable) {
            continue;
        }
        let mut entry = state(world, storage, &call.node);
        entry["storage"] = json!(storage.id);
        if usable {
            entry["used_fraction"] = json!(world.figures(storage, &call.node).fraction());
        }
        all.push(entry);
    }
    Value::Array(all)
}

fn status(world: &World, call: &Call) -> Answer {
    let missing = |_| ApiError::parameter("storage", "No such storage.");
    let storage = world.storage(call.args.text("storage")).map_err(missing)?;
    Ok(state(world, storage, &call.node))
}

fn content(world: &World, call: &Call) -> Answer {
    let id = call.args.text("storage");
    world.storage_on(id, &call.node).map_err(ApiError::Plain)?;
    let place = world.volume_key(&call.node, &format!("{id}:"));
    let kind = call.args.get("content");
    let owner = call.args.int("vmid");
    let all = world.volumes.at(&place).map(|(_, volume)| volume);
    let wanted = all.filter(|volume| kind.is_none_or(|kind| kind == volume.content));
    let wanted = wanted.filter(|volume| owner.is_none_or(|owner| volume.vmid.map(u64::from) == Some(owner)));
    let visible = wanted.filter(|volume| may_see_volume(world, call, id, volume));
    let storage = world.storage(id).map_err(ApiError::Plain)?;
    Ok(visible.map(|volume| shown_volume(storage, volume)).collect())
}

/// Files for all who see the storage, disks for those who may change their VM, snippets for administrators.
fn may_see_volume(world: &World, call: &Call, storage: &str, volume: &Volume) -> bool {
    let path = format!("/storage/{storage}");
    match (volume.content.as_str(), volume.vmid) {
        (_, Some(vmid)) => {
            world.may(&call.caller, &path, "Datastore.Audit")
                && world.may(&call.caller, &format!("/vms/{vmid}"), "VM.Config.Disk")
                || world.may(&call.caller, &path, "Datastore.Allocate")
        }
        ("iso" | "vztmpl" | "import", None) => true,
        _ => world.may(&call.caller, &path, "Datastore.Allocate"),
    }
}

/// A volume as the tools of its storage list it.
fn shown_volume(storage: &Storage, volume: &Volume) -> Value {
    let mut shown = json!({
        "volid": volume.volid, "content": volume.content, "format": volume.format, "size": volume.size, "ctime": volume.ctime,
    });
    let Some(vmid) = volume.vmid else { return annotated(shown, volume) };
    shown["vmid"] = json!(vmid);
    let name = |volid: &str| volid.rsplit([':', '/']).next().unwrap_or_default().to_owned();
    match storage.traits().name {
        "lvm" | "lvmthin" => shown["format"] = json!("raw"),
        "zfspool" | "rbd" => {
            shown["name"] = json!(name(&volume.volid));
            shown["parent"] = json!(volume.parent.as_ref().map(|base| format!("{}@__base__", name(base))));
            if let Some(shown) = shown.as_object_mut() {
                shown.remove("ctime");
            }
        }
        _ => {
            shown["used"] = json!(volume.data);
            let base = volume.parent.as_ref().and_then(|parent| split_volid(parent));
            shown["parent"] = json!(base.map(|(_, name)| format!("../{name}")));
        }
    }
    annotated(shown, volume)
}

fn annotated(mut shown: Value, volume: &Volume) -> Value {
    if let Some(notes) = &volume.notes {
        shown["notes"] = json!(notes);
    }
    if volume.protected {
        shown["protected"] = json!(1);
    }
    shown
}

/// A volume may be named with or without its storage.
fn volid_of(call: &Call) -> String {
    let volume = call.args.text("volume");
    match call.args.get("storage") {
        Some(storage) if split_volid(volume).is_none() => format!("{storage}:{volume}"),
        _ => volume.to_owned(),
    }
}

fn subject(call: &Call) -> Subject<'_> {
    Subject { caller: &call.caller, vmid: 0, pool: None }
}

fn attributes(world: &World, call: &Call) -> Answer {
    let volid = volid_of(call);
    world.name_of(&volid).map_err(ApiError::Plain)?;
    world.check_volume_access(&subject(call), &volid)?;
    let missing = || ApiError::plain(format!("volume_size_info on '{volid}' failed - no format"));
    let volume = world.volume(&call.node, &volid).ok_or_else(missing)?;
    let format = if volume.format == "iso" { "raw" } else { &volume.format };
    Ok(json!({
        "path": world.path_of(&volid), "size": visible_size(volume), "used": volume.size.div_ceil(4096) * 4096, "format": format,
    }))
}

fn annotate(world: &mut World, call: &Call) -> Answer {
    let volid = volid_of(call);
    world.check_volume_access(&subject(call), &volid)?;
    let name = world.name_of(&volid).map_err(ApiError::Plain)?;
    if name.content != "backup" {
        let reason = match call.args.get("notes") {
            Some(_) => "only backups can have notes",
            None => "only backups support attribute 'protected'",
        };
        return Err(ApiError::plain(reason));
    }
    let missing = ApiError::plain(format!("volume '{volid}' does not exist"));
    let volume = world.volume_mut(&call.node, &volid).ok_or(missing)?;
    volume.notes = call.args.get("notes").map(str::to_owned).or(volume.notes.take());
    volume.protected = call.args.get("protected").map_or(volume.protected, |flag| flag == "1");
    Ok(Value::Null)
}

fn allocate(world: &mut World, call: &Call) -> Answer {
    let text = call.args.text("size");
    let shift = match text.chars().last() {
        Some('M') => 20,
        Some('G') => 30,
        _ => 10,
    };
    let size = scale(text.trim_end_matches(['M', 'G']), shift);
    let size = size.ok_or_else(|| ApiError::Plain(too_large(text)))?;
    let file = call.args.text("filename");
    let extension = file.rsplit_once('.').map(|(_, extension)| extension);
    let format = call.args.get("format").or(extension).unwrap_or("raw").to_owned();
    let stem = file.strip_suffix(&format!(".{format}")).unwrap_or(file);
    world.wait_for_storages(&call.node, &Allocations::from([(call.args.text("storage").to_owned(), 1)]))?;
    let image = NewImage { vmid: call.vmid(), name: Some(stem), format: &format, size, data: 0 };
    let volid =
        world.allocate(None, &call.node, call.args.text("storage"), image).map_err(ApiError::Plain)?;
    Ok(json!(volid))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DeleteVolume {
    volid: String,
}

fn delete(world: &mut World, call: &Call) -> Answer {
    let volid = volid_of(call);
    let name = world.name_of(&volid).map_err(ApiError::Plain)?;
    let storage = split_volid(&volid).map_or("", |(storage, _)| storage).to_owned();
    match name.vmid {
        Some(_) => world.need_any(&call.caller, &format!("/storage/{storage}"), &["Datastore.Allocate"])?,
        None => world.need(&call.caller, &format!("/storage/{storage}"), "Datastore.Allocate")?,
    }
    let id = name.vmid.map_or_else(|| storage.clone(), |vmid| format!("{vmid}@{storage}"));
    let upid =
        world.spawn(&call.node, "imgdel", &id, &call.caller, Work::DeleteVolume(DeleteVolume { volid }));
    // The call waits for its worker, and says nothing if that was quick enough.
    let quick = call.args.int("delay").and_then(|delay| world.wait_for_worker(&upid, delay * 1000));
    if quick.is_some() {
        return Ok(Value::Null);
    }
    Ok(Value::from(upid))
}

impl DeleteVolume {
    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        if world.has_linked_clones(&self.volid) {
            return Err(format!("base volume '{}' is still in use by linked cloned", self.volid));
        }
        let key = world.volume_key(&job.node, &self.volid);
        match world.volumes.get(&key) {
            Some(volume) if volume.protected => {
                return Err(format!("cannot remove protected volume '{}' on '{}'", self.volid, job.node));
            }
            Some(_) => drop(world.volumes.remove(&key)),
            None => world.log(job, format!("disk image '{}' does not exist", world.path_of(&self.volid))),
        }
        world.log(job, format!("Removed volume '{}'", self.volid));
        Ok(world.timing.fork)
    }
}
