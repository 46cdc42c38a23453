//! Secrets that `sops` encrypted: whoever has the key describes the cluster, and what is written is not open to anybody else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use secrecy::ExposeSecret as _;
use talmox_secrets::SystemRandom;
use talmox_secrets::age::Identity;

use super::adoption::Adoption;
use super::programs::Program;
use crate::scratch::Scratch;

/// What is encrypted, and where it would lie if it were not.
const SEALED: [(&str, &str); 2] =
    [("secrets.sops.yaml", "secrets.yaml"), ("talenv.sops.yaml", "talenv.yaml")];
/// Words of a file that are shorter prove nothing when they are found elsewhere.
const TELLING: usize = 24;

/// The key secrets are encrypted for, and that of somebody else.
pub(super) struct Keys {
    own: PathBuf,
    other: PathBuf,
    recipient: String,
}

impl Keys {
    pub(super) fn new(scratch: &Scratch) -> anyhow::Result<Self> {
        let (own, other) = (Identity::generate(&mut SystemRandom)?, Identity::generate(&mut SystemRandom)?);
        for (name, identity) in [("keys.txt", &own), ("others.txt", &other)] {
            scratch.write(name, identity.to_text().expose_secret())?;
        }
        let path = |name: &str| scratch.path().join(name);
        let recipient = own.recipient().to_string();
        Ok(Self { own: path("keys.txt"), other: path("others.txt"), recipient })
    }

    /// These variables, and the one that names the key.
    pub(super) fn with(&self, others: &[(&'static str, PathBuf)]) -> Vec<(&'static str, PathBuf)> {
        let key = ("SOPS_AGE_KEY_FILE", self.own.clone());
        others.iter().cloned().chain([key, ("SOPS_DISABLE_VERSION_CHECK", "true".into())]).collect()
    }

    fn sops<'a>(&self, sops: &'a Path, scratch: &'a Scratch) -> Program<'a> {
        Program { file: sops, home: scratch.path(), environment: self.with(&[]) }
    }

    /// Encrypts a file as people do.
    pub(super) fn seal(
        &self,
        sops: &Path,
        scratch: &Scratch,
        plain: &str,
        sealed: &str,
    ) -> anyhow::Result<()> {
        let text = self.sops(sops, scratch).output(&["encrypt", "--age", &self.recipient, plain])?;
        scratch.write(sealed, &String::from_utf8(text).context("an encrypted file is text")?).map(drop)
    }
}

/// With the key the cluster is described as it is with plain secrets, and no secret lies open; without it nothing is written.
/// `without` has no key.
pub(super) fn described(
    without: &Adoption<'_>,
    with: &Adoption<'_>,
    sops: &Path,
    keys: &Keys,
) -> anyhow::Result<()> {
    let scratch = with.scratch;
    let shared = with.cluster.layout.address(10).to_string();
    let way = ["--secrets", "talsecret.sops.yaml", "--nodes", &shared];
    let told = ["could not decrypt talsecret.sops.yaml", "SOPS_AGE_KEY_FILE"];
    without.refused(&way, None, &told)?;
    let environment = vec![("SOPS_AGE_KEY_FILE", keys.other.clone())];
    let stranger = Program { file: with.own.file, home: with.own.home, environment };
    Adoption { own: &stranger, names: with.names.clone(), ..*with }.refused(&way, None, &told)?;
    // Nobody named a recipient: who could read the secrets before can read them after.
    let said = with.describe("sealed", &way)?;
    for (sealed, plain) in SEALED {
        ensure!(said.text.contains(&keys.recipient), "it is not said for whom {sealed} is:\n{}", said.text);
        let path = |name: &str| scratch.path().join("sealed").join(name);
        ensure!(!path(plain).exists(), "{plain} is written though the secrets were encrypted");
        let mode = fs::metadata(path(sealed))?.permissions().mode() & 0o777;
        ensure!(mode == 0o600, "{sealed} has the mode {mode:o}");
        // What sops opens is what was written in the clear from the plain file.
        let opened = keys.sops(sops, scratch).output(&["decrypt", &format!("sealed/{sealed}")])?;
        let opened = String::from_utf8(opened).context("secrets are text")?;
        ensure!(
            words(&opened) == words(&scratch.read(&format!("lab/{plain}"))?),
            "{sealed} is not lab/{plain}"
        );
        nothing_is_open(scratch, Path::new("sealed"), &opened)?;
    }
    for file in ["cluster.yaml", "nodes.yaml", "patches/cluster.yaml"] {
        let read = |folder: &str| scratch.read(&format!("{folder}/{file}"));
        ensure!(read("sealed")? == read("lab")?, "{file} of sealed is not that of lab");
    }
    Ok(())
}

/// Names and values, however they are quoted; what is said about them is left out.
fn words(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace).map(|word| word.trim_matches(['"', '\''])).collect()
}

/// No file has a part of it that is long enough to be known by.
fn nothing_is_open(scratch: &Scratch, folder: &Path, secrets: &str) -> anyhow::Result<()> {
    // Names of keys are no secret.
    let telling = |word: &&str| word.len() >= TELLING && !word.ends_with(':');
    let telling: Vec<&str> = words(secrets).into_iter().filter(telling).collect();
    for entry in fs::read_dir(scratch.path().join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            nothing_is_open(scratch, &path, secrets)?;
            continue;
        }
        let text = scratch.read(&path.to_string_lossy())?;
        let open = telling.iter().any(|word| text.contains(word));
        ensure!(!open, "{} has a secret in the clear", path.display());
    }
    Ok(())
}
