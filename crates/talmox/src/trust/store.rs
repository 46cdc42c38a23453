//! `~/.config/talmox/trust.yaml`: what the person allowed, folder by folder.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use talmox_secrets::Overwrite;
use talmox_trust::{Grant, by_folder, read_by_folder};

use crate::failure::Failure;
use crate::{private_file, regular_file};

const LARGEST: u64 = 4 << 20;

/// The file as it was read.
pub(super) struct Store {
    pub(super) path: PathBuf,
    folders: BTreeMap<String, Vec<Grant>>,
}

impl Store {
    pub(super) fn of(&self, folder: &Path) -> Vec<Grant> {
        self.folders.get(&key(folder)).cloned().unwrap_or_default()
    }
}

fn key(folder: &Path) -> String {
    folder.display().to_string()
}

/// Where the file is; none without a home.
#[expect(clippy::disallowed_methods, reason = "variables of the system, read as they are")]
pub(crate) fn place() -> Option<PathBuf> {
    let variable = |name| std::env::var(name).ok().filter(|value| value.starts_with('/')).map(PathBuf::from);
    let folder = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(folder.join("talmox/trust.yaml"))
}

/// The file, if there is one. One that others can write to is an error: it may say anything.
pub(super) fn load() -> Result<Option<Store>, Failure> {
    let Some(path) = place().filter(|path| path.exists()) else { return Ok(None) };
    let name = path.display().to_string();
    let failed = |error: std::io::Error| Failure::new(format!("could not read {name}: {error}"));
    let metadata = std::fs::metadata(&path).map_err(failed)?;
    if metadata.mode() & 0o022 != 0 || metadata.uid() != rustix::process::getuid().as_raw() {
        return Err(Failure::new(format!("{name} grants nothing: others than you can write to it"))
            .with_hint(format!("look at what it says, then: chmod 600 {name}")));
    }
    let text = regular_file::text(&path, LARGEST).map_err(failed)?;
    let folders = read_by_folder(&text).map_err(|malformed| {
        Failure::new(format!("{name}: {malformed}")).with_hint("nothing of it is used")
    })?;
    Ok(Some(Store { path, folders }))
}

/// Adds grants for a folder; what they replace goes.
pub(super) fn add(folder: &Path, granted: &[Grant]) -> Result<PathBuf, Failure> {
    change(|folders| {
        let own = folders.entry(key(folder)).or_default();
        own.retain(|known| !granted.iter().any(|new| replaces(new, known)));
        own.extend(granted.iter().cloned());
    })
}

/// Takes back everything that was allowed a folder; gives how much that was.
pub(crate) fn forget(folder: &Path) -> Result<usize, Failure> {
    let mut count = 0;
    change(|folders| count = folders.remove(&key(folder)).map_or(0, |grants| grants.len()))?;
    Ok(count)
}

/// Two grants for the same thing: a token at an endpoint is checked in one way.
fn replaces(new: &Grant, known: &Grant) -> bool {
    match (new, known) {
        (Grant::Credential(new), Grant::Credential(known)) => {
            new.secret == known.secret && new.endpoints.is_superset(&known.endpoints)
        }
        (new, known) => new == known,
    }
}

fn change(edit: impl FnOnce(&mut BTreeMap<String, Vec<Grant>>)) -> Result<PathBuf, Failure> {
    let (path, mut folders) = match load()? {
        Some(Store { path, folders }) => (path, folders),
        None => {
            let path = place().ok_or_else(|| {
                Failure::new("there is no home folder to keep grants in")
                    .with_hint("set HOME, or give grants to this run as TALMOX_TRUST")
            })?;
            (path, BTreeMap::new())
        }
    };
    edit(&mut folders);
    let text = format!(
        "# What you allowed descriptions to cause, by the folder of the description. Written by talmox; yours to edit.\n{}",
        by_folder(&folders)
    );
    private_file::write(&path, &text, Overwrite::Replace)
        .map_err(|error| Failure::new(format!("could not write {}: {error}", path.display())))?;
    Ok(path)
}
