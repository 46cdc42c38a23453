//! What of a machine's configuration says how it is reached.

/// Documents that do. What else Talos calls network (probes, clocks) cuts nobody off; a test of `talmox-exec` holds the list to the
/// schema.
pub const NETWORK_KINDS: [&str; 24] = [
    "BGPInstanceConfig",
    "BlackholeRouteConfig",
    "BondConfig",
    "BridgeConfig",
    "DHCPv4Config",
    "DHCPv6Config",
    "DummyLinkConfig",
    "EthernetConfig",
    "HCloudVIPConfig",
    "HostnameConfig",
    "KubeSpanConfig",
    "KubeSpanEndpointsConfig",
    "Layer2VIPConfig",
    "LinkAliasConfig",
    "LinkConfig",
    "NetworkDefaultActionConfig",
    "NetworkRuleConfig",
    "ResolverConfig",
    "RoutingRuleConfig",
    "StaticHostConfig",
    "VLANConfig",
    "VRFConfig",
    "VethConfig",
    "WireguardConfig",
];

/// Whether a field that differs could cut the machine off: `machine.network.interfaces`, `LinkConfig eth0 mtu`.
pub(crate) fn is_network(key: &str) -> bool {
    let kind = key.split(' ').next().unwrap_or(key);
    key == "machine.network" || key.starts_with("machine.network.") || NETWORK_KINDS.contains(&kind)
}
