//! Grants: what a person allowed one description, or one run.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::Fingerprint;

use crate::need::Need;
use crate::origin::Origin;

/// One thing a description may cause. There are six kinds, and none of them means "anything".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// This program runs with exactly these arguments.
    Program(Program),
    /// This token is sent to these endpoints.
    Credential(Credential),
    /// Patches may use the environment's variable of this name.
    Variable(String),
    /// Files in this folder, outside the description's own, are read or written. Links are followed first.
    Folder { path: String, access: Access },
    /// talmox itself fetches from this server.
    Host(Origin),
    /// Secrets are written for this receiver.
    Recipient(Receiver),
}

/// A program with its whole argument list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub argv: Vec<String>,
    /// The file that runs, with links followed: another program of the same name is not meant.
    pub path: String,
    /// SHA-256 of each file of the description's folder that the argument list names, by its path. Whoever changes the
    /// description can change those files too.
    pub files: BTreeMap<String, String>,
    /// Variables of the environment it receives besides PATH and HOME.
    pub variables: BTreeSet<String>,
}

/// A token by reference, and where it may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The reference as a description writes it: `file:token`, `env:PROXMOX_VE_API_TOKEN`.
    pub secret: String,
    pub endpoints: BTreeSet<Origin>,
    pub certificate: Certificate,
}

/// How the certificate of an endpoint is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// By the authorities the operating system trusts.
    System,
    /// It must have one of these fingerprints.
    Fingerprints(BTreeSet<Fingerprint>),
    /// By the authorities of this file, as long as it has this SHA-256.
    Authority { file: String, digest: String },
    /// Not at all.
    Unchecked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    /// Writing includes reading.
    Write,
}

/// Who receives secrets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    /// The public key of age that a file is encrypted for.
    Age(String),
    /// The Proxmox storage that configuration drives are uploaded to.
    SeedStorage(String),
}

impl Receiver {
    /// What a grant says of a storage.
    pub const STORAGE: &'static str = "storage:";
}

/// All grants in force for one description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Grants {
    pub fn new(grants: Vec<Grant>) -> Self {
        Self(grants)
    }

    pub fn add(&mut self, grants: impl IntoIterator<Item = Grant>) {
        self.0.extend(grants);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// The one question: may this description cause that?
    pub fn allows(&self, need: &Need) -> bool {
        match need {
            Need::Program { .. } => self.program(need).is_some(),
            Need::Credential { secret, endpoint } => self.credential(secret, endpoint).is_some(),
            Need::Variable(name) => {
                self.iter().any(|grant| matches!(grant, Grant::Variable(own) if own == name))
            }
            Need::Folder { path, access } => self.iter().any(|grant| match grant {
                Grant::Folder { path: own, access: allowed } => allowed >= access && is_within(path, own),
                Grant::Program(_)
                | Grant::Credential(_)
                | Grant::Variable(_)
                | Grant::Host(_)
                | Grant::Recipient(_) => false,
            }),
            Need::Host(origin) => self.iter().any(|grant| matches!(grant, Grant::Host(own) if own == origin)),
            Need::Recipient(receiver) => {
                self.iter().any(|grant| matches!(grant, Grant::Recipient(own) if own == receiver))
            }
        }
    }

    /// The grant for a program: it says which variables the program receives.
    pub fn program(&self, need: &Need) -> Option<&Program> {
        let Need::Program { argv, path, files } = need else { return None };
        self.iter().find_map(|grant| match grant {
            Grant::Program(own) if own.argv == *argv && own.path == *path && own.files == *files => Some(own),
            Grant::Program(_)
            | Grant::Credential(_)
            | Grant::Variable(_)
            | Grant::Folder { .. }
            | Grant::Host(_)
            | Grant::Recipient(_) => None,
        })
    }

    /// The grant for a token at an endpoint: it says how the certificate is checked. The last one wins, since the grants of
    /// this run stand behind those of the file.
    pub fn credential(&self, secret: &str, endpoint: &Origin) -> Option<&Credential> {
        let fitting = self.iter().filter_map(|grant| match grant {
            Grant::Credential(own) if own.secret == secret && own.endpoints.contains(endpoint) => Some(own),
            Grant::Credential(_)
            | Grant::Program(_)
            | Grant::Variable(_)
            | Grant::Folder { .. }
            | Grant::Host(_)
            | Grant::Recipient(_) => None,
        });
        fitting.last()
    }

    /// Names of the environment's variables that patches may use.
    pub fn variables(&self) -> BTreeSet<String> {
        let name = |grant: &Grant| match grant {
            Grant::Variable(name) => Some(name.clone()),
            Grant::Program(_)
            | Grant::Credential(_)
            | Grant::Folder { .. }
            | Grant::Host(_)
            | Grant::Recipient(_) => None,
        };
        self.iter().filter_map(name).collect()
    }

    /// The needs that no grant meets, each once.
    pub fn missing<'n>(&self, needs: &'n [Need]) -> Vec<&'n Need> {
        let mut missing: Vec<&Need> = Vec::new();
        for need in needs.iter().filter(|need| !self.allows(need)) {
            if !missing.contains(&need) {
                missing.push(need);
            }
        }
        missing
    }
}

/// Whether a path is a folder or lies below it. Both are real paths: absolute, without `.`, `..` or links.
fn is_within(path: &str, folder: &str) -> bool {
    std::path::Path::new(path).starts_with(folder)
}
