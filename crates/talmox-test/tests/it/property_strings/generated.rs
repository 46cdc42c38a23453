//! Values nobody recorded: options of every kind with good and bad values, in any order, some twice, some broken.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::property_strings::agree::{Verdict, judge};
use crate::property_strings::server::Server;

/// Cases for each kind of value; `TALMOX_FUZZ_INPUTS` and `TALMOX_FUZZ_SEED` ask for more and for others.
const CASES: u32 = 256;
const SEED: u64 = 20_261_115;

static SERVER: LazyLock<Server> = LazyLock::new(Server::new);

const BOOLEANS: &[&str] = &["0", "1", "on", "off", "yes", "no", "True", "FALSE"];
/// What no option takes, or few. Numbers stay below 2³²: the client reads no larger ones, and no VM has them.
const ODD: &[&str] = &["", "2", "maybe", "-1", "1.5", "4000000000", "x y", "ü", "a=b", "0x1f", "none", "00"];

/// An option with the values it takes.
type Options = &'static [(&'static str, &'static [&'static str])];

/// One part of a value: mostly an option as it should be.
fn part(options: Options) -> impl Strategy<Value = String> {
    let good = select(options)
        .prop_flat_map(|(key, values)| select(values).prop_map(move |value| format!("{key}={value}")));
    let odd = (select(options), select(ODD)).prop_map(|((key, _), value)| format!("{key}={value}"));
    let unknown = ("[a-z]{1,8}", select(ODD)).prop_map(|(key, value)| format!("{key}={value}"));
    let bare = select(ODD).prop_map(str::to_owned);
    prop_oneof![16 => good, 2 => odd, 1 => unknown, 1 => bare]
}

/// A value: what comes first, which may be missing, and some parts, the first one anywhere among them.
fn value(firsts: &'static [&'static str], options: Options) -> impl Strategy<Value = String> {
    (select(firsts), vec(part(options), 0..5), any::<proptest::sample::Index>()).prop_map(
        |(first, mut parts, place)| {
            if !first.is_empty() {
                parts.insert(place.index(parts.len() + 1), first.to_owned());
            }
            parts.join(",")
        },
    )
}

fn config() -> ProptestConfig {
    let number = |name: &str| std::env::var_os(name).and_then(|text| text.to_str()?.parse::<u64>().ok());
    let cases = number("TALMOX_FUZZ_INPUTS").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(CASES);
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(number("TALMOX_FUZZ_SEED").unwrap_or(SEED)),
        ..ProptestConfig::default()
    }
}

macro_rules! kinds {
    ($($name:ident: $key:literal, $firsts:expr, $options:expr;)+) => {
        proptest! {
            #![proptest_config(config())]
            $(
                #[test]
                fn $name(value in value($firsts, $options)) {
                    // An empty value is no value: the server takes it for nothing to do.
                    prop_assume!(!value.is_empty());
                    let verdict = judge(&SERVER, $key, &value);
                    prop_assert!(verdict.is_ok(), "{}={}: {}", $key, value, verdict.unwrap_err());
                }
            )+
        }
    };
}

const DISK: Options = &[
    ("aio", &["native", "threads", "io_uring"]),
    ("backup", BOOLEANS),
    ("cache", &["none", "writethrough", "writeback", "unsafe", "directsync"]),
    ("detect_zeroes", BOOLEANS),
    ("discard", &["on", "ignore"]),
    ("iops_rd", &["100", "5000"]),
    ("iops_rd_length", &["1", "60"]),
    ("iothread", BOOLEANS),
    ("mbps", &["10", "12.5"]),
    ("queues", &["2", "4"]),
    ("replicate", BOOLEANS),
    ("ro", BOOLEANS),
    ("scsiblock", BOOLEANS),
    ("serial", &["abc", "S%2F1"]),
    ("shared", BOOLEANS),
    ("size", &["8G", "8192M", "1T"]),
    ("snapshot", BOOLEANS),
    ("ssd", BOOLEANS),
    ("werror", &["stop", "report"]),
    ("wwn", &["0x0123456789abcdef"]),
];

const NIC: Options = &[
    ("bridge", &["vmbr0", "vmbr1"]),
    ("firewall", BOOLEANS),
    ("link_down", BOOLEANS),
    ("macaddr", &["BC:24:11:00:00:02", "bc:24:11:aa:bb:cc"]),
    ("mtu", &["1", "1500", "65520", "70000"]),
    ("queues", &["0", "4", "64", "65"]),
    ("rate", &["10", "12.5", "12.50"]),
    ("tag", &["1", "7", "4094", "5000"]),
    ("trunks", &["5", "5;7", "10-20;5"]),
    ("virtio", &["BC:24:11:00:00:03", "01:00:5E:00:00:01", "zz"]),
    ("host-tunnel", BOOLEANS),
];

kinds! {
    scsi_disks: "scsi0", &["local-zfs:vm-100-disk-0", "file=local-zfs:vm-100-disk-0", "volume=local-zfs:vm-100-disk-0", ""], DISK;
    virtio_disks: "virtio0", &["local-zfs:vm-100-disk-1"], DISK;
    sata_disks: "sata0", &["local-zfs:vm-100-disk-2"], DISK;
    ide_disks: "ide0", &["local:100/vm-100-disk-3.qcow2", "none", "none,media=cdrom", "cdrom,media=cdrom"], DISK;
    new_disks: "scsi5", &["local-zfs:1", "local:2", "local:0.5", "local:3,format=qcow2"], DISK;
    cloud_init_drives: "ide2", &["local-zfs:cloudinit", "local:cloudinit", "local:cloudinit,media=cdrom"], &[("media", &["cdrom"])];
    efi_disks: "efidisk0", &["local-zfs:vm-100-disk-4", "file=local-zfs:vm-100-disk-4"], &[
        ("efitype", &["2m", "4m"]),
        ("pre-enrolled-keys", BOOLEANS),
        ("ms-cert", &["2011", "2023", "2023k"]),
        ("size", &["1M", "4M"]),
    ];
    tpm_states: "tpmstate0", &["local-zfs:vm-100-disk-5"], &[("version", &["v1.2", "v2.0"]), ("size", &["4M"])];
    nics: "net0", &["virtio", "model=virtio", "e1000", "virtio=BC:24:11:00:00:04", "virtio=bc:24:11:00:00:0a", ""], NIC;
    agents: "agent", &["1", "0", "on", "enabled=yes", ""], &[
        ("fstrim_cloned_disks", BOOLEANS),
        ("freeze-fs", BOOLEANS),
        ("freeze-fs-on-backup", BOOLEANS),
        ("guest-fsfreeze", BOOLEANS),
        ("type", &["virtio", "isa"]),
    ];
    boot_orders: "boot", &["order=scsi0;net0", "order=net0", "order=scsi0 net0", "cdn", "legacy=cd", "order=bogus", ""], &[
        ("order", &["scsi0", "scsi0;ide0", ";scsi0;"]),
    ];
    cpus: "cpu", &["host", "cputype=x86-64-v2-AES", "kvm64", ""], &[
        ("flags", &["+aes", "+aes;-pcid", "-pcid;+aes"]),
        ("hidden", BOOLEANS),
        ("hv-vendor-id", &["abc"]),
        ("phys-bits", &["host", "40"]),
        ("guest-phys-bits", &["40", "64"]),
        ("reported-model", &["kvm64", "qemu64"]),
    ];
    host_devices: "hostpci0", &["mapping=gpu", "0000:01:00.0", "host=01:00.0", "01:00", "0000:01:00.0;0000:01:00.1", ""], &[
        ("driver", &["vfio", "keep"]),
        ("legacy-igd", BOOLEANS),
        ("mdev", &["nvidia-1"]),
        ("pcie", BOOLEANS),
        ("rombar", BOOLEANS),
        ("vendor-id", &["0x10de"]),
        ("x-vga", BOOLEANS),
    ];
    ip_configs: "ipconfig0", &["ip=10.0.0.5/24", "ip=dhcp", "ip=manual", "ip6=auto", "ip6=fd00::5/64", "ip=10.0.0.5", ""], &[
        ("gw", &["10.0.0.1", "10.0.0.256"]),
        ("gw6", &["fd00::1", "FD00:0::1"]),
        ("ip", &["10.0.0.6/24", "10.0.0.6/7", "fd00::1/64"]),
        ("ip6", &["fd00::5/64", "dhcp", "manual", "10.0.0.1/24"]),
    ];
    machines: "machine", &["q35", "pc", "type=q35", "pc-q35-9.0", "pc-i440fx-8.1+pve0", "bogus", ""], &[
        ("viommu", &["intel", "virtio"]),
        ("aw-bits", &["39", "48"]),
        ("enable-s3", BOOLEANS),
        ("enable-s4", BOOLEANS),
    ];
    memories: "memory", &["512", "current=2048", "8192", "8", "8G", ""], &[("current", &["1024"])];
    identities: "smbios1", &["uuid=9f87e1f6-cdf5-4487-91c1-92aae8f98489", ""], &[
        ("base64", BOOLEANS),
        ("family", &["Zm9v", "bar"]),
        ("manufacturer", &["TWU="]),
        ("product", &["S1ZN", "KVM", "/w=="]),
        ("serial", &["aD1ncHUtMTtpPTEwMA==", "abc1"]),
        ("sku", &["MQ=="]),
        ("version", &["djE="]),
    ];
    startups: "startup", &["order=4", "4", ""], &[("up", &["15", "0"]), ("down", &["60", "060"]), ("order", &["1"])];
    tags: "tags", &["talos", "Talos;kubernetes", "a,b;c d", "b;a;b", "-x", "a_b-c+d.e"], &[("a", &["b"])];
}

/// A generator that makes only rubbish, or none, proves nothing.
#[test]
fn what_is_generated_meets_every_verdict() {
    let mut runner = TestRunner::new(config());
    for (key, firsts, options) in
        [("scsi0", &["local-zfs:vm-100-disk-0"] as &[_], DISK), ("net0", &["virtio"], NIC)]
    {
        let mut counts = BTreeMap::new();
        for _ in 0..200 {
            let value = value(firsts, options).new_tree(&mut runner).unwrap().current();
            *counts.entry(judge(&SERVER, key, &value).unwrap()).or_insert(0) += 1;
        }
        let most = |verdict| counts.get(&verdict).copied().unwrap_or_default();
        assert!(most(Verdict::BothTake) > 60 && most(Verdict::BothRefuse) > 20, "{key}: {counts:?}");
        assert!(most(Verdict::ServerIsStricter) > 0, "{key}: {counts:?}");
    }
}
