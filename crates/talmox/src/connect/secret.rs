//! Secrets by reference.

use std::path::Path;
use std::process::Stdio;

use secrecy::SecretString;
use talmox_secrets::sops::Decrypted;
use talmox_types::SecretRef;

use super::choose::{Beside, Secret};
use crate::failure::Failure;
use crate::trust::{Folder, command, program_need};
use crate::{regular_file, sops};

/// A token is a line; a file that is larger is the wrong one.
const MAX_SIZE: u64 = 64 * 1024;

/// The secret a reference stands for. Paths are relative to the description. Errors never hold what was read.
pub(super) fn read(reference: &SecretRef, folder: &Folder) -> Result<Secret, Failure> {
    let alone = |text| Secret { text, beside: Beside::default() };
    match reference {
        SecretRef::Env(name) => Err(Failure::new(format!("{name} is a variable of the environment"))),
        SecretRef::File(path) => file(&folder.readable(path)?).map(alone),
        SecretRef::Exec(argv) => program(argv, folder).map(alone),
        SecretRef::Sops { file, key } => of_sops(&folder.readable(file)?, key),
    }
}

/// One value of a SOPS file, with the endpoint and the fingerprint that are encrypted beside it.
fn of_sops(path: &Path, key: &str) -> Result<Secret, Failure> {
    let decrypted = sops::open(path, &sops::read(path)?)?;
    let text = decrypted.value(key).ok_or_else(|| {
        Failure::new(format!("{} has no value {key}", path.display()))
            .with_hint(format!("its keys are {}; a.b is b in a", decrypted.keys().join(", ")))
    })?;
    let endpoint = beside(key, "endpoint");
    let encrypted = decrypted.encrypted_value(&endpoint);
    let is_plain = encrypted.is_none() && decrypted.value(&endpoint).is_some();
    let fingerprint = decrypted.encrypted_value(&beside(key, "fingerprint"));
    Ok(Secret { text, beside: Beside { endpoint: encrypted, fingerprint, is_plain } })
}

/// Opens a SOPS file, and gives the value of a key if it is encrypted there.
pub(crate) fn sealed(path: &Path, key: &str) -> Result<(Decrypted, Option<SecretString>), Failure> {
    let decrypted = sops::open(path, &sops::read(path)?)?;
    let value = decrypted.encrypted_value(key);
    Ok((decrypted, value))
}

/// The key of a name beside another key: `a.token` and `endpoint` give `a.endpoint`.
pub(crate) fn beside(key: &str, name: &str) -> String {
    key.rsplit_once('.').map_or_else(|| name.to_owned(), |(parent, _)| format!("{parent}.{name}"))
}

fn file(path: &Path) -> Result<SecretString, Failure> {
    let text = regular_file::text(path, MAX_SIZE).map_err(|error| {
        Failure::new(format!("could not read the token from {}: {error}", path.display()))
            .with_hint("paths in a description are relative to it")
    })?;
    Ok(one_line(&text))
}

fn one_line(text: &str) -> SecretString {
    SecretString::from(text.trim_end_matches(['\n', '\r']).to_owned())
}

fn program(argv: &[String], folder: &Folder) -> Result<SecretString, Failure> {
    let need = program_need(argv, folder)?;
    let name = argv.first().map_or("", String::as_str);
    let output = command(&need, folder)?
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("could not run {name} for the token: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "{name}, which should print the token, ended with {}",
            output.status
        )));
    }
    let text = String::from_utf8(output.stdout)
        .map_err(|_| Failure::new(format!("{name} printed something that is no text")))?;
    Ok(one_line(&text))
}
