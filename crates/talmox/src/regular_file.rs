//! Files of bounded size that are files: a named pipe would wait for a writer for ever, and a device never ends.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use zeroize::Zeroizing;

/// Opens a regular file for reading; anything else is an error.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Looked at before it is opened: opening a pipe is what waits.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file; pipes, devices and folders are not read"));
    }
    File::open(path)
}

/// A text of at most `limit` bytes; it is wiped from memory when it is dropped, since it may hold secrets.
pub(crate) fn text(path: &Path, limit: u64) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    let read = open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if read as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {} KiB", limit / 1024)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_folders_and_large_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        std::fs::write(&file, "0123456789").unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(text(&file, 10).unwrap().as_str(), "0123456789");
        assert!(text(&file, 9).unwrap_err().to_string().contains("larger than"));
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = text(path, 10).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
    }
}
