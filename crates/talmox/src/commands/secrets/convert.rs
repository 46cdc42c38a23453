//! `talmox secrets encrypt` and `decrypt`

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;
use talmox_secrets::sops::{self, EncryptError, Rule, SopsFile, is_sops};
use talmox_secrets::{Overwrite, SystemRandom, write_secret_file};

use crate::args::{SecretsDecrypt, SecretsEncrypt};
use crate::commands::configs::now;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::sops as files;
use crate::trust::{Folder, settle_receivers};

pub(super) fn encrypt(args: &SecretsEncrypt, printer: &Printer) -> anyhow::Result<()> {
    let target = match &args.to {
        Some(path) => path.clone(),
        None => with_sops(&args.file).ok_or_else(|| {
            Failure::new("no name for the encrypted file").with_hint("--to FILE gives it one")
        })?,
    };
    let plain = files::read(&args.file)?;
    if is_sops(&plain) {
        return Err(Failure::new(format!("{} is encrypted already", args.file.display())).into());
    }
    refuse_existing(&target, args.force)?;
    let failed =
        |error: EncryptError| Failure::new(format!("could not encrypt {}: {error}", args.file.display()));
    let time = now().to_string();
    let text = match renewed(args, &target, &plain, &time)? {
        Some(text) => text,
        None => {
            let rule = rule(args, &target, printer)?;
            sops::encrypt(&plain, &rule, &time, &mut SystemRandom).map_err(failed)?
        }
    };
    write_secret_file(&target, text.as_bytes(), overwrite(args.force))?;
    let recipients = SopsFile::parse(&text).map(|file| file.recipients()).unwrap_or_default();
    printer.say(&format!("wrote {}, encrypted for {}", target.display(), recipients.join(", ")));
    if target != args.file {
        printer.say(&format!("{} is still there in plain text", args.file.display()));
    }
    Ok(())
}

/// A SOPS file that is overwritten keeps its recipients, its rules, and the ciphertext of what did not change. One that is
/// encrypted for others than age stays as it is.
fn renewed(args: &SecretsEncrypt, target: &Path, plain: &str, time: &str) -> anyhow::Result<Option<String>> {
    if !target.exists() {
        return Ok(None);
    }
    let old = files::read(target)?;
    let Ok(file) = SopsFile::parse(&old) else { return Ok(None) };
    let failed =
        |error: EncryptError| Failure::new(format!("{} is left as it is: {error}", target.display()));
    if !file.other_kinds().is_empty() {
        let kinds = file.other_kinds().into_iter().map(str::to_owned).collect();
        return Err(failed(EncryptError::OtherRecipients { kinds }).into());
    }
    if !args.age.is_empty() {
        return Ok(None);
    }
    let decrypted = files::open(target, &old)?;
    Ok(Some(decrypted.update(plain, time, &mut SystemRandom).map_err(failed)?))
}

fn rule(args: &SecretsEncrypt, target: &Path, printer: &Printer) -> anyhow::Result<Rule> {
    if !args.age.is_empty() {
        return Ok(Rule::for_recipients(args.age.clone()));
    }
    let rule = files::rule_for(target)?.ok_or_else(|| {
        Failure::new(format!("nobody is known who may read {}", target.display()))
            .with_hint("--age age1… names a recipient; age-keygen makes a key")
            .with_hint("a .sops.yaml with creation_rules, here or in a folder above, does for every file")
    })?;
    settle_receivers(&rule.recipients, &Folder::open(target, &args.trust)?, printer)?;
    Ok(rule)
}

pub(super) fn decrypt(args: &SecretsDecrypt, printer: &Printer) -> anyhow::Result<()> {
    let text = files::read(&args.file)?;
    if args.stdout {
        return printer.data(files::open(&args.file, &text)?.to_yaml().expose_secret());
    }
    let target = match &args.to {
        Some(path) => path.clone(),
        None => without_sops(&args.file).ok_or_else(|| {
            Failure::new(format!("{} has no .sops in its name to leave out", args.file.display()))
                .with_hint("--to FILE names the plain file, --stdout prints it")
        })?,
    };
    refuse_existing(&target, args.force)?;
    let plain = files::open(&args.file, &text)?.to_yaml();
    write_secret_file(&target, plain.expose_secret().as_bytes(), overwrite(args.force))?;
    printer.say(&format!("wrote {} in plain text; only you may read it", target.display()));
    Ok(())
}

fn overwrite(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    if path.exists() && !force {
        return Err(Failure::new(format!("{} is there already", path.display()))
            .with_hint("nothing was changed; --force overwrites it, --to names another"));
    }
    Ok(())
}

/// `secrets.yaml` becomes `secrets.sops.yaml`.
fn with_sops(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    if name.contains(".sops.") {
        return Some(path.to_owned());
    }
    let (stem, extension) = name.rsplit_once('.')?;
    Some(path.with_file_name(format!("{stem}.sops.{extension}")))
}

fn without_sops(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    name.contains(".sops.").then(|| path.with_file_name(name.replacen(".sops.", ".", 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_each_other() {
        assert_eq!(with_sops(Path::new("a/secrets.yaml")), Some(PathBuf::from("a/secrets.sops.yaml")));
        assert_eq!(with_sops(Path::new("x.sops.yaml")), Some(PathBuf::from("x.sops.yaml")));
        assert_eq!(without_sops(Path::new("a/x.sops.yaml")), Some(PathBuf::from("a/x.yaml")));
        assert_eq!(without_sops(Path::new("x.yaml")), None);
    }
}
