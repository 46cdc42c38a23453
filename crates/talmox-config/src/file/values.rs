//! Values of particular keys that are more than one word or number.

use std::collections::BTreeMap;

use talmox_types::{
    PoolName, SecretRef, VmId,
    desired::{
        Bios, Boot, Cni, ConfigDelivery, MachineType, NetworkMode, Patch, ProviderId, ScsiController, Spread,
        TemplateRef,
    },
};
use talmox_yaml::{Node, NodeKind, PlainMeaning, Style};

use crate::problem::{Code, Problem};
use crate::read::{At, OneOrMore, Reading, Shape, Text, Value, block, choices};

choices! {
    Bios { "ovmf" => Ovmf, "seabios" => SeaBios }
    MachineType { "q35" => Q35, "i440fx" | "pc" => I440fx }
    ScsiController {
        "virtio-scsi-pci" => VirtioScsiPci, "virtio-scsi-single" => VirtioScsiSingle, "lsi" => Lsi
    }
    Boot { "template" => Template, "iso" => Iso, "import" => Import }
    ConfigDelivery { "maintenance" => Maintenance, "cidata" => Cidata, "url" => Url }
    NetworkMode { "static" => Static, "dhcp" => Dhcp }
    Spread { "preferred" => Preferred, "required" => Required }
    ProviderId { "none" => None, "proxmox" => Proxmox, "uuid" => Uuid }
    CloudInit { "on" | "true" => On, "off" | "false" => Off }
    DiskEncryption { "none" | "false" => None, "tpm" | "true" => Tpm }
    Bootloader { "dual-boot" => DualBoot, "sd-boot" => SdBoot, "grub" => Grub }
}

/// Whether the cloud-init drive is there: words of its own, because `on` and `off` are what the key is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudInit {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskEncryption {
    None,
    Tpm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootloader {
    DualBoot,
    SdBoot,
    Grub,
}

/// A URL with scheme and host, without credentials or query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub String);

impl Value for Endpoint {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let text = Text::read(node, reading)?.0;
        let location = reading.location(node);
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let authority = rest.unwrap_or_default().split('/').next().unwrap_or_default();
        if authority.contains('@') {
            // The URL is not repeated: what stands before the @ may be a password.
            reading.report(
                Problem::error(Code::PlainSecret, "a URL here holds no user name or password")
                    .at(location, "credentials in a URL")
                    .hint("write https://host:port; credentials have keys of their own"),
            );
            return None;
        }
        let host = authority.rsplit_once(':').map_or(authority, |(host, port)| {
            if port.bytes().all(|b| b.is_ascii_digit()) { host } else { authority }
        });
        if host.is_empty() || text.contains([' ', '?', '#']) {
            let problem =
                Problem::error(Code::InvalidValue, format!("{text} is not a URL")).at(location, "not a URL");
            reading.report(match rest {
                None if !text.contains("://") => problem.hint(format!("write https://{text}")),
                _ => problem.hint("like https://pve.lan:8006"),
            });
            return None;
        }
        Some(Self(text.trim_end_matches('/').to_owned()))
    }

    fn shape() -> Shape {
        Shape::Text { what: "a URL", pattern: Some("^https?://[^@?# ]+$") }
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// A pool of Proxmox, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolChoice(pub Option<PoolName>);

impl Value for PoolChoice {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if node.as_scalar().is_some_and(|scalar| scalar.text == "none") {
            return Some(Self(None));
        }
        crate::read::read_checked(node, "a Proxmox pool name", reading, PoolName::parse)
            .map(|pool| Self(Some(pool)))
    }

    fn shape() -> Shape {
        Shape::Text { what: "a Proxmox pool name, or none", pattern: Some("^[A-Za-z0-9._/-]+$") }
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
    }
}

impl Value for TemplateRef {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let is_number = node.as_scalar().and_then(|scalar| match scalar.meaning() {
            PlainMeaning::Integer(number) => Some(number),
            PlainMeaning::Text if scalar.style == Style::Quoted => scalar.text.parse().ok(),
            PlainMeaning::Text
            | PlainMeaning::Null
            | PlainMeaning::Bool(_)
            | PlainMeaning::Float
            | PlainMeaning::OldBool(_)
            | PlainMeaning::OldOctal
            | PlainMeaning::OldUnderscore
            | PlainMeaning::OldSexagesimal
            | PlainMeaning::OtherBase => None,
        });
        let Some(number) = is_number else {
            return Text::read(node, reading).map(|text| Self::Name(text.0));
        };
        let id = u32::try_from(number).ok().and_then(|id| VmId::try_from(id).ok());
        if id.is_none() {
            let location = reading.location(node);
            reading.report(
                Problem::error(Code::OutOfRange, format!("{number} is not a VMID"))
                    .at(location, "not a VMID")
                    .hint("a number from 100 to 999999999, or the template's name"),
            );
        }
        id.map(Self::Id)
    }

    fn shape() -> Shape {
        Shape::Either(vec![
            Shape::Text { what: "the template's name", pattern: None },
            Shape::Integer { min: i64::from(VmId::MIN), max: i64::from(VmId::MAX) },
        ])
    }

    fn show(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Id(id) => id.to_string(),
        }
    }
}

impl Value for Patch {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        match &node.kind {
            NodeKind::Mapping(_) | NodeKind::Sequence(_) => Some(Self::Inline(talmox_yaml::print(node))),
            NodeKind::Scalar(scalar) => {
                let text = scalar.text.trim_end();
                let file = text.strip_prefix('@');
                let looks_like_file = !text.contains('\n')
                    && [".yaml", ".yml", ".json"].iter().any(|ending| text.ends_with(ending));
                if text.is_empty() {
                    Text::read(node, reading)?;
                }
                match file {
                    Some(path) => Some(Self::File(path.to_owned())),
                    None if looks_like_file => Some(Self::File(text.to_owned())),
                    None => Some(Self::Inline(scalar.text.clone())),
                }
            }
        }
    }

    fn shape() -> Shape {
        Shape::Any
    }

    fn show(&self) -> String {
        match self {
            Self::Inline(_) => "(inline)".to_owned(),
            Self::File(path) => format!("@{path}"),
        }
    }
}

/// A reference to a secret. The message about one in plain text never repeats it.
impl Value for SecretRef {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if let NodeKind::Mapping(entries) = &node.kind {
            return read_exec(node, entries, reading);
        }
        let Some(scalar) = node.as_scalar() else {
            reading.wrong_type(node, "a reference to a secret");
            return None;
        };
        let error = match Self::parse(&scalar.text) {
            Ok(reference) => return Some(reference),
            Err(error) => error,
        };
        let location = reading.location(node);
        let known_prefix = Self::PREFIXES.iter().any(|prefix| scalar.text.starts_with(prefix));
        reading.report(if known_prefix {
            Problem::error(Code::InvalidValue, "this reference to a secret is not complete")
                .at(location, "not a reference")
                .hint(error.rule)
        } else {
            Problem::error(Code::PlainSecret, "a secret stands here in plain text")
                .at(location, "not shown")
                .hint(format!(
                    "move it elsewhere and write {}; if the file was shared, revoke the token",
                    error.rule
                ))
        });
        None
    }

    fn shape() -> Shape {
        Shape::Either(vec![
            Shape::Text { what: "a reference to a secret", pattern: Some("^(env|file|sops|exec):.+$") },
            Shape::Map(Box::new(Shape::List(Box::new(Text::shape())))),
        ])
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// `{exec: [program, argument]}`, the long form.
fn read_exec(node: &Node, entries: &[talmox_yaml::Entry], reading: &mut Reading<'_>) -> Option<SecretRef> {
    if let [entry] = entries
        && entry.key.as_scalar().is_some_and(|key| key.text == "exec")
    {
        let argv = Vec::<At<Text>>::read(&entry.value, reading)?;
        return SecretRef::exec(argv.into_iter().map(|word| word.value.0).collect());
    }
    reading.wrong_type(node, "a reference such as env:NAME");
    None
}

impl Value for Cni {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if let NodeKind::Mapping(entries) = &node.kind
            && let [entry] = entries.as_slice()
        {
            match entry.key.as_scalar().map(|key| key.text.as_str()) {
                Some("urls") => {
                    let urls = OneOrMore::<Endpoint>::read(&entry.value, reading)?;
                    return Some(Self::Urls(urls.0.into_iter().map(|url| url.value.0).collect()));
                }
                Some("manifest") => {
                    return Text::read(&entry.value, reading).map(|text| Self::Manifest(text.0));
                }
                _ => {}
            }
        }
        match node.as_scalar().map(|scalar| scalar.text.as_str()) {
            Some("flannel") => Some(Self::Flannel),
            Some("none") => Some(Self::None),
            _ => {
                let location = reading.location(node);
                reading.report(
                    Problem::error(Code::InvalidValue, "this is not a choice of network plugin")
                        .at(location, "not one of the choices")
                        .hint("flannel, none, {urls: [https://…]} or {manifest: FILE}"),
                );
                None
            }
        }
    }

    fn shape() -> Shape {
        Shape::Either(vec![Shape::Choice(vec!["flannel", "none"]), Shape::Map(Box::new(Shape::Any))])
    }

    fn show(&self) -> String {
        match self {
            Self::Flannel => "flannel".to_owned(),
            Self::None => "none".to_owned(),
            Self::Urls(urls) => format!("{{urls: [{}]}}", urls.join(", ")),
            Self::Manifest(file) => format!("{{manifest: {file}}}"),
        }
    }
}

/// Mirror URLs by registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrors(pub BTreeMap<String, Vec<String>>);

impl Value for Mirrors {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let NodeKind::Mapping(entries) = &node.kind else {
            reading.wrong_type(node, "a mapping of registries to mirror URLs");
            return None;
        };
        let read: BTreeMap<String, Vec<String>> = entries
            .iter()
            .filter_map(|entry| {
                let urls = OneOrMore::<Endpoint>::read(&entry.value, reading)?;
                let urls = urls.0.into_iter().map(|url| url.value.0).collect();
                Some((entry.key.as_scalar()?.text.clone(), urls))
            })
            .collect();
        (read.len() == entries.len()).then_some(Self(read))
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(OneOrMore::<Endpoint>::shape()))
    }

    fn show(&self) -> String {
        let pairs: Vec<String> =
            self.0.iter().map(|(name, urls)| format!("{name}: [{}]", urls.join(", "))).collect();
        format!("{{{}}}", pairs.join(", "))
    }
}

/// META values of an image by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta(pub BTreeMap<u8, String>);

impl Value for Meta {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let NodeKind::Mapping(entries) = &node.kind else {
            reading.wrong_type(node, "a mapping of numbers to text");
            return None;
        };
        let mut read = BTreeMap::new();
        for entry in entries {
            let Some(key) = entry.key.as_scalar().and_then(|key| key.text.parse().ok()) else {
                let location = reading.location(&entry.key);
                reading.report(
                    Problem::error(Code::OutOfRange, "META keys are numbers from 0 to 255")
                        .at(location, "not one"),
                );
                return None;
            };
            read.insert(key, Text::read(&entry.value, reading)?.0);
        }
        Some(Self(read))
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(Text::shape()))
    }

    fn show(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(|(key, value)| format!("{key}: {value:?}")).collect();
        format!("{{{}}}", pairs.join(", "))
    }
}

block! {
    /// Configuration of a system extension's service.
    pub struct ExtensionServiceBlock as "extension_services" {
        /// Name of the service. Required.
        name: Text = "name",
        /// Files it reads.
        config_files: Vec<At<ConfigFileBlock>> = "config_files",
        /// Environment variables, as NAME=value.
        environment: Vec<At<Text>> = "environment",
    }
}

block! {
    /// A file for an extension's service.
    pub struct ConfigFileBlock as "config_files" {
        /// Path inside the service's container. Required.
        mount_path: Text = "mount_path",
        /// Content. Required.
        content: Text = "content",
    }
}
