//! `machine.network` of the document without a kind.

use super::{Key, Struct, Type, always, optional, value};

pub(super) static NETWORK_CONFIG: Struct = Struct::of(&[
    value("hostname", Type::Text),
    value("interfaces", Type::Keyed(&DEVICE, Key::Interface)),
    value("nameservers", Type::List(&Type::Text)),
    value("searchDomains", Type::List(&Type::Text)),
    value("extraHostEntries", Type::List(&Type::Struct(&EXTRA_HOST))),
    optional("kubespan", Type::Struct(&NETWORK_KUBESPAN)),
    optional("disableSearchDomain", Type::Bool),
]);

pub(super) static DEVICE: Struct = Struct::of(&[
    value("interface", Type::Text),
    optional("deviceSelector", Type::Struct(&NETWORK_DEVICE_SELECTOR)),
    value("addresses", Type::List(&Type::Text)),
    value("cidr", Type::Text),
    value("routes", Type::List(&Type::Struct(&ROUTE))),
    optional("bond", Type::Struct(&BOND)),
    optional("bridge", Type::Struct(&BRIDGE)),
    optional("bridgePort", Type::Struct(&BRIDGE_PORT)),
    value("vlans", Type::Keyed(&VLAN, Key::VlanId)),
    value("mtu", Type::Signed(64)),
    optional("dhcp", Type::Bool),
    optional("ignore", Type::Bool),
    optional("dummy", Type::Bool),
    optional("dhcpOptions", Type::Struct(&DHCP_OPTIONS)),
    optional("wireguard", Type::Struct(&DEVICE_WIREGUARD_CONFIG)),
    optional("vip", Type::Struct(&DEVICE_VIP_CONFIG)),
]);

pub(super) static NETWORK_DEVICE_SELECTOR: Struct = Struct::of(&[
    value("busPath", Type::Text),
    value("hardwareAddr", Type::Text),
    value("permanentAddr", Type::Text),
    value("pciID", Type::Text),
    value("driver", Type::Text),
    optional("physical", Type::Bool),
]);

pub(super) static ROUTE: Struct = Struct::of(&[
    always("network", Type::Text),
    always("gateway", Type::Text),
    value("source", Type::Text),
    value("metric", Type::Unsigned(32)),
    value("mtu", Type::Unsigned(32)),
]);

pub(super) static BOND: Struct = Struct::of(&[
    always("interfaces", Type::List(&Type::Text)),
    value("deviceSelectors", Type::List(&Type::Struct(&NETWORK_DEVICE_SELECTOR))),
    value("arpIPTarget", Type::List(&Type::Text)),
    always("mode", Type::Text),
    value("xmitHashPolicy", Type::Text),
    value("lacpRate", Type::Text),
    value("adActorSystem", Type::Text),
    value("arpValidate", Type::Text),
    value("arpAllTargets", Type::Text),
    value("primary", Type::Text),
    value("primaryReselect", Type::Text),
    value("failOverMac", Type::Text),
    value("adSelect", Type::Text),
    value("miimon", Type::Unsigned(32)),
    value("updelay", Type::Unsigned(32)),
    value("downdelay", Type::Unsigned(32)),
    value("arpInterval", Type::Unsigned(32)),
    value("resendIgmp", Type::Unsigned(32)),
    value("minLinks", Type::Unsigned(32)),
    value("lpInterval", Type::Unsigned(32)),
    value("packetsPerSlave", Type::Unsigned(32)),
    value("numPeerNotif", Type::Unsigned(8)),
    value("tlbDynamicLb", Type::Unsigned(8)),
    value("allSlavesActive", Type::Unsigned(8)),
    optional("useCarrier", Type::Bool),
    value("adActorSysPrio", Type::Unsigned(16)),
    value("adUserPortKey", Type::Unsigned(16)),
    value("peerNotifyDelay", Type::Unsigned(32)),
]);

pub(super) static BRIDGE: Struct = Struct::of(&[
    always("interfaces", Type::List(&Type::Text)),
    optional("stp", Type::Struct(&STP)),
    optional("vlan", Type::Struct(&BRIDGE_VLAN)),
]);

pub(super) static STP: Struct = Struct::of(&[optional("enabled", Type::Bool)]);

pub(super) static BRIDGE_VLAN: Struct = Struct::of(&[optional("vlanFiltering", Type::Bool)]);

pub(super) static BRIDGE_PORT: Struct = Struct::of(&[value("master", Type::Text)]);

pub(super) static VLAN: Struct = Struct::of(&[
    value("addresses", Type::List(&Type::Text)),
    value("cidr", Type::Text),
    always("routes", Type::List(&Type::Struct(&ROUTE))),
    optional("dhcp", Type::Bool),
    always("vlanId", Type::Unsigned(16)),
    value("mtu", Type::Unsigned(32)),
    optional("vip", Type::Struct(&DEVICE_VIP_CONFIG)),
    optional("dhcpOptions", Type::Struct(&DHCP_OPTIONS)),
]);

pub(super) static DEVICE_VIP_CONFIG: Struct = Struct::of(&[
    value("ip", Type::Text),
    optional("equinixMetal", Type::Struct(&VIP_EQUINIX_METAL_CONFIG)),
    optional("hcloud", Type::Struct(&VIP_HCLOUD_CONFIG)),
]);

pub(super) static VIP_EQUINIX_METAL_CONFIG: Struct = Struct::of(&[always("apiToken", Type::Text).secret()]);

pub(super) static VIP_HCLOUD_CONFIG: Struct = Struct::of(&[always("apiToken", Type::Text).secret()]);

pub(super) static DHCP_OPTIONS: Struct = Struct::of(&[
    always("routeMetric", Type::Unsigned(32)),
    optional("ipv4", Type::Bool),
    optional("ipv6", Type::Bool),
    value("duidv6", Type::Text),
]);

pub(super) static DEVICE_WIREGUARD_CONFIG: Struct = Struct::of(&[
    value("privateKey", Type::Text).secret(),
    value("listenPort", Type::Signed(64)),
    value("firewallMark", Type::Signed(64)),
    value("peers", Type::List(&Type::Struct(&DEVICE_WIREGUARD_PEER))),
]);

pub(super) static DEVICE_WIREGUARD_PEER: Struct = Struct::of(&[
    value("publicKey", Type::Text),
    value("endpoint", Type::Text),
    value("persistentKeepaliveInterval", Type::Duration),
    value("allowedIPs", Type::List(&Type::Text)),
]);

pub(super) static EXTRA_HOST: Struct =
    Struct::of(&[always("ip", Type::Text), always("aliases", Type::List(&Type::Text))]);

pub(super) static NETWORK_KUBESPAN: Struct = Struct::of(&[
    optional("enabled", Type::Bool),
    optional("advertiseKubernetesNetworks", Type::Bool),
    optional("allowDownPeerBypass", Type::Bool),
    optional("harvestExtraEndpoints", Type::Bool),
    optional("mtu", Type::Unsigned(32)),
    optional("filters", Type::Struct(&KUBESPAN_FILTERS)),
]);

pub(super) static KUBESPAN_FILTERS: Struct = Struct::of(&[
    value("endpoints", Type::List(&Type::Text)),
    value("excludeAdvertisedNetworks", Type::List(&Type::Text)).since(12),
]);
