//! Files only their owner may read: whole or not at all.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    Refuse,
    /// Somebody asked for it.
    Replace,
}

/// Why a file was not written. It is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    #[error("could not write {}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Writes a file with mode 0600: to a temporary name beside it, synced, then renamed.
pub fn write_secret_file(path: &Path, bytes: &[u8], overwrite: Overwrite) -> Result<(), WriteError> {
    let failed = |source: io::Error| WriteError::Io { path: path.to_owned(), source };
    // The file itself, where its name is a link.
    let target = if overwrite == Overwrite::Replace && path.is_symlink() {
        path.canonicalize().map_err(failed)?
    } else {
        path.to_owned()
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The crate makes it readable for its owner alone.
    let mut file = tempfile::Builder::new().prefix(".talmox-").tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    match overwrite {
        Overwrite::Replace => file.persist(&target).map_err(|error| failed(error.error))?,
        Overwrite::Refuse => file.persist_noclobber(&target).map_err(|error| {
            let exists = error.error.kind() == io::ErrorKind::AlreadyExists;
            if exists { WriteError::Exists(path.to_owned()) } else { failed(error.error) }
        })?,
    };
    // Not every file system can do this, and the file is in place.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test looks at what was written")]
    fn files_are_private_whole_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.yaml");
        write_secret_file(&path, b"one", Overwrite::Refuse).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = write_secret_file(&path, b"two", Overwrite::Refuse).unwrap_err();
        assert!(matches!(error, WriteError::Exists(_)));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write_secret_file(&path, b"two", Overwrite::Replace).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test looks at what was written")]
    fn a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real"), folder.path().join("link"));
        write_secret_file(&file, b"one", Overwrite::Refuse).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_secret_file(&link, b"two", Overwrite::Replace).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
    }
}
