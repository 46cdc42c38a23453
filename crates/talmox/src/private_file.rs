//! Files nobody but their owner may read: written beside, synced, and put in place whole or not at all.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use talmox_secrets::{Overwrite, WriteError, write_secret_file};

/// Makes a folder, and those above it, that only its owner may look into. One that is there stays as it is.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file. Where it is a link, what it leads to is written.
pub(crate) fn write(path: &Path, text: &str, overwrite: Overwrite) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        make_folder(folder)?;
    }
    write_secret_file(path, text.as_bytes(), overwrite).map_err(|error| match error {
        WriteError::Exists(_) => io::Error::from(io::ErrorKind::AlreadyExists),
        WriteError::Io { source, .. } => source,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
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
        write(&file, "one", Overwrite::Refuse).unwrap();
        assert_eq!((mode(&file), mode(&folder.join("deep"))), (0o600, 0o700));
        let error = write(&file, "two", Overwrite::Refuse).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let text = || io::read_to_string(File::open(&file).unwrap()).unwrap();
        assert_eq!(text(), "one");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "three", Overwrite::Replace).unwrap();
        assert_eq!((text().as_str(), mode(&file)), ("three", 0o600));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(folder.join("deep").read_dir().unwrap().count(), 1, "nothing is left beside");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
