//! Needs: what a description would cause, and the grant that allows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::grant::{Access, Certificate, Credential, Grant, Program, Receiver};
use crate::origin::Origin;

/// One thing a description would cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Runs a program. `files` are those of the description's folder that the argument list names, by SHA-256.
    Program { argv: Vec<String>, path: String, files: BTreeMap<String, String> },
    /// Sends a token to a Proxmox API.
    Credential { secret: String, endpoint: Origin },
    /// Puts a variable of the environment into configurations.
    Variable(String),
    /// Reads or writes a file outside the description's folder. The path is that of its folder, with links followed.
    Folder { path: String, access: Access },
    /// Fetches from a server.
    Host(Origin),
    /// Writes secrets for somebody.
    Recipient(Receiver),
}

impl Need {
    /// The grant that meets this need and no other. A token's certificate is checked by the system's authorities unless the
    /// person says otherwise; a program receives no variables.
    pub fn grant(&self) -> Grant {
        match self.clone() {
            Self::Program { argv, path, files } => {
                Grant::Program(Program { argv, path, files, variables: BTreeSet::new() })
            }
            Self::Credential { secret, endpoint } => Grant::Credential(Credential {
                secret,
                endpoints: BTreeSet::from([endpoint]),
                certificate: Certificate::System,
            }),
            Self::Variable(name) => Grant::Variable(name),
            Self::Folder { path, access } => Grant::Folder { path, access },
            Self::Host(origin) => Grant::Host(origin),
            Self::Recipient(receiver) => Grant::Recipient(receiver),
        }
    }

    /// The kind of grant, as files and lists name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Program { .. } => "program",
            Self::Credential { .. } => "credential",
            Self::Variable(_) => "variable",
            Self::Folder { .. } => "folder",
            Self::Host(_) => "host",
            Self::Recipient(_) => "recipient",
        }
    }
}

/// For people: what would happen, in one line. Argument lists are shown whole, since a person is asked about them.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { argv, path, files } => {
                let words: Vec<String> = argv.iter().map(|word| format!("{word:?}")).collect();
                write!(f, "run the program {path} as [{}]", words.join(", "))?;
                if !files.is_empty() {
                    let names: Vec<&str> = files.keys().map(String::as_str).collect();
                    write!(
                        f,
                        ", with the files of this folder it names as they are now: {}",
                        names.join(", ")
                    )?;
                }
                Ok(())
            }
            Self::Credential { secret, endpoint } => write!(f, "send the token of {secret:?} to {endpoint}"),
            Self::Variable(name) => write!(f, "use the environment variable {name} in configurations"),
            Self::Folder { path, access: Access::Read } => write!(f, "read files in {path:?}"),
            Self::Folder { path, access: Access::Write } => write!(f, "write files in {path:?}"),
            Self::Host(origin) => write!(f, "fetch from {origin}"),
            Self::Recipient(Receiver::Age(key)) => write!(f, "encrypt secrets for {key}"),
            Self::Recipient(Receiver::SeedStorage(storage)) => {
                write!(
                    f,
                    "upload configuration drives, which hold the cluster's keys, to the storage {storage}"
                )
            }
        }
    }
}
