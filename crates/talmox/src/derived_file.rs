//! Files with secrets in them that can be made anew at any time.
//!
//! Only their owner may read them, and they are put in place whole or not at all. They are not waited for until the disk
//! has them, as files are that exist only once: with a thousand configs that takes ten times as long as making them.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use talmox_secrets::Overwrite;

pub(crate) fn write(path: &Path, text: &str, overwrite: Overwrite) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| match overwrite {
        Overwrite::Replace => std::fs::rename(&beside, path),
        // A second name is refused where the first is taken, which looking beforehand could not promise.
        Overwrite::Refuse => std::fs::hard_link(&beside, path),
    });
    // Renamed, it is gone already.
    if written.is_err() || overwrite == Overwrite::Refuse {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_owner_may_read_and_nothing_is_overwritten_unasked() {
        let folder = std::env::temp_dir().join(format!("talmox-derived-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("config");
        let text = || io::read_to_string(std::fs::File::open(&path).unwrap()).unwrap();
        write(&path, "one", Overwrite::Refuse).unwrap();
        assert_eq!(write(&path, "two", Overwrite::Refuse).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(text(), "one");
        write(&path, "three", Overwrite::Replace).unwrap();
        assert_eq!(text(), "three");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(folder.read_dir().unwrap().count(), 1, "nothing is left beside");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
