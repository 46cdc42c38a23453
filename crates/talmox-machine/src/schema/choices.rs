//! Values that are one of a few names.

use super::Choice;

pub(super) static ENCRYPTION_PROVIDER_TYPE: Choice = Choice { names: &["none", "luks2"], zero: Some("none") };
pub(super) static FILESYSTEM_TYPE: Choice = Choice {
    names: &["none", "xfs", "vfat", "ext4", "iso9660", "swapi", "virtiofs", "btrfs"],
    zero: Some("none"),
};
pub(super) static VOLUME_TYPE: Choice = Choice {
    names: &["partition", "disk", "tmpfs", "directory", "symlink", "overlay", "external"],
    zero: Some("partition"),
};
pub(super) static ADLACP_ACTIVE: Choice = Choice { names: &["off", "on"], zero: Some("off") };
pub(super) static AD_SELECT: Choice =
    Choice { names: &["stable", "bandwidth", "count"], zero: Some("stable") };
pub(super) static ARP_ALL_TARGETS: Choice = Choice { names: &["any", "all"], zero: Some("any") };
pub(super) static ARP_VALIDATE: Choice = Choice {
    names: &["none", "active", "backup", "all", "filter", "filter-active", "filter-backup"],
    zero: Some("none"),
};
pub(super) static AUTO_HOSTNAME_KIND: Choice =
    Choice { names: &["off", "talos-addr", "stable"], zero: Some("off") };
pub(super) static BOND_MODE: Choice = Choice {
    names: &[
        "balance-rr",
        "active-backup",
        "balance-xor",
        "broadcast",
        "802.3ad",
        "balance-tlb",
        "balance-alb",
    ],
    zero: Some("balance-rr"),
};
pub(super) static BOND_XMIT_HASH_POLICY: Choice =
    Choice { names: &["layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4"], zero: Some("layer2") };
pub(super) static CLIENT_IDENTIFIER: Choice = Choice { names: &["none", "mac", "duid"], zero: Some("none") };
pub(super) static DNS_PROTOCOL: Choice = Choice { names: &["Do53", "DoT", "DoH"], zero: Some("Do53") };
pub(super) static DEFAULT_ACTION: Choice = Choice { names: &["accept", "block"], zero: Some("accept") };
pub(super) static FAIL_OVER_MAC: Choice = Choice { names: &["none", "active", "follow"], zero: Some("none") };
pub(super) static LACP_RATE: Choice = Choice { names: &["slow", "fast"], zero: Some("slow") };
pub(super) static PRIMARY_RESELECT: Choice =
    Choice { names: &["always", "better", "failure"], zero: Some("always") };
pub(super) static PROTOCOL: Choice = Choice { names: &["icmp", "tcp", "udp", "icmpv6"], zero: None };
pub(super) static ROUTING_RULE_ACTION: Choice =
    Choice { names: &["unspec", "unicast", "blackhole", "unreachable", "prohibit"], zero: Some("unspec") };
pub(super) static VLAN_PROTOCOL: Choice = Choice { names: &["802.1q", "802.1ad"], zero: None };
pub(super) static WOL_MODE: Choice = Choice {
    names: &["phy", "unicast", "multicast", "broadcast", "magic", "magicsecure", "filter"],
    zero: None,
};
pub(super) static LVM_LOGICAL_VOLUME_TYPE: Choice =
    Choice { names: &["linear", "raid1", "raid0", "raid10"], zero: Some("linear") };
pub(super) static MD_LEVEL: Choice = Choice { names: &["raid1"], zero: Some("raid1") };
pub(super) static MD_METADATA: Choice = Choice { names: &["1.0", "1.2"], zero: Some("1.0") };
