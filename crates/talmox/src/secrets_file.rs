//! The secrets bundle: where it lies, and what is in it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use talmox_machine::{Bundle, Source, SystemRandom, Time};
use talmox_secrets::sops::is_sops;
use talmox_secrets::{Overwrite, WriteError, write_secret_file};
use talmox_types::desired::Desired;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::trust::Folder;
use crate::{regular_file, sops};

/// Names a bundle has if the description gives it none, in the order they are looked for: ours and `talosctl`'s, then
/// those of talhelper.
pub(crate) const NAMES: [&str; 4] =
    ["secrets.sops.yaml", "secrets.yaml", "talsecret.sops.yaml", "talsecret.yaml"];

/// A bundle has a few kilobytes; a file that is much larger is the wrong one.
const MAX_SIZE: u64 = 1024 * 1024;

/// A bundle that was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) bundle: Bundle,
}

/// The file of the bundle: the one the description names, there or not, else the first there is of the usual names.
/// `folder` is the description's.
pub(crate) fn find(desired: &Desired, folder: &Folder) -> Option<PathBuf> {
    match &desired.talos.secrets_file {
        Some(file) => Some(folder.path().join(file)),
        None => NAMES.into_iter().map(|name| folder.path().join(name)).find(|path| path.exists()),
    }
}

/// Reads the bundle. What is wrong with it is told without what is in it.
pub(crate) fn load(desired: &Desired, folder: &Folder) -> Result<Loaded, Failure> {
    let Some(path) = find(desired, folder) else {
        let here = folder.path().as_os_str().is_empty() || folder.path() == Path::new(".");
        let place = if here { "this folder".to_owned() } else { folder.path().display().to_string() };
        return Err(missing(format!("there is no secrets bundle: {place} has none of {}", NAMES.join(", "))));
    };
    if !path.exists() {
        let place = path.display();
        return Err(missing(format!(
            "there is no secrets bundle at {place}, where secrets_file of the description says"
        )));
    }
    folder.readable_path(&path)?;
    parse(path)
}

fn parse(path: PathBuf) -> Result<Loaded, Failure> {
    let text = read(&path)?;
    let name = path.display().to_string();
    let bundle = Bundle::parse(Source { name: &name, text: &text })
        .map_err(|faults| Failure::new(format!("{name} is not a secrets bundle:\n{faults}")))?;
    Ok(Loaded { path, bundle })
}

/// The bundle of a simulated cluster: the description's own if it has one, else one that was made for the simulation and
/// lies with it. `simulation` is its folder.
pub(crate) fn load_simulated(
    desired: &Desired,
    folder: &Folder,
    simulation: &Path,
) -> anyhow::Result<Loaded> {
    let path = simulation.join("secrets.yaml");
    if find(desired, folder).is_some_and(|path| path.exists()) {
        let own = load(desired, folder)?;
        // What was replaced in the simulation alone lies with it.
        let ahead = if path.exists() { parse(path).ok() } else { None };
        return Ok(ahead.filter(|ahead| is_ahead(&ahead.bundle, &own.bundle)).unwrap_or(own));
    }
    if !path.exists() {
        let bundle = Bundle::generate(desired.talos.contract, now(), &mut SystemRandom)
            .context("could not make the secrets of the simulated cluster")?;
        write_secret_file(&path, bundle.to_yaml().expose_secret().as_bytes(), Overwrite::Refuse)?;
    }
    Ok(parse(path)?)
}

/// Whether a bundle is what another becomes when authorities are replaced that it says are to be, and nothing else.
fn is_ahead(bundle: &Bundle, own: &Bundle) -> bool {
    let mut wanted = own.clone();
    for realm in own.rotating() {
        let next = own.next(realm).map(|next| next.certificate.pem());
        if next == Some(bundle.present(realm).certificate.pem()) {
            wanted = wanted.settled(realm);
        }
    }
    let same =
        |one: &Bundle, other: &Bundle| one.to_yaml().expose_secret() == other.to_yaml().expose_secret();
    same(bundle, &wanted) && !same(bundle, own)
}

/// Writes a bundle in the place of the one that is there: for the same people, if it is encrypted.
pub(crate) fn store(path: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let name = path.display().to_string();
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("could not write {name}: {error}"));
    let plain = bundle.to_yaml();
    let there = if path.exists() { sops::read(path)? } else { Zeroizing::default() };
    if is_sops(&there) {
        let opened = sops::open(path, &there)?;
        let time = now().to_string();
        let text = opened
            .update(plain.expose_secret(), &time, &mut talmox_secrets::SystemRandom)
            .map_err(|error| failed(&error))?;
        return replace(path, text.as_bytes());
    }
    replace(path, plain.expose_secret().as_bytes())
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_secret_file(path, bytes, Overwrite::Replace).map_err(|error| match error {
        WriteError::Exists(_) => Failure::new(error.to_string()),
        WriteError::Io { source, .. } => {
            Failure::new(format!("could not write {}: {source}", path.display()))
        }
    })
}

/// The clock of this machine.
pub(crate) fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn missing(message: String) -> Failure {
    Failure::new(message).with_hint("talmox secrets generate makes one, once in a cluster's life").with_hint(
        "a cluster that runs has one: get that file, and name it with secrets_file if it is called otherwise",
    )
}

/// The text of a file with secrets in it, in the clear; SOPS files are decrypted.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let text = read_as_it_is(path)?;
    if is_sops(&text) {
        let opened = sops::open(path, &text)?.to_yaml();
        return Ok(Zeroizing::new(opened.expose_secret().to_owned()));
    }
    Ok(text)
}

/// The same without opening what is encrypted.
pub(crate) fn read_as_it_is(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let name = path.display().to_string();
    regular_file::text(path, MAX_SIZE)
        .map_err(|error| Failure::new(format!("could not read the secrets in {name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired(extra: &str) -> Desired {
        let nodes = "nodes:\n  - {name: cp-1, address: 10.0.7.11, controller: true}\n";
        let files = talmox_config::Files::from_texts(&format!("{extra}{nodes}"), None);
        talmox_config::read_files(files).desired.unwrap()
    }

    /// A folder that is gone at the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("talmox-bundle-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn closed(&self) -> Folder {
            Folder::closed(&self.0)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.join(name), text).unwrap();
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_usual_names_are_looked_for_in_order() {
        let folder = Place::new("names");
        let usual = desired("");
        assert_eq!(find(&usual, &folder.closed()), None);
        for name in NAMES.iter().rev() {
            folder.write(name, "");
            assert_eq!(find(&usual, &folder.closed()), Some(folder.0.join(name)));
        }
    }

    #[test]
    fn what_the_description_names_is_the_file_there_or_not() {
        let folder = Place::new("named");
        folder.write("secrets.yaml", "");
        let named = desired("secrets_file: keys/lab.yaml\n");
        assert_eq!(find(&named, &folder.closed()), Some(folder.0.join("keys/lab.yaml")));
        let failure = load(&named, &folder.closed()).unwrap_err().to_string();
        assert!(failure.contains("keys/lab.yaml, where secrets_file"), "{failure}");
    }

    #[test]
    fn a_simulated_cluster_without_a_bundle_gets_one_of_its_own_and_keeps_it() {
        let (folder, simulation) = (Place::new("described"), Place::new("simulated"));
        let plain = desired("");
        let made = load_simulated(&plain, &folder.closed(), &simulation.0).unwrap();
        assert_eq!(made.path, simulation.0.join("secrets.yaml"));
        let again = load_simulated(&plain, &folder.closed(), &simulation.0).unwrap();
        assert_eq!(again.bundle.cluster_id, made.bundle.cluster_id);
        // What the description has comes first.
        folder.write("secrets.yaml", made.bundle.to_yaml().expose_secret());
        assert_eq!(
            load_simulated(&plain, &folder.closed(), &simulation.0).unwrap().path,
            folder.0.join("secrets.yaml")
        );
        // Why a file could not be written is told, and not only that it could not.
        let failure = store(&folder.0.join("none/secrets.yaml"), &made.bundle).unwrap_err().to_string();
        assert!(failure.contains("No such file or directory"), "{failure}");
    }

    #[test]
    fn a_missing_bundle_is_told_with_the_names_that_were_looked_for() {
        let folder = Place::new("missing");
        let failure = load(&desired(""), &folder.closed()).unwrap_err().to_string();
        for name in NAMES {
            assert!(failure.contains(name), "{failure}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_without_what_is_in_it() {
        let folder = Place::new("wrong");
        folder.write("secrets.yaml", "cluster: {id: abc, secret: hush-hush}\n");
        let failure = load(&desired(""), &folder.closed()).unwrap_err().to_string();
        assert!(failure.contains("cluster.secret"), "{failure}");
        assert!(!failure.contains("hush-hush"), "{failure}");
    }

    #[test]
    fn a_file_for_others_is_told_without_what_is_in_it() {
        let folder = Place::new("sops");
        let stranger = talmox_secrets::age::Identity::generate(&mut talmox_secrets::SystemRandom).unwrap();
        let rule = talmox_secrets::sops::Rule::for_recipients(vec![stranger.recipient().clone()]);
        let text = "cluster: {id: hush-hush}\n";
        let random = &mut talmox_secrets::SystemRandom;
        let file = talmox_secrets::sops::encrypt(text, &rule, "2026-11-15T12:00:00Z", random).unwrap();
        folder.write("secrets.sops.yaml", &file);
        let failure = load(&desired(""), &folder.closed()).unwrap_err().to_string();
        assert!(failure.contains(&stranger.recipient().to_string()), "{failure}");
        assert!(!failure.contains("hush-hush"), "{failure}");
    }
}
