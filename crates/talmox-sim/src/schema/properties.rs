//! Property strings: `k=v,k=v` with one key that may stand bare.

use std::collections::BTreeMap;

use super::check::check_object;
use super::table::format_named;
use super::{Format, Kind};

/// The keys of a property string.
pub(crate) type Parsed = BTreeMap<String, String>;

/// `1`/`0` for any of the words PVE takes for a boolean inside a property string.
pub(crate) fn parse_boolean(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some("1"),
        "0" | "off" | "no" | "false" => Some("0"),
        _ => None,
    }
}

/// Splits and checks a property string. `path` is the name used in error texts.
pub(crate) fn parse(format: &Format, text: &str, path: &str) -> Result<Parsed, String> {
    let parsed = split(format, text)?;
    let errors = check_object(format, &parsed, path);
    if errors.is_empty() {
        return Ok(parsed);
    }
    let lines = errors.iter().map(|(key, reason)| format!("{key}: {reason}\n"));
    Err(format!("format error\n{}", lines.collect::<String>()))
}

/// Takes a property string apart.
fn split(format: &Format, text: &str) -> Result<Parsed, String> {
    let mut parsed = Parsed::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => (key, value),
            Some(_) => return Err("missing key in comma-separated list property\n".into()),
            None => {
                let key = format.default_key();
                (key.ok_or("value without key, but schema does not define a default key\n")?, part)
            }
        };
        put(format, &mut parsed, key, value)?;
    }
    Ok(parsed)
}

fn put(format: &Format, parsed: &mut Parsed, key: &str, value: &str) -> Result<(), String> {
    let mut name = key;
    let mut prop = format.props.get(key);
    if let Some(alias) = prop.and_then(|prop| prop.alias.as_deref()) {
        if let Some(other) = prop.and_then(|prop| prop.key_alias.as_deref())
            && parsed.insert(other.to_owned(), key.to_owned()).is_some()
        {
            return Err(format!("key alias '{other}' is already defined\n"));
        }
        name = alias;
        prop = format.props.get(alias);
    }
    let boolean = prop.filter(|prop| prop.kind == Kind::Bool).and_then(|_| parse_boolean(value));
    if parsed.insert(name.to_owned(), boolean.unwrap_or(value).to_owned()).is_some() {
        return Err(format!("duplicate key in comma-separated list property: {name}\n"));
    }
    Ok(())
}

/// Takes apart a value that was checked when it came in.
pub(crate) fn parse_as(name: &str, text: &str) -> Parsed {
    let Some(format) = format_named(name) else { return Parsed::new() };
    split(format, text).unwrap_or_default()
}

/// Prints keys in PVE's normal form: the default key bare and first, required keys, then the rest by name.
pub(crate) fn print(name: &str, parsed: &Parsed) -> String {
    let Some(format) = format_named(name) else { return String::new() };
    let default = format.default_key();
    let key_alias =
        format.props.values().find_map(|prop| Some((prop.key_alias.clone()?, prop.alias.clone()?)));
    let mut parts = Vec::new();
    let mut done: Vec<&str> = Vec::new();
    if let Some((key, value)) = default.and_then(|key| Some((key, parsed.get(key)?))) {
        done.push(key);
        let folded = key_alias
            .as_ref()
            .filter(|(other, _)| other == key)
            .and_then(|(_, target)| parsed.get_key_value(target));
        match folded {
            Some((target, text)) => {
                done.push(target);
                parts.push(format!("{value}={text}"));
            }
            None => parts.push(value.clone()),
        }
    }
    let required = |key: &&String| format.props.get(*key).is_some_and(|prop| !prop.optional);
    let rest = || parsed.keys().filter(|key| !done.contains(&key.as_str()));
    let ordered: Vec<&String> = rest().filter(required).chain(rest().filter(|key| !required(key))).collect();
    parts.extend(ordered.into_iter().map(|key| format!("{key}={}", parsed[key])));
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(name: &str, text: &str) -> String {
        print(name, &parse(format_named(name).unwrap(), text, "x").unwrap())
    }

    #[test]
    fn drives_and_nics_are_printed_with_sorted_keys() {
        assert_eq!(
            normal("drive-scsi", "ssd=on,file=st:vm-1-disk-0,size=2G,backup=no,discard=on"),
            "st:vm-1-disk-0,backup=0,discard=on,size=2G,ssd=1"
        );
        assert_eq!(normal("drive-scsi", "volume=st:x,cache=none"), "st:x,cache=none");
        assert_eq!(
            normal("net", "tag=7,virtio=BC:24:11:00:00:01,firewall=1,bridge=vmbr0"),
            "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,tag=7"
        );
        assert_eq!(
            normal("net", "model=virtio,macaddr=BC:24:11:00:00:01,bridge=vmbr0"),
            "virtio=BC:24:11:00:00:01,bridge=vmbr0"
        );
        assert_eq!(normal("net", "e1000,bridge=vmbr0"), "e1000,bridge=vmbr0");
    }

    #[test]
    fn printing_is_a_fixed_point() {
        for (name, text) in [
            ("drive-scsi", "local:0,import-from=local:import/x.qcow2,format=qcow2"),
            ("net", "virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=4"),
            ("efidisk", "st:1,efitype=4m,pre-enrolled-keys=1"),
            ("hostpci", "mapping=gpu,pcie=1"),
            ("vm-cpu-conf", "host,flags=+aes;-pcid"),
            ("smbios1", "uuid=9f87e1f6-cdf5-4487-91c1-92aae8f98489,serial=eA==,base64=1"),
            ("agent", "1,fstrim_cloned_disks=1,type=virtio"),
        ] {
            let once = normal(name, text);
            assert_eq!(normal(name, &once), once);
        }
    }

    #[test]
    fn double_keys_and_bare_values_without_a_default_fail() {
        let fails = |name: &str, text: &str| parse(format_named(name).unwrap(), text, "x").unwrap_err();
        assert!(fails("net", "virtio,bridge=a,bridge=b").contains("duplicate key"));
        assert!(fails("smbios1", "abc").contains("value without key"));
        assert!(fails("net", "virtio,bogus=1").contains("x.bogus: property is not defined in schema"));
    }
}
