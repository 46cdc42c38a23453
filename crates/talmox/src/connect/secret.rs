//! Secrets by reference.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use secrecy::SecretString;
use talmox_types::SecretRef;

use crate::failure::Failure;
use crate::sops;

/// A token is a line; a file that is larger is the wrong one.
const MAX_SIZE: u64 = 64 * 1024;

/// The secret a reference stands for; none for a variable, which the caller looks up. Paths are relative to the
/// description. What goes wrong is told without what was read.
pub(super) fn read(reference: &SecretRef, folder: &Path) -> Result<Option<SecretString>, Failure> {
    match reference {
        SecretRef::Env(_) => Ok(None),
        SecretRef::File(path) => file(&folder.join(path)).map(Some),
        SecretRef::Exec(argv) => program(argv, folder).map(Some),
        SecretRef::Sops { file, key } => of_sops(&folder.join(file), key).map(Some),
    }
}

/// One value of a SOPS file.
fn of_sops(path: &Path, key: &str) -> Result<SecretString, Failure> {
    let decrypted = sops::open(path, &sops::read(path)?)?;
    decrypted.value(key).ok_or_else(|| {
        Failure::new(format!("{} has no value {key}", path.display()))
            .with_hint(format!("its keys are {}; a.b is b in a", decrypted.keys().join(", ")))
    })
}

fn file(path: &Path) -> Result<SecretString, Failure> {
    let name = path.display();
    let failed = |error: std::io::Error| {
        Failure::new(format!("could not read the token from {name}: {error}"))
            .with_hint("paths in a description are relative to it")
    };
    let mut text = String::new();
    let opened = std::fs::File::open(path).map_err(failed)?;
    let read = opened.take(MAX_SIZE + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > MAX_SIZE {
        return Err(Failure::new(format!("{name} is too large to be a token")));
    }
    Ok(SecretString::from(text.trim_end_matches(['\n', '\r']).to_owned()))
}

fn program(argv: &[String], folder: &Path) -> Result<SecretString, Failure> {
    let [program, arguments @ ..] = argv else {
        return Err(Failure::new("proxmox_api_token names no program"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    let output = command
        .output()
        .map_err(|error| Failure::new(format!("could not run {program} for the token: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "{program}, which should print the token, ended with {}",
            output.status
        )));
    }
    let text = String::from_utf8(output.stdout)
        .map_err(|_| Failure::new(format!("{program} printed something that is no text")))?;
    Ok(SecretString::from(text.trim_end_matches(['\n', '\r']).to_owned()))
}
