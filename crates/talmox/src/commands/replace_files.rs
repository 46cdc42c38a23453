//! Replacing description files: whole or not at all.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use talmox_adopt::FileChange;

use crate::failure::Failure;

/// Writes every file beside the old one and only then puts them in place. A file that somebody changed meanwhile is not
/// touched, and then none is.
pub(super) fn replace(files: &[FileChange]) -> anyhow::Result<()> {
    let mut ready = Vec::new();
    for file in files {
        let Some(path) = &file.path else { continue };
        // The file itself, where its name is a link.
        let path = path.canonicalize().with_context(|| format!("could not find {}", file.name))?;
        unchanged(&path, file)?;
        let beside = write_beside(&path, &file.after)
            .with_context(|| format!("could not write {}; nothing was changed", file.name))?;
        ready.push((path, beside, &file.name));
    }
    for (path, beside, name) in ready {
        std::fs::rename(&beside, &path).with_context(|| format!("could not replace {name}"))?;
        let folder = path
            .parent()
            .map(File::open)
            .transpose()
            .with_context(|| format!("could not open {name}'s folder"))?;
        // Not every file system can do this, and the file is in place.
        let _ = folder.map(|folder| folder.sync_all());
    }
    Ok(())
}

fn unchanged(path: &Path, file: &FileChange) -> anyhow::Result<()> {
    let now = talmox_config::load(path);
    let text = now.cluster.map(|id| now.sources.get(id).text.as_str());
    if text == Some(file.before.as_str()) {
        return Ok(());
    }
    Err(Failure::new(format!("{} has changed since it was read; nothing was changed", file.name))
        .with_hint("run it again")
        .into())
}

fn write_beside(path: &Path, text: &str) -> std::io::Result<PathBuf> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = File::create(&beside).and_then(|mut file| {
        file.set_permissions(std::fs::metadata(path)?.permissions())?;
        if begins_with_mark(path)? {
            file.write_all(BYTE_ORDER_MARK)?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written.map(|()| beside)
}

/// What some editors put before a text; the reader leaves it out.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn begins_with_mark(path: &Path) -> std::io::Result<bool> {
    let mut first = Vec::new();
    File::open(path)?.take(3).read_to_end(&mut first)?;
    Ok(first == BYTE_ORDER_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &Path, before: &str, after: &str) -> FileChange {
        FileChange {
            name: path.display().to_string(),
            path: Some(path.to_owned()),
            before: before.to_owned(),
            after: after.to_owned(),
        }
    }

    #[test]
    fn all_or_none() {
        let folder = std::env::temp_dir().join(format!("talmox-replace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (one, two) = (folder.join("one.yaml"), folder.join("two.yaml"));
        std::fs::write(&one, "a: 1\n").unwrap();
        std::fs::write(&two, "b: 1\n").unwrap();
        let text = |path: &Path| {
            let files = talmox_config::load(path);
            files.sources.get(files.cluster.unwrap()).text.clone()
        };
        let stale = [change(&one, "a: 1\n", "a: 2\n"), change(&two, "b: 0\n", "b: 2\n")];
        assert!(replace(&stale).unwrap_err().to_string().contains("has changed since"));
        assert_eq!((text(&one), text(&two)), ("a: 1\n".to_owned(), "b: 1\n".to_owned()));
        let right = [change(&one, "a: 1\n", "a: 2\n"), change(&two, "b: 1\n", "b: 2\n")];
        replace(&right).unwrap();
        assert_eq!((text(&one), text(&two)), ("a: 2\n".to_owned(), "b: 2\n".to_owned()));
        assert!(folder.read_dir().unwrap().count() >= 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
