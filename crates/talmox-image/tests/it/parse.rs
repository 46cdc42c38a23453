//! Schematic files, good and bad.

use talmox_image::{Bootloader, EnrollKeys, Schematic};

fn faults(text: &str) -> String {
    Schematic::parse(text).map(|schematic| schematic.canonical()).expect_err("a faulty schematic").to_string()
}

#[test]
fn every_key_is_read() {
    let text = "\
# everything there is
overlay:
  image: siderolabs/sbc-raspberrypi
  name: rpi_generic
  options: {z10: 1, z9: [yes, 0x10, 1.50, 1e6], data: 'my: data', nested: {a: ~, b: {}}, on: true}
customization:
  diskImage: {sectorSize: 4_096}
  secureboot: {enrollKeys: off, includeWellKnownCertificates: yes}
  bootloader: sd-boot
  systemExtensions:
    officialExtensions: [siderolabs/gvisor, siderolabs/amd-ucode]
  meta:
    - {key: 0xa, value: \"{}\"}
  extraKernelArgs: [vga=791, 0755]
  embeddedMachineConfiguration: |
    apiVersion: v1alpha1
    kind: HostnameConfig
";
    let schematic = Schematic::parse(text).unwrap();
    assert_eq!(schematic.bootloader, Some(Bootloader::SdBoot));
    assert_eq!(schematic.secure_boot.enroll_keys, Some(EnrollKeys::Off));
    insta::assert_snapshot!(schematic.canonical(), @r#"
    overlay:
        image: siderolabs/sbc-raspberrypi
        name: rpi_generic
        options:
            data: 'my: data'
            nested:
                a: null
                b: {}
            "on": true
            z9:
                - "yes"
                - 16
                - 1.5
                - 1e+06
            z10: 1
    customization:
        embeddedMachineConfiguration: |
            apiVersion: v1alpha1
            kind: HostnameConfig
        extraKernelArgs:
            - vga=791
            - "0755"
        meta:
            - key: 10
              value: '{}'
        systemExtensions:
            officialExtensions:
                - siderolabs/gvisor
                - siderolabs/amd-ucode
        bootloader: sd-boot
        secureboot:
            enrollKeys: "off"
            includeWellKnownCertificates: true
        diskImage:
            sectorSize: 4096
    "#);
}

#[test]
fn json_is_a_schematic_too() {
    let json =
        r#"{"customization": {"systemExtensions": {"officialExtensions": ["siderolabs/qemu-guest-agent"]}}}"#;
    let id = Schematic::parse(json).unwrap().id();
    assert_eq!(id.as_str(), "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515");
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    let text = "\
customisation:
  extraKernelArgs: [a]
customization:
  systemExtensions:
    officialExtension: [siderolabs/gvisor]
  extraKernelArgs: quiet
  bootloader: auto
  meta:
    - {key: 256, value: x}
    - {value: x}
    - {key: 1}
    - text
  secureboot: {enrollKeys: offf, includeWellKnownCertificates: maybe}
  diskImage: {sectorSize: big}
overlay:
  options: {at: 2026-08-01, ü: 1, 12: 1}
";
    insta::assert_snapshot!(faults(text), @"
    line 1, column 1: a schematic has no key customisation (did you mean customization?)
    line 5, column 5: systemExtensions has no key officialExtension (did you mean officialExtensions?)
    line 6, column 20: this is a list (begin each item with `- `)
    line 7, column 15: auto is not a boot loader (one of dual-boot, sd-boot, grub; leave it out for the default)
    line 9, column 13: this is a number from 0 to 255
    line 10, column 7: a META value without its key (key: 10)
    line 11, column 7: a META key without its value (value: text)
    line 12, column 7: meta is a mapping
    line 13, column 28: offf is not a way to enroll keys (did you mean off?)
    line 13, column 64: this is true or false
    line 14, column 27: this is a number from 0 to 4294967295
    line 16, column 17: dates are not kept as they are written (put it in quotes to have it as text)
    line 16, column 29: keys here are short ASCII text
    line 16, column 35: keys here are short ASCII text
    ");
}

#[test]
fn what_is_no_schematic_says_so() {
    insta::assert_snapshot!(faults("# nothing\n"), @"line 1, column 1: there is no schematic in this file (an image without changes is `customization: {}`)");
    insta::assert_snapshot!(faults("- a\n"), @"line 1, column 1: a schematic is a mapping");
    insta::assert_snapshot!(faults("customization: {}\n---\ncustomization: {}\n"), @"line 3, column 1: a second document (keep one document; each schematic is a file of its own)");
    insta::assert_snapshot!(faults("customization:\n\tmeta: []\n"), @"line 2, column 1: a tab, where YAML wants blanks");
    insta::assert_snapshot!(faults("customization: {}\ncustomization: {}\n"), @"line 2, column 1: customization is there twice");
    insta::assert_snapshot!(faults("customization: !!binary aGVsbG8=\n"), @"line 1, column 25: customization is a mapping");
    insta::assert_snapshot!(faults("customization: {extraKernelArgs: [!secret x, ~]}\n"), @"
    line 1, column 43: the tag !secret means nothing here
    line 1, column 46: this is text
    ");
}
