//! Values to try, and which of them the named formats take.
//!
//! The data only names the formats that are code of the server. Of each, this table holds values that are surely good or
//! surely bad: seen in the recordings, or said by the facts. Values nobody can tell are not tried.

/// Good and bad values of a format, the best known first.
struct Samples {
    format: &'static str,
    good: &'static [&'static str],
    bad: &'static [&'static str],
}

const fn of(format: &'static str, good: &'static [&'static str], bad: &'static [&'static str]) -> Samples {
    Samples { format, good, bad }
}

#[rustfmt::skip]
const FORMATS: &[Samples] = &[
    of("pve-vmid", &["100", "999999999", "12345"], &["99", "0100", "1000000000", "0"]),
    of("pve-node", &["pve1", "pve2", "a", "a-b"], &["-a", "a_b", "a b", "a-", "a.b", ""]),
    of("pve-configid", &["ab", "a_b-c", "Net0"], &["1 x", "1a", "a.b", "-a", ""]),
    of("pve-storage-id", &["local", "local-zfs", "a.b_c"], &["1x", "a b", "x-", "-x", ""]),
    of("pve-volume-id", &["local:iso/x.iso", "local-zfs:vm-100-disk-0"], &["local", "lo cal:1", "/x", "1x:y", ""]),
    of("pve-volume-id-or-qm-path", &["local-zfs:8", "none", "cdrom", "/dev/sdx", "local:iso/x.iso", "local-zfs:0.5"], &["local", "lo cal:1"]),
    of("pve-volume-id-or-absolute-path", &["/x", "local:import/x.qcow2"], &["local", "x/y"]),
    of("pve-poolid", &["pool1", "a/b/c", "a.b-c_d"], &["a b", "a/b/c/d", "a:b", ""]),
    of("pve-storage-path", &["/mnt/x", "/"], &["mnt", "mnt/x", ""]),
    of("pve-userid", &["root@pam", "a.b@pve"], &["root", "ro ot@pam", "a:b@pam", "a/b@pam", "root@1x", ""]),
    of("pve-tokenid", &["root@pam!tok"], &["root@pam", "tok"]),
    of("pve-realm", &["pam", "my-realm"], &["1x", "a b", "x", ""]),
    of("pve-ha-resource-or-vm-id", &["vm:100", "100", "ct:101"], &["vm", "vm:", "v m:100", ""]),
    of("pve-ha-resource-id", &["vm:100", "ct:101"], &["100", "vm", "vm:"]),
    of("pve-ha-node", &["pve1", "pve1:2"], &["-a", "pve1:x", "a_b"]),
    of("pve-roleid", &["PVEAdmin", "a-b.c_d"], &["a b", "a:b", "a/b", ""]),
    of("pve-groupid", &["admins", "a-b.c_d"], &["a:b", "a/b"]),
    of("pve-priv", &["VM.Audit", "Sys.Audit"], &["VM/Audit", "VM:Audit"]),
    of("dns-name", &["a", "a.b-c.d", "node-1"], &["-bad", "x_y", "a..b", "a b", ""]),
    of("urlencoded", &["abc", "ssh-ed25519%20AAAA%0A", ""], &["a b", "a+b", "a/b"]),
    of("disk-size", &["1G", "512M", "10", "1.5T", "4K"], &["1X", "G", "1 G", "-1G"]),
    of("CIDR", &["10.0.0.0/24", "fd00::/64"], &["10.0.0.0", "10.0.0.0/99", "fd00::", "x/24", ""]),
    of("ipv4", &["10.0.0.1"], &["10.0.0.256", "fd00::1", "x"]),
    of("ipv6", &["fd00::1"], &["10.0.0.1", "fd00::g"]),
    of("pve-ipv4-config", &["dhcp", "10.0.0.5/24"], &["foo", "10.0.0.5", "auto"]),
    of("pve-ipv6-config", &["auto", "dhcp", "fd00::5/64"], &["foo", "fd00::5"]),
    of("address", &["10.0.0.1", "fd00::1", "ns.example.org"], &["-bad", "a_b"]),
    of("pve-cpuset", &["0", "0-3", "0,2,4-7"], &["a", "0-", ""]),
    of("pve-storage-content", &["iso", "images", "import"], &["nope"]),
    of("pve-qm-bootdev", &["scsi0", "net31", "ide2", "usb0", "hostpci0"], &["efidisk0", "net99", "nope"]),
    of("pve-qm-bootdisk", &["scsi0", "virtio15", "sata5"], &["net0", "nope", "scsi99"]),
    of("pve-phys-bits", &["host", "8", "64"], &["7", "65", "abc"]),
    of("pve-hotplug-features", &["network,disk,usb", "1", "0", "cpu"], &["foo", "network,foo"]),
    of("pve-bridge-id", &["vmbr0", "br-lan_1.2"], &["a/b", "a b"]),
    of("mac-addr", &["BC:24:11:00:00:01", "bc:24:11:0a:0b:0c"], &["zz:zz", "01:00:00:00:00:01", "BC:24:11:00:00"]),
    of("mac-prefix", &["BC:24:11", "BC:24"], &["zz", "B"]),
    of("pve-startup-order", &["1", "order=4,up=15,down=60", "up=3"], &["x", "order=x", "later=1"]),
    of("pve-tag", &["talos", "a-b_c.d+e", "0x"], &["-a", "a!b", "ä"]),
    of("pve-storage-zfs-blocksize", &["8k", "16K", "1M", "4096"], &["abc", "k", ""]),
    of("pve-dir-override", &["iso=/isos", "vztmpl=/templates"], &["foo", "iso", "nope=/x"]),
    of("pve-storage-portal-dns", &["10.0.0.1", "10.0.0.1:3260", "san.example.org"], &["a/b", "-x"]),
    of("pve-storage-options", &["vers=4.2", "soft,timeo=10"], &[]),
    of("pve-storage-server", &["10.0.0.1", "nas.example.org", "fd00::1"], &["-x", "a b", "a_b", ""]),
    of("pve-storage-vgname", &["pve", "vg-0"], &["a b", "-x", ""]),
    of("storage-pair", &["local:local-zfs", "local", "1"], &["1x:local", "local:1x"]),
    of("pve-task-status-type", &["ok", "error", "warning", "unknown"], &["nope"]),
    of("pve-iface", &["vmbr0", "eth0", "eth0.5"], &["e!0", "e 0"]),
    of("string", &["abc", "0x03"], &[]),
    of("email", &["user@example.org"], &["nope", "@x"]),
];

/// A list takes what its items take, and `-opt` an empty value too.
fn parts(format: &str) -> (&str, bool, bool) {
    if let Some(item) = format.strip_suffix("-list") {
        return (item, true, false);
    }
    format.strip_suffix("-opt").map_or((format, false, false), |inner| (inner, false, true))
}

fn find(format: &str) -> Option<&'static Samples> {
    FORMATS.iter().find(|samples| samples.format == format)
}

/// Formats whose values stay good with letters before them.
const GROWING: [&str; 8] = [
    "pve-configid",
    "pve-configid-list",
    "pve-userid",
    "pve-realm",
    "pve-iface",
    "pve-storage-id",
    "pve-poolid",
    "urlencoded",
];

pub(crate) fn can_grow(format: &str) -> bool {
    GROWING.contains(&format)
}

/// Does the format take the value? It must be one of those in [`values`], or one grown from them.
pub(crate) fn passes(format: &str, text: &str) -> bool {
    let (inner, is_list, is_optional) = parts(format);
    let Some(samples) = find(inner) else { return true };
    if is_list {
        let mut items =
            text.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace()).filter(|item| !item.is_empty());
        return items.all(|item| !samples.bad.contains(&item));
    }
    (is_optional && text.is_empty()) || !samples.bad.contains(&text)
}

/// Values to try with a format; nothing if it is not known.
pub(crate) fn values(format: &str) -> Vec<String> {
    let (inner, is_list, is_optional) = parts(format);
    let Some(samples) = find(inner) else { return Vec::new() };
    let mut values: Vec<String> =
        samples.good.iter().chain(samples.bad).map(|text| (*text).to_owned()).collect();
    if is_list {
        let first = samples.good.first().copied().unwrap_or_default();
        let last = samples.good.last().copied().unwrap_or_default();
        values.retain(|text| !text.contains([' ', ',', ';']) && !text.is_empty());
        values.extend([",", ";", " ", ",,"].map(|separator| format!("{first}{separator}{last}")));
        values.push(String::new());
        values.extend(
            samples
                .bad
                .iter()
                .filter(|bad| !bad.contains(' ') && !bad.is_empty())
                .map(|bad| format!("{first},{bad}")),
        );
    }
    if is_optional {
        values.push(String::new());
    }
    values
}

pub(crate) fn is_known(format: &str) -> bool {
    find(parts(format).0).is_some()
}

/// Texts for patterns: for each pattern of the schema some match and some do not.
pub(crate) const TEXTS: &[&str] = &[
    "abc",
    "",
    "a",
    "x y",
    "1",
    "0",
    "100",
    "1G",
    "+1G",
    "512M",
    "8Q",
    "1.5G",
    "http://proxy:3128",
    "https://example.org/x.iso",
    "ftp://example.org/x",
    "/var/tmp/pveupload-0af",
    "/var/tmp/other",
    "8086:1572",
    "8086:157",
    "0000:00:02.0",
    "0000:00:02.0;0000:00:02.1",
    "00:02.0",
    "tok-1",
    "1tok",
    "AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA",
    "AA:AA",
    "cdn",
    "acdnn",
    "scsi0",
    "scsi",
    "virtio15",
    "0x500a0751e2f00001",
    "0x12",
    "+aes",
    "+aes;-pcid",
    "aes;",
    "GenuineIntel",
    "GenuineIntelX",
    "0x8086",
    "nvidia-35",
    "a/b",
    "vbios.bin",
    "q35",
    "pc-i440fx-9.0",
    "pc-q35-9.2+pve1",
    "q99",
    "virt",
    "0-3",
    "0-3;5",
    "0-",
    "/dev/parport0",
    "/dev/usb/lp1",
    "/dev/ttyS0",
    "socket",
    "eA==",
    "e-A",
    "9f87e1f6-cdf5-4487-91c1-92aae8f98489",
    "9f87e1f6-cdf5-4487-91c1",
    "now",
    "2026-11-15",
    "2026-11-15T10:00:00",
    "tomorrow",
    "1-2.3",
    "spice",
    "host",
    "net0=1500",
    "tag:ff00aa",
    "tag:ff00aa:000000;b:112233",
    "a;b",
    "-a",
    "root@pam",
    "root@pam!tok",
    "root@",
    "VENDOR",
    "VENDORVENDORVENDORS",
];
