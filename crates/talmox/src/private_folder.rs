//! Folders for files that let their holder into a cluster, gone when the run ends, or when the next one begins if this one was
//! killed.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where they are, below the user's own state.
const PLACE: &str = "talmox/handed-over";

/// A folder only its owner may look into. Its name holds the process it belongs to and when that process started: process ids
/// come again.
pub(crate) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Makes one, after those of processes that are gone were removed.
    pub(crate) fn make() -> io::Result<Self> {
        Self::make_in(&base())
    }

    fn make_in(base: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(base)?;
        clean(base);
        let own = std::process::id();
        for number in 0..u32::MAX {
            let path = base.join(format!("{own}-{}-{number}", started(own).unwrap_or(0)));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes what killed runs left. Called when a command begins that may have left some.
pub(crate) fn clean_up() {
    clean(&base());
}

#[expect(clippy::disallowed_methods, reason = "variables of the system, read as they are")]
fn base() -> PathBuf {
    let variable = |name| std::env::var(name).ok().filter(|value| value.starts_with('/')).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    // Without a home it is a folder of the user's own in the system's place for such things.
    let user = rustix::process::getuid().as_raw();
    state.map_or_else(|| std::env::temp_dir().join(format!("talmox-{user}")), |state| state.join(PLACE))
}

fn clean(base: &Path) {
    let user = rustix::process::getuid().as_raw();
    // Somebody else's folder under our name: nothing in it is ours.
    if !fs::symlink_metadata(base).is_ok_and(|place| place.is_dir() && place.uid() == user) {
        return;
    }
    for entry in fs::read_dir(base).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        if name.to_str().and_then(owner).is_some_and(|(process, start)| started(process) != Some(start)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process a folder belongs to, and when that started.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.splitn(3, '-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// When a process started, in ticks of the system; none if there is no such process.
#[expect(clippy::disallowed_methods, reason = "a file of the system's, not a description")]
fn started(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in brackets and may hold anything; the start is the twentieth field behind it.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_a_killed_run_left_goes_and_what_a_living_one_uses_stays() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().join("handed-over");
        let living = PrivateFolder::make_in(&base).unwrap();
        let mode = fs::metadata(living.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        // No process has the number 0, and ours did not start at 1.
        let left = [base.join("0-5-0"), base.join(format!("{}-1-0", std::process::id()))];
        for folder in &left {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("kubeconfig"), "a key").unwrap();
        }
        fs::create_dir(base.join("not-ours")).unwrap();
        let next = PrivateFolder::make_in(&base).unwrap();
        assert!(left.iter().all(|folder| !folder.exists()));
        assert!(living.path().exists() && base.join("not-ours").exists() && next.path() != living.path());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
