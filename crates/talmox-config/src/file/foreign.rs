//! Keys that stand in the same files and are read by other tools.

/// Keys of cluster-template that concern what comes after the cluster stands: repository, DNS, ingress, network plugin.
/// They are accepted so that its users need not split their file, and listed by `validate -v`.
pub const CLUSTER_TEMPLATE_KEYS: [&str; 12] = [
    "cilium_bgp_node_asn",
    "cilium_bgp_router_addr",
    "cilium_bgp_router_asn",
    "cilium_loadbalancer_mode",
    "cloudflare_domain",
    "cloudflare_gateway_addr",
    "cloudflare_token",
    "cluster_dns_gateway_addr",
    "cluster_gateway_addr",
    "repository_branch",
    "repository_name",
    "repository_visibility",
];
