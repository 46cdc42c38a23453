//! Secrets that are in a file of another tool, and who may read them from now on.

use std::path::Path;

use secrecy::ExposeSecret as _;
use talmox_machine::secrets::from_config;
use talmox_machine::{Bundle, Config, Source};
use talmox_secrets::age::Recipient;
use talmox_secrets::sops::{Rule, SopsFile, is_sops};

use crate::commands::configs::now;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::sops as files;
use crate::trust::{Folder, settle_receivers};

/// A bundle, and who could read the file it came from.
pub(in crate::commands) struct Imported {
    pub(in crate::commands) bundle: Bundle,
    pub(in crate::commands) readers: Readers,
}

/// Who could read a file of secrets. What is made from it is not open to anybody else.
pub(in crate::commands) enum Readers {
    /// It was plain text, or there was no file.
    Anybody,
    Those(Vec<Recipient>),
    /// People that a file of ours cannot be encrypted for.
    Others {
        file: String,
        kinds: String,
    },
}

impl Readers {
    /// How a file is encrypted that takes the place of theirs: for those somebody named, else as a rule says, else for whoever
    /// could read it before.
    ///
    /// Whoever the person did not name needs to be allowed: a `.sops.yaml` and the list of readers in a file can be changed by
    /// anybody who can change the description.
    pub(super) fn rule_for(
        &self,
        path: &Path,
        age: &[Recipient],
        (folder, printer): (&Folder, &Printer),
    ) -> anyhow::Result<Option<Rule>> {
        if !age.is_empty() {
            return Ok(Some(Rule::for_recipients(age.to_vec())));
        }
        let rule = self.rule_of_files(path)?;
        if let Some(rule) = &rule {
            settle_receivers(&rule.recipients, folder, printer)?;
        }
        Ok(rule)
    }

    fn rule_of_files(&self, path: &Path) -> Result<Option<Rule>, Failure> {
        if let Some(rule) = files::rule_for(path)? {
            return Ok(Some(rule));
        }
        match self {
            Self::Anybody => Ok(None),
            Self::Those(readers) => Ok(Some(Rule::for_recipients(readers.clone()))),
            Self::Others { file, kinds } => Err(Failure::new(format!(
                "{file} is encrypted with {kinds}, and nobody is known who may read {}",
                path.display()
            ))
            .with_hint("nothing was written")
            .with_hint(
                "--age age1… names a recipient; a .sops.yaml with creation_rules does for every file",
            )),
        }
    }

    fn of(file: &Path, sealed: &SopsFile) -> Self {
        let readers: Result<Vec<Recipient>, _> =
            sealed.recipients().iter().map(|recipient| recipient.parse()).collect();
        let mut kinds: Vec<&str> = sealed.other_kinds();
        if sealed.has_groups() {
            kinds.push("several key groups");
        }
        match readers {
            Ok(readers) if kinds.is_empty() && !readers.is_empty() => Self::Those(readers),
            Ok(_) | Err(_) => {
                let kinds = if kinds.is_empty() { "other keys".to_owned() } else { kinds.join(" and ") };
                Self::Others { file: file.display().to_string(), kinds }
            }
        }
    }
}

/// A bundle from a file of another tool, or from a control plane's config.
pub(in crate::commands) fn import(file: &Path) -> anyhow::Result<Imported> {
    let text = files::read(file)?;
    let name = file.display().to_string();
    if !is_sops(&text) {
        return Ok(Imported { bundle: bundle(&name, &text)?, readers: Readers::Anybody });
    }
    let opened = files::open(file, &text)?.to_yaml();
    let sealed = SopsFile::parse(&text).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    Ok(Imported { bundle: bundle(&name, opened.expose_secret())?, readers: Readers::of(file, &sealed) })
}

fn bundle(name: &str, plain: &str) -> anyhow::Result<Bundle> {
    let source = Source { name, text: plain };
    let is_bundle = plain.lines().any(|line| line.starts_with("certs:") || line.starts_with("trustdinfo:"));
    let bundle = if is_bundle {
        Bundle::parse(source)
            .map_err(|faults| Failure::new(format!("{name} is not a secrets bundle:\n{faults}")))?
    } else {
        let config = Config::parse(source).map_err(|faults| {
            Failure::new(format!("{name} is neither a secrets bundle nor a config:\n{faults}"))
        })?;
        from_config(&config).map_err(|error| Failure::new(format!("{name}: {error}")))?
    };
    let problems = bundle.broken(now());
    if problems.is_empty() {
        return Ok(bundle);
    }
    Err(Failure::new(format!("{name} cannot be used:\n  {}", problems.join("\n  "))).into())
}
