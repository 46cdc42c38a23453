//! Devices that VMs take over from their hosts: by mapping and by address.

use serde_json::{Value, json};

use super::common::Lab;

const FIRST: &str = "0000:01:00.0";
const SECOND: &str = "0000:02:00.0";

/// Hosts `a` and `b`; the mapping `gpu` names two cards of `a` and one of `b`.
fn lab() -> Lab {
    let mut lab = Lab::new(&["a", "b"]);
    let cards = [lab.add_card("a", FIRST, 12), lab.add_card("a", SECOND, 13), lab.add_card("b", FIRST, 12)];
    let pairs: Vec<(&str, &str)> =
        std::iter::once(("id", "gpu")).chain(cards.iter().map(|card| ("map", card.as_str()))).collect();
    lab.call("POST", "/cluster/mapping/pci", &pairs);
    lab
}

fn create(lab: &mut Lab, vmid: &str, devices: &[(&str, &str)]) {
    let pairs = [&[("vmid", vmid)][..], devices].concat();
    let config = pairs[1..].iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    lab.world.add_vm("a", vmid.parse().expect("an id"), config, false);
}

fn start(lab: &mut Lab, vmid: &str) -> String {
    lab.run("POST", &format!("/nodes/a/qemu/{vmid}/status/start"), &[])
}

fn checks(lab: &mut Lab, node: &str) -> Value {
    lab.call("GET", "/cluster/mapping/pci", &[("check-node", node)])[0]["checks"].clone()
}

#[test]
fn a_card_is_one_vms_as_long_as_it_runs() {
    let mut lab = lab();
    for vmid in ["100", "101", "102"] {
        create(&mut lab, vmid, &[("hostpci0", "mapping=gpu")]);
    }
    create(&mut lab, "103", &[("hostpci0", "0000:02:00")]);
    assert_eq!(start(&mut lab, "100"), "OK");
    assert_eq!(start(&mut lab, "101"), "OK", "there is a second one");
    assert_eq!(start(&mut lab, "102"), "could not find a free device for 'hostpci0'");
    assert_eq!(start(&mut lab, "103"), format!("PCI device '{SECOND}' already in use by VMID '101'"));
    assert_eq!(lab.run("POST", "/nodes/a/qemu/101/status/reboot", &[]), "OK", "it keeps its card");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/101/status/stop", &[]), "OK");
    assert_eq!(start(&mut lab, "103"), "OK");
    assert_eq!(start(&mut lab, "101"), "could not find a free device for 'hostpci0'");
}

#[test]
fn two_vms_that_start_at_once_do_not_get_the_same_card() {
    let mut lab = lab();
    for vmid in ["100", "101"] {
        create(&mut lab, vmid, &[("hostpci0", FIRST)]);
    }
    let first = lab.call("POST", "/nodes/a/qemu/100/status/start", &[]);
    let second = lab.call("POST", "/nodes/a/qemu/101/status/start", &[]);
    assert_eq!(lab.wait(&first), "OK");
    let reserved = format!("PCI device '{FIRST}' is currently reserved for use by VMID '100'");
    assert_eq!(lab.wait(&second), reserved);
}

#[test]
fn a_start_needs_the_card_that_was_mapped() {
    let mut lab = lab();
    create(&mut lab, "100", &[("hostpci0", "mapping=gpu")]);
    create(&mut lab, "101", &[("hostpci0", "mapping=other")]);
    create(&mut lab, "102", &[("hostpci0", "0000:07:00.0")]);
    create(&mut lab, "103", &[("hostpci0", FIRST), ("hostpci1", FIRST)]);
    create(&mut lab, "104", &[("hostpci0", "0000:01:00.0,pcie=1")]);
    create(&mut lab, "105", &[("hostpci0", "0000:01:00.0,pcie=1"), ("machine", "q35")]);
    assert_eq!(start(&mut lab, "101"), "PCI device mapping not found for 'other'");
    assert_eq!(start(&mut lab, "102"), "no PCI device found for '0000:07:00.0'");
    assert_eq!(start(&mut lab, "103"), format!("device '{FIRST}' assigned more than once"));
    assert_eq!(start(&mut lab, "104"), "q35 machine model is not enabled");
    assert_eq!(start(&mut lab, "105"), "OK");
    // Somebody changes a card.
    lab.world.nodes.get_mut("a").expect("a host").pci[1].device = "0x20b1".into();
    assert_eq!(
        start(&mut lab, "100"),
        "PCI device mapping invalid (hardware probably changed): 'id' does not match for 'gpu' (10de:20b1 != 10de:20b0)"
    );
    lab.world.nodes.get_mut("a").expect("a host").pci.remove(1);
    assert_eq!(
        start(&mut lab, "100"),
        format!("PCI device mapping invalid (hardware probably changed): pci device '{SECOND}' not found")
    );
}

#[test]
fn a_host_without_an_iommu_hands_nothing_over() {
    let mut lab = Lab::new(&["a"]);
    lab.add_card("a", FIRST, -1);
    create(&mut lab, "100", &[("hostpci0", FIRST)]);
    assert_eq!(start(&mut lab, "100"), "cannot prepare PCI pass-through, IOMMU not present");
}

#[test]
fn a_host_says_what_is_wrong_with_its_part_of_a_mapping() {
    let mut lab = lab();
    assert_eq!(lab.get("/cluster/mapping/pci")[0].get("checks"), None);
    assert_eq!((checks(&mut lab, "a"), checks(&mut lab, "b")), (json!([]), json!([])));
    lab.world.nodes.get_mut("b").expect("a host").pci[0].iommu_group = 40;
    let fault =
        |text: &str| json!([{"severity": "error", "message": format!("Invalid configuration: {text}\n")}]);
    assert_eq!(checks(&mut lab, "b"), fault("'iommugroup' does not match for 'gpu' (40 != 12)"));
    lab.world.nodes.get_mut("b").expect("a host").pci.clear();
    assert_eq!(checks(&mut lab, "b"), fault(&format!("pci device '{FIRST}' not found")));
    assert_eq!(checks(&mut lab, "a"), json!([]));
    lab.call("PUT", "/cluster/mapping/pci/gpu", &[("map", &format!("id=10de:20b0,node=a,path={FIRST}"))]);
    let missing = format!("missing expected property 'iommugroup' for device '{FIRST}'");
    assert_eq!(checks(&mut lab, "a"), fault(&missing));
    assert_eq!(checks(&mut lab, "b"), json!([{"severity": "warning", "message": "No mapping for node b."}]));
    lab.world.lose_host("b");
    assert_eq!(
        lab.send("GET", "/cluster/mapping/pci", &[("check-node", "b")]).status,
        595,
        "it is asked itself"
    );
    let text = lab.fail("GET", "/cluster/mapping/pci", &[("check-node", "c")]);
    assert!(text.starts_with("hostname lookup 'c' failed"), "{text}");
}

#[test]
fn mappings_are_kept_by_name() {
    let mut lab = lab();
    let card = [("id", "gpu"), ("map", "id=10de:20b0,node=a,path=0000:01:00.0")];
    assert_eq!(
        lab.fail("POST", "/cluster/mapping/pci", &card),
        "create hardware mapping failed: pci ID 'gpu' already defined"
    );
    assert_eq!(
        lab.fail("PUT", "/cluster/mapping/pci/other", &[("description", "x")]),
        "update hardware mapping failed: pci ID 'other' does not exist"
    );
    let shown = lab.get("/cluster/mapping/pci/gpu");
    assert_eq!(
        (&shown["type"], shown["map"].as_array().map(Vec::len), shown.get("id")),
        (&json!("pci"), Some(3), None)
    );
    let digest = shown["digest"].as_str().expect("a digest").to_owned();
    lab.call("PUT", "/cluster/mapping/pci/gpu", &[("description", "the cards"), ("digest", &digest)]);
    let text = lab.fail("PUT", "/cluster/mapping/pci/gpu", &[("description", "x"), ("digest", &digest)]);
    assert!(
        text.ends_with("detected modified configuration - file changed by other user? Try again."),
        "{text}"
    );
    lab.world.lose_host("b");
    assert_eq!(
        lab.fail("DELETE", "/cluster/mapping/pci/gpu", &[]),
        "delete pci mapping failed: cfs-lock 'file-mapping_pci_cfg' error: no quorum!"
    );
}
