//! Names of nodes, clusters, Proxmox hosts, storages, bridges and pools.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// Defines a checked name: a text, the rule it obeys, and a function that tells whether it does.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $valid:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The rule a text must obey to be one.
            pub const RULE: &'static str = $rule;

            /// Checks a text.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err(Invalid::new($what, text, $rule)) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        text_conversions!($name);
    )+};
}

names! {
    /// A node of the cluster: Kubernetes node name, Talos host name and VM name at once.
    NodeName, "a node name",
        "lower-case letters, digits and `-`, at most 63, beginning and ending with a letter or digit; \
         `global`, `controller` and `worker` are reserved",
        |text| dns_label(text) && !["global", "controller", "worker"].contains(&text);
    /// A pool of nodes: its members' names begin with it.
    NodePoolName, "a node pool name",
        "lower-case letters, digits and `-`, at most 59, beginning and ending with a letter or digit",
        |text| text.len() <= 59 && dns_label(text);
    /// A cluster, as people call it. It proves nothing: many are called `kubernetes`.
    ClusterName, "a cluster name",
        "lower-case letters, digits, `-` and `.`, at most 63, beginning and ending with a letter or digit",
        |text| text.len() <= 63 && text.split('.').all(dns_label);
    /// A Proxmox host (what Proxmox calls a node).
    HostName, "a Proxmox host name",
        "letters, digits and `-`, at most 63, beginning and ending with a letter or digit",
        |text| host_label(text);
    /// A Proxmox storage.
    StorageId, "a Proxmox storage id",
        "letters, digits, `-`, `_` and `.`, beginning with a letter and ending with a letter or digit",
        |text| text.len() >= 2 && begins_with_letter(text) && ends_alphanumeric(text)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    /// A network bridge (or SDN vnet) of a Proxmox host.
    BridgeName, "a bridge name", "letters, digits, `-`, `_` and `.`",
        |text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    /// A Proxmox resource pool; nested ones are separated by `/`.
    PoolName, "a Proxmox pool name", "letters, digits, `-`, `_` and `.`, at most two levels separated by `/` deep",
        |text| text.split('/').count() <= 3 && text.split('/').all(|part| !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)));
    /// A PCI resource mapping of the Proxmox data centre.
    MappingName, "a PCI mapping name",
        "letters, digits, `-` and `_`, beginning with a letter, at least two long",
        |text| text.len() >= 2 && begins_with_letter(text)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    /// A tag of a Proxmox guest.
    Tag, "a tag", "letters, digits, `_`, `-`, `+` and `.`, beginning with a letter, digit or `_`",
        |text| text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+.".contains(&b));
}

fn dns_label(text: &str) -> bool {
    host_label(text) && !text.bytes().any(|b| b.is_ascii_uppercase())
}

fn host_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn begins_with_letter(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
}

fn ends_alphanumeric(text: &str) -> bool {
    text.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_at_the_door() {
        for good in ["a", "cp-1", "k8s-cp-1", "9lives"] {
            assert!(NodeName::parse(good).is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "global", "worker", long.as_str(), "ä"] {
            assert!(NodeName::parse(bad).is_err(), "{bad}");
        }
        assert!(StorageId::parse("local-zfs").is_ok());
        assert!(StorageId::parse("1local").is_err());
        assert!(ClusterName::parse("prod.example").is_ok());
        assert!(ClusterName::parse("prod..example").is_err());
        assert!(PoolName::parse("talmox-home/lab").is_ok());
        assert!(Tag::parse("control-plane").is_ok());
        assert!(Tag::parse("-x").is_err());
    }

    #[test]
    fn the_error_says_what_was_expected() {
        assert_eq!(
            BridgeName::parse("vm br0").unwrap_err().to_string(),
            "`vm br0` is not a bridge name: letters, digits, `-`, `_` and `.`"
        );
    }
}
