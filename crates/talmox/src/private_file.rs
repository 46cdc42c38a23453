//! Files nobody but their owner may read: written beside, synced, and put in place whole or not at all.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Whether a file that is there may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Keep,
    Replace,
}

/// Makes a folder, and those above it, that only its owner may look into. One that is there stays as it is.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file. Where it is a link, what it leads to is written.
pub(crate) fn write(path: &Path, text: &str, existing: Existing) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        make_folder(folder)?;
    }
    let beside = beside(&path);
    let written = write_new(&beside, text).and_then(|()| match existing {
        Existing::Replace => std::fs::rename(&beside, &path),
        // A second name is refused where the first is taken, which looking beforehand could not promise.
        Existing::Keep => std::fs::hard_link(&beside, &path),
    });
    // Renamed, it is gone already.
    let _ = std::fs::remove_file(&beside);
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Not every file system can do this, and the file is in place.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_may_read_and_nothing_is_overwritten_unasked() {
        let folder = std::env::temp_dir().join(format!("talmox-private-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let file = folder.join("deep/key");
        write(&file, "one", Existing::Keep).unwrap();
        assert_eq!((mode(&file), mode(&folder.join("deep"))), (0o600, 0o700));
        let error = write(&file, "two", Existing::Keep).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let text = || io::read_to_string(File::open(&file).unwrap()).unwrap();
        assert_eq!(text(), "one");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "three", Existing::Replace).unwrap();
        assert_eq!((text().as_str(), mode(&file)), ("three", 0o600));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(folder.join("deep").read_dir().unwrap().count(), 1, "nothing is left beside");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
