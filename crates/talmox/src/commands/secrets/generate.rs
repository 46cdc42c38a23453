//! `talmox secrets generate`, and what `init` makes.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use talmox_machine::{Bundle, SystemRandom};
use talmox_plan::identify;
use talmox_secrets::age::Recipient;
use talmox_secrets::sops::{self, Rule};
use talmox_secrets::{Overwrite, write_secret_file};
use talmox_trust::Verb;
use talmox_types::Contract;
use talmox_types::desired::Desired;

use super::import::{Imported, Readers, import};
use crate::args::SecretsGenerate;
use crate::commands::configs::now;
use crate::commands::shared::{Job, block_on, boxed};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::secrets_file;
use crate::trust::{Aim, Folder, needs, settle};

const ENCRYPTED: &str = "secrets.sops.yaml";
const PLAIN: &str = "secrets.yaml";

/// What must not get into version control beside a bundle that is not encrypted.
const IGNORED: [&str; 2] = ["/talosconfig", "/kubeconfig"];

pub(super) fn run(args: &SecretsGenerate, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    let (outcome, desired) = boxed(&folder, printer)?;
    let aim = Aim { verb: Verb::SecretsGenerate, simulated: !args.age.is_empty() };
    settle(&needs(aim, &outcome, &desired, &folder)?, &folder, printer)?;
    let imported = args.from.as_deref().map(import).transpose()?;
    let readers = imported.as_ref().map_or(&Readers::Anybody, |imported| &imported.readers);
    let target = Target::choose(&desired, &args.age, readers, (&folder, printer))?;
    let existing = existing(&desired, &folder, &target);
    if let Some(path) = existing.as_ref().filter(|_| !args.force) {
        return Err(there_already(path).into());
    }
    let made_new = args.from.is_none();
    if !args.offline && desired.uid.is_some() && (made_new || existing.is_some()) {
        let (contract, target) = (desired.talos.contract, &target);
        let again = Folder::open(&args.description.file, &args.description.trust)?;
        let job = Job::of(Verb::SecretsGenerate, (outcome, desired), &[], again, &args.connection, printer);
        refuse_with_vms(job, target, made_new)?;
        return finish(args, (contract, imported), folder.path(), target, printer);
    }
    finish(args, (desired.talos.contract, imported), folder.path(), &target, printer)
}

fn finish(
    args: &SecretsGenerate,
    (contract, imported): (Contract, Option<Imported>),
    folder: &Path,
    target: &Target,
    printer: &Printer,
) -> anyhow::Result<()> {
    let bundle = match imported {
        Some(imported) => imported.bundle,
        None => Bundle::generate(contract, now(), &mut SystemRandom).context("could not make the secrets")?,
    };
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    target.write(&bundle, overwrite, printer)?;
    if target.rule.is_none() {
        ignore(folder, &target.path, printer)?;
        printer.say(
            "note: it is plain text; an age recipient (--age, or a .sops.yaml) makes it secrets.sops.yaml",
        );
    }
    printer.say("keep a copy: without it nobody can add a node to the cluster or reach its machines");
    Ok(())
}

/// The bundle of a description that is about to be written: decided before anything is, made afterwards.
pub(in crate::commands) struct FirstBundle {
    folder: PathBuf,
    /// None if a bundle is there already, which stays the cluster's.
    target: Option<Target>,
}

impl FirstBundle {
    pub(in crate::commands) fn choose(folder: &Folder, printer: &Printer) -> anyhow::Result<Self> {
        let own = folder.path().to_owned();
        let mut there = secrets_file::NAMES.map(|name| own.join(name)).into_iter();
        if let Some(path) = there.find(|path| path.exists()) {
            printer.say(&format!("{} is there already, and stays the cluster's secrets", path.display()));
            return Ok(Self { folder: own, target: None });
        }
        let rule = Readers::Anybody.rule_for(&own.join(ENCRYPTED), &[], (folder, printer))?;
        let path = folder.writable(if rule.is_some() { ENCRYPTED } else { PLAIN })?;
        Ok(Self { folder: own, target: Some(Target { path, rule }) })
    }

    /// The file they will be in, if one is to be written.
    pub(in crate::commands) fn path(&self) -> Option<&Path> {
        self.target.as_ref().map(|target| target.path.as_path())
    }

    /// The same for a cluster that runs. `age` are recipients somebody named, `readers` whoever could read its secrets so far.
    pub(in crate::commands) fn choose_for(
        age: &[Recipient],
        readers: &Readers,
        (folder, printer): (&Folder, &Printer),
    ) -> anyhow::Result<Self> {
        let rule = readers.rule_for(&folder.path().join(ENCRYPTED), age, (folder, printer))?;
        let path = folder.writable(if rule.is_some() { ENCRYPTED } else { PLAIN })?;
        Ok(Self { folder: folder.path().to_owned(), target: Some(Target { path, rule }) })
    }

    /// Keeps secrets that are a cluster's already; gives the file, if one was written.
    pub(in crate::commands) fn keep(
        self,
        bundle: &Bundle,
        printer: &Printer,
    ) -> anyhow::Result<Option<PathBuf>> {
        let Some(target) = self.target else { return Ok(None) };
        target.write(bundle, Overwrite::Refuse, printer)?;
        if target.rule.is_none() {
            ignore(&self.folder, &target.path, printer)?;
        }
        Ok(Some(target.path))
    }

    pub(in crate::commands) fn make(self, contract: Contract, printer: &Printer) -> anyhow::Result<()> {
        let Some(target) = self.target else { return Ok(()) };
        let bundle = Bundle::generate(contract, now(), &mut SystemRandom)
            .context("could not make the cluster's secrets")?;
        target.write(&bundle, Overwrite::Refuse, printer)?;
        if target.rule.is_none() { ignore(&self.folder, &target.path, printer) } else { Ok(()) }
    }
}

/// Writes a file of secrets that is not there yet, encrypted under another name where a recipient is known; gives its path.
pub(in crate::commands) fn write_new_secrets(
    (plain, encrypted): (&str, &str),
    text: &str,
    (age, readers): (&[Recipient], &Readers),
    (folder, printer): (&Folder, &Printer),
) -> anyhow::Result<PathBuf> {
    let rule = readers.rule_for(&folder.path().join(encrypted), age, (folder, printer))?;
    let target = Target { path: folder.writable(if rule.is_some() { encrypted } else { plain })?, rule };
    target.write_text(text, Overwrite::Refuse, printer)?;
    if target.rule.is_none() {
        ignore(folder.path(), &target.path, printer)?;
    }
    Ok(target.path)
}

/// Where the bundle goes, and for whom.
struct Target {
    path: PathBuf,
    rule: Option<Rule>,
}

impl Target {
    fn choose(
        desired: &Desired,
        age: &[Recipient],
        readers: &Readers,
        (folder, printer): (&Folder, &Printer),
    ) -> anyhow::Result<Self> {
        let rule = |path: &Path| readers.rule_for(path, age, (folder, printer));
        let Some(named) = &desired.talos.secrets_file else {
            let rule = rule(&folder.path().join(ENCRYPTED))?;
            let path = folder.writable(if rule.is_some() { ENCRYPTED } else { PLAIN })?;
            return Ok(Self { path, rule });
        };
        let path = folder.writable(named)?;
        let rule = rule(&path)?;
        if rule.is_none() && named.contains(".sops.") {
            return Err(Failure::new(format!("nobody is known who may read {named}"))
                .with_hint(
                    "--age age1… names a recipient; a .sops.yaml with creation_rules does for every file",
                )
                .into());
        }
        Ok(Self { path, rule })
    }

    fn write(&self, bundle: &Bundle, overwrite: Overwrite, printer: &Printer) -> anyhow::Result<()> {
        self.write_text(bundle.to_yaml().expose_secret(), overwrite, printer)
    }

    fn write_text(&self, plain: &str, overwrite: Overwrite, printer: &Printer) -> anyhow::Result<()> {
        match &self.rule {
            None => write_secret_file(&self.path, plain.as_bytes(), overwrite)?,
            Some(rule) => {
                let time = now().to_string();
                let text = sops::encrypt(plain, rule, &time, &mut talmox_secrets::SystemRandom)
                    .with_context(|| format!("could not encrypt {}", self.path.display()))?;
                write_secret_file(&self.path, text.as_bytes(), overwrite)?;
            }
        }
        printer.say(&format!("wrote {}{}", self.path.display(), self.for_whom()));
        Ok(())
    }

    fn for_whom(&self) -> String {
        match &self.rule {
            None => String::new(),
            Some(rule) => {
                let names: Vec<String> = rule.recipients.iter().map(ToString::to_string).collect();
                format!(", encrypted for {}", names.join(", "))
            }
        }
    }
}

/// A bundle the cluster has already, whatever it is called.
fn existing(desired: &Desired, folder: &Folder, target: &Target) -> Option<PathBuf> {
    let found = secrets_file::find(desired, folder).filter(|path| path.exists());
    found.or_else(|| target.path.exists().then(|| target.path.clone()))
}

fn there_already(path: &Path) -> Failure {
    Failure::new(format!("the cluster has its secrets already: {}", path.display()))
        .with_hint("talmox secrets show lists what they are; another bundle would be another cluster")
        .with_hint("--force overwrites it, if the cluster has no VMs")
}

/// A second bundle would lock everybody out of the machines that run with the first.
fn refuse_with_vms(
    job: impl Future<Output = anyhow::Result<Job>>,
    target: &Target,
    made_new: bool,
) -> anyhow::Result<()> {
    let count = block_on(async {
        let job = job.await?;
        let observed = job.observe().await;
        let desired = job.desired.clone();
        job.session.close().await?;
        Ok(identify(&desired, &observed?).ours().count())
    });
    let count = match count {
        Ok(count) => count,
        Err(error) => {
            let words: Vec<String> = error.chain().map(ToString::to_string).collect();
            return Err(Failure::new(format!(
                "could not find out whether the cluster has VMs: {}",
                words.join(": ")
            ))
            .with_hint("--offline does without, if you know that it has none")
            .into());
        }
    };
    if count == 0 {
        return Ok(());
    }
    let vms = if count == 1 { "1 VM".to_owned() } else { format!("{count} VMs") };
    let failure = Failure::new(format!("the cluster has {vms}, which know its secrets; it gets no others"));
    let failure = if made_new {
        failure.with_hint(
            "--from FILE takes the secrets over: talosctl's secrets.yaml, or a control plane's config",
        )
    } else {
        failure.with_hint(format!("remove {} yourself if it is not theirs", target.path.display()))
    };
    Err(failure.into())
}

/// Adds what is missing to the folder's `.gitignore`.
fn ignore(folder: &Path, bundle: &Path, printer: &Printer) -> anyhow::Result<()> {
    let path = folder.join(".gitignore");
    let failed = || format!("could not write {}", path.display());
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(&path) {
        file.read_to_string(&mut text).with_context(failed)?;
    }
    // One that lies elsewhere is for another folder's file.
    let bundle = bundle.strip_prefix(folder).ok().map(|name| format!("/{}", name.display()));
    let known = |line: &String| text.lines().any(|have| have.trim().trim_start_matches('/') == &line[1..]);
    let wanted = bundle.into_iter().chain(IGNORED.map(str::to_owned));
    let missing: Vec<String> = wanted.filter(|line| !known(line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path).with_context(failed)?;
    writeln!(file, "{gap}{}", missing.join("\n")).with_context(failed)?;
    printer.say(&format!(
        "wrote {} into {}: secrets stay out of version control",
        missing.join(", "),
        path.display()
    ));
    Ok(())
}
