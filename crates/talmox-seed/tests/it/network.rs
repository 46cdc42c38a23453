//! The network of the first boot.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use talmox_config::{Files, read_files};
use talmox_seed::{meta_data, network_config};
use talmox_types::desired::NodeAddress;

fn said(description: &str) -> String {
    let outcome = read_files(Files::from_texts(description, None));
    let problems: Vec<String> = outcome.problems.iter().map(|problem| problem.message.clone()).collect();
    let desired = outcome.desired.unwrap_or_else(|| panic!("{problems:?}"));
    let node = &desired.nodes[0];
    let NodeAddress::Declared(address) = node.address else { panic!("a declared address") };
    network_config(&desired, node, address)
}

#[test]
fn a_static_address_with_all_that_belongs_to_it() {
    insta::assert_snapshot!(said(
        "
node_cidr: [10.0.7.0/24, 'fd00:7::/64']
node_dns_servers: [10.0.7.1, 'fd00::53']
node_routes: [{network: 10.9.0.0/16, gateway: 10.0.7.254, metric: 50}]
nodes:
  - name: cp-1
    controller: true
    address: [10.0.7.11, 'fd00:7::11']
    mtu: 9000
    mac_addr: BC:24:11:00:00:01
"
    ));
}

#[test]
fn dhcp_says_only_that() {
    insta::assert_snapshot!(said(
        "
node_cidr: 10.0.7.0/24
node_network: dhcp
nodes: [{name: cp-1, controller: true, address: 10.0.7.11, mac_addr: 'BC:24:11:00:00:01'}]
"
    ));
}

#[test]
fn a_vlan_inside_the_guest_carries_the_address() {
    insta::assert_snapshot!(said(
        "
node_cidr: 10.0.7.0/24
guest_vlan: 7
nodes: [{name: cp-1, controller: true, address: 10.0.7.11, mac_addr: 'BC:24:11:00:00:01'}]
"
    ));
}

#[test]
fn meta_data_names_the_node() {
    let node = talmox_types::NodeName::parse("cp-1").unwrap();
    assert_eq!(meta_data(&node, "2000-a1b2"), "instance-id: \"2000-a1b2\"\nlocal-hostname: \"cp-1\"\n");
}
