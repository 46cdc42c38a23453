//! What a factory offers: versions, extensions, overlays.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::files::hex;

/// Lines of Talos and their last release.
const LINES: [(u32, u32); 6] = [(8, 4), (9, 6), (10, 9), (11, 6), (12, 11), (13, 9)];

/// What came after the last of the lines above.
const NEWEST: [&str; 3] = ["v1.14.0-rc.0", "v1.14.0-rc.1", "v1.14.0"];

/// Extensions every version has.
const EXTENSIONS: [&str; 34] = [
    "siderolabs/amd-ucode",
    "siderolabs/bnx2-bnx2x",
    "siderolabs/btrfs",
    "siderolabs/chelsio-drivers",
    "siderolabs/crun",
    "siderolabs/drbd",
    "siderolabs/fuse3",
    "siderolabs/gasket-driver",
    "siderolabs/glibc",
    "siderolabs/gvisor",
    "siderolabs/hailort",
    "siderolabs/hyperv-guest-agent",
    "siderolabs/intel-ice-firmware",
    "siderolabs/intel-ucode",
    "siderolabs/iscsi-tools",
    "siderolabs/kata-containers",
    "siderolabs/mdadm",
    "siderolabs/mei",
    "siderolabs/nfs-utils",
    "siderolabs/nonfree-kmod-nvidia-lts",
    "siderolabs/nut-client",
    "siderolabs/nvidia-container-toolkit-lts",
    "siderolabs/qemu-guest-agent",
    "siderolabs/realtek-firmware",
    "siderolabs/spin",
    "siderolabs/stargz-snapshotter",
    "siderolabs/tailscale",
    "siderolabs/thunderbolt",
    "siderolabs/trident-iscsi-tools",
    "siderolabs/usb-modem-drivers",
    "siderolabs/util-linux-tools",
    "siderolabs/v4l-uvc-drivers",
    "siderolabs/vmtoolsd-guest-agent",
    "siderolabs/zfs",
];

/// Extensions that came, went or were renamed: name, first and last line.
const CHANGING: [(&str, u32, u32); 6] = [
    ("siderolabs/i915-ucode", 0, 9),
    ("siderolabs/i915", 10, u32::MAX),
    ("siderolabs/amdgpu-firmware", 0, 9),
    ("siderolabs/amdgpu", 10, u32::MAX),
    ("siderolabs/nfsrahead", 10, u32::MAX),
    ("siderolabs/xen-guest-agent", 10, u32::MAX),
];

/// Old names the factory still takes.
const RENAMED: [(&str, &str); 4] = [
    ("siderolabs/i915-ucode", "siderolabs/i915"),
    ("siderolabs/amdgpu-firmware", "siderolabs/amdgpu"),
    ("siderolabs/talos-vmtoolsd", "siderolabs/vmtoolsd-guest-agent"),
    ("siderolabs/xe-guest-utilities", "siderolabs/xen-guest-agent"),
];

/// Every version there is, with its `v`.
pub(super) fn versions() -> Vec<String> {
    let lines =
        LINES.iter().flat_map(|(line, last)| (0..=*last).map(move |patch| format!("v1.{line}.{patch}")));
    lines.chain(NEWEST.map(ToOwned::to_owned)).collect()
}

fn line_of(version: &str) -> u32 {
    version.split('.').nth(1).and_then(|line| line.parse().ok()).unwrap_or_default()
}

fn names(version: &str) -> Vec<&'static str> {
    let line = line_of(version);
    let changing =
        CHANGING.iter().filter(|(_, from, to)| (*from..=*to).contains(&line)).map(|(name, _, _)| *name);
    let mut names: Vec<&str> = EXTENSIONS.into_iter().chain(changing).collect();
    names.sort_unstable();
    names
}

/// Whether an extension can be built in, under this name or its new one.
pub(super) fn offers(version: &str, extension: &str) -> bool {
    let names = names(version);
    let renamed = RENAMED.iter().find(|(old, _)| *old == extension).map(|(_, now)| *now);
    names.contains(&extension) || renamed.is_some_and(|now| names.contains(&now))
}

pub(super) fn extensions(version: &str) -> Value {
    let entry = |name: &str| {
        let reference = format!("ghcr.io/{name}:{version}");
        let digest = hex(&Sha256::digest(reference.as_bytes()));
        json!({
            "name": name, "ref": reference, "digest": format!("sha256:{digest}"),
            "author": "Sidero Labs", "description": format!("simulated extension {name}"),
        })
    };
    names(version).into_iter().map(entry).collect()
}

pub(super) fn overlays(version: &str) -> Value {
    if line_of(version) < 7 {
        return json!([]);
    }
    let entry = |(name, image): (&str, &str)| {
        let reference = format!("ghcr.io/{image}:{version}");
        let digest = hex(&Sha256::digest(reference.as_bytes()));
        json!({"name": name, "image": image, "ref": reference, "digest": format!("sha256:{digest}")})
    };
    [("rpi_generic", "siderolabs/sbc-raspberrypi"), ("turingrk1", "siderolabs/sbc-rockchip")]
        .into_iter()
        .map(entry)
        .collect()
}
