//! Programs a description names: which file would run, and with what.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};
use talmox_trust::{Need, Program};

use super::folder::Folder;
use crate::failure::Failure;
use crate::regular_file;

/// What every program receives of the environment.
const ALWAYS: [&str; 2] = ["PATH", "HOME"];

#[expect(clippy::disallowed_methods, reason = "variables that a grant names are handed on as they are")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What a grant has to name for this argument list: the file that would run now, and the files of the description's folder
/// among the arguments as they are now.
pub(crate) fn need(argv: &[String], folder: &Folder) -> Result<Need, Failure> {
    let program = argv.first().ok_or_else(|| Failure::new("the description names an empty program"))?;
    let found = find(program, folder.path()).ok_or_else(|| {
        Failure::new(format!("there is no program {program}, which the description names")).with_hint(
            "it is looked for in the folders of PATH, or from the description's folder if it has a slash",
        )
    })?;
    let mut files = BTreeMap::new();
    for word in argv {
        for part in std::iter::once(word.as_str()).chain(word.split_once('=').map(|(_, value)| value)) {
            files.extend(digest(part, folder)?);
        }
    }
    Ok(Need::Program { argv: argv.to_vec(), path: found.display().to_string(), files })
}

/// The file of a name, with links followed. Folders of PATH that are not absolute are passed over: the description's own
/// folder is where programs run.
fn find(program: &str, folder: &Path) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(folder.join(program)).filter(runs)?.canonicalize().ok();
    }
    let path = variable("PATH")?;
    let found =
        path.split(':').filter(|part| part.starts_with('/')).map(|part| Path::new(part).join(program));
    found.into_iter().find(runs)?.canonicalize().ok()
}

/// The SHA-256 of a file of the folder, by its path in it; none if the word names no such file.
fn digest(word: &str, folder: &Folder) -> Result<Option<(String, String)>, Failure> {
    let Ok(real) = folder.path().join(word).canonicalize() else { return Ok(None) };
    let Ok(inner) = real.strip_prefix(folder.real()) else { return Ok(None) };
    if !real.is_file() {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Failure::new(format!("could not read {}: {error}", real.display()));
    let mut hash = Sha256::new();
    let mut source = regular_file::open(&real).map_err(failed)?;
    let mut piece = vec![0; 64 << 10];
    loop {
        match source.read(&mut piece).map_err(failed)? {
            0 => break,
            length => hash.update(&piece[..length]),
        }
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some((inner.display().to_string(), digest)))
}

/// A program that was granted, ready to run in the description's folder: with PATH, HOME and the variables the grant names,
/// and nothing else of the environment.
pub(crate) fn command(need: &Need, folder: &Folder) -> Result<Command, Failure> {
    folder.may(need)?;
    let grants = folder.granted();
    let Some(Program { argv, path, variables, .. }) = grants.program(need) else {
        return Err(folder.refusal(&[need]));
    };
    let (name, arguments) = argv.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    let mut command = Command::new(path);
    // Some programs do different things under different names.
    command.arg0(name).args(arguments).env_clear().stdin(Stdio::null());
    for name in ALWAYS.into_iter().chain(variables.iter().map(String::as_str)) {
        if let Some(value) = variable(name) {
            command.env(name, value);
        }
    }
    if !folder.path().as_os_str().is_empty() {
        command.current_dir(folder.path());
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_changed_script_of_the_folder_is_another_program() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("hook.sh");
        std::fs::write(&script, "echo one").unwrap();
        let folder = Folder::closed(place.path());
        for argv in [words(&["sh", "hook.sh"]), words(&["sh", "-c", "x", "--file=hook.sh"])] {
            std::fs::write(&script, "echo one").unwrap();
            let before = need(&argv, &folder).unwrap();
            folder.add(&[before.grant()]);
            assert!(command(&before, &folder).is_ok());
            std::fs::write(&script, "echo two").unwrap();
            let after = need(&argv, &folder).unwrap();
            assert!(command(&after, &folder).is_err());
        }
        assert!(need(&words(&["no-such-program-anywhere"]), &folder).is_err());
        assert!(need(&words(&["./hook.sh"]), &folder).is_err(), "it is not executable");
    }

    #[test]
    fn a_program_receives_nothing_of_the_environment_that_its_grant_does_not_name() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::closed(place.path());
        let need = need(&words(&["env"]), &folder).unwrap();
        let talmox_trust::Grant::Program(program) = need.grant() else { panic!("a program") };
        let shown = |variables: &[&str]| {
            let variables = variables.iter().map(|name| (*name).to_owned()).collect();
            folder.add(&[talmox_trust::Grant::Program(Program { variables, ..program.clone() })]);
            let output = command(&need, &folder).unwrap().output().unwrap();
            let mut names: Vec<String> = String::from_utf8(output.stdout)
                .unwrap()
                .lines()
                .filter_map(|line| Some(line.split_once('=')?.0.to_owned()))
                .collect();
            names.sort();
            names
        };
        assert!(shown(&[]).iter().all(|name| ALWAYS.contains(&name.as_str())));
    }
}
