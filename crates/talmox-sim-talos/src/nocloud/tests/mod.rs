mod golden;

pub(crate) use golden::shared_data;

use super::*;
use crate::hardware::{MachineId, Nic};

fn seed(files: &[(&str, &str)]) -> Seed {
    let file =
        |name: &str| files.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_bytes().to_vec());
    Seed {
        user_data: file("user-data"),
        meta_data: file("meta-data"),
        network_config: file("network-config"),
        ..Seed::default()
    }
}

fn hardware() -> Hardware {
    Hardware {
        id: MachineId(100),
        uuid: String::new(),
        serial: String::new(),
        memory: 0,
        cpus: 1,
        nics: vec![Nic { mac: "bc:24:11:00:00:01".to_owned(), bridge: "vmbr0".to_owned(), vlan: None }],
        drives: Vec::new(),
    }
}

#[test]
fn proxmox_names_a_node_in_user_data() {
    let seed = seed(&[
        ("user-data", "#cloud-config\nhostname: cp-1\nmanage_etc_hosts: true\n"),
        ("meta-data", "instance-id: abc\n"),
        (
            "network-config",
            "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: 'bc:24:11:00:00:01'\n      \
             subnets:\n      - type: static\n        address: '10.0.0.5'\n        netmask: '255.255.255.0'\n        \
             gateway: '10.0.0.1'\n",
        ),
    ]);
    assert_eq!(seed.config(&BTreeMap::new()), Ok(None));
    let network = seed.network(&hardware());
    assert_eq!(network.hostname.as_deref(), Some("cp-1"));
    assert_eq!(network.addresses[0].address, "10.0.0.5/24");
}

#[test]
fn without_a_network_configuration_the_name_is_lost() {
    let seed = seed(&[("meta-data", "local-hostname: cp-1\n")]);
    assert_eq!(seed.network(&hardware()), PlatformNetwork::default());
}

#[test]
fn an_empty_file_is_a_fault_on_a_drive_and_nothing_over_http() {
    let on_drive = seed(&[("user-data", "")]);
    assert!(on_drive.config(&BTreeMap::new()).is_err());
    let sites = BTreeMap::from([("https://seed/user-data".to_owned(), Vec::new())]);
    let machine = Hardware { serial: "ds=nocloud-net;s=https://seed".to_owned(), ..hardware() };
    let over_http = Seed::of(&machine, &BTreeMap::new(), &sites);
    assert_eq!(over_http.config(&sites), Ok(None));
}

#[test]
fn an_include_is_fetched() {
    let sites = BTreeMap::from([("https://seed/config".to_owned(), b"version: v1alpha1\n".to_vec())]);
    let good = seed(&[("user-data", "#include\nhttps://seed/config\n")]);
    assert_eq!(good.config(&sites), Ok(Some("version: v1alpha1\n".to_owned())));
    assert!(seed(&[("user-data", "#include\nhttps://seed/other\n")]).config(&sites).is_err());
}
