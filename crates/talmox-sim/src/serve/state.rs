//! A folder that holds a world between runs.
//!
//! ```text
//! world.json       everything, with secrets        0600
//! authority.json   keys and certificates           0600
//! token            for the header of a request     0600
//! ca.pem           for whoever wants to trust it
//! ```

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ServeError;
use super::authority::Authority;
use crate::world::World;

const WORLD: &str = "world.json";
const AUTHORITY: &str = "authority.json";
const TOKEN: &str = "token";
const CERTIFICATE: &str = "ca.pem";
const LOCK: &str = ".lock";

/// A folder for a world, of one simulator at a time.
#[derive(Clone, Debug)]
pub struct StateFolder {
    path: PathBuf,
    _lock: Arc<Lock>,
}

/// A file that is locked as long as this lives. Closing it would not do: a process that is just being started holds it
/// open for a moment too.
#[derive(Debug)]
struct Lock(fs::File);

impl Drop for Lock {
    fn drop(&mut self) {
        // The end of the process unlocks it in any case.
        let _ = self.0.unlock();
    }
}

impl StateFolder {
    /// Makes the folder if it is not there, for its owner alone.
    pub fn open(path: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::State { path: path.to_owned(), source };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(failed)?;
        // Programs that are given the files' names may stand elsewhere.
        let path = path.canonicalize().map_err(failed)?;
        // Not truncated: until it is locked, it says who has it.
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut lock = options.open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(failed)?;
                let folder = Self { path, _lock: Arc::new(Lock(lock)) };
                folder.clear()?;
                Ok(folder)
            }
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it may be writing just now; then nobody is named.
                let _ = lock.read_to_string(&mut holder);
                Err(ServeError::InUse { path, process: holder.parse().ok() })
            }
            Err(fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The world that was saved here, if one was.
    pub fn load(&self) -> Result<Option<World>, ServeError> {
        let Some(text) = self.read(WORLD)? else { return Ok(None) };
        let failed = |source| ServeError::Load { path: self.path.join(WORLD), source };
        World::load(&text).map(Some).map_err(failed)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The certificate of the authority, for `curl --cacert`.
    pub fn certificate_file(&self) -> PathBuf {
        self.path.join(CERTIFICATE)
    }

    /// The file with the token, `USER@REALM!NAME=SECRET`.
    pub fn token_file(&self) -> PathBuf {
        self.path.join(TOKEN)
    }

    pub(super) fn save_world(&self, text: &str) -> Result<(), ServeError> {
        self.write(WORLD, text, Secrecy::Owner)
    }

    pub(super) fn load_authority(&self) -> Result<Option<Authority>, ServeError> {
        let Some(text) = self.read(AUTHORITY)? else { return Ok(None) };
        let failed = |error: serde_json::Error| self.error(AUTHORITY, error.into());
        serde_json::from_str(&text).map(Some).map_err(failed)
    }

    pub(super) fn save_access(&self, authority: &Authority, token: Option<&str>) -> Result<(), ServeError> {
        let text = serde_json::to_string(authority).map_err(|error| self.error(AUTHORITY, error.into()))?;
        self.write(AUTHORITY, &text, Secrecy::Owner)?;
        self.write(CERTIFICATE, &authority.certificate, Secrecy::Everybody)?;
        token.map_or(Ok(()), |token| self.write(TOKEN, token, Secrecy::Owner))
    }

    fn error(&self, name: &str, source: io::Error) -> ServeError {
        ServeError::State { path: self.path.join(name), source }
    }

    #[expect(clippy::disallowed_methods, reason = "a file of this crate's own making, no description")]
    fn read(&self, name: &str) -> Result<Option<String>, ServeError> {
        match fs::read_to_string(self.path.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// Removes what an interrupted run left half written; it may be all that fills the disk.
    fn clear(&self) -> Result<(), ServeError> {
        for name in [WORLD, AUTHORITY, TOKEN, CERTIFICATE] {
            remove(&self.beside(name)).map_err(|error| self.error(name, error))?;
        }
        Ok(())
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.join(format!(".{name}.new"))
    }

    /// Writes beside and renames: whoever looks finds the old file or the new one, whole.
    fn write(&self, name: &str, text: &str, secrecy: Secrecy) -> Result<(), ServeError> {
        let beside = self.beside(name);
        let written = || -> io::Result<()> {
            let mut file = secrecy.create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, self.path.join(name))
        };
        written().map_err(|error| {
            // The first error is the one to tell; a leftover is removed when the folder is opened again.
            let _ = remove(&beside);
            self.error(name, error)
        })
    }
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Owner,
    Everybody,
}

impl Secrecy {
    fn create(self, path: &Path) -> io::Result<fs::File> {
        // One that an interrupted run left may have other rights.
        remove(path)?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(
            &mut options,
            if self == Self::Owner { 0o600 } else { 0o644 },
        );
        options.open(path)
    }
}
