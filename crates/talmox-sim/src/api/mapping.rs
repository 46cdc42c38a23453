//! Names for devices that differ from host to host.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Call, subdirs, unknown};
use crate::files::sha1_hex;
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::world::{PciMapping, World};

pub(crate) fn dispatch(world: &mut World, method: &str, rest: &str, call: &Call) -> Answer {
    match (method, rest) {
        ("GET", "") => Ok(subdirs("name", "dir pci usb")),
        ("GET", "/usb" | "/dir") => Ok(json!([])),
        ("GET", "/pci") => list(world, call),
        ("GET", _) => read(world, call),
        ("POST", _) => create(world, call),
        ("PUT", _) => update(world, call),
        ("DELETE", _) => {
            need_file(world, "delete pci mapping failed")?;
            world.pci_mappings.remove(call.args.text("id"));
            Ok(Value::Null)
        }
        _ => unknown(method, rest),
    }
}

fn digest(world: &World) -> String {
    sha1_hex(&format!("{:?}", world.pci_mappings))
}

fn shown(world: &World, mapping: &PciMapping) -> Value {
    let mut shown = json!({"type": "pci", "map": mapping.map, "digest": digest(world)});
    for (key, text) in &mapping.options {
        let number = text.parse::<u64>().ok().filter(|_| key != "description");
        shown[key] = number.map_or_else(|| json!(text), |number| json!(number));
    }
    shown
}

/// Mappings the caller may see; the host that is to be asked says what is wrong with those that speak of it.
fn list(world: &World, call: &Call) -> Answer {
    let asked =
        call.args.get("check-node").map(|node| if node == "localhost" { &call.contact } else { node });
    if let Some(node) = asked {
        world.hop(&call.contact, node)?;
    }
    let visible = world.pci_mappings.iter().filter(|(id, _)| {
        let held = world.privileges(&call.caller, &format!("/mapping/pci/{id}"));
        ["Mapping.Use", "Mapping.Modify", "Mapping.Audit"].iter().any(|name| held.contains_key(*name))
    });
    let shown = visible.map(|(id, mapping)| {
        let mut entry = shown(world, mapping);
        entry["id"] = json!(id);
        if let Some(node) = asked {
            entry["checks"] = checks(world, id, node);
        }
        entry
    });
    Ok(shown.collect())
}

fn checks(world: &World, id: &str, node: &str) -> Value {
    let entries = world.mapped_on(id, node).unwrap_or_default();
    if entries.is_empty() {
        return json!([{"severity": "warning", "message": format!("No mapping for node {node}.")}]);
    }
    let faults = entries.iter().filter_map(|entry| world.check_mapped(id, entry, node).err());
    let shown = faults
        .map(|fault| json!({"severity": "error", "message": format!("Invalid configuration: {fault}\n")}));
    shown.collect()
}

fn read(world: &World, call: &Call) -> Answer {
    let id = call.args.text("id");
    let missing = || ApiError::plain(format!("mapping '{id}' not found"));
    Ok(shown(world, world.pci_mappings.get(id).ok_or_else(missing)?))
}

/// The file of mappings is the cluster's: it cannot be changed without quorum.
fn need_file(world: &World, failed: &str) -> Result<(), ApiError> {
    if world.quorate() {
        return Ok(());
    }
    Err(ApiError::plain(format!("{failed}: cfs-lock 'file-mapping_pci_cfg' error: no quorum!")))
}

fn options(call: &Call) -> BTreeMap<String, String> {
    let keys = ["description", "mdev", "live-migration-capable"];
    keys.iter().filter_map(|key| Some(((*key).to_owned(), call.args.get(key)?.to_owned()))).collect()
}

fn create(world: &mut World, call: &Call) -> Answer {
    let id = call.args.text("id").to_owned();
    need_file(world, "create hardware mapping failed")?;
    if world.pci_mappings.contains_key(&id) {
        return Err(ApiError::plain(format!(
            "create hardware mapping failed: pci ID '{id}' already defined"
        )));
    }
    let map = call.args.lists.get("map").cloned().unwrap_or_default();
    world.pci_mappings.insert(id, PciMapping { map, options: options(call) });
    Ok(Value::Null)
}

fn update(world: &mut World, call: &Call) -> Answer {
    let id = call.args.text("id");
    let failed = "update hardware mapping failed";
    need_file(world, failed)?;
    if call.args.get("digest").is_some_and(|digest| digest != self::digest(world)) {
        let text = "detected modified configuration - file changed by other user? Try again.";
        return Err(ApiError::plain(format!("{failed}: {text}")));
    }
    let missing = ApiError::plain(format!("{failed}: pci ID '{id}' does not exist"));
    let mapping = world.pci_mappings.get_mut(id).ok_or(missing)?;
    if let Some(map) = call.args.lists.get("map") {
        mapping.map.clone_from(map);
    }
    mapping.options.extend(options(call));
    for key in split_list(call.args.text("delete")) {
        mapping.options.remove(key);
    }
    Ok(Value::Null)
}
