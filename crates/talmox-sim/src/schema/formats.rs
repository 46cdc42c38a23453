//! Named formats of single values, with the texts of the errors they raise.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex_lite::Regex;

use super::properties::Parsed;
use super::table::{cpu_models, vm_option};

/// Splits a list as PVE does: at commas, semicolons, white space and NUL.
pub(crate) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| matches!(c, ',' | ';' | '\0') || c.is_whitespace()).filter(|item| !item.is_empty())
}

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        fn $name(text: &str) -> bool {
            static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
            PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text))
        }
    };
}

pattern!(is_vmid, r"^[1-9][0-9]{2,8}$");
pattern!(is_node, r"^[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?$");
pattern!(
    is_dns_name,
    r"^([a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?$"
);
pattern!(is_config_id, r"(?i)^[a-z][a-z0-9_-]+$");
pattern!(is_storage_id, r"(?i)^[a-z][a-z0-9\-_.]*[a-z0-9]$");
pattern!(is_volume_id, r"(?i)^[a-z][a-z0-9\-_.]*[a-z0-9]:\S+$");
pattern!(is_new_disk, r"^([^/:\s]+:)?\d+(\.\d+)?$");
pattern!(is_unicast_mac, r"(?i)^[a-f0-9][02468ace](:[a-f0-9]{2}){5}$");
pattern!(is_bridge, r"^[-_.\w]+$");
pattern!(is_tag_text, r"(?i)^[a-z0-9_][a-z0-9_\-+.]*$");
pattern!(is_url_encoded, r"^[-%a-zA-Z0-9_.!~*'()]*$");
pattern!(is_cpu_set, r"^\d+(-\d+)?(,\d+(-\d+)?)*$");
pattern!(is_pool, r"^[A-Za-z0-9.\-_]+(/[A-Za-z0-9.\-_]+){0,2}$");
pattern!(is_user, r"^[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+$");
pattern!(is_token, r"^[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+![A-Za-z][A-Za-z0-9.\-_]+$");
pattern!(is_name, r"^[A-Za-z0-9.\-_]+$");
pattern!(is_realm, r"^[A-Za-z][A-Za-z0-9.\-_]+$");
pattern!(is_disk_size, r"^\d+(\.\d+)?[KMGT]?$");
pattern!(is_mac_prefix, r"(?i)^[a-f0-9][02468ace](:[a-f0-9]{2}){0,2}:?$");
pattern!(is_absolute, r"^/[^\s]*$");
pattern!(is_ha_resource, r"^(vm|ct):[1-9][0-9]{2,8}$");
pattern!(is_ha_node, r"^[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?(:\d+)?$");
pattern!(is_block_size, r"^[1-9][0-9]*[kKmM]?$");
pattern!(is_volume_group, r"(?i)^[a-z0-9_][a-z0-9\-_.]*$");
pattern!(is_interface, r"(?i)^[a-z][a-z0-9_]{1,20}([:.]\d+)?$");
pattern!(is_mail, r"^[\w+\-~]+(\.[\w+\-~]+)*@[a-zA-Z0-9\-]+(\.[a-zA-Z0-9\-]+)*$");
pattern!(is_cpu_flags, r"^[+-][a-zA-Z0-9\-_.]+(;[+-][a-zA-Z0-9\-_.]+)*$");

pub(crate) fn is_tag(text: &str) -> bool {
    is_tag_text(text)
}

/// CPU flags a VM may set for itself.
const VM_CPU_FLAGS: [&str; 13] = [
    "nested-virt",
    "md-clear",
    "pcid",
    "spec-ctrl",
    "ssbd",
    "ibpb",
    "virt-ssbd",
    "amd-ssbd",
    "amd-no-ssb",
    "pdpe1gb",
    "hv-tlbflush",
    "hv-evmcs",
    "aes",
];

pub(super) fn check(format: &str, text: &str) -> Result<(), String> {
    if let Some(item_format) = format.strip_suffix("-list") {
        return split_list(text).try_for_each(|item| check(item_format, item));
    }
    if let Some(inner) = format.strip_suffix("-opt") {
        return if text.is_empty() { Ok(()) } else { check(inner, text) };
    }
    let (good, reason) = judge(format, text);
    if good { Ok(()) } else { Err(format!("{reason}\n")) }
}

fn judge(format: &str, text: &str) -> (bool, String) {
    let looks = |good: bool, what: &str| (good, format!("value does not look like a valid {what}"));
    match format {
        "pve-vmid" => looks(is_vmid(text), "VM ID"),
        "pve-node" => looks(is_node(text), "node name"),
        "dns-name" => looks(is_dns_name(text), "DNS name"),
        "mac-addr" => looks(is_unicast_mac(text), "unicast MAC address"),
        "ipv4" => looks(text.parse::<Ipv4Addr>().is_ok(), "IPv4 address"),
        "ipv6" => looks(text.parse::<Ipv6Addr>().is_ok(), "IPv6 address"),
        "ip" => looks(text.parse::<IpAddr>().is_ok(), "IP address"),
        "CIDR" => looks(is_cidr4(text) || is_cidr6(text), "CIDR network"),
        "CIDRv4" => looks(is_cidr4(text), "IPv4 network"),
        "CIDRv6" => looks(is_cidr6(text), "IPv6 network"),
        "pve-ipv4-config" => {
            looks(matches!(text, "dhcp" | "manual") || is_cidr4(text), "ipv4 network configuration")
        }
        "pve-ipv6-config" => {
            looks(matches!(text, "auto" | "dhcp" | "manual") || is_cidr6(text), "ipv6 network configuration")
        }
        "address" => looks(is_address(text), &format!("address: {text}")),
        "disk-size" => looks(is_disk_size(text), &format!("disk size: {text}")),
        "pve-realm" => looks(is_realm(text), "realm"),
        "pve-storage-path" => looks(is_absolute(text), "absolute path"),
        "pve-ha-resource-id" => looks(is_ha_resource(text), "ha resource id"),
        "pve-ha-resource-or-vm-id" => looks(is_ha_resource(text) || is_vmid(text), "ha resource id"),
        "pve-ha-node" => looks(is_ha_node(text), "ha node"),
        "pve-storage-server" => looks(is_address(text), "server name or IP address"),
        "pve-storage-portal-dns" => looks(is_portal(text), "portal address"),
        "email" => looks(is_mail(text), "email address"),
        "email-opt" => looks(text.is_empty() || is_mail(text), "email address"),
        _ => judge_identifier(format, text),
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || is_dns_name(text)
}

/// An address, with a port if one is wanted.
fn is_portal(text: &str) -> bool {
    let port = |(_, port): &(&str, &str)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let host = text.rsplit_once(':').filter(port).map_or(text, |(host, _)| host);
    is_address(text) || is_address(host.trim_start_matches('[').trim_end_matches(']'))
}

/// A storage for each of the source's, one for all, or `1` for the same ones.
fn is_storage_pair(text: &str) -> bool {
    text == "1" || text.split(':').count() <= 2 && text.split(':').all(is_storage_id)
}

/// Another folder for a content type.
fn is_folder_override(text: &str) -> bool {
    text.split_once('=').is_some_and(|(content, folder)| is_content(content) && folder.starts_with('/'))
}

fn judge_identifier(format: &str, text: &str) -> (bool, String) {
    match format {
        "pve-configid" => (is_config_id(text), format!("invalid configuration ID '{text}'")),
        "pve-storage-id" => (is_storage_id(text), format!("storage ID '{text}' contains illegal characters")),
        "pve-volume-id" => (is_volume_id(text), format!("unable to parse volume ID '{text}'")),
        "pve-volume-id-or-qm-path" => {
            let known = matches!(text, "none" | "cdrom") || text.starts_with('/') || is_new_disk(text);
            (known || is_volume_id(text), format!("unable to parse volume ID '{text}'"))
        }
        "pve-volume-id-or-absolute-path" => {
            (text.starts_with('/') || is_volume_id(text), format!("unable to parse volume ID '{text}'"))
        }
        "pve-bridge-id" => (is_bridge(text), format!("invalid bridge ID '{text}'")),
        "pve-tag" => (is_tag_text(text), "invalid characters in tag".into()),
        "urlencoded" => (is_url_encoded(text), format!("invalid urlencoded string: {text}")),
        "pve-hotplug-features" => judge_hotplug(text),
        "pve-startup-order" => (is_startup(text), "unable to parse startup options".into()),
        "pve-qm-bootdev" => (is_boot_device(text), format!("invalid boot device '{text}'")),
        "pve-qm-bootdisk" => (is_boot_disk(text), format!("invalid boot disk '{text}'")),
        "pve-cpuset" => (is_cpu_set(text), "unable to parse cpuset option".into()),
        "pve-poolid" => (is_pool(text), format!("pool name '{text}' contains invalid characters")),
        "pve-userid" => (is_user(text), format!("value '{text}' does not look like a valid user name")),
        "pve-tokenid" => (is_token(text), format!("value '{text}' does not look like a valid token ID")),
        "pve-roleid" => (is_name(text), format!("role name '{text}' contains invalid characters")),
        "pve-groupid" => (is_name(text), format!("group name '{text}' contains invalid characters")),
        "pve-priv" => (crate::access::is_privilege(text), format!("invalid privilege '{text}'")),
        "pve-storage-content" => (is_content(text), format!("invalid content type '{text}'")),
        "storage-pair" => (is_storage_pair(text), format!("invalid storage pair '{text}'")),
        "pve-dir-override" => (is_folder_override(text), format!("invalid override '{text}'")),
        "pve-storage-vgname" => {
            (is_volume_group(text), format!("lvm name '{text}' contains illegal characters"))
        }
        "pve-storage-zfs-blocksize" => (is_block_size(text), format!("invalid block size '{text}'")),
        "pve-iface" => (is_interface(text), format!("invalid network interface name '{text}'")),
        "pve-phys-bits" => (
            text == "host" || (8..=64).contains(&text.parse().unwrap_or(0)),
            "value must be an integer between 8 and 64 or 'host'".into(),
        ),
        "mac-prefix" => (is_mac_prefix(text), "value is not a valid unicast MAC address prefix".into()),
        "pve-task-status-type" => (
            matches!(text, "ok" | "error" | "warning" | "unknown"),
            format!("invalid task status type '{text}'"),
        ),
        _ => (true, String::new()),
    }
}

/// `order=N`, `up=N`, `down=N` in any order; the order may stand bare.
fn is_startup(text: &str) -> bool {
    let is_part = |part: &str| {
        let number = part
            .split_once('=')
            .map_or(part, |(key, number)| if matches!(key, "order" | "up" | "down") { number } else { "" });
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    !text.is_empty() && text.split(',').filter(|part| !part.trim().is_empty()).all(is_part)
}

/// Drives but for firmware and TPM state, NICs, USB and PCI devices; each must be an option there is.
fn is_boot_device(text: &str) -> bool {
    let family = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let bootable = matches!(family, "ide" | "sata" | "scsi" | "virtio" | "net" | "usb" | "hostpci");
    bootable && family != text && vm_option(text).is_some()
}

fn is_boot_disk(text: &str) -> bool {
    is_boot_device(text) && !["net", "usb", "hostpci"].iter().any(|family| text.starts_with(family))
}

fn is_content(text: &str) -> bool {
    matches!(text, "images" | "rootdir" | "iso" | "vztmpl" | "backup" | "snippets" | "import" | "none")
}

fn judge_hotplug(text: &str) -> (bool, String) {
    if matches!(text, "0" | "1") {
        return (true, String::new());
    }
    let known = ["network", "disk", "cpu", "memory", "usb", "cloudinit"];
    let wrong = split_list(text).find(|feature| !known.contains(feature));
    (wrong.is_none(), format!("invalid hotplug feature '{}'", wrong.unwrap_or_default()))
}

fn is_cidr4(text: &str) -> bool {
    let parts = text.split_once('/').map(|(ip, mask)| (ip.parse::<Ipv4Addr>(), mask.parse::<u8>()));
    matches!(parts, Some((Ok(_), Ok(8..=32))))
}

fn is_cidr6(text: &str) -> bool {
    let parts = text.split_once('/').map(|(ip, mask)| (ip.parse::<Ipv6Addr>(), mask.parse::<u8>()));
    matches!(parts, Some((Ok(_), Ok(8..=128))))
}

/// A CPU model must be built in, or custom and known; its flags are a short list.
pub(super) fn check_cpu(parsed: &Parsed) -> Result<(), String> {
    let model = parsed.get("cputype").map_or("kvm64", String::as_str);
    if let Some(custom) = model.strip_prefix("custom-") {
        return Err(format!("Custom cputype '{custom}' not found\n"));
    }
    if !cpu_models().iter().any(|(name, _)| name == model) {
        return Err(format!("Built-in cputype '{model}' is not defined (missing 'custom-' prefix?)\n"));
    }
    let flags = parsed.get("flags").filter(|flags| is_cpu_flags(flags));
    let mut names =
        flags.into_iter().flat_map(|flags| flags.split(';')).map(|flag| flag.trim_start_matches(['+', '-']));
    if names.all(|flag| VM_CPU_FLAGS.contains(&flag)) {
        return Ok(());
    }
    Err(format!("VM-specific CPU flags must be a subset of: {}\n", VM_CPU_FLAGS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse_what_the_server_does() {
        for (format, good, bad) in [
            ("pve-vmid", "100", "99"),
            ("dns-name", "a.b-c.d", "-bad"),
            ("dns-name", "x", "x_y"),
            ("pve-storage-id", "local-zfs", "1x"),
            ("pve-volume-id-or-qm-path", "local:1", "local"),
            ("pve-volume-id-or-qm-path", "none", "lo cal:1"),
            ("mac-addr", "BC:24:11:00:00:01", "01:00:00:00:00:01"),
            ("pve-ipv4-config", "10.0.0.5/24", "10.0.0.5"),
            ("pve-ipv6-config", "auto", "2001:db8::1"),
            ("pve-startup-order", "order=4,up=15,down=60", "order=x"),
            ("pve-startup-order", "4", "later"),
            ("pve-tag-list", "a;b,c d", "a;-b"),
            ("pve-hotplug-features", "network,disk", "foo"),
            ("pve-qm-bootdev-list", "scsi0;net0;ide2", "efidisk0"),
            ("pve-qm-bootdev", "net31", "net99"),
            ("pve-qm-bootdisk", "virtio15", "net0"),
            ("pve-startup-order", "up=1,,order=2", ""),
            ("pve-configid-list", "net0,scsi1", "0net"),
            ("pve-poolid", "a/b/c", "a/b/c/d"),
        ] {
            assert!(check(format, good).is_ok(), "{format} {good}");
            assert!(check(format, bad).is_err(), "{format} {bad}");
        }
    }

    #[test]
    fn cpu_models_are_known_by_name() {
        let cpu = |text: &str| check_cpu(&super::super::properties::parse_as("vm-cpu-conf", text));
        assert!(cpu("host,hidden=1").is_ok() && cpu("x86-64-v2-AES,flags=+aes").is_ok());
        assert!(cpu("nope").unwrap_err().starts_with("Built-in cputype 'nope' is not defined"));
        assert!(cpu("host,flags=+sse9").unwrap_err().starts_with("VM-specific CPU flags"));
    }
}
