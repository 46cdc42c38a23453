//! Values of particular keys that are more than one word or number.

use std::collections::BTreeMap;

use talmox_types::{
    PoolName, SecretRef,
    desired::{
        Bios, Boot, Cni, ConfigDelivery, DiskBus, DiskEncryption, MachineType, NetworkMode, Patch, Power,
        ProviderId, ScsiController, Spread,
    },
};
use talmox_yaml::{Node, NodeKind};

use crate::problem::{Code, Problem};
use crate::read::{
    At, Content, OneOrMore, Reading, Shape, Text, Value, Variable, Word, block, choices, harmless, show_map,
    suggest,
};
use crate::source::Location;

use super::WebUrl;

choices! {
    Bios { "ovmf" => Ovmf, "seabios" => SeaBios }
    MachineType { "q35" => Q35, "i440fx" | "pc" => I440fx }
    ScsiController {
        "virtio-scsi-pci" => VirtioScsiPci, "virtio-scsi-single" => VirtioScsiSingle, "lsi" => Lsi
    }
    DiskBus { "scsi" => Scsi, "virtio" => Virtio, "sata" => Sata, "ide" => Ide }
    Boot { "template" => Template, "iso" => Iso, "import" => Import }
    ConfigDelivery { "maintenance" => Maintenance, "cidata" => Cidata, "url" => Url }
    NetworkMode { "static" => Static, "dhcp" => Dhcp }
    Power { "running" => Running, "stopped" => Stopped }
    Spread { "preferred" => Preferred, "required" => Required }
    ProviderId { "none" => None, "proxmox" => Proxmox, "uuid" => Uuid }
    CloudInit { "on" | "true" => On, "off" | "false" => Off }
    DiskEncryption { "none" | "false" => None, "tpm" | "true" => Tpm, "node-id" => NodeId }
    Bootloader { "dual-boot" => DualBoot, "sd-boot" => SdBoot, "grub" => Grub }
}

/// Whether the cloud-init drive is there: words of its own, because `on` and `off` are what the key is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudInit {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootloader {
    DualBoot,
    SdBoot,
    Grub,
}

/// A pool of Proxmox, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolChoice(pub Option<PoolName>);

impl Value for PoolChoice {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if node.as_scalar().is_some_and(|scalar| scalar.text == "none") {
            return Some(Self(None));
        }
        crate::read::read_checked(node, "a Proxmox pool name", reading, harmless(PoolName::parse))
            .map(|pool| Self(Some(pool)))
    }

    fn shape() -> Shape {
        Shape::Text { what: "a Proxmox pool name, or none", pattern: Some("^[A-Za-z0-9._][A-Za-z0-9._/-]*$") }
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
    }
}

impl Value for Patch {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let NodeKind::Scalar(scalar) = &node.kind else {
            return Some(Self::Inline(talmox_yaml::print(node)));
        };
        let text = scalar.text.trim();
        let one_line = !text.contains('\n');
        let named = text.strip_prefix('@').map(str::trim);
        let looks_like_file =
            one_line && [".yaml", ".yml", ".json"].iter().any(|ending| text.ends_with(ending));
        match named {
            Some(path) if one_line && !path.is_empty() => return Some(Self::File(path.to_owned())),
            None if looks_like_file => return Some(Self::File(text.to_owned())),
            Some(_) | None => {}
        }
        let inline = talmox_yaml::parse(&scalar.text);
        let is_patch = inline.faults.is_empty()
            && !inline.documents.is_empty()
            && inline.documents.iter().all(|document| document.as_scalar().is_none());
        if !is_patch {
            let location = reading.location(node);
            reading.report(
                Problem::error(Code::InvalidValue, "this is not a patch")
                    .at(location, "neither YAML nor the name of a file")
                    .hint("YAML in place, or the name of a file ending in .yaml; @NAME names any other file"),
            );
        }
        is_patch.then(|| Self::Inline(scalar.text.clone()))
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
        let place = Location { source: location.source, span: node.span };
        reading.report(if known_prefix {
            Problem::error(Code::InvalidValue, "this reference to a secret is not complete")
                .at(location, "not a reference")
                .conceal(place)
                .hint(error.rule)
        } else {
            Problem::error(Code::PlainSecret, "a secret stands here in plain text")
                .at(location, "not shown")
                .conceal(place)
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

    /// Arguments of a program may be secrets themselves.
    fn show(&self) -> String {
        match self {
            Self::Exec(argv) => format!("exec:[{}, …]", argv.first().map_or("", String::as_str)),
            Self::Env(_) | Self::File(_) | Self::Sops { .. } => self.to_string(),
        }
    }
}

/// `{exec: [program, argument]}`, the long form.
fn read_exec(node: &Node, entries: &[talmox_yaml::Entry], reading: &mut Reading<'_>) -> Option<SecretRef> {
    let words = |items: &[Node]| -> Option<Vec<String>> {
        items.iter().map(|item| item.as_scalar().map(|word| word.text.clone())).collect()
    };
    let argv = match entries {
        [entry] if entry.key.as_scalar().is_some_and(|key| key.text == "exec") => match &entry.value.kind {
            NodeKind::Sequence(items) => words(items),
            NodeKind::Scalar(_) | NodeKind::Mapping(_) => None,
        },
        _ => None,
    };
    let reference = argv.and_then(SecretRef::exec);
    if reference.is_none() {
        let location = reading.location(node);
        reading.report(
            Problem::error(Code::InvalidValue, "this is not a reference to a secret")
                .at(location, "not shown")
                .conceal(location)
                .hint("env:NAME, file:PATH, sops:FILE#KEY or {exec: [program, argument]}"),
        );
    }
    reference
}

impl Value for Cni {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        if let NodeKind::Mapping(entries) = &node.kind
            && let [entry] = entries.as_slice()
        {
            match entry.key.as_scalar().map(|key| key.text.as_str()) {
                Some("urls") => {
                    let urls = OneOrMore::<WebUrl>::read(&entry.value, reading)?;
                    return Some(Self::Urls(urls.0.into_iter().map(|url| url.value.0.to_string()).collect()));
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
        Shape::Either(vec![Shape::Choice(vec!["flannel", "none"], Vec::new()), CniBlock::shape()])
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
                let urls = OneOrMore::<WebUrl>::read(&entry.value, reading)?;
                let urls = urls.0.into_iter().map(|url| url.value.0.to_string()).collect();
                Some((entry.key.as_scalar()?.text.clone(), urls))
            })
            .collect();
        (read.len() == entries.len()).then_some(Self(read))
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(OneOrMore::<WebUrl>::shape()))
    }

    fn show(&self) -> String {
        let pairs: Vec<String> =
            self.0.iter().map(|(name, urls)| format!("{name}: [{}]", urls.join(", "))).collect();
        format!("{{{}}}", pairs.join(", "))
    }
}

/// A program and its arguments. Only the program is shown: arguments may be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argv(pub Vec<String>);

impl Value for Argv {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let words: Vec<String> =
            Vec::<At<Text>>::read(node, reading)?.into_iter().map(|word| word.value.0).collect();
        if words.is_empty() {
            let location = reading.location(node);
            reading.report(
                Problem::error(Code::InvalidValue, "there is no program to run")
                    .at(location, "empty")
                    .hint("a program and its arguments, like [flux, bootstrap, git]"),
            );
            return None;
        }
        Some(Self(words))
    }

    fn shape() -> Shape {
        Shape::List(Box::new(Text::shape()))
    }

    fn show(&self) -> String {
        match self.0.as_slice() {
            [program] => format!("[{program}]"),
            [program, ..] => format!("[{program}, …]"),
            [] => "[]".to_owned(),
        }
    }
}

/// Providers install images can be given for.
const PROVIDERS: [&str; 8] =
    ["proxmox", "kubevirt", "libvirt", "kvm", "vmware", "virtualbox", "hyperv", "default"];

/// Install images by provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images(pub BTreeMap<String, String>);

impl Value for Images {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let NodeKind::Mapping(entries) = &node.kind else {
            reading.wrong_type(node, "a mapping of providers to images");
            return None;
        };
        let mut read = BTreeMap::new();
        for entry in entries {
            let provider = entry.key.as_scalar()?.text.as_str();
            let image = Word::read(&entry.value, reading);
            if PROVIDERS.contains(&provider) {
                read.extend(image.map(|image| (provider.to_owned(), image.0)));
                continue;
            }
            let location = reading.location(&entry.key);
            let hint = match suggest(provider, PROVIDERS) {
                Some(close) => format!("did you mean {close}?"),
                None => format!("one of {}", PROVIDERS.join(", ")),
            };
            let problem = Problem::error(Code::InvalidValue, format!("{provider} is not a provider"));
            reading.report(problem.at(location, "no such provider").hint(hint));
        }
        (read.len() == entries.len()).then_some(Self(read))
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(Word::shape()))
    }

    fn show(&self) -> String {
        show_map(&self.0)
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
        name: Word = "name",
        /// Files it reads.
        config_files: Vec<At<ConfigFileBlock>> = "config_files",
        /// Environment variables, as NAME=value.
        environment: Vec<At<Variable>> = "environment",
    }
}

block! {
    /// A file for an extension's service.
    pub struct ConfigFileBlock as "config_files" {
        /// Path inside the service's container. Required.
        mount_path: Text = "mount_path",
        /// Content. Required.
        content: Content = "content",
    }
}

block! {
    /// A network plugin of one's own: one of the two.
    pub struct CniBlock as "cni" {
        /// URLs of manifests Talos fetches by itself.
        urls: OneOrMore<WebUrl> = "urls",
        /// A file with the plugin's manifests.
        manifest: Text = "manifest",
    }
}
