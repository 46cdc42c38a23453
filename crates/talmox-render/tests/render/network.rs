//! Name, links, name servers and time, in every layout.

use crate::support::{Around, MINORS, NODES, at, config, names, of, pinned, rendered, try_render};

#[test]
fn the_host_name_is_the_nodes() {
    for minor in MINORS {
        let config = config(minor, "", "worker-1");
        if minor >= 12 {
            assert_eq!(of(&config, "HostnameConfig", "hostname"), "worker-1");
            assert_eq!(of(&config, "HostnameConfig", "auto"), "\"off\"");
            assert_eq!(at(&config, "machine.network.hostname"), "-");
        } else {
            assert_eq!(at(&config, "machine.network.hostname"), "worker-1");
        }
    }
}

#[test]
fn static_addresses_are_on_the_device_with_the_nodes_mac() {
    for minor in MINORS {
        let lines = "node_gateway: 10.0.7.254\nnode_routes:\n  - {network: 10.9.0.0/16, gateway: 10.0.7.2, metric: 50}\n";
        let config = config(minor, lines, "worker-1");
        if minor >= 12 {
            let selector = of(&config, "LinkAliasConfig net0", "selector.match");
            assert_eq!(selector, "mac(link.permanent_addr) == \"bc:24:11:00:00:02\"");
            assert_eq!(of(&config, "LinkConfig net0", "addresses"), "- address: 10.0.7.14/24");
            assert_eq!(
                of(&config, "LinkConfig net0", "routes"),
                "- gateway: 10.0.7.254\n- destination: 10.9.0.0/16\n  gateway: 10.0.7.2\n  metric: 50"
            );
        } else {
            let interfaces = at(&config, "machine.network.interfaces");
            for part in [
                "hardwareAddr: bc:24:11:00:00:02",
                "physical: true",
                "- 10.0.7.14/24",
                "network: 0.0.0.0/0",
                "gateway: 10.0.7.254",
                "metric: 50",
                "dhcp: false",
            ] {
                assert!(interfaces.contains(part), "{minor}: {part}\n{interfaces}");
            }
        }
    }
}

#[test]
fn dhcp_asks_for_the_families_the_node_has() {
    let two = "node_cidr: [10.0.7.0/24, 'fd00:7::/64']\n\
        cluster_pod_cidr: [10.42.0.0/16, 'fd00:42::/56']\ncluster_svc_cidr: [10.43.0.0/16, 'fd00:43::/112']\nnodes:\n\
        - {name: cp-1, address: [10.0.7.12, 'fd00:7::12'], controller: true}\n";
    for minor in MINORS {
        let head = pinned(minor).replace("node_cidr: 10.0.7.0/24\n", "node_network: dhcp\n");
        for (rest, ipv6) in [(NODES, false), (two, true)] {
            let config = rendered(&format!("{head}{rest}"), "cp-1", &Around::default()).config;
            if minor >= 12 {
                assert_eq!(names(&config, "DHCPv4Config"), ["net0"]);
                assert_eq!(names(&config, "DHCPv6Config").len(), usize::from(ipv6));
                assert_eq!(of(&config, "LinkConfig net0", "addresses"), "-");
            } else {
                let interfaces = at(&config, "machine.network.interfaces");
                assert!(interfaces.contains("dhcp: true"), "{interfaces}");
                assert_eq!(interfaces.contains("ipv6: true"), ipv6, "{interfaces}");
            }
        }
    }
}

#[test]
fn a_guest_vlan_carries_all_of_it_and_the_shared_address() {
    for minor in MINORS {
        let lines = "guest_vlan: 30\ncluster_api_addr: 10.0.7.10\n";
        let with_mtu = format!("{}{lines}proxmox_vm_defaults: {{mtu: 9000}}\n{NODES}", pinned(minor));
        let control_plane = rendered(&with_mtu, "cp-1", &Around::default()).config;
        let worker = rendered(&with_mtu, "worker-1", &Around::default()).config;
        if minor >= 12 {
            assert_eq!(of(&control_plane, "VLANConfig net0.30", "addresses"), "- address: 10.0.7.11/24");
            assert_eq!(of(&control_plane, "VLANConfig net0.30", "parent"), "net0");
            assert_eq!(of(&control_plane, "VLANConfig net0.30", "mtu"), "9000");
            assert_eq!(of(&control_plane, "LinkConfig net0", "addresses"), "-");
            assert_eq!(of(&control_plane, "LinkConfig net0", "mtu"), "9000");
            assert_eq!(of(&control_plane, "Layer2VIPConfig 10.0.7.10", "link"), "net0.30");
            assert!(names(&worker, "Layer2VIPConfig").is_empty());
        } else {
            let interfaces = at(&control_plane, "machine.network.interfaces");
            let vlan = &interfaces[interfaces.find("vlans:").unwrap()..];
            for part in ["- 10.0.7.11/24", "vlanId: 30", "ip: 10.0.7.10", "mtu: 9000"] {
                assert!(vlan.contains(part), "{minor}: {part}\n{interfaces}");
            }
            assert!(!at(&worker, "machine.network.interfaces").contains("vip"));
        }
    }
}

#[test]
fn two_shared_addresses_need_a_layout_with_room_for_them() {
    let lines = "node_cidr: [10.0.7.0/24, 'fd00:7::/64']\ncluster_api_addr: [10.0.7.10, 'fd00:7::10']\n\
        cluster_pod_cidr: [10.42.0.0/16, 'fd00:42::/56']\ncluster_svc_cidr: [10.43.0.0/16, 'fd00:43::/112']\nnodes:\n\
        - {name: cp-1, address: [10.0.7.11, 'fd00:7::11'], controller: true}\n";
    for minor in MINORS {
        let text = format!("{}{lines}", pinned(minor).replace("node_cidr: 10.0.7.0/24\n", ""));
        if minor < 12 {
            let error = try_render(&text, "cp-1", &Around::default()).unwrap_err().to_string();
            assert!(error.contains("talos_contract to 1.12"), "{error}");
        } else {
            let config = rendered(&text, "cp-1", &Around::default()).config;
            assert_eq!(names(&config, "Layer2VIPConfig"), ["10.0.7.10", "fd00:7::10"]);
            let link = of(&config, "LinkConfig net0", "addresses");
            assert_eq!(link, "- address: 10.0.7.11/24\n- address: fd00:7::11/64");
            assert_eq!(of(&config, "LinkConfig net0", "routes"), "- gateway: 10.0.7.1\n- gateway: fd00:7::1");
        }
    }
}

#[test]
fn dual_stack_has_both_families_everywhere() {
    let lines = "node_cidr: [10.0.7.0/24, 'fd00:7::/64']\ncluster_pod_cidr: [10.42.0.0/16, 'fd00:42::/56']\n\
        cluster_svc_cidr: [10.43.0.0/16, 'fd00:43::/112']\nnodes:\n\
        - {name: cp-1, address: [10.0.7.11, 'fd00:7::11'], controller: true}\n";
    for minor in MINORS {
        let text = format!("{}{lines}", pinned(minor).replace("node_cidr: 10.0.7.0/24\n", ""));
        let config = rendered(&text, "cp-1", &Around::default()).config;
        let (pods, services, subnets) = if minor >= 14 {
            (
                of(&config, "KubeNetworkConfig", "podSubnets"),
                of(&config, "KubeNetworkConfig", "serviceSubnets"),
                of(&config, "KubeNodeConfig", "nodeIP.validSubnets"),
            )
        } else {
            (
                at(&config, "cluster.network.podSubnets"),
                at(&config, "cluster.network.serviceSubnets"),
                at(&config, "machine.kubelet.nodeIP.validSubnets"),
            )
        };
        assert_eq!(pods, "- 10.42.0.0/16\n- fd00:42::/56");
        assert_eq!(services, "- 10.43.0.0/16\n- fd00:43::/112");
        assert_eq!(subnets, "- 10.0.7.0/24\n- fd00:7::/64");
        assert_eq!(at(&config, "cluster.etcd.advertisedSubnets"), "- 10.0.7.0/24\n- fd00:7::/64");
    }
}

#[test]
fn further_devices_have_their_addresses_and_the_routes_behind_them() {
    for minor in MINORS {
        let lines = "node_routes:\n  - {network: 10.9.0.0/16, gateway: 10.8.0.1}\nproxmox_vm_worker_defaults:\n  \
            vm_networks:\n    - {slot: 1, mac: 'BC:24:11:00:00:09', addresses: 10.8.0.14/24, mtu: 9000}\n    - {slot: 2}\n";
        let config = config(minor, lines, "worker-1");
        if minor >= 12 {
            assert_eq!(names(&config, "LinkConfig"), ["net0", "net1"]);
            assert_eq!(of(&config, "LinkConfig net1", "addresses"), "- address: 10.8.0.14/24");
            assert_eq!(
                of(&config, "LinkConfig net1", "routes"),
                "- destination: 10.9.0.0/16\n  gateway: 10.8.0.1"
            );
            assert_eq!(of(&config, "LinkConfig net0", "routes"), "- gateway: 10.0.7.1");
        } else {
            let interfaces = at(&config, "machine.network.interfaces");
            let second = &interfaces[interfaces.find("bc:24:11:00:00:09").unwrap()..];
            assert!(second.contains("10.8.0.14/24") && second.contains("gateway: 10.8.0.1"), "{second}");
        }
    }
}

#[test]
fn name_and_time_servers() {
    for minor in MINORS {
        let config = config(minor, "dns_servers: [10.0.7.1, 9.9.9.9]\nntp_servers: [time.lan]\n", "cp-1");
        if minor >= 12 {
            let servers = of(&config, "ResolverConfig", "nameservers");
            assert_eq!(servers, "- address: 10.0.7.1\n- address: 9.9.9.9");
            assert_eq!(of(&config, "TimeSyncConfig", "ntp.servers"), "- time.lan");
        } else {
            assert_eq!(at(&config, "machine.network.nameservers"), "- 10.0.7.1\n- 9.9.9.9");
            assert_eq!(at(&config, "machine.time.servers"), "- time.lan");
        }
        if minor >= 14 {
            assert_eq!(of(&config, "ResolverConfig", "hostDNS.enabled"), "true");
        }
    }
}
