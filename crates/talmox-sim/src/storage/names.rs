//! What the names of volumes say.

use super::Storage;

/// What a volume's name says about it.
#[derive(Debug, PartialEq)]
pub(crate) struct VolumeName {
    pub(crate) content: &'static str,
    /// The last part of the name.
    pub(crate) name: String,
    pub(crate) vmid: Option<u32>,
    pub(crate) format: String,
    /// Name of the base image, if this is a linked clone.
    pub(crate) base: Option<String>,
}

pub(crate) fn split_volid(volid: &str) -> Option<(&str, &str)> {
    volid
        .split_once(':')
        .filter(|(storage, name)| !storage.is_empty() && !storage.contains('/') && !name.is_empty())
}

/// Reads the name of a volume by the rules of its storage's type.
pub(crate) fn parse_name(storage: &Storage, name: &str) -> Result<VolumeName, String> {
    let (parsed, family) = match storage.traits().name {
        "zfspool" => (parse_block_name(name), "zfs"),
        "rbd" => (parse_block_name(name), "rbd"),
        "lvmthin" => (parse_block_name(name).filter(|parsed| parsed.base.is_none()), "lvm"),
        "lvm" => (parse_block_name(name).filter(|parsed| parsed.name.starts_with("vm-")), "lvm"),
        _ => (parse_file_name(name), "directory"),
    };
    let format = |parsed: &VolumeName| match storage.traits().name {
        "lvm" => parsed.name.split_once('.').map_or("raw", |(_, format)| format).to_owned(),
        _ => parsed.format.clone(),
    };
    let parsed = parsed.map(|parsed| VolumeName { format: format(&parsed), ..parsed });
    parsed.ok_or_else(|| format!("unable to parse {family} volume name '{name}'"))
}

fn parse_file_name(text: &str) -> Option<VolumeName> {
    let parts: Vec<&str> = text.split('/').collect();
    let extension = |name: &str| name.rsplit_once('.').map(|(_, extension)| extension.to_owned());
    let file = |content, name: &str, format| {
        Some(VolumeName { content, name: name.to_owned(), vmid: None, format, base: None })
    };
    match parts[..] {
        ["iso", name] => file("iso", name, "raw".into()),
        ["vztmpl", name] => file("vztmpl", name, format!("t{}", extension(name)?)),
        ["snippets", name] => file("snippets", name, "snippet".into()),
        ["import", name] => file("import", name, extension(name)?),
        ["backup", name] => file("backup", name, extension(name)?),
        [folder, name] => {
            let vmid = folder.parse().ok()?;
            let format = extension(name)
                .filter(|format| matches!(format.as_str(), "raw" | "qcow2" | "vmdk" | "subvol"))?;
            Some(VolumeName {
                content: "images",
                name: name.to_owned(),
                vmid: Some(vmid),
                format,
                base: None,
            })
        }
        [base_folder, base_name, folder, name] => {
            let inner = parse_file_name(&format!("{folder}/{name}"))?;
            Some(VolumeName { base: Some(format!("{base_folder}/{base_name}")), ..inner })
        }
        _ => None,
    }
}

fn parse_block_name(text: &str) -> Option<VolumeName> {
    let (base, name) =
        text.split_once('/').map_or((None, text), |(base, name)| (Some(base.to_owned()), name));
    let mut parts = name.splitn(3, '-');
    let kind = parts.next().filter(|kind| matches!(*kind, "vm" | "base"));
    let vmid = parts.next().and_then(|id| id.parse().ok());
    kind.and(parts.next())?;
    Some(VolumeName {
        content: "images",
        name: name.to_owned(),
        vmid: Some(vmid?),
        format: "raw".into(),
        base,
    })
}
