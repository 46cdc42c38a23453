//! Install images by provider.

use std::collections::BTreeMap;

use talmox_image::Schematic;
use talmox_image::install::{Chosen, InstallImages, Place, Provider, Source, VARIABLES, customize};
use talmox_types::Version;

const AGENT: &str = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";

fn images(description: &[(&str, &str)], variables: &[(&str, &str)]) -> InstallImages {
    let description: BTreeMap<String, String> =
        description.iter().map(|(key, image)| (key.to_string(), image.to_string())).collect();
    InstallImages::new(&description, |name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    })
}

/// Every key and variable, each with an image that says its name.
fn all() -> InstallImages {
    let variables: Vec<(&str, &str)> = VARIABLES.iter().map(|(key, name)| (*name, *key)).collect();
    images(&[], &variables)
}

#[test]
fn a_provider_is_recognised_by_a_word_in_its_name() {
    let table = [
        ("proxmox", Some("proxmox")),
        ("Proxmox-Prod", Some("proxmox")),
        ("kubevirt-cluster", Some("kubevirt")),
        ("libvirt", Some("libvirt")),
        ("KVM", Some("kvm")),
        ("qemu", Some("kvm")),
        ("my-QEMU-lab", Some("kvm")),
        ("vmware", Some("vmware")),
        ("VirtualBox", Some("virtualbox")),
        ("hyper-v", Some("hyperv")),
        ("Hyper-V-2022", Some("hyperv")),
        ("hyperv", Some("hyperv")),
        // The longest word wins, wherever it stands; of equally long ones the first.
        ("kvm-on-proxmox", Some("proxmox")),
        ("proxmox-kvm", Some("proxmox")),
        ("qemu-kubevirt", Some("kubevirt")),
        ("libvirt-proxmox", Some("libvirt")),
        ("proxmox-libvirt", Some("proxmox")),
        ("kvm-qemu", Some("kvm")),
        ("metal", None),
        ("aws", None),
        ("", None),
        ("kv-m", None),
    ];
    for (name, expected) in table {
        assert_eq!(Provider::detect(name).map(Provider::key), expected, "{name}");
        let chosen = customize(name, &Version::new(1, 11, 5), &all()).and_then(|found| found.image);
        assert_eq!(chosen.map(|chosen| chosen.image), expected.map(ToOwned::to_owned), "{name}");
    }
}

#[test]
fn specific_then_default_then_none() {
    let default = "TALOS_VM_INSTALL_IMAGE_DEFAULT";
    let table = [
        (images(&[("proxmox", "p"), ("default", "d")], &[]), Some(("p", "proxmox", Source::Description))),
        (images(&[("kvm", "k"), ("default", "d")], &[]), Some(("d", "default", Source::Description))),
        (images(&[("kvm", "k")], &[]), None),
        (images(&[], &[(default, "d")]), Some(("d", "default", Source::Variable(default)))),
        // Variables are set for one run, so they win; empty ones are not set.
        (images(&[("default", "d")], &[(default, "v")]), Some(("v", "default", Source::Variable(default)))),
        (images(&[("default", "d")], &[(default, " ")]), Some(("d", "default", Source::Description))),
        (images(&[("proxmox", "p")], &[(default, "v")]), Some(("p", "proxmox", Source::Description))),
    ];
    for (images, expected) in table {
        let expected = expected.map(|(image, key, source)| Chosen { image: image.to_owned(), key, source });
        assert_eq!(images.choose(Provider::Proxmox), expected);
    }
}

#[test]
fn additions_go_where_the_version_takes_them() {
    let table = [
        (Version::new(1, 8, 4), Place::MachineConfig, AGENT),
        (Version::new(1, 11, 5), Place::MachineConfig, AGENT),
        (
            Version::new(1, 12, 0),
            Place::Schematic,
            "b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea",
        ),
        (
            Version::new(1, 14, 0),
            Place::Schematic,
            "b027a2d9dddfa5c0752c249cf3194bb5c62294dc7cba591f3bec8119ab578aea",
        ),
    ];
    for (talos, console, id) in table {
        let found = customize("proxmox", &talos, &InstallImages::default()).unwrap();
        assert_eq!((found.console, found.guest_agent), (console, Place::Schematic), "{talos}");
        assert_eq!(found.extra_kernel_args().is_empty(), console == Place::Schematic);
        let schematic = found.schematic(&Schematic::default());
        assert_eq!(schematic.id().as_str(), id, "{talos}");
        assert_eq!(found.schematic(&schematic), schematic, "added once");
    }
}

#[test]
fn the_schematic_inside_an_image_is_known_by_its_name() {
    let chosen = |image: String| Chosen { image, key: "default", source: Source::Description }.schematic();
    for image in [
        format!("factory.talos.dev/openstack-installer/{AGENT}:v1.11.5"),
        format!("mirror.lan:5000/installer/{AGENT}:v1.9.0"),
        format!("mirror.lan:5000/installer/{AGENT}@sha256:00"),
    ] {
        assert_eq!(chosen(image).map(|id| id.to_string()), Some(AGENT.to_owned()));
    }
    assert_eq!(chosen("ghcr.io/siderolabs/installer:v1.11.5".to_owned()), None);
}

#[test]
fn the_log_says_what_was_decided() {
    let talos = Version::new(1, 11, 5);
    let image = format!("factory.talos.dev/openstack-installer/{AGENT}:v1.11.5");
    let with = customize("proxmox", &talos, &images(&[("proxmox", &image)], &[])).unwrap();
    let without = customize("proxmox", &talos, &images(&[], &[])).unwrap();
    let node = "vm-cluster-control-plane-0";
    assert_eq!(
        with.log_line("proxmox", node),
        format!(
            "Detected virtual machine provider proxmox for node {node}, applying VM customizations with install image: {image}"
        )
    );
    assert_eq!(
        without.log_line("proxmox", node),
        format!(
            "Detected virtual machine provider proxmox for node {node}, applying VM customizations (no custom install image configured)"
        )
    );
}
