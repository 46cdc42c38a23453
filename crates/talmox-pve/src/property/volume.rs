//! What a drive holds: a volume, or what shall become one.

use std::fmt;

use serde::{Deserialize, Serialize};
use talmox_types::{StorageId, VmId};

use crate::property::{DiskSize, PropertyError, PropertyValue};

/// A volume of a storage: `local-zfs:vm-2001-disk-1`, `local:iso/talos.iso`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeId {
    storage: StorageId,
    name: String,
}

impl VolumeId {
    pub fn new(storage: StorageId, name: &str) -> Result<Self, PropertyError> {
        // People put files with blanks and commas on storages; Proxmox lists them, though no drive can name them all.
        let valid = !name.is_empty() && !name.contains(char::is_control);
        let problem = "the name on the storage must not be empty or contain control characters";
        valid
            .then(|| Self { storage, name: name.to_owned() })
            .ok_or_else(|| PropertyError::new("a volume", name, problem))
    }

    pub fn parse(text: &str) -> Result<Self, PropertyError> {
        let invalid = |problem: String| PropertyError::new("a volume", text, problem);
        let (storage, name) = text
            .split_once(':')
            .ok_or_else(|| invalid("a storage and a name with a colon between".to_owned()))?;
        let storage = StorageId::parse(storage).map_err(|error| invalid(error.to_string()))?;
        Self::new(storage, name)
    }

    pub fn storage(&self) -> &StorageId {
        &self.storage
    }

    /// The name on the storage: `vm-2001-disk-1`, `9000/base-9000-disk-0.qcow2/100/vm-100-disk-0.qcow2`, `iso/x.iso`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last part of the name: of a linked clone its own image, of an ISO the file.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// The VM an image belongs to, which its file name tells on every storage.
    pub fn owner(&self) -> Option<VmId> {
        let image = self.file_name();
        let rest = image.strip_prefix("vm-").or_else(|| image.strip_prefix("base-"))?;
        let (id, _) = rest.split_once('-')?;
        VmId::try_from(id.parse::<u32>().ok()?).ok()
    }

    /// Whether this is the image of a template.
    pub fn is_base(&self) -> bool {
        self.file_name().starts_with("base-")
    }

    /// Whether this is the drive Proxmox makes for cloud-init.
    pub fn is_cloud_init(&self) -> bool {
        let image = self.file_name();
        image.starts_with("vm-") && image.split('.').next().is_some_and(|stem| stem.ends_with("-cloudinit"))
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.storage, self.name)
    }
}

impl std::str::FromStr for VolumeId {
    type Err = PropertyError;
    fn from_str(text: &str) -> Result<Self, PropertyError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for VolumeId {
    type Error = PropertyError;
    fn try_from(text: String) -> Result<Self, PropertyError> {
        Self::parse(&text)
    }
}

impl From<VolumeId> for String {
    fn from(volume: VolumeId) -> Self {
        volume.to_string()
    }
}

impl PropertyValue for VolumeId {
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.problem)
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

/// The first value of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DriveSource {
    Volume(VolumeId),
    /// A volume Proxmox shall make; with `import-from` the size is zero.
    Allocate {
        storage: Option<StorageId>,
        size: DiskSize,
    },
    /// A cloud-init drive Proxmox shall make.
    CloudInit {
        storage: Option<StorageId>,
    },
    /// A file or device of the host; only `root@pam` may set one.
    Path(String),
    /// A CD drive without a medium.
    Empty,
    /// The host's own CD drive.
    HostCdrom,
}

impl DriveSource {
    /// The volume, once there is one.
    pub fn volume(&self) -> Option<&VolumeId> {
        match self {
            Self::Volume(volume) => Some(volume),
            Self::Allocate { .. }
            | Self::CloudInit { .. }
            | Self::Path(_)
            | Self::Empty
            | Self::HostCdrom => None,
        }
    }
}

impl PropertyValue for DriveSource {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Self::Empty),
            "cdrom" => return Ok(Self::HostCdrom),
            path if path.starts_with('/') => return Ok(Self::Path(path.to_owned())),
            _ => {}
        }
        let (storage, name) = match text.split_once(':') {
            Some((storage, name)) => {
                (Some(StorageId::parse(storage).map_err(|error| error.to_string())?), name)
            }
            None => (None, text),
        };
        if name == "cloudinit" {
            return Ok(Self::CloudInit { storage });
        }
        if let Some(size) = DiskSize::parse_gib(name) {
            return Ok(Self::Allocate { storage, size });
        }
        VolumeId::read(text).map(Self::Volume)
    }

    fn print(&self) -> String {
        let on = |storage: &Option<StorageId>, name: &str| match storage {
            Some(storage) => format!("{storage}:{name}"),
            None => name.to_owned(),
        };
        match self {
            Self::Volume(volume) => volume.to_string(),
            Self::Allocate { storage, size } => on(storage, &size.print_gib()),
            Self::CloudInit { storage } => on(storage, "cloudinit"),
            Self::Path(path) => path.clone(),
            Self::Empty => "none".to_owned(),
            Self::HostCdrom => "cdrom".to_owned(),
        }
    }
}

impl fmt::Display for DriveSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print())
    }
}

impl From<VolumeId> for DriveSource {
    fn from(volume: VolumeId) -> Self {
        Self::Volume(volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_from_names_of_every_storage() {
        for (text, owner, base) in [
            ("local-zfs:vm-2001-disk-1", Some(2001), false),
            ("local:120/base-120-disk-0.qcow2", Some(120), true),
            ("local:120/base-120-disk-0.qcow2/121/vm-121-disk-0.qcow2", Some(121), false),
            ("local:iso/talos.iso", None, false),
            ("local:iso/some, old file.iso", None, false),
        ] {
            let volume = VolumeId::parse(text).unwrap();
            assert_eq!(volume.owner().map(VmId::get), owner, "{text}");
            assert_eq!(volume.is_base(), base, "{text}");
            assert_eq!(volume.to_string(), text);
        }
        assert!(VolumeId::parse("local:110/vm-110-cloudinit.qcow2").unwrap().is_cloud_init());
        assert!(!VolumeId::parse("local:iso/my-cloudinit.iso").unwrap().is_cloud_init());
    }

    #[test]
    fn sources_in_every_form() {
        for text in [
            "none",
            "cdrom",
            "/dev/sdz",
            "local:cloudinit",
            "cloudinit",
            "local:32",
            "local:0.5",
            "8",
            "l0:x",
        ] {
            assert_eq!(DriveSource::read(text).unwrap().print(), text);
        }
        assert!(DriveSource::read("local").is_err());
        assert!(DriveSource::read("local:").is_err());
    }
}
