//! Where a template can be built: which storages take its image and its disk.

use talmox_types::desired::Template;
use talmox_types::shell::command;
use talmox_types::{HostName, StorageId};

use crate::{FileKind, Observed, Storage};

/// The oldest Proxmox that fetches disk images by URL.
const IMPORTS_BY_URL: (u32, u32) = (8, 4);

/// Where a template is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::planner) struct Site {
    pub host: HostName,
    /// Where its image lies.
    pub image: StorageId,
    pub disk: StorageId,
    /// `zfspool`, `dir`.
    pub disk_kind: String,
    /// Whether every host that has the disk's storage sees the same template.
    pub shared: bool,
}

/// Why a host cannot have a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::planner) enum NoSite {
    /// Nothing there takes disk images as files. An ISO may still do.
    NoImport(String),
    NoDisk(String),
}

impl NoSite {
    pub(in crate::planner) fn reason(&self) -> &str {
        match self {
            Self::NoImport(reason) | Self::NoDisk(reason) => reason,
        }
    }
}

/// Finds storages for a template on a host.
pub(in crate::planner) fn find(
    observed: &Observed,
    host: &HostName,
    template: &Template,
) -> Result<Site, NoSite> {
    let disk = disk_storage(observed, host, &template.disk_storages).map_err(NoSite::NoDisk)?;
    let image =
        file_storage(observed, host, FileKind::Import, &template.image_storages).map_err(NoSite::NoImport)?;
    Ok(Site {
        host: host.clone(),
        image: image.id.clone(),
        disk: disk.id.clone(),
        disk_kind: disk.kind.clone(),
        shared: disk.shared,
    })
}

/// A storage of the host for files of a kind: the first of those named, else the one with the most room.
pub(in crate::planner) fn file_storage<'a>(
    observed: &'a Observed,
    host: &HostName,
    kind: FileKind,
    named: &[StorageId],
) -> Result<&'a Storage, String> {
    let content = kind.word();
    if kind == FileKind::Import && release(&observed.version).is_some_and(|version| version < IMPORTS_BY_URL)
    {
        return Err(format!("Proxmox {} cannot fetch disk images: 8.4 can", observed.version));
    }
    let takes = |storage: &&Storage| storage.available && storage.content.contains(content);
    if named.is_empty() {
        let fits = on(observed, host).filter(takes);
        let most_room = fits.max_by_key(|storage| (room(storage), std::cmp::Reverse(&storage.id)));
        return most_room.ok_or_else(|| {
            format!(
                "{host} has no storage that takes {content} content (pvesm set STORAGE --content …,{content})"
            )
        });
    }
    let first = named.iter().find_map(|id| observed.storage(host, id).filter(takes));
    first.ok_or_else(|| lacking(observed, host, named, content))
}

fn disk_storage<'a>(
    observed: &'a Observed,
    host: &HostName,
    named: &[StorageId],
) -> Result<&'a Storage, String> {
    let takes = |storage: &&Storage| storage.available && storage.content.contains("images");
    let holds = |storage: &&Storage| takes(storage) && holds_templates(&storage.kind);
    let first = named.iter().find_map(|id| observed.storage(host, id).filter(holds));
    if let Some(first) = first {
        return Ok(first);
    }
    // A named storage that takes disks and no templates can still take copies of one that lies elsewhere.
    let copies =
        named.is_empty() || named.iter().any(|id| observed.storage(host, id).as_ref().is_some_and(takes));
    let elsewhere = on(observed, host).filter(|_| copies).filter(holds);
    let most_room = elsewhere.max_by_key(|storage| (room(storage), std::cmp::Reverse(&storage.id)));
    most_room.ok_or_else(|| {
        if copies {
            format!("{host} has no storage that can hold a template's disk")
        } else {
            lacking(observed, host, named, "images")
        }
    })
}

fn on<'a>(observed: &'a Observed, host: &HostName) -> impl Iterator<Item = &'a Storage> {
    observed.storages.iter().filter(move |storage| storage.host == *host)
}

fn room(storage: &Storage) -> u64 {
    storage.total.saturating_sub(storage.used)
}

/// What is wrong with each storage that was named.
fn lacking(observed: &Observed, host: &HostName, named: &[StorageId], content: &str) -> String {
    let problem = |id: &StorageId| match observed.storage(host, id) {
        None => format!("{host} has no storage {id}, or the token may not see it"),
        Some(storage) if !storage.available => format!("storage {id} is not available on {host}"),
        Some(storage) => {
            let held = storage.content.iter().map(String::as_str).chain([content]);
            let all = held.collect::<Vec<_>>().join(",");
            let line = command(&["pvesm", "set", id.as_str(), "--content", &all]);
            format!("storage {id} does not take {content} content ({line})")
        }
    };
    named.iter().map(problem).collect::<Vec<_>>().join("; ")
}

/// Thick LVM has no images others can stand on.
fn holds_templates(kind: &str) -> bool {
    kind != "lvm"
}

/// Major and minor of `9.2.11`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
