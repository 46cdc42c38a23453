//! Where everything made from a schematic is.
//!
//! Addresses are computed, never asked for. Another factory (a mirror, one in a place without internet) has the same
//! paths below its own base URL; its registry is the host of that URL.

use std::fmt;

use talmox_types::{Contract, SchematicId, Url, Version};

use crate::schematic::words;
use crate::suggest::closest;

/// The public Image Factory.
pub const OFFICIAL: &str = "https://factory.talos.dev";

/// Where the public factory serves boot scripts; any other one does so itself.
const OFFICIAL_PXE: &str = "https://pxe.talos.dev";

/// From this version on there is an installer for every platform; before, one for all.
const PLATFORM_INSTALLERS: Contract = Contract::new(1, 10);

/// Platforms Talos has images for.
pub const PLATFORMS: [&str; 18] = [
    "akamai",
    "aws",
    "azure",
    "cloudstack",
    "digital-ocean",
    "equinixMetal",
    "exoscale",
    "gcp",
    "hcloud",
    "metal",
    "nocloud",
    "opennebula",
    "openstack",
    "oracle",
    "scaleway",
    "upcloud",
    "vmware",
    "vultr",
];

/// A text that names nothing the factory has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} is not {what}: {rule}")]
pub struct InvalidName {
    pub what: &'static str,
    pub text: String,
    pub rule: String,
}

impl InvalidName {
    fn new(what: &'static str, text: &str, words: &[&str]) -> Self {
        let rule = match closest(text, words.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("one of {}", words.join(", ")),
        };
        Self { what, text: text.to_owned(), rule }
    }
}

/// Where a machine runs, as Talos calls it; on Proxmox `nocloud`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platform(&'static str);

impl Platform {
    pub const NOCLOUD: Self = Self("nocloud");
    pub const METAL: Self = Self("metal");

    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let known = PLATFORMS.iter().find(|name| **name == text);
        known.map(|name| Self(name)).ok_or_else(|| InvalidName::new("a platform of Talos", text, &PLATFORMS))
    }

    pub const fn as_str(&self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

words! {
    /// The architecture of a machine.
    Arch, "an architecture" { Amd64 = "amd64", Arm64 = "arm64" }
    /// The format of a disk image.
    DiskFormat, "a disk format" { Raw = "raw", Qcow2 = "qcow2", Vhd = "vhd", Ova = "ova" }
    /// How a disk image is compressed on its way.
    Compression, "a compression" { Xz = "xz", Gz = "gz", Zst = "zst", TarGz = "tar.gz" }
}

/// What a file from the factory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Artifact {
    Disk {
        format: DiskFormat,
        compression: Option<Compression>,
    },
    Iso,
    /// Kernel, initramfs and command line in one EFI program.
    Uki,
    Kernel,
    Initramfs,
    Cmdline,
    /// The installer as a tar file of a container image.
    InstallerTar,
}

impl Artifact {
    const WORDS: [(&'static str, Self); 6] = [
        ("iso", Self::Iso),
        ("uki", Self::Uki),
        ("kernel", Self::Kernel),
        ("initramfs", Self::Initramfs),
        ("cmdline", Self::Cmdline),
        ("installer-tar", Self::InstallerTar),
    ];

    /// A disk image as it is, without compression.
    pub const fn disk(format: DiskFormat) -> Self {
        Self::Disk { format, compression: None }
    }

    /// Reads `qcow2`, `raw.xz`, `raw.tar.gz`, `iso`, `uki`, `kernel`, `initramfs`, `cmdline` or `installer-tar`.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if let Some((_, artifact)) = Self::WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*artifact);
        }
        let (format, compression) = match text.split_once('.') {
            Some((format, compression)) => (format, Some(compression)),
            None => (text, None),
        };
        let parsed = DiskFormat::parse(format).and_then(|format| match compression {
            None => Some(Self::disk(format)),
            Some(word) => Compression::parse(word)
                .map(|compression| Self::Disk { format, compression: Some(compression) }),
        });
        parsed.ok_or_else(|| Self::invalid(text))
    }

    fn invalid(text: &str) -> InvalidName {
        let formats = DiskFormat::ALL.iter().map(|format| format.as_str());
        let words: Vec<&str> = formats.chain(Self::WORDS.iter().map(|(word, _)| *word)).collect();
        let mut invalid = InvalidName::new("a format", text, &words);
        if closest(text, words).is_none() {
            invalid.rule += "; a disk may end in .xz, .gz, .zst or .tar.gz";
        }
        invalid
    }
}

impl Arch {
    /// Reads `amd64` or `arm64`, and says what is wrong with anything else.
    pub fn read(text: &str) -> Result<Self, InvalidName> {
        let words: Vec<&str> = Self::ALL.iter().map(|arch| arch.as_str()).collect();
        Self::parse(text).ok_or_else(|| InvalidName::new(Self::WHAT, text, &words))
    }
}

impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Disk { format, compression } = self {
            write!(f, "{format}")?;
            return compression.map_or(Ok(()), |compression| write!(f, ".{compression}"));
        }
        f.write_str(Self::WORDS.iter().find(|(_, artifact)| artifact == self).map_or("", |(word, _)| word))
    }
}

/// A file the factory makes from a schematic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageFile {
    pub platform: Platform,
    pub arch: Arch,
    pub secure_boot: bool,
    pub artifact: Artifact,
}

impl ImageFile {
    /// What Proxmox takes for a disk: it decompresses none, and qcow2 is the smaller of the two formats it imports.
    pub const fn for_proxmox(arch: Arch, secure_boot: bool) -> Self {
        Self { platform: Platform::NOCLOUD, arch, secure_boot, artifact: Artifact::disk(DiskFormat::Qcow2) }
    }

    /// The name below schematic and version: `nocloud-amd64-secureboot.qcow2`. The installer's tar file is called by
    /// its platform from Talos 1.10 on.
    pub fn name(&self, version: &Version) -> String {
        let Self { platform, arch, artifact, .. } = self;
        let secure = self.suffix();
        match artifact {
            Artifact::Disk { format, compression: None } => format!("{platform}-{arch}{secure}.{format}"),
            Artifact::Disk { format, compression: Some(compression) } => {
                format!("{platform}-{arch}{secure}.{format}.{compression}")
            }
            Artifact::Iso => format!("{platform}-{arch}{secure}.iso"),
            Artifact::Uki => format!("{platform}-{arch}{secure}-uki.efi"),
            // One kernel and one initramfs for all platforms, with and without Secure Boot.
            Artifact::Kernel => format!("kernel-{arch}"),
            Artifact::Initramfs => format!("initramfs-{arch}.xz"),
            Artifact::Cmdline => format!("cmdline-{platform}-{arch}{secure}"),
            Artifact::InstallerTar => format!("{}-{arch}{secure}.tar", installer_name(platform, version)),
        }
    }

    fn suffix(&self) -> &'static str {
        if self.secure_boot { "-secureboot" } else { "" }
    }
}

fn installer_name(platform: &Platform, version: &Version) -> String {
    if version.contract() < PLATFORM_INSTALLERS {
        "installer".to_owned()
    } else {
        format!("{platform}-installer")
    }
}

/// An Image Factory, by its address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factory {
    base: Url,
}

impl Factory {
    pub fn new(base: Url) -> Self {
        Self { base }
    }

    /// The public one.
    pub fn official() -> Self {
        Self::new(Url::parse(OFFICIAL).expect("the public factory's address is a URL"))
    }

    pub fn base(&self) -> &Url {
        &self.base
    }

    /// A file made from a schematic.
    pub fn image_url(&self, schematic: &SchematicId, version: &Version, file: &ImageFile) -> String {
        format!("{}/image/{schematic}/v{version}/{}", self.base, file.name(version))
    }

    /// The container image that installs Talos on a disk, as a machine configuration names it.
    pub fn installer_image(
        &self,
        schematic: &SchematicId,
        version: &Version,
        platform: &Platform,
        secure_boot: bool,
    ) -> String {
        let name = installer_name(platform, version);
        let secure = if secure_boot { "-secureboot" } else { "" };
        format!("{}/{name}{secure}/{schematic}:v{version}", self.registry())
    }

    /// Host and port images are pulled from, with the path of the factory if it is not at the root.
    pub fn registry(&self) -> String {
        format!("{}{}", self.base.authority(), self.base.path())
    }

    /// The script a machine boots over the network.
    pub fn pxe_url(
        &self,
        schematic: &SchematicId,
        version: &Version,
        platform: &Platform,
        arch: Arch,
        secure_boot: bool,
    ) -> String {
        let base = self.base.to_string();
        let base = if base == OFFICIAL { OFFICIAL_PXE.to_owned() } else { base };
        let secure = if secure_boot { "-secureboot" } else { "" };
        format!("{base}/pxe/{schematic}/v{version}/{platform}-{arch}{secure}")
    }
}
