//! Whether the extensions a schematic names are there.

use crate::suggest::closest;

/// Extensions that are called differently by now. The factory still takes the old name, and the id is made from the name
/// that is written.
const RENAMED: [(&str, &str); 11] = [
    ("siderolabs/amdgpu-firmware", "siderolabs/amdgpu"),
    ("siderolabs/gasket", "siderolabs/gasket-driver"),
    ("siderolabs/i915-ucode", "siderolabs/i915"),
    ("siderolabs/nonfree-kmod-nvidia", "siderolabs/nonfree-kmod-nvidia-lts"),
    ("siderolabs/nvidia-container-toolkit", "siderolabs/nvidia-container-toolkit-lts"),
    ("siderolabs/nvidia-fabricmanager", "siderolabs/nvidia-fabric-manager-lts"),
    ("siderolabs/nvidia-open-gpu-kernel-modules", "siderolabs/nvidia-open-gpu-kernel-modules-lts"),
    ("siderolabs/talos-vmtoolsd", "siderolabs/vmtoolsd-guest-agent"),
    ("siderolabs/usb-modem", "siderolabs/usb-modem-drivers"),
    ("siderolabs/v4l-uvc", "siderolabs/v4l-uvc-drivers"),
    ("siderolabs/xe-guest-utilities", "siderolabs/xen-guest-agent"),
];

/// What is to be said about an extension that is not offered under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It works, and is called differently by now.
    Renamed { name: String, now: &'static str },
    /// There is none of that name; perhaps another was meant.
    Unknown { name: String, meant: Option<String> },
}

/// Looks at every extension named; those that are offered need no remark.
pub fn check_extensions(named: &[String], offered: &[&str]) -> Vec<Remark> {
    named.iter().filter(|name| !offered.contains(&name.as_str())).map(|name| remark(name, offered)).collect()
}

fn remark(name: &str, offered: &[&str]) -> Remark {
    let renamed = RENAMED.iter().find(|(old, now)| *old == name && offered.contains(now));
    match renamed {
        Some((_, now)) => Remark::Renamed { name: name.to_owned(), now },
        None => Remark::Unknown {
            name: name.to_owned(),
            meant: closest(name, offered.iter().copied()).map(ToOwned::to_owned),
        },
    }
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Renamed { name, now } => {
                write!(f, "{name} is called {now} by now; the old name still works")
            }
            Self::Unknown { name, meant: Some(meant) } => {
                write!(f, "there is no extension {name}: did you mean {meant}?")
            }
            Self::Unknown { name, meant: None } => write!(f, "there is no extension {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_renamed_extensions_are_told_apart() {
        let offered = ["siderolabs/qemu-guest-agent", "siderolabs/i915", "siderolabs/iscsi-tools"];
        let named =
            ["siderolabs/i915-ucode", "siderolabs/qemu-agent", "siderolabs/iscsi-tools", "siderolabs/zfs"];
        let remarks = check_extensions(&named.map(ToOwned::to_owned), &offered);
        let words: Vec<String> = remarks.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "siderolabs/i915-ucode is called siderolabs/i915 by now; the old name still works",
                "there is no extension siderolabs/qemu-agent: did you mean siderolabs/qemu-guest-agent?",
                "there is no extension siderolabs/zfs",
            ]
        );
        // An old name is only good where the new one is offered.
        assert!(matches!(
            &check_extensions(&named[..1].iter().map(ToString::to_string).collect::<Vec<_>>(), &[])[0],
            Remark::Unknown { .. }
        ));
    }
}
