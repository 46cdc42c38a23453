//! What an image is made of.

use sha2::{Digest as _, Sha256};
use talmox_types::{SchematicId, desired};

use crate::canonical::{self, Value};

/// Everything the Image Factory may be asked to put into an image. The order of lists is kept, and it counts: the id is
/// made from the bytes of [`Schematic::canonical`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schematic {
    /// Whose it is; factories with users only.
    pub owner: Option<String>,
    pub overlay: Option<Overlay>,
    /// Machine configuration inside the image (Talos 1.12 and newer).
    pub embedded_machine_configuration: Option<String>,
    pub extra_kernel_args: Vec<String>,
    pub meta: Vec<MetaValue>,
    /// Official system extensions: `siderolabs/qemu-guest-agent`.
    pub extensions: Vec<String>,
    pub bootloader: Option<Bootloader>,
    pub secure_boot: SecureBoot,
    /// Bytes in a sector of disk images; the factory's default is 512.
    pub sector_size: Option<u32>,
}

/// Support for a single-board computer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    pub image: String,
    pub name: String,
    /// Free-form settings of the overlay, sorted.
    pub options: Vec<(String, Value)>,
}

/// An initial value of Talos's META partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaValue {
    pub key: u8,
    pub value: String,
}

/// What Secure Boot images do with keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecureBoot {
    pub enroll_keys: Option<EnrollKeys>,
    pub include_well_known_certificates: bool,
}

/// Declares an enum of words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident, $what:literal { $($variant:ident = $word:literal),+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// What a person calls it.
            pub const WHAT: &'static str = $what;

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

pub(crate) use words;

words! {
    /// The boot loader of an image, where the default is not wanted.
    Bootloader, "a boot loader" { DualBoot = "dual-boot", SdBoot = "sd-boot", Grub = "grub" }
    /// When the boot loader enrolls keys on first boot; `if-safe`, the default, does in a VM.
    EnrollKeys, "a way to enroll keys" { Off = "off", Manual = "manual", IfSafe = "if-safe", Force = "force" }
}

impl Schematic {
    /// The text the factory keeps and hashes.
    pub fn canonical(&self) -> String {
        canonical::print(&self.document())
    }

    /// The id, computed without asking anybody.
    pub fn id(&self) -> SchematicId {
        id_of(self.canonical().as_bytes())
    }

    /// The text to register: the same schematic in a notation every reader understands alike.
    pub fn submission(&self) -> String {
        canonical::print_json(&self.document())
    }

    fn document(&self) -> Vec<(String, Value)> {
        // Every field is named, so that a new one cannot be forgotten here: it would not be part of the id.
        let Self {
            owner,
            overlay,
            embedded_machine_configuration,
            extra_kernel_args,
            meta,
            extensions,
            bootloader,
            secure_boot: SecureBoot { enroll_keys, include_well_known_certificates },
            sector_size,
        } = self;
        let mut customization = Fields::default();
        customization.text("embeddedMachineConfiguration", embedded_machine_configuration.as_deref());
        customization.list("extraKernelArgs", texts(extra_kernel_args));
        customization.list("meta", meta.iter().map(MetaValue::document).collect());
        let mut system_extensions = Fields::default();
        system_extensions.list("officialExtensions", texts(extensions));
        customization.map("systemExtensions", system_extensions);
        customization.text("bootloader", bootloader.map(Bootloader::as_str));
        let mut secure_boot = Fields::default();
        secure_boot.text("enrollKeys", enroll_keys.map(EnrollKeys::as_str));
        if *include_well_known_certificates {
            secure_boot.put("includeWellKnownCertificates", Value::Bool(true));
        }
        customization.map("secureboot", secure_boot);
        let mut disk_image = Fields::default();
        if let Some(size) = sector_size.filter(|size| *size > 0) {
            disk_image.put("sectorSize", Value::Integer(i128::from(size)));
        }
        customization.map("diskImage", disk_image);

        let mut document = Fields::default();
        document.text("owner", owner.as_deref());
        if let Some(overlay) = overlay.as_ref().filter(|overlay| **overlay != Overlay::default()) {
            document.put("overlay", overlay.document());
        }
        document.put("customization", Value::Map(customization.0));
        document.0
    }
}

impl Overlay {
    fn document(&self) -> Value {
        let Self { image, name, options } = self;
        let mut fields = Fields::default();
        fields.put("image", Value::Text(image.clone()));
        fields.put("name", Value::Text(name.clone()));
        if !options.is_empty() {
            fields.put("options", Value::sorted(options.clone()));
        }
        Value::Map(fields.0)
    }
}

impl MetaValue {
    fn document(&self) -> Value {
        let Self { key, value } = self;
        let mut fields = Fields::default();
        fields.put("key", Value::Integer(i128::from(*key)));
        fields.put("value", Value::Text(value.clone()));
        Value::Map(fields.0)
    }
}

fn texts(list: &[String]) -> Vec<Value> {
    list.iter().cloned().map(Value::Text).collect()
}

fn id_of(bytes: &[u8]) -> SchematicId {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    SchematicId::parse(&digits).expect("a SHA-256 has 64 digits")
}

/// The entries of a map; what is empty is left out.
#[derive(Default)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn put(&mut self, key: &str, value: Value) {
        self.0.push((key.to_owned(), value));
    }

    fn text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.put(key, Value::Text(text.to_owned()));
        }
    }

    fn list(&mut self, key: &str, items: Vec<Value>) {
        if !items.is_empty() {
            self.put(key, Value::List(items));
        }
    }

    fn map(&mut self, key: &str, fields: Self) {
        if !fields.0.is_empty() {
            self.put(key, Value::Map(fields.0));
        }
    }
}

/// The schematic a description asks for.
impl From<&desired::Schematic> for Schematic {
    fn from(wanted: &desired::Schematic) -> Self {
        let desired::Schematic { extensions, kernel_args, meta, overlay, bootloader } = wanted;
        Self {
            overlay: overlay.as_ref().map(|(image, name)| Overlay {
                image: image.clone(),
                name: name.clone(),
                options: Vec::new(),
            }),
            extra_kernel_args: kernel_args.clone(),
            meta: meta.iter().map(|(key, value)| MetaValue { key: *key, value: value.clone() }).collect(),
            extensions: extensions.clone(),
            bootloader: bootloader.as_deref().and_then(Bootloader::parse),
            ..Self::default()
        }
    }
}
