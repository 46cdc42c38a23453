//! Snapshots of etcd as files: written whole or not at all, for their owner alone, encrypted where a recipient is known.
//!
//! ```text
//!  pieces ─▶ [age] ─▶ .talmox-… (0600) ─▶ synced, read again ─▶ etcd-lab-20261116T063706Z.snapshot[.age] ─▶ old ones go
//! ```

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use talmox_exec::Pieces;
use talmox_machine::Time;
use talmox_secrets::SystemRandom;
use talmox_secrets::age::{Opener, Recipient, Sealer};
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::{private_file, sops};

/// What a file is called until it is whole.
const DRAFT: &str = ".talmox-";
/// No snapshot takes that long to be written: a draft that is older was left by a run that was killed.
const ABANDONED: Duration = Duration::from_hours(24);
/// What is read or written at once.
const PIECE: usize = 64 << 10;

/// A file on its way. Dropped, nothing is left of it.
pub(crate) struct Draft {
    writer: Writer,
}

enum Writer {
    Plain(Hashed),
    Sealed(Box<Sealer<Hashed>>),
}

/// Bytes as they go to the disk, and their digest.
struct Hashed {
    file: NamedTempFile,
    hash: Sha256,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Draft {
    /// Begins a file in a folder, which is made if it is not there. With recipients it is encrypted for them.
    pub(crate) fn begin(folder: &Path, recipients: &[Recipient]) -> io::Result<Self> {
        private_file::make_folder(folder)?;
        // The crate makes it readable for its owner alone.
        let file = tempfile::Builder::new().prefix(DRAFT).tempfile_in(folder)?;
        let plain = Hashed { file, hash: Sha256::new() };
        let writer = if recipients.is_empty() {
            Writer::Plain(plain)
        } else {
            Writer::Sealed(Box::new(Sealer::new(plain, recipients, &mut SystemRandom)?))
        };
        Ok(Self { writer })
    }

    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.writer {
            Writer::Plain(plain) => plain.write_all(piece),
            Writer::Sealed(sealer) => sealer.write_all(piece),
        }
    }

    /// Ends the file and proves that what was written can be read.
    fn finish(self) -> io::Result<NamedTempFile> {
        let Hashed { file, hash } = match self.writer {
            Writer::Plain(plain) => plain,
            Writer::Sealed(sealer) => sealer.finish()?,
        };
        file.as_file().sync_all()?;
        if digest(&mut file.reopen()?)? != hash.finalize().as_slice() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it reads otherwise than it was written"));
        }
        Ok(file)
    }

    /// Puts the file in place; one that is there is not overwritten.
    pub(crate) fn keep(self, path: &Path) -> io::Result<()> {
        self.finish()?.persist_noclobber(path).map_err(|error| error.error)?;
        // Not every file system can do this, and the file is in place.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// Hands all of it to somebody instead.
    pub(crate) fn pour(self, into: &mut impl Write) -> io::Result<()> {
        let file = self.finish()?;
        io::copy(&mut file.reopen()?, into)?;
        into.flush()
    }
}

/// SHA-256 of all there is.
fn digest(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(hash.finalize().to_vec()),
            length => hash.update(&piece[..length]),
        }
    }
}

/// Where a description keeps snapshots.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) cluster: String,
    pub(crate) recipients: Vec<Recipient>,
    /// How many stay.
    pub(crate) keep: usize,
}

impl Place {
    pub(crate) fn begin(&self) -> Result<Draft, String> {
        let is_new = !self.folder.exists();
        self.forget_abandoned();
        let draft = Draft::begin(&self.folder, &self.recipients).and_then(|draft| {
            // Folders of descriptions are kept in version control, and a snapshot holds every Secret of the cluster.
            if is_new && self.recipients.is_empty() {
                std::fs::write(self.folder.join(".gitignore"), "*\n")?;
            }
            Ok(draft)
        });
        draft.map_err(|error| format!("could not write to {}: {error}", self.folder.display()))
    }

    /// Removes what runs that were killed left half-written: each may hold every Secret of the cluster. What cannot be looked at or
    /// removed is in nobody's way.
    fn forget_abandoned(&self) {
        let Ok(entries) = self.folder.read_dir() else { return };
        let is_abandoned = |entry: &std::fs::DirEntry| {
            let age =
                entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
            entry.file_name().to_string_lossy().starts_with(DRAFT) && age.is_some_and(|age| age > ABANDONED)
        };
        for entry in entries.flatten().filter(is_abandoned) {
            let _ = std::fs::remove_file(entry.path());
        }
    }

    /// Puts a snapshot in place, and lets the oldest go that are more than shall stay.
    pub(crate) fn keep(&self, draft: Draft, now: Time) -> Result<PathBuf, String> {
        // Names have seconds; another of the same second is of the next.
        let mut paths = (0..).map(|later| self.folder.join(self.name(now.plus(later))));
        let path = paths.find(|path| !path.exists()).unwrap_or_default();
        draft.keep(&path).map_err(|error| format!("could not write {}: {error}", path.display()))?;
        self.forget_old(&path).map_err(|error| {
            format!("{} is kept, but older ones could not be removed: {error}", path.display())
        })?;
        Ok(path)
    }

    /// `etcd-lab-20261116T063706Z.snapshot`.
    fn name(&self, now: Time) -> String {
        let time: String = now.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect();
        let end = if self.recipients.is_empty() { "" } else { ".age" };
        format!("etcd-{}-{time}.snapshot{end}", self.cluster)
    }

    /// Whether a name is one of ours: another cluster's may begin with the same letters.
    fn is_ours(&self, name: &str) -> bool {
        let rest = name.strip_prefix("etcd-").and_then(|rest| rest.strip_prefix(self.cluster.as_str()));
        let rest = rest.and_then(|rest| rest.strip_prefix('-'));
        let time = rest.and_then(|rest| rest.strip_suffix(".age").unwrap_or(rest).strip_suffix(".snapshot"));
        time.is_some_and(|time| {
            let digits = time.chars().filter(char::is_ascii_digit).count();
            time.len() == 16 && digits == 14 && time.ends_with('Z') && time.as_bytes()[8] == b'T'
        })
    }

    /// Whatever the clock said when others were written, the one of now stays: it is what a cluster is built from again.
    fn forget_old(&self, newest: &Path) -> io::Result<()> {
        let mut names: Vec<String> = Vec::new();
        for entry in self.folder.read_dir()? {
            let name = entry?.file_name();
            let other =
                name.to_str().filter(|name| self.is_ours(name) && newest.file_name() != Some(name.as_ref()));
            names.extend(other.map(str::to_owned));
        }
        // Times in names sort as they are.
        names.sort();
        let old = (names.len() + 1).saturating_sub(self.keep.max(1));
        names.iter().take(old).try_for_each(|name| std::fs::remove_file(self.folder.join(name)))
    }
}

/// What a file of somebody's turned out to be.
pub(crate) struct Judged {
    /// SHA-256 of what is in it.
    pub(crate) digest: String,
    pub(crate) bytes: u64,
    pub(crate) encrypted: bool,
}

/// Reads a file from its beginning to its end: is it a snapshot, and whole?
pub(crate) fn judge(path: &Path) -> Result<Judged, Failure> {
    let name = path.display();
    let (pieces, encrypted) = open(path)?;
    let (mut hash, mut judge) = (Sha256::new(), talmox_talos::Snapshot::default());
    for piece in pieces {
        let piece = piece.map_err(|reason| Failure::new(format!("could not read {name}: {reason}")))?;
        hash.update(&piece);
        judge.push(&piece);
    }
    let bytes = judge.finish().map_err(|reason| {
        Failure::new(format!("{name} is no snapshot of etcd: {reason}"))
            .with_hint("talmox etcd snapshot makes one; a file copied from a machine's disk is none")
    })?;
    let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Judged { digest, bytes, encrypted })
}

/// What is in a file, decrypted with the keys at hand if it is encrypted.
pub(crate) fn open(path: &Path) -> Result<(Pieces, bool), Failure> {
    let name = path.display();
    let failed = |error: io::Error| Failure::new(format!("could not read {name}: {error}"));
    let mut first = Vec::new();
    File::open(path).and_then(|file| file.take(64).read_to_end(&mut first)).map_err(failed)?;
    let file = BufReader::with_capacity(PIECE, File::open(path).map_err(failed)?);
    if !Opener::<File>::begins(&first) {
        return Ok((Box::new(InPieces(file)), false));
    }
    let opened = Opener::new(file, &sops::identities()?).map_err(|error| {
        Failure::new(format!("could not decrypt {name}: {error}")).with_hint(sops::where_keys_are())
    })?;
    Ok((Box::new(InPieces(opened)), true))
}

struct InPieces<R>(R);

impl<R: Read> Iterator for InPieces<R> {
    type Item = Result<bytes::Bytes, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = vec![0; PIECE];
        match self.0.read(&mut piece) {
            Ok(0) => None,
            Ok(length) => {
                piece.truncate(length);
                Some(Ok(piece.into()))
            }
            Err(error) => Some(Err(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;
    use talmox_secrets::age::{Identity, decrypt};

    use super::*;

    fn place(folder: &Path, recipients: Vec<Recipient>) -> Place {
        Place { folder: folder.join("deep/backup"), cluster: "lab".to_owned(), recipients, keep: 2 }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = folder
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
            .filter(|name| name != ".gitignore")
            .collect();
        names.sort();
        names
    }

    fn kept(place: &Place, second: i64) -> PathBuf {
        let mut draft = place.begin().unwrap();
        draft.write(b"one ").unwrap();
        draft.write(b"two").unwrap();
        place.keep(draft, Time::from_unix(1_800_000_000 + second)).unwrap()
    }

    #[test]
    fn files_are_private_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), Vec::new());
        let first = kept(&place, 0);
        assert_eq!(first.file_name().unwrap(), "etcd-lab-20270115T080000Z.snapshot");
        assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o600);
        let mut ignored = String::new();
        File::open(place.folder.join(".gitignore")).unwrap().read_to_string(&mut ignored).unwrap();
        assert_eq!(ignored, "*\n", "they stay out of version control");
        let others = ["etcd-lab-2-20270115T080000Z.snapshot", "etcd-lab-mine.snapshot", "notes"];
        for other in others {
            File::create(place.folder.join(other)).unwrap();
        }
        kept(&place, 1);
        kept(&place, 2);
        let left = names(&place.folder);
        let ours: Vec<&String> = left.iter().filter(|name| !others.contains(&name.as_str())).collect();
        assert_eq!(ours, ["etcd-lab-20270115T080001Z.snapshot", "etcd-lab-20270115T080002Z.snapshot"]);
        assert_eq!(left.len(), 5, "those of others stay: {left:?}");
        // One that is dropped leaves nothing behind, and the same second once more overwrites nothing.
        drop(place.begin().unwrap());
        assert_eq!(names(&place.folder), left);
        assert_eq!(kept(&place, 2).file_name().unwrap(), "etcd-lab-20270115T080003Z.snapshot");
        assert!(place.begin().unwrap().keep(&place.folder.join("notes")).is_err());
    }

    #[test]
    fn what_a_killed_run_left_half_written_goes_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), Vec::new());
        kept(&place, 0);
        for (name, hours) in [(".talmox-old", 25), (".talmox-new", 1), ("old", 25)] {
            let file = File::create(place.folder.join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_hours(hours)).unwrap();
        }
        kept(&place, 1);
        let left = names(&place.folder);
        assert!(!left.contains(&".talmox-old".to_owned()), "{left:?}");
        assert!(left.contains(&".talmox-new".to_owned()) && left.contains(&"old".to_owned()), "{left:?}");
    }

    #[test]
    fn what_was_just_written_stays_though_the_clock_was_ahead_before() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), Vec::new());
        for ahead in [86_400, 86_401, 86_402] {
            kept(&place, ahead);
        }
        let now = kept(&place, 0);
        assert!(now.exists(), "{:?}", names(&place.folder));
        assert_eq!(names(&place.folder).len(), 2);
    }

    #[test]
    fn a_recipient_that_is_known_is_encrypted_for() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::generate(&mut SystemRandom).unwrap();
        let place = place(folder.path(), vec![identity.recipient().clone()]);
        let path = kept(&place, 0);
        assert!(path.to_str().unwrap().ends_with(".snapshot.age"));
        assert!(!place.folder.join(".gitignore").exists());
        let mut bytes = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(!bytes.windows(3).any(|part| part == b"two"));
        assert_eq!(decrypt(&bytes, &[identity]).unwrap().expose_secret(), b"one two");
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = kept(&place(folder.path(), Vec::new()), 0);
        let error = judge(&path).err().unwrap();
        assert!(error.to_string().contains("is no snapshot of etcd: it is cut off"), "{error}");
    }
}
