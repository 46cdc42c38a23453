//! `talmox schematic`

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};
use talmox_image::{Arch, Artifact, Bootloader, EnrollKeys, MetaValue, Platform};
use talmox_types::{Url, Version};

use super::{Output, TrustArgs};

/// Say what an image is made of, its id, and where it is
#[derive(Args)]
#[command(after_help = "Examples:
  talmox schematic id --extension siderolabs/qemu-guest-agent
  talmox schematic show -f schematic.yaml       the text the id is made from
  talmox schematic url -f examples/homelab      images of the description's schematic
  talmox schematic url --format iso --talos-version 1.13.9 --secure-boot")]
pub(crate) struct Schematic {
    #[command(subcommand)]
    pub what: SchematicWhat,
}

#[derive(Subcommand)]
pub(crate) enum SchematicWhat {
    Id(SchematicId),
    Show(SchematicShow),
    Url(Box<SchematicUrl>),
}

/// Print the id, computed without asking anybody
#[derive(Args)]
#[command(after_help = "Examples:
  talmox schematic id                           that of the description in this folder
  talmox schematic id -f schematic.yaml
  talmox schematic id --extension siderolabs/iscsi-tools --kernel-arg console=ttyS0,115200")]
pub(crate) struct SchematicId {
    #[command(flatten)]
    pub made_of: MadeOf,
    #[command(flatten)]
    pub output: Output,
}

/// Print the schematic as the Image Factory keeps it; the id is the hash of these bytes
#[derive(Args)]
#[command(after_help = "Examples:
  talmox schematic show -f schematic.yaml
  talmox schematic show --extension siderolabs/qemu-guest-agent | sha256sum")]
pub(crate) struct SchematicShow {
    #[command(flatten)]
    pub made_of: MadeOf,
    #[command(flatten)]
    pub output: Output,
}

/// Print where images, installer and boot script are
///
/// A factory serves only schematics it was told of; --register tells it, and checks that the Talos version has the extensions.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox schematic url                          all that matter on Proxmox
  talmox schematic url --format qcow2           one, for scripts
  talmox schematic url --format installer --platform metal --arch arm64
  talmox schematic url --register --extension siderolabs/qemu-guest-agent")]
pub(crate) struct SchematicUrl {
    #[command(flatten)]
    pub made_of: MadeOf,
    /// Talos version (default: the description's)
    #[arg(long, env = "TALMOX_TALOS_VERSION", value_name = "VERSION", value_parser = Version::parse)]
    pub talos_version: Option<Version>,
    /// Where the machine runs, as Talos calls it
    #[arg(long, env = "TALMOX_PLATFORM", value_name = "NAME", default_value = "nocloud", value_parser = Platform::parse)]
    pub platform: Platform,
    /// Architecture: amd64 or arm64
    #[arg(long, env = "TALMOX_ARCH", value_name = "ARCH", default_value = "amd64", value_parser = Arch::read)]
    pub arch: Arch,
    /// Only this one: installer, pxe, iso, qcow2, raw, vhd or ova (with .xz, .gz, .zst or .tar.gz), uki, kernel, initramfs,
    /// cmdline or installer-tar
    #[arg(long, env = "TALMOX_FORMAT", value_name = "FORMAT", value_parser = Wanted::parse)]
    pub format: Option<Wanted>,
    /// Images for Secure Boot (default: what the description says)
    #[arg(long, env = "TALMOX_SECURE_BOOT", value_parser = FalseyValueParser::new())]
    pub secure_boot: bool,
    /// The Image Factory (default: the description's, or the public one)
    #[arg(long, env = "TALMOX_FACTORY", value_name = "URL", value_parser = Url::parse)]
    pub factory: Option<Url>,
    /// Tell the factory of the schematic, and check the extensions
    #[arg(long, env = "TALMOX_REGISTER", value_parser = FalseyValueParser::new())]
    pub register: bool,
    #[command(flatten)]
    pub output: Output,
}

/// What the image is made of. Lists keep the order they are given in: it changes the id.
#[derive(Args)]
pub(crate) struct MadeOf {
    /// A schematic file, or a description (default: the description in this folder, unless the flags below say what is
    /// wanted)
    #[arg(short, long, env = "TALMOX_FILE", value_name = "PATH")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// A system extension; may be given several times
    #[arg(long = "extension", env = "TALMOX_EXTENSION", value_name = "NAME", value_delimiter = ',')]
    pub extensions: Vec<String>,
    /// An extra kernel argument; may be given several times
    #[arg(long = "kernel-arg", env = "TALMOX_KERNEL_ARG", value_name = "ARG")]
    pub kernel_args: Vec<String>,
    /// A META value, by a key from 0 to 255; may be given several times
    #[arg(long, env = "TALMOX_META", value_name = "KEY=VALUE", value_parser = meta)]
    pub meta: Vec<MetaValue>,
    /// Boot loader: dual-boot, sd-boot or grub
    #[arg(long, env = "TALMOX_BOOTLOADER", value_name = "NAME", value_parser = bootloader)]
    pub bootloader: Option<Bootloader>,
    /// When Secure Boot images enroll keys: off, manual, if-safe or force
    #[arg(long, env = "TALMOX_ENROLL_KEYS", value_name = "WHEN", value_parser = enroll_keys)]
    pub enroll_keys: Option<EnrollKeys>,
    /// Let Secure Boot images enroll well-known certificates too
    #[arg(long, env = "TALMOX_WELL_KNOWN_CERTIFICATES", value_parser = FalseyValueParser::new())]
    pub well_known_certificates: bool,
}

/// What an address is wanted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The container image a machine configuration names.
    Installer,
    /// The script a machine boots over the network.
    Pxe,
    File(Artifact),
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "installer" => Ok(Self::Installer),
            "pxe" => Ok(Self::Pxe),
            _ => Artifact::parse(text).map(Self::File).map_err(|error| error.to_string()),
        }
    }
}

fn meta(text: &str) -> Result<MetaValue, String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as 10=text")?;
    let key = match key.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => key.parse(),
    };
    let key = key.map_err(|_| "the key is a number from 0 to 255")?;
    Ok(MetaValue { key, value: value.to_owned() })
}

fn bootloader(text: &str) -> Result<Bootloader, &'static str> {
    Bootloader::parse(text).ok_or("one of dual-boot, sd-boot, grub")
}

fn enroll_keys(text: &str) -> Result<EnrollKeys, &'static str> {
    EnrollKeys::parse(text).ok_or("one of off, manual, if-safe, force")
}
