//! The machine a VM runs on: what a host makes of its configuration, and whether the host is new enough for it.

use std::collections::BTreeMap;

use crate::release::Release;
use crate::schema;

/// Revisions of Proxmox's own of QEMU's machine versions, newest first.
pub(crate) const REVISIONS: [(&str, u8, &str); 4] = [
    ("10.0", 1, "Set host_mtu vNIC option even with default value for migration compat."),
    ("9.2", 1, "Disables S3/S4 power states by default."),
    ("4.1", 2, "Increases the number of SCSI drives supported."),
    ("4.1", 1, "Introduction of pveX versioning, no changes."),
];

fn newest_revision(version: &str) -> u8 {
    REVISIONS.iter().find(|(of, _, _)| *of == version).map_or(0, |(_, revision, _)| *revision)
}

/// The first two parts of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// The machine a configuration becomes on a host: one without a version has that of the host's QEMU.
pub(crate) fn machine_on(config: &BTreeMap<String, String>, release: &Release) -> String {
    let asked = config.get("machine").map(|text| schema::parse_as("machine", text));
    let kind = asked.and_then(|parsed| parsed.get("type").cloned()).unwrap_or_else(|| "pc".to_owned());
    let (major, minor) = numbers(release.qemu);
    let version = format!("{major}.{minor}");
    let newest = |name: &str| format!("{name}-{version}+pve{}", newest_revision(&version));
    match kind.as_str() {
        "pc" => newest("pc-i440fx"),
        "q35" => newest("pc-q35"),
        "virt" => newest("virt"),
        pinned if pinned.contains("+pve") => pinned.to_owned(),
        pinned => format!("{pinned}+pve0"),
    }
}

/// Can a host of that version run such a machine?
pub(crate) fn check_machine(machine: &str, release: &Release, node: &str) -> Result<(), String> {
    let version = machine.rsplit_once('-').map_or(machine, |(_, version)| version);
    let (version, revision) = version.split_once("+pve").unwrap_or((version, "0"));
    let (major, minor) = numbers(version);
    if numbers(release.qemu) < (major, minor) {
        return Err(format!(
            "Installed QEMU version '{}' is too old to run machine type '{machine}', please upgrade node '{node}'",
            release.qemu
        ));
    }
    let newest = newest_revision(&format!("{major}.{minor}"));
    if revision.parse().is_ok_and(|revision: u8| revision > newest) {
        return Err(format!(
            "Installed qemu-server (max feature level for {major}.{minor} is pve{newest}) is too old to run machine \
             type '{machine}', please upgrade node '{node}'"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(name: &str) -> &'static Release {
        Release::named(name).unwrap()
    }

    #[test]
    fn a_machine_without_a_version_has_that_of_the_host() {
        let on = |machine: &str, name: &str| {
            machine_on(&BTreeMap::from([("machine".into(), machine.into())]), release(name))
        };
        assert_eq!(machine_on(&BTreeMap::new(), release("8.4")), "pc-i440fx-9.2+pve1");
        assert_eq!(on("q35", "9.2"), "pc-q35-10.0+pve1");
        assert_eq!(on("type=q35,viommu=intel", "8.4"), "pc-q35-9.2+pve1");
        assert_eq!(on("pc-q35-8.1", "9.2"), "pc-q35-8.1+pve0");
        assert_eq!(on("pc-i440fx-9.2+pve1", "9.2"), "pc-i440fx-9.2+pve1");
    }

    #[test]
    fn an_old_host_does_not_run_a_new_machine() {
        let check = |machine: &str, name: &str| check_machine(machine, release(name), "b");
        assert_eq!(check("pc-i440fx-9.2+pve1", "9.2"), Ok(()));
        assert_eq!(check("pc-i440fx-9.2+pve1", "8.4"), Ok(()));
        let said = check("pc-q35-10.0+pve1", "8.4").unwrap_err();
        assert_eq!(
            said,
            "Installed QEMU version '9.2.0' is too old to run machine type 'pc-q35-10.0+pve1', please upgrade node 'b'"
        );
        assert!(check("pc-q35-10.0+pve2", "9.2").unwrap_err().contains("max feature level for 10.0 is pve1"));
    }
}
