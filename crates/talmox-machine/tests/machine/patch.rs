//! Patches, by example.

use talmox_machine::{Config, Patch, PatchError, patch};

use crate::{parse, read_patch, source};

/// A config patched, as documents.
fn patched(base: &str, patches: &[&str]) -> Config {
    let patches: Vec<Patch> = patches.iter().map(|text| read_patch(text)).collect();
    patch::apply(parse(base), "base", &patches).unwrap().into_config("base").unwrap()
}

fn refused(base: &str, text: &str) -> String {
    let patch = Patch::parse(source("patch.yaml", text)).unwrap();
    patch::apply(parse(base), "base", &[patch]).map(|_| ()).unwrap_err().to_string()
}

fn unreadable(text: &str) -> String {
    Patch::parse(source("patch.yaml", text)).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn fields_merge_by_their_type() {
    for (what, base, patch, expected) in [
        (
            "an empty text says nothing",
            "machine: {type: worker}",
            "machine: {type: ''}",
            "machine: {type: worker}",
        ),
        (
            "false does",
            "machine: {features: {rbac: true}}",
            "machine: {features: {rbac: false}}",
            "machine: {features: {rbac: false}}",
        ),
        (
            "null does not unset",
            "machine: {type: worker}",
            "machine: {type: null}",
            "machine: {type: worker}",
        ),
        (
            "lists are appended",
            "machine: {certSANs: [a]}",
            "machine: {certSANs: [a, b]}",
            "machine: {certSANs: [a, a, b]}",
        ),
        (
            "subnets are replaced",
            "cluster: {network: {podSubnets: [a, b]}}",
            "cluster: {network: {podSubnets: [c]}}",
            "cluster: {network: {podSubnets: [c]}}",
        ),
        (
            "an empty list replaces",
            "cluster: {network: {podSubnets: [a]}}",
            "cluster: {network: {podSubnets: []}}",
            "cluster: {network: {podSubnets: []}}",
        ),
        (
            "maps merge",
            "machine: {sysctls: {a: '1'}}",
            "machine: {sysctls: {b: '2'}}",
            "machine: {sysctls: {a: '1', b: '2'}}",
        ),
        (
            "a certificate loses its key",
            "machine: {ca: {crt: YQ==, key: Yg==}}",
            "machine: {ca: {crt: Yw==}}",
            "machine: {ca: {crt: Yw==, key: ''}}",
        ),
        (
            "a number is text where text is wanted",
            "machine: {}",
            "machine: {sysctls: {a: 1}}",
            "machine: {sysctls: {a: '1'}}",
        ),
        (
            "a URL keeps its path",
            "cluster: {controlPlane: {endpoint: 'https://a:1/'}}",
            "cluster: {controlPlane: {endpoint: 'https://b'}}",
            "cluster: {controlPlane: {endpoint: 'https://b/'}}",
        ),
    ] {
        assert_eq!(patched(base, &[patch]), parse(expected), "{what}");
    }
}

#[test]
fn interfaces_are_found_by_name_or_selector() {
    let base = "machine: {network: {interfaces: [{interface: eth0, dhcp: true}, {deviceSelector: {driver: x}, mtu: 1}]}}";
    let patch = "machine: {network: {interfaces: [{interface: eth0, mtu: 9000}, {deviceSelector: {driver: x}, mtu: 2}, {mtu: 3}]}}";
    let expected = "machine: {network: {interfaces: [{interface: eth0, dhcp: true, mtu: 9000}, {deviceSelector: {driver: x}, mtu: 2}, {mtu: 3}]}}";
    assert_eq!(patched(base, &[patch]), parse(expected));
}

#[test]
fn a_patch_resets_selectors_it_does_not_repeat() {
    let base = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\nprovisioning: {diskSelector: {match: system_disk}, wipe: false}\n";
    let patch = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\ninstaller: {image: x}\n";
    let expected = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\ninstaller: {image: x}\nprovisioning: {wipe: false}\n";
    assert_eq!(patched(base, &[patch]), parse(expected));
}

#[test]
fn documents_merge_by_kind_and_name_and_new_ones_come_last() {
    let base = "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nmtu: 1500\n";
    let patch = "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth1\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nup: true\n---\nmachine: {type: worker}\n";
    let config = patched(base, &[patch]);
    let ids: Vec<_> = config.documents().iter().map(|one| (one.kind(), one.name())).collect();
    assert_eq!(ids, [("", None), ("LinkConfig", Some("eth0")), ("LinkConfig", Some("eth1"))]);
}

#[test]
fn what_is_deleted_can_be_added_anew_in_the_same_patch() {
    let base = "machine: {network: {hostname: a, interfaces: [{interface: eth0, dhcp: true}]}}";
    let patch = "machine: {network: {hostname: {$patch: delete}, interfaces: [{interface: eth0, $patch: delete}, {interface: eth0, mtu: 1}]}}";
    assert_eq!(
        patched(base, &[patch]),
        parse("machine: {network: {interfaces: [{interface: eth0, mtu: 1}]}}")
    );
}

#[test]
fn a_document_that_is_not_there_cannot_be_deleted_and_that_is_told() {
    let patch = read_patch("apiVersion: v1alpha1\nkind: LinkConfig\nname: eth9\n$patch: delete\n");
    let result = patch::apply(parse("machine: {}"), "base", &[patch]).unwrap();
    let told: Vec<String> = result.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["patch.yaml:1:1: there is no LinkConfig eth9 to delete from"]);
}

#[test]
fn errors_name_the_place_in_the_patch_and_what_it_was_for() {
    assert_eq!(
        refused(
            "machine: {kubelet: {extraConfig: {a: {b: 1}}}}",
            "machine:\n  kubelet:\n    extraConfig:\n      a:\n        b: text\n"
        ),
        "patch.yaml:5:12: machine.kubelet.extraConfig.a.b: the patch has text where the config has a whole number; \
         applied to the document with machine and cluster of base"
    );
    assert_eq!(
        refused("machine: {}", "machine:\n  sysctls:\n    a:\n      $patch: delete\n"),
        "patch.yaml:4:7: machine.sysctls.a: there is nothing like that to delete; \
         applied to the document with machine and cluster of base"
    );
}

#[test]
fn patches_that_cannot_be_read_say_why() {
    for (text, expected) in [
        ("machine: {kubelt: {}}", "patch.yaml:1:19: machine.kubelt: Talos has no such field"),
        (
            "machine: {certSans: []}",
            "patch.yaml:1:21: machine.certSans: Talos has no such field; did you mean `certSANs`?",
        ),
        ("machine: {type: [a]}", "patch.yaml:1:17: machine.type: text is wanted here"),
        ("apiVersion: v1alpha1\nkind: Nothing\n", "patch.yaml:1:1: Talos knows no document of kind Nothing"),
        ("# nothing\n", "patch.yaml:1:1: the patch says nothing"),
        (
            "[{op: jump, path: /a}]",
            "patch.yaml:1:2: [0]: `op` is one of add, remove, replace, move, copy, test",
        ),
        (
            "machine: {network: {interfaces: [{interface: a, mtu: {$patch: delete}}]}}",
            "patch.yaml:1:54: machine.network.interfaces[0].mtu: Talos cannot delete a part of a list's item; \
             delete the item and add it anew",
        ),
        ("machine: {install: {disk: a, disk: b}}", "patch.yaml:1:30: `disk` is there twice"),
    ] {
        assert_eq!(unreadable(text), expected, "{text}");
    }
}

#[test]
fn json_patches_work_on_one_document_only() {
    let patch =
        "[{op: add, path: /machine/certSANs/-, value: b}, {op: test, path: /machine/type, value: worker}]";
    assert_eq!(
        patched("machine: {type: worker, certSANs: [a]}", &[patch]),
        parse("machine: {type: worker, certSANs: [a, b]}")
    );
    let replaced = "[{op: replace, path: /machine/type, value: worker}]";
    assert_eq!(
        patched("machine: {}", &[replaced]),
        parse("machine: {type: worker}"),
        "also where there was none"
    );
    let two = "machine: {}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n";
    assert_eq!(
        refused(two, patch),
        "patch.yaml:1:1: a JSON patch works on a config of one document, and this one has 2; \
         write it as a strategic merge patch; applied to base"
    );
    assert_eq!(
        refused("machine: {}", "- {op: remove, path: /cluster/x}\n"),
        "patch.yaml:1:3: [0]: there is no /cluster/x; applied to base"
    );
}

#[test]
fn documents_that_exclude_each_other_are_refused() {
    let base = "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n";
    let patch = "apiVersion: v1alpha1\nkind: DummyLinkConfig\nname: eth0\n";
    let patch = Patch::parse(source("patch.yaml", patch)).unwrap();
    let error = patch::apply(parse(base), "base", &[patch]).map(|_| ()).unwrap_err();
    assert!(matches!(error, PatchError::Clash { .. }));
    assert_eq!(
        error.to_string(),
        "patch.yaml:1:1: LinkConfig eth0 and DummyLinkConfig eth0 exclude each other; after it was applied to base"
    );
}

#[test]
fn what_changes_nothing_is_told_with_its_place() {
    let idle = |text: &str| {
        let faults = read_patch(text).idle();
        faults.iter().map(|fault| fault.place.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        idle("machine: {install: null, certSANs: [], kubelet: {image: ''}}"),
        [
            "patch.yaml:1:20: machine.install",
            "patch.yaml:1:36: machine.certSANs",
            "patch.yaml:1:57: machine.kubelet.image",
        ]
    );
    assert_eq!(idle("machine: {network: {interfaces: [{interface: eth0, addresses: []}]}}").len(), 1);
    assert_eq!(idle("machine: {registries: {mirrors: {a: {endpoints: []}}}}").len(), 1);
    // Values, not the lack of them.
    for text in [
        "machine: {nodeLabels: {a: ''}, kubelet: {extraConfig: {b: null}, extraArgs: {c: ''}}}",
        "cluster: {network: {podSubnets: []}, ca: {crt: '', key: ''}}",
        "machine: {network: {$patch: delete}}",
        "[{op: remove, path: /machine/network}]",
    ] {
        assert!(idle(text).is_empty(), "{text}: {:?}", idle(text));
    }
}

#[test]
fn the_place_of_a_field_is_found_by_document_and_path() {
    let text = "machine:\n  nodeLabels:\n    a.b/c: d\n  network:\n    interfaces: [{interface: eth0}]\n---\n\
        apiVersion: v1alpha1\nkind: LinkConfig\nname: net0\nmtu: 9000\n";
    let patch = read_patch(text);
    let place =
        |document: &str, path: &str| patch.place_of(document, path).map(|place| (place.line, place.path));
    let main = "the document with machine and cluster";
    assert_eq!(place(main, "machine.nodeLabels.a.b/c"), Some((3, "machine.nodeLabels.a.b/c".to_owned())));
    assert_eq!(
        place(main, "machine.network.interfaces[3].mtu"),
        Some((5, "machine.network.interfaces".to_owned()))
    );
    assert_eq!(place("LinkConfig net0", "mtu"), Some((10, "mtu".to_owned())));
    assert_eq!(place("LinkConfig net1", "mtu"), None);
    assert_eq!(place(main, "machine.install"), None);
    assert_eq!(patch.place_of_kind("LinkConfig").map(|place| place.line), Some(7));
    assert_eq!(patch.place_of_kind("VLANConfig"), None);
}

/// A text of a few MiB can have a million mistakes; finding the line of each takes longer than anybody waits.
#[test]
fn the_first_mistakes_are_told_and_the_others_counted() {
    let text = (0..5_000).map(|number| format!("  mistake{number}: 1\n")).collect::<String>();
    let faults = Patch::parse(source("patch.yaml", &format!("machine:\n{text}"))).map(|_| ()).unwrap_err();
    assert_eq!(faults.0.len(), 101);
    assert!(faults.to_string().ends_with("patch.yaml: 4900 more mistakes are not shown"), "{faults}");
    let text = "a: 1\n".repeat(1_000);
    let faults = Patch::parse(source("patch.yaml", &text)).map(|_| ()).unwrap_err();
    assert!(faults.to_string().ends_with("patch.yaml: 899 more mistakes are not shown"), "{faults}");
}
