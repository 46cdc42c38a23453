//! What the credentials may do.

use std::collections::BTreeMap;

use talmox_types::VmId;

/// Privileges of the credentials by path, as Proxmox worked them out. A path that Proxmox did not list has what the
/// nearest listed path above it hands down.
///
/// A list of VMs, pools or storages lacks what the credentials may not see and does not say so. Only these privileges
/// tell whether something that is not in a list is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// `talmox@pve!ci`; empty: unknown.
    pub login: String,
    /// Logged in as `root@pam` by password: raw PCI addresses.
    pub root: bool,
    /// The privileges at each listed path, each with whether it reaches further down.
    held: BTreeMap<String, BTreeMap<String, bool>>,
}

impl Rights {
    pub fn new(login: &str, root: bool, held: BTreeMap<String, BTreeMap<String, bool>>) -> Self {
        Self { login: login.to_owned(), root, held }
    }

    /// These privileges everywhere.
    pub fn everywhere<'p>(login: &str, privileges: impl IntoIterator<Item = &'p str>) -> Self {
        let all = privileges.into_iter().map(|privilege| (privilege.to_owned(), true)).collect();
        Self::new(login, false, BTreeMap::from([("/".to_owned(), all)]))
    }

    /// Without this privilege, wherever it was held.
    #[must_use]
    pub fn without(mut self, privilege: &str) -> Self {
        for held in self.held.values_mut() {
            held.remove(privilege);
        }
        self
    }

    /// Whether a privilege is held at a path.
    pub fn holds(&self, path: &str, privilege: &str) -> bool {
        self.at(path, privilege).is_some()
    }

    /// Whether a privilege is held at everything below a path.
    pub fn reaches(&self, path: &str, privilege: &str) -> bool {
        self.at(path, privilege) == Some(true)
    }

    /// Whether a privilege that is needed at a path is there. `/vms` stands for every VM.
    pub fn suffices(&self, path: &str, privilege: &str) -> bool {
        if path == "/vms" { self.reaches(path, privilege) } else { self.holds(path, privilege) }
    }

    /// Whether a host may be told to fetch from the network. The right to change the data centre includes that.
    pub fn fetches_on(&self, host_path: &str) -> bool {
        let changes = self.holds("/", "Sys.Audit") && self.holds("/", "Sys.Modify");
        self.holds(host_path, "Sys.AccessNetwork") || changes
    }

    /// Places that a list of all VMs leaves out without saying so.
    pub fn unseen_vms(&self) -> Vec<String> {
        if !self.reaches("/vms", "VM.Audit") {
            return vec!["/vms".to_owned()];
        }
        // An entry for one VM replaces what every VM has.
        let vms = self.held.iter().filter(|(path, _)| path.starts_with("/vms/"));
        vms.filter(|(_, held)| !held.contains_key("VM.Audit")).map(|(path, _)| path.clone()).collect()
    }

    /// Whether it is certain that this VM would be listed if it existed.
    pub fn sees(&self, vmid: VmId) -> bool {
        self.holds(&format!("/vms/{vmid}"), "VM.Audit")
    }

    /// `Sys.Modify` on `/`: setting the start order.
    pub fn start_order(&self) -> bool {
        self.holds("/", "Sys.Modify")
    }

    /// `Sys.Console` on `/`: changing what HA looks after.
    pub fn ha(&self) -> bool {
        self.holds("/", "Sys.Console")
    }

    /// None: not held. Else whether it reaches further down.
    fn at(&self, path: &str, privilege: &str) -> Option<bool> {
        if let Some(held) = self.held.get(path) {
            return held.get(privilege).copied();
        }
        let above = match path.rsplit_once('/') {
            Some(("", _)) => "/",
            Some((above, _)) => above,
            None => return None,
        };
        if above == path {
            return None;
        }
        self.at(above, privilege).filter(|reaches| *reaches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(held: &[(&str, &[(&str, bool)])]) -> Rights {
        let at = |privileges: &[(&str, bool)]| {
            privileges.iter().map(|(privilege, reaches)| ((*privilege).to_owned(), *reaches)).collect()
        };
        let held = held.iter().map(|(path, privileges)| ((*path).to_owned(), at(privileges))).collect();
        Rights::new("a@pve", false, held)
    }

    #[test]
    fn a_path_that_is_not_listed_has_what_is_handed_down() {
        let rights = rights(&[
            ("/", &[("Sys.Audit", true), ("Sys.Modify", false)]),
            ("/vms", &[("VM.Audit", true)]),
            ("/vms/900", &[("VM.Clone", true)]),
        ]);
        assert!(rights.holds("/nodes/pve1", "Sys.Audit") && rights.holds("/", "Sys.Modify"));
        assert!(!rights.holds("/nodes/pve1", "Sys.Modify"), "it reaches no further");
        assert!(rights.holds("/vms/100", "VM.Audit") && !rights.holds("/vms/900", "VM.Audit"));
        assert!(!rights.holds("/vms/100", "Sys.Audit"), "a listed path has what it lists, no more");
        assert!(!rights.holds("", "Sys.Audit"));
    }

    #[test]
    fn what_a_list_leaves_out() {
        assert_eq!(rights(&[]).unseen_vms(), ["/vms"]);
        assert_eq!(rights(&[("/vms", &[("VM.Audit", false)])]).unseen_vms(), ["/vms"]);
        assert_eq!(rights(&[("/pool/lab", &[("VM.Audit", true)])]).unseen_vms(), ["/vms"]);
        let hidden = [("/vms", &[("VM.Audit", true)][..]), ("/vms/900", &[("VM.Clone", true)][..])];
        assert_eq!(rights(&hidden).unseen_vms(), ["/vms/900"]);
        assert_eq!(rights(&[("/", &[("VM.Audit", true)])]).unseen_vms(), [""; 0]);
    }
}
