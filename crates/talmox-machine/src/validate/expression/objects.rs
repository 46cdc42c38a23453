//! The objects Talos gives to expressions, with their fields.

use super::functions::Shape::{self, Bool, Bytes, Duration, Int, ListObject, ListText, Nested, Text, Uint};

/// An object. Two are the same if they have the same name.
#[derive(Debug)]
pub(super) struct Object {
    pub name: &'static str,
    /// Name, type, and the minor version of Talos 1 that brought the field.
    fields: &'static [(&'static str, Shape, u16)],
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Object {
    /// What a field holds, if Talos of that minor version has it.
    pub(super) fn field(&self, name: &str, minor: u16) -> Option<Shape> {
        self.fields
            .iter()
            .find(|(known, _, since)| *known == name && *since <= minor)
            .map(|(_, shape, _)| *shape)
    }
}

pub(super) static DISK: Object = Object {
    name: "disk",
    fields: &[
        ("size", Uint, 0),
        ("io_size", Uint, 0),
        ("sector_size", Uint, 0),
        ("readonly", Bool, 0),
        ("model", Text, 0),
        ("serial", Text, 0),
        ("modalias", Text, 0),
        ("wwid", Text, 0),
        ("bus_path", Text, 0),
        ("sub_system", Text, 0),
        ("transport", Text, 0),
        ("rotational", Bool, 0),
        ("cdrom", Bool, 0),
        ("dev_path", Text, 0),
        ("pretty_size", Text, 0),
        ("secondary_disks", ListText, 0),
        ("uuid", Text, 0),
        ("symlinks", ListText, 0),
        ("firmware_version", Text, 14),
    ],
};

pub(super) static VOLUME: Object = Object {
    name: "volume",
    fields: &[
        ("size", Uint, 0),
        ("sector_size", Uint, 0),
        ("io_size", Uint, 0),
        ("name", Text, 0),
        ("uuid", Text, 0),
        ("label", Text, 0),
        ("block_size", Uint, 0),
        ("filesystem_block_size", Uint, 0),
        ("probed_size", Uint, 0),
        ("partition_uuid", Text, 0),
        ("partition_type", Text, 0),
        ("partition_label", Text, 0),
        ("partition_index", Uint, 0),
        ("type", Text, 0),
        ("device_path", Text, 0),
        ("parent", Text, 0),
        ("dev_path", Text, 0),
        ("parent_dev_path", Text, 0),
        ("pretty_size", Text, 0),
        ("offset", Uint, 0),
    ],
};

pub(super) static LINK: Object = Object {
    name: "link",
    fields: &[
        ("index", Uint, 0),
        ("type", Int, 0),
        ("link_index", Uint, 0),
        ("flags", Uint, 0),
        ("hardware_addr", Bytes, 0),
        ("broadcast_addr", Bytes, 0),
        ("mtu", Uint, 0),
        ("queue_disc", Text, 0),
        ("master_index", Uint, 0),
        ("operational_state", Int, 0),
        ("kind", Text, 0),
        ("slave_kind", Text, 0),
        ("bus_path", Text, 0),
        ("pciid", Text, 0),
        ("driver", Text, 0),
        ("driver_version", Text, 0),
        ("firmware_version", Text, 0),
        ("product_id", Text, 0),
        ("vendor_id", Text, 0),
        ("product", Text, 0),
        ("vendor", Text, 0),
        ("link_state", Bool, 0),
        ("speed_megabits", Int, 0),
        ("port", Int, 0),
        ("duplex", Int, 0),
        ("vlan", Nested(&VLAN), 0),
        ("bridge_master", Nested(&BRIDGE), 0),
        ("bond_master", Nested(&BOND), 0),
        ("wireguard", Nested(&WIREGUARD), 0),
        ("permanent_addr", Bytes, 0),
        ("alias", Text, 0),
        ("alt_names", ListText, 0),
        ("vrf_master", Nested(&VRF), 13),
        ("veth", Nested(&VETH), 14),
    ],
};

static VLAN: Object = Object { name: "vlan", fields: &[("vid", Uint, 0), ("protocol", Int, 0)] };

static BRIDGE: Object =
    Object { name: "bridge", fields: &[("stp", Nested(&STP), 0), ("vlan", Nested(&BRIDGE_VLAN), 0)] };

static STP: Object = Object { name: "stp", fields: &[("enabled", Bool, 0)] };

static BRIDGE_VLAN: Object = Object { name: "bridge vlan", fields: &[("filtering_enabled", Bool, 0)] };

static VRF: Object = Object { name: "vrf", fields: &[("table", Int, 0)] };

static VETH: Object = Object { name: "veth", fields: &[("peer_name", Text, 0)] };

static BOND: Object = Object {
    name: "bond",
    fields: &[
        ("mode", Int, 0),
        ("hash_policy", Int, 0),
        ("lacp_rate", Int, 0),
        ("arp_validate", Int, 0),
        ("arp_all_targets", Int, 0),
        ("primary_index", Uint, 0),
        ("primary_reselect", Int, 0),
        ("fail_over_mac", Int, 0),
        ("ad_select", Int, 0),
        ("mii_mon", Uint, 0),
        ("up_delay", Uint, 0),
        ("down_delay", Uint, 0),
        ("arp_interval", Uint, 0),
        ("resend_igmp", Uint, 0),
        ("min_links", Uint, 0),
        ("lp_interval", Uint, 0),
        ("packets_per_slave", Uint, 0),
        ("num_peer_notif", Uint, 0),
        ("tlb_dynamic_lb", Uint, 0),
        ("all_slaves_active", Uint, 0),
        ("use_carrier", Bool, 0),
        ("ad_actor_sys_prio", Uint, 0),
        ("ad_user_port_key", Uint, 0),
        ("peer_notify_delay", Uint, 0),
        ("arpip_targets", ListObject(&ADDRESS), 0),
        ("nsip6_targets", ListObject(&ADDRESS), 0),
        ("adlacp_active", Int, 0),
        ("missed_max", Uint, 0),
    ],
};

static WIREGUARD: Object = Object {
    name: "wireguard",
    fields: &[
        ("private_key", Text, 0),
        ("public_key", Text, 0),
        ("listen_port", Int, 0),
        ("firewall_mark", Int, 0),
        ("peers", ListObject(&PEER), 0),
    ],
};

static PEER: Object = Object {
    name: "peer",
    fields: &[
        ("public_key", Text, 0),
        ("preshared_key", Text, 0),
        ("endpoint", Text, 0),
        ("persistent_keepalive_interval", Duration, 0),
        ("allowed_ips", ListObject(&PREFIX), 0),
    ],
};

static ADDRESS: Object = Object { name: "address", fields: &[("ip", Bytes, 0)] };

static PREFIX: Object = Object { name: "prefix", fields: &[("ip", Bytes, 0), ("prefix_length", Int, 0)] };
