//! Storages and what they take.

use std::collections::BTreeSet;

use talmox_pve::client::StorageState;
use talmox_types::desired::{Boot, ConfigDelivery, Desired, Node};
use talmox_types::shell::command;
use talmox_types::{HostName, StorageId};

use super::listed;
use crate::preflight::facts::Facts;
use crate::preflight::needs::{disk_storages, hosts, hosts_of, image_storage};
use crate::preflight::report::Check;

/// What a storage must take, and for whom.
pub(crate) struct Use<'a> {
    pub(crate) storage: &'a StorageId,
    pub(crate) content: &'static str,
    pub(crate) hosts: BTreeSet<HostName>,
    pub(crate) why: &'static str,
    /// Whether a run does without.
    pub(crate) optional: bool,
}

pub(super) fn checks(desired: &Desired, facts: &Facts) -> Vec<Check> {
    uses(desired, facts).iter().flat_map(|wanted| storage(wanted, facts)).collect()
}

/// Every storage this description makes use of.
pub(crate) fn uses<'a>(desired: &'a Desired, facts: &'a Facts) -> Vec<Use<'a>> {
    let on = |wants: &dyn Fn(&Node) -> bool| -> BTreeSet<HostName> {
        desired
            .nodes
            .iter()
            .filter(|node| wants(node))
            .flat_map(|node| hosts_of(desired, facts, node))
            .collect()
    };
    let mut uses: Vec<Use<'a>> = Vec::new();
    for storage in disk_storages(desired) {
        let wants = |node: &Node| {
            node.vm.storage == *storage || node.vm.extra_disks.iter().any(|disk| disk.storage == *storage)
        };
        let (content, why) = ("images", "disks go there");
        uses.push(Use { storage, content, hosts: on(&wants), why, optional: false });
    }
    let built = |node: &Node| node.vm.boot == Boot::Template && node.vm.template.is_none();
    let imported = |node: &Node| built(node) || node.vm.boot == Boot::Import;
    let from_iso = |node: &Node| node.vm.boot == Boot::Iso;
    if desired.nodes.iter().any(imported) {
        let (content, why) = ("import", "disk images are fetched to it");
        // Where nothing takes images, templates give way to an ISO.
        let optional = !desired.nodes.iter().any(|node| node.vm.boot == Boot::Import);
        uses.push(Use {
            storage: image_storage(desired, facts),
            content,
            hosts: on(&imported),
            why,
            optional,
        });
    }
    if desired.nodes.iter().any(from_iso) {
        let (content, why) = ("iso", "the boot ISO is fetched to it");
        let storage = &desired.proxmox.iso_storage;
        uses.push(Use { storage, content, hosts: on(&from_iso), why, optional: false });
    }
    if desired.talos.config_delivery == ConfigDelivery::Cidata {
        let storage = desired.proxmox.seed_storage.as_ref().unwrap_or(&desired.proxmox.iso_storage);
        let (content, why) = ("iso", "ISOs with machine configuration are uploaded to it");
        uses.push(Use { storage, content, hosts: hosts(desired, facts), why, optional: false });
    }
    uses
}

fn storage(wanted: &Use<'_>, facts: &Facts) -> Vec<Check> {
    let Use { storage, content, hosts, why, optional } = wanted;
    let name = "storage";
    let path = format!("/storage/{storage}");
    let visible = ["Datastore.Audit", "Datastore.AllocateSpace"];
    let visible = visible.iter().any(|privilege| facts.holds(&path, privilege) == Some(true));
    let mut checks = Vec::new();
    let (mut fine, mut lacking): (Vec<&HostName>, Option<&StorageState>) = (Vec::new(), None);
    for host in hosts {
        let Some(Ok(storages)) = facts.hosts.get(host).map(|host| &host.storages) else { continue };
        match storages.iter().find(|state| state.storage == **storage) {
            None if visible => checks.push(Check::problem(
                name,
                format!("{host} has no storage {storage}: {why}"),
                format!("its storages are {}", listed(storages.iter().map(|state| &state.storage))),
            )),
            None => {
                let message = format!("{storage} on {host}: Datastore.Audit to see it is missing on {path}");
                checks.push(Check::not_checked(name, message, None));
            }
            Some(state) if !state.enabled || !state.active => checks.push(Check::problem(
                name,
                format!("storage {storage} is not available on {host}: {why}"),
                format!("on the host: pvesm status --storage {storage}"),
            )),
            Some(state) if !state.holds(content) => lacking = Some(state),
            Some(_) => fine.push(host),
        }
    }
    if let Some(state) = lacking {
        checks.push(takes_not(wanted, state));
    } else if !fine.is_empty() {
        let optional = if *optional { " for templates" } else { "" };
        let message = format!("{storage} takes {content}{optional} on {}: {why}", listed(fine));
        checks.push(Check::ok(name, message));
    }
    checks
}

fn takes_not(wanted: &Use<'_>, state: &StorageState) -> Check {
    let Use { storage, content, why, optional, .. } = wanted;
    let message = format!("storage {storage} does not take `{content}`: {why}");
    let line = content_with(state, content)
        .map(|all| command(&["pvesm", "set", storage.as_str(), "--content", &all.join(",")]));
    match line {
        None => {
            let remedy = format!("storages of type {} cannot: name another one", state.kind);
            Check::problem("storage", message, remedy)
        }
        Some(line) if *optional => {
            Check::warning("storage", format!("{message}; VMs boot from an ISO instead"), line)
        }
        Some(line) => Check::problem("storage", message, line),
    }
}

/// What a storage must be set to take so that it takes this as well; none where its type cannot.
pub(crate) fn content_with(state: &StorageState, content: &str) -> Option<Vec<String>> {
    let blocks = ["zfspool", "lvm", "lvmthin", "rbd", "zfs", "iscsi", "iscsidirect"];
    let is_file = !blocks.contains(&state.kind.as_str());
    let possible = if content == "images" { state.kind != "cephfs" } else { is_file };
    let mut all: BTreeSet<&str> =
        state.content.iter().map(String::as_str).filter(|held| *held != "none").collect();
    all.insert(content);
    possible.then(|| all.into_iter().map(str::to_owned).collect())
}
