//! Every configuration value of the recordings, and every option of Proxmox's own formats.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

use serde_json::Value;
use talmox_pve::property::{
    Agent, Boot, CpuModel, Disk, EfiDisk, HostPci, IpConfig, Machine, Memory, NetDevice, PropertyError, Slot,
    SlotKind, Smbios, Startup, Tags, TpmState, UnusedDisk,
};

/// Parses a value by its key. `Ok(None)` for keys that hold no property string.
fn check(key: &str, text: &str) -> Result<Option<String>, PropertyError> {
    let kind = Slot::parse(key).ok().map(Slot::kind);
    match (key, kind) {
        ("agent", _) => round_trip(text, Agent::parse),
        ("boot", _) => round_trip(text, Boot::parse),
        ("cpu", _) => round_trip(text, CpuModel::parse),
        ("machine", _) => round_trip(text, Machine::parse),
        ("memory", _) => round_trip(text, Memory::parse),
        ("smbios1", _) => round_trip(text, Smbios::parse),
        ("startup", _) => round_trip(text, Startup::parse),
        ("tags", _) => round_trip(text, Tags::parse),
        (_, Some(SlotKind::EfiDisk)) => round_trip(text, EfiDisk::parse),
        (_, Some(SlotKind::TpmState)) => round_trip(text, TpmState::parse),
        (_, Some(SlotKind::HostPci)) => round_trip(text, HostPci::parse),
        (_, Some(SlotKind::IpConfig)) => round_trip(text, IpConfig::parse),
        (_, Some(SlotKind::Net)) => round_trip(text, NetDevice::parse),
        (_, Some(SlotKind::Unused)) => round_trip(text, UnusedDisk::parse),
        (_, Some(_)) if Slot::parse(key).is_ok_and(Slot::is_drive) => round_trip(text, Disk::parse),
        _ => Ok(None),
    }
}

fn round_trip<T: Display + PartialEq + Debug>(
    text: &str,
    parse: fn(&str) -> Result<T, PropertyError>,
) -> Result<Option<String>, PropertyError> {
    let value = parse(text)?;
    let printed = value.to_string();
    let again = parse(&printed)?;
    assert_eq!(again, value, "{text} printed as {printed}");
    assert_eq!(again.to_string(), printed, "{text}");
    Ok(Some(printed))
}

/// Values PVE re-prints, so that what it shows must be what we print, byte for byte.
fn is_reprinted(key: &str) -> bool {
    key == "tags" || Slot::parse(key).is_ok_and(|slot| slot.holds_volume() || slot.kind() == SlotKind::Net)
}

/// A VM's configuration in a reply: an object with a digest, or the list of `pending`.
fn configs(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match &body["data"] {
        Value::Object(map) if map.contains_key("digest") => {
            map.iter().map(|(key, value)| (key.clone(), text(value))).collect()
        }
        Value::Array(items) => items
            .iter()
            .filter(|item| item["key"].is_string())
            .flat_map(|item| {
                [&item["value"], &item["pending"]].map(|value| (item["key"].clone(), value.clone()))
            })
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (text(&key), text(&value)))
            .collect(),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[test]
fn every_value_a_server_showed() {
    let Some(Value::Array(pairs)) = crate::support::json("pve-transcripts.json") else { return };
    let mut seen = BTreeSet::new();
    for pair in &pairs {
        let body = &pair["response"]["body"];
        let body =
            body.as_str().map_or_else(|| body.clone(), |text| serde_json::from_str(text).unwrap_or_default());
        for (key, text) in configs(&body) {
            let printed = check(&key, &text).unwrap_or_else(|error| panic!("{key}: {error}"));
            if let Some(printed) = printed.filter(|_| is_reprinted(&key)) {
                assert_eq!(printed, text.trim(), "{key}");
            }
            seen.insert((key, text));
        }
    }
    assert!(seen.len() > 100, "only {} values found: has the layout changed?", seen.len());
}

#[test]
fn every_value_a_server_accepted() {
    let Some(Value::Array(pairs)) = crate::support::json("pve-transcripts.json") else { return };
    let mut seen = BTreeSet::new();
    for pair in &pairs {
        let request = &pair["request"];
        let about_vm = request["path"].as_str().is_some_and(|path| path.contains("/qemu"));
        let accepted = pair["response"]["status"] == 200;
        let Some(params) = request["params"].as_object().filter(|_| about_vm && accepted) else { continue };
        for (key, value) in params {
            let Some(text) = value.as_str() else { continue };
            let printed = check(key, text).unwrap_or_else(|error| panic!("{key}: {error}"));
            seen.extend(printed.map(|_| text.to_owned()));
        }
    }
    assert!(seen.len() > 30, "only {} values found: has the layout changed?", seen.len());
}

/// A value for an option, made from its schema.
fn example(schema: &Value) -> String {
    if let Some(word) = schema["enum"][0].as_str() {
        return word.to_owned();
    }
    let format = schema["format"].as_str().unwrap_or_default();
    match (schema["type"].as_str().unwrap_or_default(), format) {
        ("boolean", _) => "1".to_owned(),
        ("integer" | "number", _) => schema["minimum"].as_u64().unwrap_or(1).to_string(),
        (_, "disk-size") => "1536M".to_owned(),
        (_, "mac-addr") => "BC:24:11:00:00:01".to_owned(),
        (_, "ipv4") => "10.0.0.1".to_owned(),
        (_, "ipv6") => "fd00::1".to_owned(),
        (_, "pve-ipv4-config") => "10.0.0.5/24".to_owned(),
        (_, "pve-ipv6-config") => "fd00::5/64".to_owned(),
        (_, "pve-volume-id" | "pve-volume-id-or-qm-path") => "local:100/vm-100-disk-0.raw".to_owned(),
        (_, "pve-qm-bootdev-list") => "scsi0;net0".to_owned(),
        (_, _) if schema["format_description"] == "HOSTPCIID[;HOSTPCIID2...]" => "0000:01:00.0".to_owned(),
        (_, _) if schema["format_description"] == "Base64 encoded string" => "S1ZN".to_owned(),
        (_, _) => "word".to_owned(),
    }
}

#[test]
fn every_option_of_every_format() {
    let Some(formats) = crate::support::json("pve-formats.json.gz") else { return };
    let properties = formats["qemu_config_properties"].as_object().expect("a table of properties");
    let mut options = 0;
    for (key, property) in properties {
        let format =
            if property["format"].is_object() { &property["format"] } else { &property["format_resolved"] };
        let Some(format) = format.as_object() else { continue };
        let default_key = format.iter().find(|(_, option)| option["default_key"] == 1);
        let first = default_key.map(|(name, option)| format!("{name}={}", example(option)));
        for (name, option) in format.iter().filter(|(_, option)| option["default_key"] != 1) {
            // `legacy` and `order` exclude each other; a model key or an alias brings the default option itself.
            let is_default =
                option["alias"].as_str().is_some_and(|target| format[target]["default_key"] == 1);
            let alone = key == "boot" || option["keyAlias"].is_string() || is_default;
            let target = option["alias"].as_str().map_or(option, |target| &format[target]);
            let value = format!("{name}={}", example(target));
            let text = match &first {
                Some(first) if !alone => format!("{value},{first}"),
                _ => value,
            };
            options +=
                usize::from(check(key, &text).unwrap_or_else(|error| panic!("{key}: {error}")).is_some());
        }
    }
    assert!(options > 1000, "only {options} options found: has the layout changed?");
}
