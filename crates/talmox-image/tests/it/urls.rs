//! Addresses of everything a factory makes.

use talmox_image::{Arch, Artifact, DiskFormat, Factory, ImageFile, PLATFORMS, Platform, Schematic};
use talmox_types::{Url, Version};

fn file(platform: &str, arch: Arch, secure_boot: bool, artifact: &str) -> ImageFile {
    let platform = Platform::parse(platform).expect("a platform");
    ImageFile { platform, arch, secure_boot, artifact: Artifact::parse(artifact).expect("a format") }
}

#[test]
fn every_kind_of_file_has_its_name() {
    let new = Version::new(1, 13, 9);
    let table = [
        ("nocloud", Arch::Amd64, false, "qcow2", "nocloud-amd64.qcow2"),
        ("nocloud", Arch::Amd64, true, "qcow2", "nocloud-amd64-secureboot.qcow2"),
        ("nocloud", Arch::Amd64, false, "raw.xz", "nocloud-amd64.raw.xz"),
        ("metal", Arch::Arm64, true, "raw.zst", "metal-arm64-secureboot.raw.zst"),
        ("gcp", Arch::Amd64, false, "raw.tar.gz", "gcp-amd64.raw.tar.gz"),
        ("azure", Arch::Amd64, false, "vhd.gz", "azure-amd64.vhd.gz"),
        ("vmware", Arch::Amd64, false, "ova", "vmware-amd64.ova"),
        ("nocloud", Arch::Amd64, true, "iso", "nocloud-amd64-secureboot.iso"),
        ("metal", Arch::Amd64, true, "uki", "metal-amd64-secureboot-uki.efi"),
        ("aws", Arch::Arm64, true, "kernel", "kernel-arm64"),
        ("aws", Arch::Arm64, true, "initramfs", "initramfs-arm64.xz"),
        ("digital-ocean", Arch::Amd64, false, "cmdline", "cmdline-digital-ocean-amd64"),
        ("metal", Arch::Amd64, true, "cmdline", "cmdline-metal-amd64-secureboot"),
        ("nocloud", Arch::Amd64, true, "installer-tar", "nocloud-installer-amd64-secureboot.tar"),
    ];
    for (platform, arch, secure_boot, artifact, name) in table {
        assert_eq!(file(platform, arch, secure_boot, artifact).name(&new), name);
    }
    let installer = file("nocloud", Arch::Amd64, false, "installer-tar");
    assert_eq!(installer.name(&Version::new(1, 9, 6)), "installer-amd64.tar");
}

#[test]
fn formats_read_and_print_alike() {
    for format in ["raw", "qcow2", "vhd", "ova"] {
        for compression in ["", ".xz", ".gz", ".zst", ".tar.gz"] {
            let text = format!("{format}{compression}");
            assert_eq!(Artifact::parse(&text).unwrap().to_string(), text);
        }
    }
    for word in ["iso", "uki", "kernel", "initramfs", "cmdline", "installer-tar"] {
        assert_eq!(Artifact::parse(word).unwrap().to_string(), word);
    }
    insta::assert_snapshot!(Artifact::parse("qcow").unwrap_err(), @"qcow is not a format: did you mean qcow2?");
    insta::assert_snapshot!(Artifact::parse("raw.bz2").unwrap_err(), @"raw.bz2 is not a format: one of raw, qcow2, vhd, ova, iso, uki, kernel, initramfs, cmdline, installer-tar; a disk may end in .xz, .gz, .zst or .tar.gz");
    insta::assert_snapshot!(Platform::parse("proxmox").unwrap_err(), @"proxmox is not a platform of Talos: one of akamai, aws, azure, cloudstack, digital-ocean, equinixMetal, exoscale, gcp, hcloud, metal, nocloud, opennebula, openstack, oracle, scaleway, upcloud, vmware, vultr");
    insta::assert_snapshot!(Platform::parse("no-cloud").unwrap_err(), @"no-cloud is not a platform of Talos: did you mean nocloud?");
    insta::assert_snapshot!(Arch::read("x86_64").unwrap_err(), @"x86_64 is not an architecture: one of amd64, arm64");
}

#[test]
fn every_platform_has_an_address() {
    let (factory, id, version) = (Factory::official(), Schematic::default().id(), Version::new(1, 12, 6));
    for platform in PLATFORMS {
        let file = ImageFile {
            platform: Platform::parse(platform).unwrap(),
            arch: Arch::Amd64,
            secure_boot: false,
            artifact: Artifact::disk(DiskFormat::Raw),
        };
        let expected = format!("https://factory.talos.dev/image/{id}/v1.12.6/{platform}-amd64.raw");
        assert_eq!(factory.image_url(&id, &version, &file), expected);
    }
}

#[test]
fn installers_are_called_by_platform_from_1_10_on() {
    let (factory, id) = (Factory::official(), Schematic::default().id());
    let table = [
        (Version::new(1, 9, 6), false, "factory.talos.dev/installer"),
        (Version::new(1, 9, 6), true, "factory.talos.dev/installer-secureboot"),
        (Version::new(1, 10, 0), false, "factory.talos.dev/nocloud-installer"),
        (Version::new(1, 13, 9), true, "factory.talos.dev/nocloud-installer-secureboot"),
    ];
    for (version, secure_boot, name) in table {
        let image = factory.installer_image(&id, &version, &Platform::NOCLOUD, secure_boot);
        assert_eq!(image, format!("{name}/{id}:v{version}"));
    }
    let pre_release = Version::parse("v1.14.0-rc.1").unwrap();
    assert!(factory.installer_image(&id, &pre_release, &Platform::METAL, false).ends_with(":v1.14.0-rc.1"));
}

#[test]
fn another_factory_has_the_same_paths() {
    let (id, version) = (Schematic::default().id(), Version::new(1, 13, 9));
    let mirror = Factory::new(Url::parse("http://mirror.lan:8080/talos/").unwrap());
    let image = mirror.image_url(&id, &version, &ImageFile::for_proxmox(Arch::Amd64, false));
    assert_eq!(image, format!("http://mirror.lan:8080/talos/image/{id}/v1.13.9/nocloud-amd64.qcow2"));
    let installer = mirror.installer_image(&id, &version, &Platform::NOCLOUD, false);
    assert_eq!(installer, format!("mirror.lan:8080/talos/nocloud-installer/{id}:v1.13.9"));
    let script = mirror.pxe_url(&id, &version, &Platform::METAL, Arch::Arm64, true);
    assert_eq!(script, format!("http://mirror.lan:8080/talos/pxe/{id}/v1.13.9/metal-arm64-secureboot"));
    let public = Factory::official().pxe_url(&id, &version, &Platform::METAL, Arch::Amd64, false);
    assert_eq!(public, format!("https://pxe.talos.dev/pxe/{id}/v1.13.9/metal-amd64"));
}
