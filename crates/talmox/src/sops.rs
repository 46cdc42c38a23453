//! SOPS files as commands meet them: where keys and rules are, and what to say when a file does not open.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use secrecy::SecretString;
use talmox_secrets::age::Identity;
use talmox_secrets::sops::{DecryptError, Decrypted, Rule, SopsFile};
use talmox_secrets::{CreationRules, KeySource, RulesError, gather};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::regular_file;

/// Secrets are pages of text; a file that is larger is the wrong one.
const MAX_SIZE: u64 = 4 << 20;

/// The name of the file with the rules of new files.
const RULES: &str = ".sops.yaml";

/// Reads a file that may hold secrets.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let name = path.display();
    regular_file::text(path, MAX_SIZE)
        .map_err(|error| Failure::new(format!("could not read {name}: {error}")))
}

/// Opens a SOPS file with the keys at hand.
pub(crate) fn open(path: &Path, text: &str) -> Result<Decrypted, Failure> {
    let name = path.display();
    let file = SopsFile::parse(text).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    file.decrypt(&identities()?).map_err(|error| {
        let failure = Failure::new(format!("could not decrypt {name}: {error}"));
        match error {
            DecryptError::NoKeyFits { .. } | DecryptError::TooFewGroups { .. } => {
                failure.with_hint(where_keys_are())
            }
            DecryptError::NoAge { .. } => {
                failure.with_hint("sops itself opens it; sops updatekeys adds an age recipient")
            }
            DecryptError::DataKey { .. }
            | DecryptError::Parts
            | DecryptError::Value { .. }
            | DecryptError::Content { .. }
            | DecryptError::Mac
            | DecryptError::MacValue => failure.with_hint(
                "nothing of it is used; take the file from version control, and find out who changed it",
            ),
        }
    })
}

/// Where the keys are looked for, for people.
pub(crate) fn where_keys_are() -> String {
    let usual = default_key_file();
    let usual = usual.map_or("~/.config/sops/age/keys.txt".to_owned(), |path| path.display().to_string());
    format!("keys are looked for in SOPS_AGE_KEY, SOPS_AGE_KEY_FILE, SOPS_AGE_KEY_CMD and {usual}")
}

/// Every age key at hand, from where `sops` looks too.
pub(crate) fn identities() -> Result<Vec<Identity>, Failure> {
    let mut sources = Vec::new();
    if let Some(text) = variable("SOPS_AGE_KEY") {
        let name = "SOPS_AGE_KEY".to_owned();
        sources.push(KeySource { name, text: SecretString::from(text), several_on_a_line: true });
    }
    let named = variable("SOPS_AGE_KEY_FILE").map(PathBuf::from);
    let usual = default_key_file().filter(|path| path.exists());
    for path in named.into_iter().chain(usual) {
        let text = SecretString::from(read(&path)?.as_str());
        sources.push(KeySource { name: path.display().to_string(), text, several_on_a_line: false });
    }
    if let Some(command) = variable("SOPS_AGE_KEY_CMD") {
        let name = "what SOPS_AGE_KEY_CMD prints".to_owned();
        sources.push(KeySource { name, text: key_of_program(&command)?, several_on_a_line: false });
    }
    gather(&sources).map_err(|error| Failure::new(error.to_string()))
}

#[expect(clippy::disallowed_methods, reason = "variables of sops, which are read where its files are")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn default_key_file() -> Option<PathBuf> {
    let home = || variable("HOME").map(|home| Path::new(&home).join(".config"));
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(folder.join("sops/age/keys.txt"))
}

/// Words with blanks between them; a shell is not involved, and quotes would need one.
fn key_of_program(command: &str) -> Result<SecretString, Failure> {
    if command.contains(['"', '\'', '\\']) {
        return Err(Failure::new("SOPS_AGE_KEY_CMD has quotes, which are not understood here")
            .with_hint("put the command into a script, and name that"));
    }
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output
        .map_err(|error| Failure::new(format!("could not run {program} of SOPS_AGE_KEY_CMD: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(format!("{program} of SOPS_AGE_KEY_CMD ended with {}", output.status)));
    }
    let text = String::from_utf8(output.stdout)
        .map_err(|_| Failure::new(format!("{program} of SOPS_AGE_KEY_CMD printed no text")))?;
    Ok(SecretString::from(text))
}

/// The path with links and `..` followed as far as its folders exist.
fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut folders = absolute.ancestors().skip(1);
    let Some(there) = folders.find(|folder| folder.exists()) else { return Ok(absolute) };
    let rest = absolute.strip_prefix(there).unwrap_or(Path::new("")).to_owned();
    Ok(there.canonicalize()?.join(rest))
}

/// How a new file is encrypted: as the nearest `.sops.yaml` from its folder upwards says; none if there is no such file.
pub(crate) fn rule_for(path: &Path) -> Result<Option<Rule>, Failure> {
    let absolute = resolved(path)
        .map_err(|error| Failure::new(format!("could not find {}: {error}", path.display())))?;
    let folders = absolute.ancestors().skip(1);
    let Some(folder) = folders.into_iter().find(|folder| folder.join(RULES).is_file()) else {
        return Ok(None);
    };
    let config = folder.join(RULES);
    let named = |error: RulesError| {
        Failure::new(error.to_string()).with_hint(format!("the file is {}", config.display()))
    };
    let rules = CreationRules::parse(&read(&config)?).map_err(named)?;
    if rules.is_empty() {
        return Ok(None);
    }
    let relative = absolute.strip_prefix(folder).unwrap_or(&absolute);
    match rules.choose(&relative.to_string_lossy()) {
        Ok(rule) => Ok(Some(rule)),
        // Rules for other files say nothing of this one.
        Err(RulesError::NoMatch(_)) => Ok(None),
        Err(error) => Err(named(error)),
    }
}
