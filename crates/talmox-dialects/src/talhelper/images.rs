//! What machines are installed from.

use talmox_types::SchematicId;
use talmox_yaml::Node;

use super::draft::{Draft, Place};
use super::file::{MachineSpecBlock, TalconfigBlock};
use super::group::{Pick, effective, nearest};
use crate::tree::{self, Tree};

pub(super) fn convert(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    schematics(draft, config);
    for given in nearest(config, "talosImageURL", |group| group.image_url.as_ref()) {
        if let Some(url) = draft.text(given.at) {
            installer(draft, &given.place, &url);
        }
    }
    for given in nearest(config, "machineSpec", |group| group.machine_spec.as_ref()) {
        machine_spec(draft, &given.place, &given.at.value);
    }
    for given in nearest(config, "imageSchematic", |group| group.image_schematic.as_ref()) {
        draft.unsupported(given.place.path, "machines boot and are installed from one schematic");
    }
}

/// The schematic most nodes have first is the cluster's.
fn schematics(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    let pick: Pick<Tree> = |group| group.schematic.as_ref();
    let Some(first) = effective(config, pick).into_iter().flatten().next() else { return };
    let first = &first.value.0;
    let converted = nearest(config, "schematic", pick);
    let paths: Vec<String> = converted.iter().map(|given| given.place.path.clone()).collect();
    let written = schematic(draft, &paths[0], first);
    draft.cluster_key("schematic", written);
    for given in converted {
        if tree::same(&given.at.value.0, first) {
            draft.honoured(given.place.path, "schematic");
        } else {
            draft.unsupported(
                given.place.path,
                "the cluster has one schematic; give this node schematic_id, which `talmox schematic id` computes",
            );
        }
    }
}

fn schematic(draft: &mut Draft<'_>, path: &str, given: &Node) -> Node {
    let mut entries = Vec::new();
    for (key, value) in tree::entries(given) {
        match key {
            "overlay" => entries.push(("overlay", value.clone())),
            "customization" => entries.extend(customization(draft, &format!("{path}.{key}"), value)),
            _ => draft.unsupported(format!("{path}.{key}"), "there is no key for it"),
        }
    }
    tree::map(entries)
}

fn customization(draft: &mut Draft<'_>, path: &str, given: &Node) -> Vec<(&'static str, Node)> {
    let mut entries = Vec::new();
    for (key, value) in tree::entries(given) {
        match key {
            "extraKernelArgs" => entries.push(("kernel_args", value.clone())),
            "bootloader" => entries.push(("bootloader", value.clone())),
            "systemExtensions" => {
                let extensions = tree::get(value, "officialExtensions").cloned();
                entries.extend(extensions.map(|list| ("extensions", list)));
            }
            "meta" => {
                let pairs = tree::items(value).iter().filter_map(|item| {
                    Some((tree::get_text(item, "key")?, tree::get(item, "value")?.clone()))
                });
                entries.push(("meta", tree::map(pairs.map(|(key, value)| (key.to_owned(), value)))));
            }
            _ => draft.unsupported(format!("{path}.{key}"), "there is no key for it"),
        }
    }
    entries
}

/// `HOST/[PLATFORM-]installer[-secureboot]/ID` names a schematic; anything else is an installer of one's own.
fn installer(draft: &mut Draft<'_>, place: &Place, url: &str) {
    let parts: Vec<&str> = url.rsplit('/').collect();
    let id = parts.first().and_then(|id| SchematicId::parse(id).ok());
    let of_factory = parts.get(1).is_some_and(|name| name.contains("installer"));
    match id.filter(|_| of_factory) {
        Some(id) => {
            draft.setting(place, "schematic_id", &tree::text(id.as_str()));
            draft.translated(place.path.as_str(), "schematic_id; the installer follows from it");
        }
        None => draft.unsupported(
            place.path.as_str(),
            "an installer that is not of an Image Factory: install_images names it for all nodes",
        ),
    }
}

fn machine_spec(draft: &mut Draft<'_>, place: &Place, spec: &MachineSpecBlock) {
    let path = |key: &str| format!("{}.{key}", place.path);
    if let Some(at) = &spec.secure_boot {
        draft.setting(place, "secure_boot", &tree::plain(&at.value));
        draft.honoured(path("secureboot"), "secure_boot");
    }
    if spec.mode.is_some() {
        draft.translated(path("mode"), "VMs of Proxmox are nocloud machines");
    }
    match spec.arch.as_ref().map(|at| at.value.0.as_str()) {
        None => {}
        Some("amd64") => draft.honoured(path("arch"), "the only one"),
        Some(_) => draft.unsupported(path("arch"), "VMs are amd64"),
    }
    for (said, key) in [
        (spec.use_uki.is_some(), "useUKI"),
        (spec.boot_method.is_some(), "bootMethod"),
        (spec.image_suffix.is_some(), "imageSuffix"),
    ] {
        if said {
            draft.translated(path(key), "the image is chosen by boot:, secure_boot: and the Talos version");
        }
    }
}
