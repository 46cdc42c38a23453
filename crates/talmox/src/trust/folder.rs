//! The folder of a description: the one door for everything the description names.

use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use talmox_trust::{Access, Grant, Grants, Need};

use super::sources;
use crate::args::TrustArgs;
use crate::failure::Failure;
use crate::regular_file;

/// A page of text may be large; an image named by mistake is not read.
const LARGEST_TEXT: u64 = 16 << 20;

/// A description's folder, with what the person allows this description.
pub(crate) struct Folder {
    /// The description as it was named with `-f`.
    description: PathBuf,
    /// The folder as it was named, for messages; empty for the current one.
    path: PathBuf,
    /// The folder with links followed: what grants belong to.
    real: PathBuf,
    /// A yes of the person adds to them while a command runs.
    grants: Mutex<Grants>,
}

impl Folder {
    /// The folder of a description that was named on the command line. Neither needs to be there yet.
    pub(crate) fn open(description: &Path, args: &TrustArgs) -> Result<Self, Failure> {
        let path = if description.is_dir() {
            description.to_owned()
        } else {
            description.parent().unwrap_or(Path::new("")).to_owned()
        };
        Self::at(path, description, args)
    }

    /// A folder that a description is about to be written into: what it will name is relative to the folder already.
    pub(crate) fn to_be(folder: &Path, args: &TrustArgs) -> Result<Self, Failure> {
        Self::at(folder.to_owned(), folder, args)
    }

    fn at(path: PathBuf, description: &Path, args: &TrustArgs) -> Result<Self, Failure> {
        let real = real(&path).map_err(|error| {
            Failure::new(format!("could not find the folder {}: {error}", path.display()))
        })?;
        let grants = Mutex::new(sources::gather(&real, args)?);
        Ok(Self { description: description.to_owned(), path, real, grants })
    }

    /// The description as it was named.
    pub(crate) fn description(&self) -> &Path {
        &self.description
    }

    /// The folder as it was named, for files whose names talmox chooses.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder with links followed.
    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    pub(super) fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the grants in force.
    pub(crate) fn granted(&self) -> Grants {
        self.grants().clone()
    }

    pub(crate) fn add(&self, granted: &[Grant]) {
        self.grants().add(granted.iter().cloned());
    }

    /// The one question of every verb. The error says what would have happened and where to allow it.
    pub(crate) fn may(&self, need: &Need) -> Result<(), Failure> {
        if self.grants().allows(need) { Ok(()) } else { Err(self.refusal(&[need])) }
    }

    /// The refusal of needs that no grant meets.
    pub(crate) fn refusal(&self, missing: &[&Need]) -> Failure {
        let folder = self.real.display();
        let failure = match missing {
            [need] => Failure::new(format!(
                "not allowed: the description in {folder} would {need}. You have not allowed this; nothing was done"
            )),
            several => {
                let list: String = several.iter().map(|need| format!("\n  {need}")).collect();
                Failure::new(format!(
                    "not allowed: the description in {folder} would do {} things that you have not allowed; nothing was done:{list}",
                    several.len()
                ))
            }
        };
        failure.with_hint(self.command())
    }

    /// The command that lists what a description needs and allows it: every refusal ends with it.
    pub(crate) fn command(&self) -> String {
        let folder = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
        let named = crate::commands::quoted(&folder.display().to_string());
        format!(
            "look at it and allow it, or print the grants for a pipeline (--print):\n      talmox trust -f {named}"
        )
    }

    /// A file the description names, to be read. It is judged by where it lies after links are followed; one that is not there
    /// is the caller's to report.
    pub(crate) fn readable(&self, name: impl AsRef<Path>) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        self.judge(&path, Access::Read)?;
        // The system does not follow `..` of a folder that is not there yet.
        Ok(if path.exists() { path } else { real(&path).ok().filter(|real| real.exists()).unwrap_or(path) })
    }

    /// The same for a path that was joined to the folder already.
    pub(crate) fn readable_path(&self, path: &Path) -> Result<(), Failure> {
        self.judge(path, Access::Read)
    }

    /// The same for a path that is about to be written.
    pub(crate) fn writable_path(&self, path: &Path) -> Result<(), Failure> {
        self.judge(path, Access::Write)
    }

    /// A file or folder the description names, to be written.
    pub(crate) fn writable(&self, name: impl AsRef<Path>) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        self.judge(&path, Access::Write)?;
        Ok(path)
    }

    /// The need for a path, if it leads outside.
    pub(super) fn need_for(&self, path: &Path, access: Access) -> Result<Option<Need>, Failure> {
        let real = real(path)
            .map_err(|error| Failure::new(format!("could not find {}: {error}", path.display())))?;
        if real.starts_with(&self.real) {
            return Ok(None);
        }
        let folder = if real.is_dir() { real.as_path() } else { real.parent().unwrap_or(Path::new("/")) };
        Ok(Some(Need::Folder { path: folder.display().to_string(), access }))
    }

    /// Whether a file the description names lies outside, or where it lies cannot be found out.
    pub(crate) fn is_outside(&self, name: impl AsRef<Path>) -> bool {
        !matches!(self.need_for(&self.path.join(name), Access::Read), Ok(None))
    }

    fn judge(&self, path: &Path, access: Access) -> Result<(), Failure> {
        self.need_for(path, access)?.map_or(Ok(()), |need| self.may(&need))
    }

    /// A text file the description names.
    pub(crate) fn text(&self, name: impl AsRef<Path>) -> Result<String, Failure> {
        let path = self.readable(name)?;
        let text = regular_file::text(&path, LARGEST_TEXT)
            .map_err(|error| Failure::new(format!("could not read {}: {error}", path.display())))?;
        Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
    }

    /// Whether the files of the description itself lie in its folder: a link could lead anywhere.
    pub(crate) fn holds_its_description(&self) -> Result<(), Failure> {
        let named =
            ["cluster.yaml", "cluster.yml", "nodes.yaml", "nodes.yml"].map(|name| self.path.join(name));
        let own = self.description.is_file().then(|| self.description.clone());
        for path in named.into_iter().chain(own).filter(|path| path.exists()) {
            self.judge(&path, Access::Read)?;
        }
        Ok(())
    }
}

/// The path with links and `..` followed as far as it exists.
fn real(path: &Path) -> std::io::Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    // A link that leads nowhere yet is followed too: what is written goes to where it points.
    if let Ok(target) = path.read_link() {
        let beside = path.parent().unwrap_or(Path::new(""));
        return real(&beside.join(target));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    match path.components().next_back() {
        Some(Component::Normal(name)) => Ok(real(parent)?.join(name)),
        // `..` of something that is not there, and so no link.
        Some(Component::ParentDir) => {
            let mut above = real(parent)?;
            above.pop();
            Ok(above)
        }
        Some(Component::Prefix(_) | Component::RootDir | Component::CurDir) | None => {
            Err(std::io::Error::from(std::io::ErrorKind::NotFound))
        }
    }
}

#[cfg(test)]
impl Folder {
    /// A folder of a test, where nothing is allowed.
    pub(crate) fn closed(path: &Path) -> Self {
        let real = real(path).unwrap();
        Self { description: path.to_owned(), path: path.to_owned(), real, grants: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_folder_that_is_not_there_yet_names_is_relative_to_it() {
        let place = tempfile::tempdir().unwrap();
        let beside = place.path().join("token");
        std::fs::write(&beside, "root@pam!a=b").unwrap();
        for new in ["lab", "deep/er/lab"] {
            let folder = Folder::closed(&place.path().join(new));
            let name = format!("{}token", "../".repeat(new.split('/').count()));
            let refused = folder.readable(&name).unwrap_err().to_string();
            assert!(refused.contains("not allowed"), "{refused}");
            let path = place.path().canonicalize().unwrap().display().to_string();
            folder.add(&[Need::Folder { path, access: Access::Read }.grant()]);
            assert_eq!(folder.text(&name).unwrap(), "root@pam!a=b", "{new}");
        }
        assert!(!place.path().join("lab").exists(), "looking makes nothing");
    }

    #[test]
    fn only_what_lies_inside_after_links_is_read() {
        let place = tempfile::tempdir().unwrap();
        let (lab, other) = (place.path().join("lab"), place.path().join("other"));
        for folder in [&lab, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("patch.yaml"), "a: 1").unwrap();
        }
        symlink(other.join("patch.yaml"), lab.join("link.yaml")).unwrap();
        symlink(&other, lab.join("linked")).unwrap();
        symlink(other.join("not-there-yet"), lab.join("dangling")).unwrap();
        symlink(lab.join("patch.yaml"), lab.join("inner.yaml")).unwrap();
        let folder = Folder::closed(&lab);
        for inside in ["patch.yaml", "inner.yaml", "./patch.yaml", "../lab/patch.yaml", "new/deep.yaml"] {
            assert!(folder.readable(inside).is_ok(), "{inside}");
            assert!(folder.writable(inside).is_ok(), "{inside}");
        }
        let outside = [
            "link.yaml",
            "linked/patch.yaml",
            "linked/new",
            "dangling",
            "../other/patch.yaml",
            "/etc/passwd",
        ];
        for outside in outside {
            let error = folder.readable(outside).unwrap_err().to_string();
            assert!(error.contains("not allowed") && error.contains("read files in"), "{outside}: {error}");
            assert!(folder.writable(outside).is_err(), "{outside}");
        }
        let need =
            Need::Folder { path: other.canonicalize().unwrap().display().to_string(), access: Access::Read };
        folder.add(&[need.grant()]);
        assert!(folder.text("link.yaml").is_ok() && folder.writable("link.yaml").is_err());
    }
}
