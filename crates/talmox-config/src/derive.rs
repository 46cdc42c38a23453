//! MAC addresses that nobody declared.

use sha2::{Digest as _, Sha256};
use talmox_types::{ClusterName, ClusterUid, MacAddress, NodeName};

/// The MAC address of a node's device: always the same for a cluster, a name and a slot, so that DHCP reservations and
/// switches know the machine again after it was rebuilt.
///
/// Without a uid the cluster's name stands in for it; two clusters of one name would then share addresses.
pub(crate) fn mac_address(
    uid: Option<&ClusterUid>,
    cluster: &ClusterName,
    node: &NodeName,
    slot: u8,
) -> MacAddress {
    let cluster = uid.map_or_else(|| format!("name/{cluster}"), |uid| format!("uid/{uid}"));
    let hash = Sha256::digest(format!("talmox/mac/v1/{cluster}/{node}/net{slot}"));
    let mut tail = [0; 3];
    tail.copy_from_slice(&hash[..3]);
    MacAddress::in_proxmox_prefix(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_addresses_are_stable_and_distinct() {
        let uid = ClusterUid::parse("0123456789abcdef").unwrap();
        let name = ClusterName::parse("home").unwrap();
        let mac = |node: &str, slot| mac_address(Some(&uid), &name, &NodeName::parse(node).unwrap(), slot);
        // Fixed for ever: machines in the field carry it.
        assert_eq!(mac("cp-1", 0).to_string(), "BC:24:11:2C:12:44");
        assert_ne!(mac("cp-1", 0), mac("cp-1", 1));
        assert_ne!(mac("cp-1", 0), mac("cp-2", 0));
        let other = mac_address(None, &name, &NodeName::parse("cp-1").unwrap(), 0);
        assert_ne!(mac("cp-1", 0), other);
    }
}
