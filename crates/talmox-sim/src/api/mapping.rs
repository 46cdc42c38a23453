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
        ("GET", "/pci") => Ok(list(world, call)),
        ("GET", _) => read(world, call),
        ("POST", _) => create(world, call),
        ("PUT", _) => update(world, call),
        ("DELETE", _) => {
            world.pci_mappings.remove(call.args.text("id"));
            Ok(Value::Null)
        }
        _ => unknown(method, rest),
    }
}

fn shown(world: &World, id: &str, mapping: &PciMapping) -> Value {
    let mut shown =
        json!({"id": id, "map": mapping.map, "digest": sha1_hex(&format!("{:?}", world.pci_mappings))});
    for (key, text) in &mapping.options {
        let number = text.parse::<u64>().ok().filter(|_| key != "description");
        shown[key] = number.map_or_else(|| json!(text), |number| json!(number));
    }
    shown
}

fn list(world: &World, call: &Call) -> Value {
    let visible = world.pci_mappings.iter().filter(|(id, _)| {
        let held = world.privileges(&call.caller, &format!("/mapping/pci/{id}"));
        ["Mapping.Use", "Mapping.Modify", "Mapping.Audit"].iter().any(|name| held.contains_key(*name))
    });
    let shown = visible.map(|(id, mapping)| {
        let mut entry = shown(world, id, mapping);
        if call.args.get("check-node").is_some() {
            entry["checks"] = json!([]);
        }
        entry
    });
    shown.collect()
}

fn read(world: &World, call: &Call) -> Answer {
    let id = call.args.text("id");
    let missing = || ApiError::plain(format!("mapping '{id}' not found"));
    Ok(shown(world, id, world.pci_mappings.get(id).ok_or_else(missing)?))
}

fn options(call: &Call) -> BTreeMap<String, String> {
    let keys = ["description", "mdev", "live-migration-capable"];
    keys.iter().filter_map(|key| Some(((*key).to_owned(), call.args.get(key)?.to_owned()))).collect()
}

fn create(world: &mut World, call: &Call) -> Answer {
    let id = call.args.text("id").to_owned();
    if world.pci_mappings.contains_key(&id) {
        return Err(ApiError::plain(format!("create PCI mapping failed: pci ID '{id}' already defined")));
    }
    let map = call.args.lists.get("map").cloned().unwrap_or_default();
    world.pci_mappings.insert(id, PciMapping { map, options: options(call) });
    Ok(Value::Null)
}

fn update(world: &mut World, call: &Call) -> Answer {
    let id = call.args.text("id");
    let missing = ApiError::plain(format!("update PCI mapping failed: no such pci mapping '{id}'"));
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
