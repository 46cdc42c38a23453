//! The images and templates that follow from a description.

use talmox_image::{Arch, Artifact, Factory, ImageFile, Platform, Schematic};
use talmox_types::desired::{Boot, Desired, FactorySchematic, Image, Node, Template, templates_pool};
use talmox_types::{SchematicId, Tag, Url};

/// Whether a node's VM is cloned from a template talmox builds.
pub fn uses_managed_template(node: &Node) -> bool {
    node.vm.boot == Boot::Template && node.vm.template.is_none()
}

/// The template a node's VM is cloned from, as it shall be on the host it goes to. It has a disk and little else: each
/// clone gets its own hardware, firmware and addresses, so that one template serves all nodes of a schematic.
pub fn managed_template(desired: &Desired, node: &Node) -> Template {
    let source = Source::of(desired, node);
    let storages = |storage: &Option<_>| storage.iter().cloned().collect();
    let options = [
        ("agent", "enabled=1"),
        ("boot", "order=scsi0"),
        ("machine", "q35"),
        ("memory", "2048"),
        ("ostype", "l26"),
        ("scsihw", "virtio-scsi-pci"),
        ("serial0", "socket"),
    ];
    Template {
        name: source.name(),
        image: source.image(&ImageFile::for_proxmox(Arch::Amd64, source.secure_boot)),
        image_storages: storages(&desired.proxmox.image_storage),
        disk_storages: vec![node.vm.storage.clone()],
        options: options.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        disk_options: String::new(),
        efi: false,
        tpm: None,
        tags: source.tags(),
        notes: None,
        owner: None,
        pool: desired.proxmox.pool.as_ref().map(|_| templates_pool()),
    }
}

/// The ISO a node's VM boots from for the first time.
pub fn boot_iso(desired: &Desired, node: &Node) -> Image {
    let source = Source::of(desired, node);
    let (platform, arch) = (Platform::NOCLOUD, Arch::Amd64);
    source.image(&ImageFile { platform, arch, secure_boot: source.secure_boot, artifact: Artifact::Iso })
}

/// The image a node's disk is a copy of, where it is made without a template.
pub fn import_image(desired: &Desired, node: &Node) -> Image {
    managed_template(desired, node).image
}

/// Every template the description asks for, once for each image and storage.
pub fn wanted_templates(desired: &Desired) -> Vec<Template> {
    let mut found: Vec<Template> = Vec::new();
    let of_nodes = desired.nodes.iter().filter(|node| uses_managed_template(node));
    for template in
        of_nodes.map(|node| managed_template(desired, node)).chain(desired.templates.iter().cloned())
    {
        if !found.contains(&template) {
            found.push(template);
        }
    }
    found
}

/// Where the images of a node come from.
struct Source<'a> {
    desired: &'a Desired,
    id: SchematicId,
    /// Its contents, unless the description gives only the id.
    schematic: Option<Schematic>,
    secure_boot: bool,
}

impl<'a> Source<'a> {
    fn of(desired: &'a Desired, node: &Node) -> Self {
        let secure_boot = node.vm.secure_boot;
        match &node.schematic_id {
            Some(id) => Self { desired, id: id.clone(), schematic: None, secure_boot },
            None => {
                let schematic = Schematic::from(&desired.talos.schematic);
                Self { desired, id: schematic.id(), schematic: Some(schematic), secure_boot }
            }
        }
    }

    fn short_id(&self) -> &str {
        &self.id.as_str()[..12]
    }

    /// `talos-1.13.9-ce4c980550dd`.
    fn name(&self) -> String {
        let secure = if self.secure_boot { "-secureboot" } else { "" };
        format!("talos-{}-{}{secure}", self.desired.talos.version, self.short_id())
    }

    fn tags(&self) -> Vec<Tag> {
        let texts = [
            "talmox".to_owned(),
            format!("talos-{}", self.desired.talos.version),
            format!("schematic-{}", self.short_id()),
        ];
        texts.iter().filter_map(|text| Tag::parse(text).ok()).collect()
    }

    fn image(&self, file: &ImageFile) -> Image {
        let Self { desired, id, schematic, .. } = self;
        let version = &desired.talos.version;
        let url = match Url::parse(&desired.talos.factory_url) {
            Ok(base) => Factory::new(base).image_url(id, version, file),
            // The reader lets no other text pass; a model made by hand may hold one, and the fetch then says so.
            Err(_) => format!("{}/image/{id}/v{version}/{}", desired.talos.factory_url, file.name(version)),
        };
        Image {
            url,
            file: format!("talmox-{}-{}", self.name(), file.name(version)),
            checksum: None,
            compression: None,
            schematic: schematic.as_ref().map(|schematic| FactorySchematic {
                factory: desired.talos.factory_url.clone(),
                id: id.clone(),
                body: schematic.canonical(),
                talos: version.clone(),
                extensions: schematic.extensions.clone(),
            }),
        }
    }
}
