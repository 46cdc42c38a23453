//! What a node is installed from, as its description says.

use talmox_image::{Factory, Platform, Schematic};
use talmox_types::desired::{Desired, Node};
use talmox_types::{SchematicId, Url, Version};

use crate::SeenNode;

/// Where a machine's configuration names its installer, in the layouts there are.
const PLACES: [&str; 2] = ["machine.install.image", "UnattendedInstallConfig installer.image"];

/// The installer a node's description asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) image: String,
    /// What the image is made from, if its name says so.
    pub(crate) schematic: Option<SchematicId>,
    /// The version its name says.
    pub(crate) version: Option<Version>,
}

impl Wanted {
    /// The one the described configuration names: whoever renders it knows of patches and variables. Where nobody could
    /// compare, the one that follows from schematic, platform and factory.
    pub(crate) fn of(desired: &Desired, node: &Node, seen: &SeenNode) -> Self {
        let compared = seen.config.as_ref().and_then(|changes| {
            let change = changes.iter().find(|change| PLACES.contains(&change.key.as_str()));
            match change {
                Some(change) => change.new.clone(),
                None => PLACES.iter().find_map(|place| seen.images.get(*place).cloned()),
            }
        });
        Self::named(compared.unwrap_or_else(|| derived(desired, node)))
    }

    /// Whether the described configuration names another installer than the one the machine has.
    pub(crate) fn is_new(seen: &SeenNode) -> bool {
        seen.config.iter().flatten().any(|change| PLACES.contains(&change.key.as_str()))
    }

    fn named(image: String) -> Self {
        let bare = image.split('@').next().unwrap_or(&image);
        let tag = bare.rfind(':').filter(|at| !bare[*at..].contains('/'));
        let (path, tag) = tag.map_or((bare, ""), |at| (&bare[..at], &bare[at + 1..]));
        let schematic = SchematicId::parse(path.rsplit('/').next().unwrap_or_default()).ok();
        let version = Version::parse(tag).ok();
        Self { image, schematic, version }
    }
}

/// The installer that follows from what the description declares.
pub(crate) fn derived(desired: &Desired, node: &Node) -> String {
    let talos = &desired.talos;
    let schematic = node.schematic_id.clone().unwrap_or_else(|| described_schematic(desired));
    let factory = Url::parse(&talos.factory_url).map_or_else(|_| Factory::official(), Factory::new);
    factory.installer_image(&schematic, &talos.version, &Platform::NOCLOUD, node.vm.secure_boot)
}

/// The schematic of all nodes that have none of their own.
pub(crate) fn described_schematic(desired: &Desired) -> SchematicId {
    Schematic::from(&desired.talos.schematic).id()
}

/// An extension as a machine calls it: `qemu-guest-agent` of `siderolabs/qemu-guest-agent`.
pub(crate) fn short_name(extension: &str) -> &str {
    extension.rsplit('/').next().unwrap_or(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_says_what_it_is_made_from() {
        let id = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
        let named = Wanted::named(format!("factory.example:8443/nocloud-installer/{id}:v1.13.9"));
        assert_eq!(named.schematic.unwrap().as_str(), id);
        assert_eq!(named.version.unwrap().to_string(), "1.13.9");
        let plain = Wanted::named("localhost:5000/installer".to_owned());
        assert_eq!((plain.schematic, plain.version), (None, None));
        let pinned = Wanted::named("ghcr.io/siderolabs/installer:v1.12.0@sha256:abc".to_owned());
        assert_eq!(pinned.version.unwrap().to_string(), "1.12.0");
    }
}
