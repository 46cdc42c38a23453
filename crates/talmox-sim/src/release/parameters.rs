//! Parameters that some versions know and others do not. The tables are those of the last version.

use std::collections::BTreeMap;

use crate::drive::split_key;
use crate::schema::{Args, Errors, Route, UNKNOWN, split_list, validate};
use crate::wire::{Param, Params};
use crate::world::World;

/// Options, and keys of their property strings, with the versions that know them.
const NOT_EVERYWHERE: [(&str, Option<&str>, &[&str]); 15] = [
    ("allow-ksm", None, &["9.0", "9.2"]),
    ("intel-tdx", None, &["9.2"]),
    ("ha-managed", None, &["9.0", "9.2"]),
    ("failback", None, &["9.0", "9.2"]),
    ("agent", Some("freeze-fs"), &["9.0", "9.2"]),
    ("agent", Some("guest-fsfreeze"), &["9.0", "9.2"]),
    ("hostpci", Some("driver"), &["9.0", "9.2"]),
    ("machine", Some("aw-bits"), &["9.0", "9.2"]),
    ("cpu", Some("guest-phys-bits"), &["9.0", "9.2"]),
    ("cpu", Some("level"), &["9.2"]),
    ("net", Some("host-tunnel"), &["9.2"]),
    ("efidisk", Some("ms-cert"), &["8.4", "9.2"]),
    ("tpmstate", Some("format"), &["9.0", "9.2"]),
    ("flags", Some("nested-virt"), &["9.2"]),
    ("privs", Some("VM.GuestAgent.*"), &["9.0", "9.2"]),
];

/// The geometry of a drive, which the last versions no longer take.
const GEOMETRY: [&str; 4] = ["cyls", "heads", "secs", "trans"];

fn family(name: &str) -> &str {
    split_key(name).map_or(name, |(family, _)| family)
}

impl World {
    /// Checks parameters by the tables, with what is different in this version.
    pub(crate) fn check_parameters(&self, route: &Route, params: &Params) -> Result<Args, Errors> {
        let release = self.known_release().name;
        if release == "9.2" {
            return validate(route, params);
        }
        let mut kept = params.clone();
        let mut errors = Errors::new();
        let mut restored: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in params {
            let text = if let Param::Text(text) = value { text.as_str() } else { "" };
            if let Some(reason) = refusal(release, name, text) {
                errors.insert(name.clone(), reason);
                kept.remove(name);
            } else if let Some(rest) = without_old(release, name, text) {
                restored.insert(name.clone(), text.to_owned());
                kept.insert(name.clone(), Param::Text(rest));
            }
        }
        match validate(route, &kept) {
            Ok(mut args) if errors.is_empty() => {
                args.values.extend(restored);
                Ok(args)
            }
            Ok(_) => Err(errors),
            Err(more) => Err(errors.into_iter().chain(more).collect()),
        }
    }
}

/// Why a version does not take a value, if it does not.
fn refusal(release: &str, name: &str, text: &str) -> Option<String> {
    let unknown = NOT_EVERYWHERE.iter().filter(|(_, _, releases)| !releases.contains(&release));
    let keys: Vec<&str> = text.split(',').filter_map(|part| Some(part.split_once('=')?.0)).collect();
    for (option, key, _) in unknown {
        match (*option, key) {
            (option, None) if option == name => return Some(UNKNOWN.to_owned()),
            ("flags", Some(flag)) if name == "cpu" && text.contains(flag) => {
                return Some(format!("invalid format - format error\ncpu.flags: unknown flag '{flag}'\n"));
            }
            ("privs", Some(_)) if name == "privs" => {
                if let Some(one) = split_list(text).find(|one| one.starts_with("VM.GuestAgent.")) {
                    return Some(format!("invalid format - invalid privilege '{one}'\n"));
                }
            }
            (option, Some(key)) if option == family(name) && keys.contains(key) => {
                return Some(format!("invalid format - format error\n{name}.{key}: {UNKNOWN}\n"));
            }
            _ => {}
        }
    }
    None
}

/// The value without what only an old version takes, if there is something of the kind.
fn without_old(release: &str, name: &str, text: &str) -> Option<String> {
    if release != "8.4" {
        return None;
    }
    let is_old = |part: &str| match family(name) {
        "ide" | "sata" | "scsi" | "virtio" => {
            part.split_once('=').is_some_and(|(key, _)| GEOMETRY.contains(&key))
        }
        "privs" => part == "VM.Monitor",
        _ => false,
    };
    let parts: Vec<&str> = text.split(',').collect();
    let rest: Vec<&str> = parts.iter().copied().filter(|part| !is_old(part)).collect();
    (rest.len() < parts.len()).then(|| rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_refuse_what_they_do_not_know_yet() {
        assert_eq!(refusal("8.4", "allow-ksm", "1").as_deref(), Some(UNKNOWN));
        assert_eq!(refusal("9.0", "allow-ksm", "1"), None);
        let text = format!("invalid format - format error\nnet3.host-tunnel: {UNKNOWN}\n");
        assert_eq!(refusal("9.0", "net3", "virtio,host-tunnel=1"), Some(text));
        assert_eq!(refusal("8.4", "efidisk0", "local:1,ms-cert=2023k"), None);
        assert!(refusal("9.0", "efidisk0", "local:1,ms-cert=2023k").is_some());
        assert!(refusal("8.4", "privs", "VM.Audit,VM.GuestAgent.Audit").is_some());
        assert_eq!(refusal("8.4", "agent", "1,freeze-fs-on-backup=0"), None);
    }

    #[test]
    fn what_only_old_ones_take_is_set_aside() {
        assert_eq!(without_old("8.4", "scsi0", "a:1,cyls=5,ssd=1").as_deref(), Some("a:1,ssd=1"));
        assert_eq!(without_old("9.0", "scsi0", "a:1,cyls=5"), None);
        assert_eq!(without_old("8.4", "privs", "VM.Monitor,VM.Audit").as_deref(), Some("VM.Audit"));
    }
}
