//! Volumes and their encryption.

use std::collections::BTreeSet;

use super::{Checker, list, number, text};
use crate::document::Document;
use crate::scalar::parse_bytes;
use crate::value::{Map, Value};

/// Volumes of Talos itself, and the release that let them be configured.
const SYSTEM_VOLUMES: [(&str, u16); 7] = [
    ("EPHEMERAL", 8),
    ("IMAGECACHE", 9),
    ("STATE", 11),
    ("ETCD", 14),
    ("CRI", 14),
    ("KUBELET", 14),
    ("LOG", 14),
];

/// Longer names do not fit a partition label.
const LONGEST_NAME: usize = 34;

pub(super) fn check(checker: &mut Checker<'_>) {
    if let Some(document) = checker.legacy() {
        for part in ["state", "ephemeral"] {
            let path = ["machine", "systemDiskEncryption", part];
            if let Some(encryption) = document.at(&path).and_then(Value::as_map) {
                keys(checker, document, encryption, &path.join("."));
            }
        }
    }
    for document in checker.config.documents() {
        match document.kind() {
            "VolumeConfig" => system_volume(checker, document),
            "UserVolumeConfig" => user_volume(checker, document),
            "RawVolumeConfig" | "SwapVolumeConfig" => {
                name(checker, document);
                provisioning(checker, document, true, true);
            }
            "ExistingVolumeConfig" => {
                name(checker, document);
                if document.at(&["discovery", "volumeSelector", "match"]).is_none() {
                    checker.error(document, "discovery.volumeSelector.match", "is missing");
                }
            }
            "LVMLogicalVolumeConfig" => provisioning(checker, document, false, true),
            "UnattendedInstallConfig" => install(checker, document),
            _ => continue,
        }
        if let Some(encryption) = document.at(&["encryption"]).and_then(Value::as_map) {
            self::encryption(checker, document, encryption, "encryption");
        }
    }
}

fn install(checker: &mut Checker<'_>, document: &Document) {
    if document.at(&["provisioning", "diskSelector", "match"]).is_none() {
        let message = "is missing; a patch that touches this document has to repeat it";
        checker.error(document, "provisioning.diskSelector.match", message);
    }
    if document.at(&["installer", "image"]).is_none() {
        checker.warn(document, "installer.image", "is missing; only images of the factory can do without");
    }
}

fn system_volume(checker: &mut Checker<'_>, document: &Document) {
    let name = text(&document.body, "name");
    let known = SYSTEM_VOLUMES.iter().find(|(known, _)| *known == name);
    if !known.is_some_and(|(_, minor)| checker.since(*minor)) {
        let names: Vec<&str> =
            SYSTEM_VOLUMES.iter().filter(|(_, minor)| checker.since(*minor)).map(|(name, _)| *name).collect();
        checker.error(document, "name", format!("is one of {}", names.join(", ")));
    }
    provisioning(checker, document, false, true);
    if name != "STATE" {
        return;
    }
    for key in ["provisioning", "mount"].into_iter().filter(|key| document.body.contains(key)) {
        checker.error(document, key, "cannot be set for STATE");
    }
    let keys = document.at(&["encryption", "keys"]).and_then(Value::as_list).unwrap_or_default();
    if keys.iter().any(|key| key.at(&["lockToState"]).and_then(Value::as_bool) == Some(true)) {
        checker.error(document, "encryption.keys", "STATE cannot be locked to itself (lockToState)");
    }
}

fn user_volume(checker: &mut Checker<'_>, document: &Document) {
    name(checker, document);
    match document.at(&["volumeType"]).and_then(Value::as_text).unwrap_or("partition") {
        "directory" => {
            for key in ["provisioning", "encryption", "filesystem"] {
                if document.body.contains(key) {
                    checker.error(document, key, "is not for directories");
                }
            }
            return;
        }
        "disk" => provisioning(checker, document, true, false),
        "partition" => provisioning(checker, document, true, true),
        _ => checker.error(document, "volumeType", "is partition, disk or directory"),
    }
    let filesystem = document.at(&["filesystem", "type"]).and_then(Value::as_text);
    let known: &[&str] = if checker.since(14) { &["xfs", "ext4", "btrfs"] } else { &["xfs", "ext4"] };
    if filesystem.is_some_and(|kind| !known.contains(&kind)) {
        checker.error(document, "filesystem.type", format!("is one of {}", known.join(", ")));
    }
    let xfs = filesystem.is_none_or(|kind| kind == "xfs");
    let quota = document.at(&["filesystem", "projectQuotaSupport"]).and_then(Value::as_bool) == Some(true);
    if quota && !xfs {
        checker.error(document, "filesystem.projectQuotaSupport", "is for xfs only");
    }
}

fn name(checker: &mut Checker<'_>, document: &Document) {
    let name = text(&document.body, "name");
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if name.is_empty() || name.len() > LONGEST_NAME || !plain {
        let message = format!("has 1 to {LONGEST_NAME} letters, digits and hyphens");
        checker.error(document, "name", message);
    }
}

fn provisioning(checker: &mut Checker<'_>, document: &Document, required: bool, sized: bool) {
    let empty = Map::new();
    let spec = document.at(&["provisioning"]).and_then(Value::as_map).unwrap_or(&empty);
    if required && spec.get("diskSelector").and_then(|value| value.at(&["match"])).is_none() {
        checker.error(document, "provisioning.diskSelector.match", "is missing");
    }
    let (least, most) = (text(spec, "minSize"), text(spec, "maxSize"));
    if !sized {
        for key in ["minSize", "maxSize", "grow"].into_iter().filter(|key| spec.contains(key)) {
            checker.error(document, format!("provisioning.{key}"), "is not for whole disks");
        }
        return;
    }
    if least.starts_with('-') {
        checker.error(document, "provisioning.minSize", "must not be negative");
    }
    if required && least.is_empty() && most.is_empty() {
        checker.error(document, "provisioning", "needs minSize or maxSize");
    }
    if let (Some(least), Some(most)) = (parse_bytes(least), parse_bytes(most))
        && least > most
    {
        checker.error(document, "provisioning.minSize", "is more than maxSize");
    }
}

fn encryption(checker: &mut Checker<'_>, document: &Document, encryption: &Map, path: &str) {
    if text(encryption, "provider") != "luks2" {
        checker.error(document, format!("{path}.provider"), "is luks2");
    }
    keys(checker, document, encryption, path);
}

fn keys(checker: &mut Checker<'_>, document: &Document, encryption: &Map, path: &str) {
    let keys: Vec<&Map> = list(encryption, "keys").iter().filter_map(Value::as_map).collect();
    if keys.is_empty() {
        checker.error(document, format!("{path}.keys"), "is empty");
    }
    let mut slots = BTreeSet::new();
    for (index, key) in keys.into_iter().enumerate() {
        let path = format!("{path}.keys[{index}]");
        if !slots.insert(number(key, "slot")) {
            checker.error(document, format!("{path}.slot"), "is there twice");
        }
        if !["static", "nodeID", "kms", "tpm"].iter().any(|kind| key.contains(kind)) {
            checker.error(document, path.as_str(), "needs static, nodeID, kms or tpm");
        }
        let registers = key.get("tpm").and_then(|tpm| tpm.at(&["options", "pcrs"])).and_then(Value::as_list);
        let valid = |value: &Value| value.as_integer().is_some_and(|pcr| (0..=23).contains(&pcr));
        if !registers.unwrap_or_default().iter().all(valid) {
            checker.error(document, format!("{path}.tpm.options.pcrs"), "are numbers from 0 to 23");
        }
    }
}
