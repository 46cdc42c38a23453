//! Drives and NICs as values: their keys, their parts, and PVE's normal form of both.

use crate::schema::{self, Parsed};

/// No image is larger: 8 PiB, beyond every storage, exact as a float, and sums of many still fit.
pub(crate) const LARGEST_IMAGE: u64 = 1 << 53;

/// What is said of a size beyond that.
pub(crate) fn too_large(size: &str) -> String {
    format!("disk size '{size}' is too large")
}

#[derive(Clone, Debug)]
pub(crate) struct Drive {
    pub(crate) key: String,
    pub(crate) props: Parsed,
}

/// Splits a numbered key: `scsi10` is `scsi` and 10.
pub(crate) fn split_key(key: &str) -> Option<(&str, u32)> {
    let digits = key.trim_start_matches(|c: char| !c.is_ascii_digit());
    let name = key.strip_suffix(digits)?;
    Some((name, digits.parse().ok()?))
}

pub(crate) fn is_drive(key: &str) -> bool {
    format_of(key).is_some()
}

pub(crate) fn is_nic(key: &str) -> bool {
    split_key(key).is_some_and(|(name, _)| name == "net")
}

fn format_of(key: &str) -> Option<&'static str> {
    match split_key(key)?.0 {
        "ide" => Some("drive-ide"),
        "sata" => Some("drive-sata"),
        "scsi" => Some("drive-scsi"),
        "virtio" => Some("drive-virtio"),
        "efidisk" => Some("efidisk"),
        "tpmstate" => Some("tpmstate"),
        "unused" => Some("unused"),
        _ => None,
    }
}

impl Drive {
    pub(crate) fn parse(key: &str, text: &str) -> Self {
        let props = format_of(key).map(|format| schema::parse_as(format, text)).unwrap_or_default();
        Self { key: key.to_owned(), props }
    }

    pub(crate) fn file(&self) -> &str {
        self.get("file").unwrap_or_default()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.props.get(name).map(String::as_str)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.props.insert(name.to_owned(), value.into());
    }

    /// A CD-ROM drive, the cloud-init drive among them.
    pub(crate) fn is_cdrom(&self) -> bool {
        self.get("media") == Some("cdrom") || matches!(self.file(), "none" | "cdrom") || self.is_cloudinit()
    }

    pub(crate) fn is_cloudinit(&self) -> bool {
        let name = self.file().split_once(':').map_or("", |(_, name)| name);
        let last = name.rsplit('/').next().unwrap_or_default();
        name == "cloudinit"
            || (last.starts_with("vm-") && last.split('.').next().unwrap_or_default().ends_with("-cloudinit"))
    }

    pub(crate) fn size(&self) -> u64 {
        self.get("size").and_then(parse_size).unwrap_or_default()
    }

    /// `storage:GiB`, with or without the storage.
    pub(crate) fn new_disk(&self) -> Option<(Option<&str>, &str)> {
        let file = self.file();
        let (storage, size) =
            file.split_once(':').map_or((None, file), |(storage, size)| (Some(storage), size));
        let good =
            !size.is_empty() && size.parse::<f64>().is_ok() && size.starts_with(|c: char| c.is_ascii_digit());
        let plain = size.chars().all(|c| c.is_ascii_digit() || c == '.');
        (good && plain && !self.is_none()).then_some((storage, size))
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self.file(), "none" | "cdrom" | "")
    }

    /// The normal form; what only matters while a disk is made is left out.
    pub(crate) fn print(&self) -> String {
        let mut props = self.props.clone();
        props.remove("format");
        props.remove("import-from");
        self.print_props(&props)
    }

    /// The normal form with everything.
    pub(crate) fn print_full(&self) -> String {
        self.print_props(&self.props)
    }

    fn print_props(&self, props: &Parsed) -> String {
        format_of(&self.key).map(|format| schema::print(format, props)).unwrap_or_default()
    }
}

/// Bytes of `10G`, `1.5T`, `512`; none if that is no size or too large.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    scale(digits, shift)
}

/// A decimal number times two to the power of `shift`, without the rounding of floats for whole numbers; none beyond the
/// largest image.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "what is negative or beyond 2^53 is sorted out before"
)]
pub(crate) fn scale(digits: &str, shift: u32) -> Option<u64> {
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1_u64 << shift).filter(|bytes| *bytes <= LARGEST_IMAGE);
    }
    let bytes = digits.parse::<f64>().ok()? * (1_u64 << shift) as f64;
    (0.0..=LARGEST_IMAGE as f64).contains(&bytes).then_some(bytes as u64)
}

/// A size in the largest unit that divides it.
pub(crate) fn print_size(mut bytes: u64) -> String {
    let mut units = ["", "K", "M", "G", "T"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if !bytes.is_multiple_of(1024) {
            break;
        }
        bytes /= 1024;
        unit = next;
    }
    format!("{bytes}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_the_largest_exact_unit() {
        for (bytes, text) in
            [(540_672, "528K"), (2 << 30, "2G"), (7024 << 20, "7024M"), (0, "0T"), (513, "513")]
        {
            assert_eq!(print_size(bytes), text);
        }
        assert_eq!(parse_size("1.5G"), Some(3 << 29));
        assert_eq!(parse_size("8Q"), None);
        assert_eq!(parse_size("8192T"), Some(LARGEST_IMAGE));
        for large in ["8193T", "8192.5T", "99999999999999999T", "99999999999999999999999", "1e300T"] {
            assert_eq!(parse_size(large), None, "{large}");
        }
    }

    #[test]
    fn new_disks_are_told_from_volumes() {
        let new = |text: &str| {
            Drive::parse("scsi0", text)
                .new_disk()
                .map(|(storage, size)| (storage.map(str::to_owned), size.to_owned()))
        };
        assert_eq!(new("local:8"), Some((Some("local".into()), "8".into())));
        assert_eq!(new("local:0.5,ssd=1"), Some((Some("local".into()), "0.5".into())));
        assert_eq!(new("8"), Some((None, "8".into())));
        assert_eq!(new("local:100/vm-100-disk-0.raw"), None);
        assert_eq!(new("zfs:vm-100-disk-0"), None);
        assert_eq!(new("none,media=cdrom"), None);
    }

    #[test]
    fn cloud_init_drives_are_known_by_their_volume() {
        let is = |text: &str| Drive::parse("ide2", text).is_cloudinit();
        assert!(
            is("local:cloudinit")
                && is("local:110/vm-110-cloudinit.qcow2,media=cdrom")
                && is("zfs:vm-1-cloudinit")
        );
        assert!(!is("local:iso/x.iso,media=cdrom") && !is("none,media=cdrom"));
    }
}
