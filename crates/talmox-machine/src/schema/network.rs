//! Network documents.

use super::choices::{
    AD_SELECT, ADLACP_ACTIVE, ARP_ALL_TARGETS, ARP_VALIDATE, AUTO_HOSTNAME_KIND, BOND_MODE,
    BOND_XMIT_HASH_POLICY, CLIENT_IDENTIFIER, DEFAULT_ACTION, DNS_PROTOCOL, FAIL_OVER_MAC, LACP_RATE,
    PRIMARY_RESELECT, PROTOCOL, ROUTING_RULE_ACTION, VLAN_PROTOCOL, WOL_MODE,
};
use super::{Struct, Type, always, optional, value};

pub(super) static BGP_INSTANCE_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("vrf", Type::Text),
    always("localASN", Type::Unsigned(32)),
    value("routerID", Type::Address),
    value("routeSource", Type::Address),
    value("advertise", Type::List(&Type::Text)).replaced(),
    optional("multipath", Type::Bool),
    value("maxPaths", Type::Unsigned(8)),
    optional("installRoutes", Type::Bool),
    value("importRoutes", Type::List(&Type::Struct(&BGP_IMPORT_ROUTE))).replaced(),
    value("neighbors", Type::List(&Type::Struct(&BGP_NEIGHBOR_CONFIG))).replaced(),
]);

pub(super) static BGP_IMPORT_ROUTE: Struct =
    Struct::of(&[always("bgpInstance", Type::Text), always("prefixes", Type::List(&Type::Prefix))]);

pub(super) static BGP_NEIGHBOR_CONFIG: Struct = Struct::of(&[
    value("address", Type::Address),
    value("link", Type::Text),
    value("peerASN", Type::Unsigned(32)),
    value("localASN", Type::Unsigned(32)),
    value("passive", Type::Bool),
    value("holdTime", Type::Duration),
    optional("bfd", Type::Struct(&BGPBFD_CONFIG)),
]);

pub(super) static BGPBFD_CONFIG: Struct = Struct::of(&[
    value("transmitInterval", Type::Duration),
    value("receiveInterval", Type::Duration),
    value("detectMultiplier", Type::Unsigned(8)),
]);

pub(super) static BLACKHOLE_ROUTE_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), value("metric", Type::Unsigned(32))]);

pub(super) static BOND_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("hardwareAddr", Type::HardwareAddress),
    value("links", Type::List(&Type::Text)),
    optional("bondMode", Type::Choice(&BOND_MODE)),
    optional("miimon", Type::Unsigned(32)),
    optional("updelay", Type::Unsigned(32)),
    optional("downdelay", Type::Unsigned(32)),
    optional("useCarrier", Type::Bool),
    optional("xmitHashPolicy", Type::Choice(&BOND_XMIT_HASH_POLICY)),
    optional("arpInterval", Type::Unsigned(32)),
    value("arpIpTargets", Type::List(&Type::Address)),
    value("nsIp6Targets", Type::List(&Type::Address)),
    optional("arpValidate", Type::Choice(&ARP_VALIDATE)),
    optional("arpAllTargets", Type::Choice(&ARP_ALL_TARGETS)),
    optional("lacpRate", Type::Choice(&LACP_RATE)),
    optional("failOverMac", Type::Choice(&FAIL_OVER_MAC)),
    optional("adSelect", Type::Choice(&AD_SELECT)),
    optional("adActorSysPrio", Type::Unsigned(16)),
    optional("adUserPortKey", Type::Unsigned(16)),
    optional("adLACPActive", Type::Choice(&ADLACP_ACTIVE)),
    optional("primaryReselect", Type::Choice(&PRIMARY_RESELECT)),
    optional("resendIGMP", Type::Unsigned(32)),
    optional("minLinks", Type::Unsigned(32)),
    optional("lpInterval", Type::Unsigned(32)),
    optional("packetsPerSlave", Type::Unsigned(32)),
    optional("numPeerNotif", Type::Unsigned(8)),
    optional("tlbLogicalLb", Type::Unsigned(8)),
    optional("allSlavesActive", Type::Unsigned(8)),
    optional("peerNotifDelay", Type::Unsigned(32)),
    optional("missedMax", Type::Unsigned(8)),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static ADDRESS_CONFIG: Struct =
    Struct::of(&[always("address", Type::Prefix), optional("routePriority", Type::Unsigned(32))]);

pub(super) static ROUTE_CONFIG: Struct = Struct::of(&[
    value("destination", Type::Prefix),
    value("gateway", Type::Address),
    value("source", Type::Address),
    value("metric", Type::Unsigned(32)),
    value("mtu", Type::Unsigned(32)),
    value("table", Type::RoutingTable),
]);

pub(super) static BRIDGE_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("hardwareAddr", Type::HardwareAddress),
    value("links", Type::List(&Type::Text)),
    value("stp", Type::Struct(&BRIDGE_STP_CONFIG)),
    value("vlan", Type::Struct(&BRIDGE_VLAN_CONFIG)),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static BRIDGE_STP_CONFIG: Struct = Struct::of(&[optional("enabled", Type::Bool)]);

pub(super) static BRIDGE_VLAN_CONFIG: Struct = Struct::of(&[optional("filtering", Type::Bool)]);

pub(super) static DHCP4_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("routeMetric", Type::Unsigned(32)),
    optional("ignoreHostname", Type::Bool),
    optional("ignoreRoutes", Type::Bool).since(14),
    optional("clientIdentifier", Type::Choice(&CLIENT_IDENTIFIER)),
    value("duidRaw", Type::HardwareAddress),
]);

pub(super) static DHCP6_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("routeMetric", Type::Unsigned(32)),
    optional("ignoreHostname", Type::Bool),
    optional("clientIdentifier", Type::Choice(&CLIENT_IDENTIFIER)),
    value("duidRaw", Type::HardwareAddress),
]);

pub(super) static DUMMY_LINK_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("hardwareAddr", Type::HardwareAddress),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static ETHERNET_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("features", Type::Map(&Type::Bool)),
    optional("rings", Type::Struct(&ETHERNET_RINGS_CONFIG)),
    optional("channels", Type::Struct(&ETHERNET_CHANNELS_CONFIG)),
    value("wakeOnLan", Type::List(&Type::Choice(&WOL_MODE))).since(12),
]);

pub(super) static ETHERNET_RINGS_CONFIG: Struct = Struct::of(&[
    optional("rx", Type::Unsigned(32)),
    optional("tx", Type::Unsigned(32)),
    optional("rx-mini", Type::Unsigned(32)),
    optional("rx-jumbo", Type::Unsigned(32)),
    optional("rx-buf-len", Type::Unsigned(32)),
    optional("cqe-size", Type::Unsigned(32)),
    optional("tx-push", Type::Bool),
    optional("rx-push", Type::Bool),
    optional("tx-push-buf-len", Type::Unsigned(32)),
    optional("tcp-data-split", Type::Bool),
]);

pub(super) static ETHERNET_CHANNELS_CONFIG: Struct = Struct::of(&[
    optional("rx", Type::Unsigned(32)),
    optional("tx", Type::Unsigned(32)),
    optional("other", Type::Unsigned(32)),
    optional("combined", Type::Unsigned(32)),
]);

pub(super) static HCLOUD_VIP_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("link", Type::Text),
    always("apiToken", Type::Text).secret(),
]);

pub(super) static HTTP_PROBE_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("interval", Type::Duration),
    value("failureThreshold", Type::Signed(64)),
    always("url", Type::Url),
    value("timeout", Type::Duration),
]);

pub(super) static HOSTNAME_CONFIG: Struct =
    Struct::of(&[optional("auto", Type::Choice(&AUTO_HOSTNAME_KIND)), value("hostname", Type::Text)]);

pub(super) static KUBESPAN_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    optional("advertiseKubernetesNetworks", Type::Bool),
    optional("allowDownPeerBypass", Type::Bool),
    optional("harvestExtraEndpoints", Type::Bool),
    optional("mtu", Type::Unsigned(32)),
    optional("filters", Type::Struct(&KUBESPAN_FILTERS_CONFIG)),
]);

pub(super) static KUBESPAN_FILTERS_CONFIG: Struct = Struct::of(&[
    value("endpoints", Type::List(&Type::Text)),
    value("excludeAdvertisedNetworks", Type::List(&Type::Prefix)),
]);

pub(super) static KUBESPAN_ENDPOINTS_CONFIG: Struct =
    Struct::of(&[always("extraAnnouncedEndpoints", Type::List(&Type::AddressPort))]);

pub(super) static LAYER2_VIP_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("link", Type::Text)]);

pub(super) static LINK_ALIAS_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), value("selector", Type::Struct(&LINK_SELECTOR))]);

pub(super) static LINK_SELECTOR: Struct = Struct::of(&[value("match", Type::Expression)]);

pub(super) static LINK_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static DEFAULT_ACTION_CONFIG: Struct =
    Struct::of(&[always("ingress", Type::Choice(&DEFAULT_ACTION))]);

pub(super) static RULE_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("portSelector", Type::Struct(&RULE_PORT_SELECTOR)),
    always("ingress", Type::List(&Type::Struct(&INGRESS_RULE))).replaced(),
]);

pub(super) static RULE_PORT_SELECTOR: Struct = Struct::of(&[
    always("ports", Type::List(&Type::PortRange)).replaced(),
    always("protocol", Type::Choice(&PROTOCOL)),
]);

pub(super) static INGRESS_RULE: Struct =
    Struct::of(&[always("subnet", Type::Prefix), value("except", Type::Prefix)]);

pub(super) static RESOLVER_CONFIG: Struct = Struct::of(&[
    value("nameservers", Type::List(&Type::Struct(&NAMESERVER_CONFIG))),
    value("searchDomains", Type::Struct(&SEARCH_DOMAINS_CONFIG)),
    value("hostDNS", Type::Struct(&HOST_DNS_CONFIG)).since(14),
]);

pub(super) static NAMESERVER_CONFIG: Struct = Struct::of(&[
    always("address", Type::Address),
    value("protocol", Type::Choice(&DNS_PROTOCOL)).since(14),
    value("tlsServerName", Type::Text).since(14),
]);

pub(super) static SEARCH_DOMAINS_CONFIG: Struct = Struct::of(&[
    value("domains", Type::List(&Type::Text)).replaced().given(),
    optional("disableDefault", Type::Bool),
]);

pub(super) static HOST_DNS_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    optional("forwardKubeDNSToHost", Type::Bool),
    optional("resolveMemberNames", Type::Bool),
]);

pub(super) static ROUTING_RULE_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("src", Type::Prefix),
    value("dst", Type::Prefix),
    always("table", Type::RoutingTable),
    value("action", Type::Choice(&ROUTING_RULE_ACTION)),
    value("iifName", Type::Text),
    value("oifName", Type::Text),
    value("fwMark", Type::Unsigned(32)),
    value("fwMask", Type::Unsigned(32)),
]);

pub(super) static STATIC_HOST_CONFIG: Struct =
    Struct::of(&[always("name", Type::Text), always("hostnames", Type::List(&Type::Text))]);

pub(super) static TCP_PROBE_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("interval", Type::Duration),
    value("failureThreshold", Type::Signed(64)),
    always("endpoint", Type::Text),
    value("timeout", Type::Duration),
]);

pub(super) static TIME_SYNC_CONFIG: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    value("bootTimeout", Type::Duration),
    optional("ntp", Type::Struct(&NTP_CONFIG)),
    optional("ptp", Type::Struct(&PTP_CONFIG)),
]);

pub(super) static NTP_CONFIG: Struct =
    Struct::of(&[value("servers", Type::List(&Type::Text)), optional("useNTS", Type::Bool).since(14)]);

pub(super) static PTP_CONFIG: Struct = Struct::of(&[value("devices", Type::List(&Type::Text))]);

pub(super) static VLAN_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("vlanID", Type::Unsigned(16)),
    optional("vlanMode", Type::Choice(&VLAN_PROTOCOL)),
    value("parent", Type::Text),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static VRF_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("hardwareAddr", Type::HardwareAddress),
    value("links", Type::List(&Type::Text)),
    always("table", Type::RoutingTable),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static VETH_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    always("peer", Type::Struct(&VETH_PEER_CONFIG)),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static VETH_PEER_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static WIREGUARD_CONFIG: Struct = Struct::of(&[
    always("name", Type::Text),
    value("privateKey", Type::Text).secret(),
    value("listenPort", Type::Signed(64)),
    value("firewallMark", Type::Signed(64)),
    value("peers", Type::List(&Type::Struct(&WIREGUARD_PEER))),
    optional("up", Type::Bool),
    value("mtu", Type::Unsigned(32)),
    value("addresses", Type::List(&Type::Struct(&ADDRESS_CONFIG))),
    value("routes", Type::List(&Type::Struct(&ROUTE_CONFIG))),
    optional("multicast", Type::Bool),
]);

pub(super) static WIREGUARD_PEER: Struct = Struct::of(&[
    value("publicKey", Type::Text),
    value("presharedKey", Type::Text).secret(),
    value("endpoint", Type::AddressPort),
    value("persistentKeepaliveInterval", Type::Duration),
    value("allowedIPs", Type::List(&Type::Prefix)),
]);
