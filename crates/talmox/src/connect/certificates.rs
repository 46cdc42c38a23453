//! How the certificates of Proxmox are checked: what the person trusts, narrowed by what the description says.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use talmox_exec::preflight::Trusted;
use talmox_pve::client::Trust;
use talmox_trust::Certificate;
use talmox_types::Fingerprint;
use talmox_types::desired::Proxmox;

use crate::failure::Failure;
use crate::regular_file;
use crate::trust::Folder;

/// A file of authorities is a page of text.
const LARGEST: u64 = 1 << 20;

/// What the person trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    System,
    Fingerprints(Vec<Fingerprint>),
    /// Of a grant the file must be the one that was allowed.
    Authority {
        file: PathBuf,
        digest: Option<String>,
    },
    Unchecked,
}

impl Base {
    /// What grants of one kind allow together.
    pub(super) fn of_grants<'g>(certificates: impl Iterator<Item = &'g Certificate>) -> Self {
        let mut all = Vec::new();
        for certificate in certificates {
            match certificate {
                Certificate::System => return Self::System,
                Certificate::Unchecked => return Self::Unchecked,
                Certificate::Authority { file, digest } => {
                    return Self::Authority { file: file.into(), digest: Some(digest.clone()) };
                }
                Certificate::Fingerprints(own) => all.extend(own.iter().copied()),
            }
        }
        Self::Fingerprints(all)
    }
}

/// What is trusted in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificates {
    base: Base,
    by: String,
    /// Fingerprints of the description: one of them must fit besides.
    narrowed: Vec<Fingerprint>,
    /// The CA file of the description. It narrows nothing but a check that the person switched off: an authority the person did not
    /// name would widen any other.
    ca_file: Option<String>,
}

impl Certificates {
    pub(super) fn new(base: Base, by: &str, proxmox: &Proxmox) -> Result<Self, Failure> {
        if let Base::Fingerprints(own) = &base
            && !proxmox.fingerprints.is_empty()
            && !own.iter().any(|one| proxmox.fingerprints.contains(one))
        {
            return Err(Failure::new(format!(
                "no certificate can be right: proxmox_fingerprints of the description names none of the fingerprints of {by}"
            ))
            .with_hint("one of them is of another host, or from before its certificate was renewed"));
        }
        let ca_file =
            proxmox.ca_file.clone().filter(|_| base == Base::Unchecked && proxmox.fingerprints.is_empty());
        Ok(Self { base, by: by.to_owned(), narrowed: proxmox.fingerprints.clone(), ca_file })
    }

    /// Whether nothing but the system vouches for the endpoints: then a person may be asked to compare a fingerprint.
    pub(super) fn is_system(&self) -> bool {
        self.base == Base::System
    }

    pub(super) fn in_words(&self) -> Trusted {
        match &self.base {
            Base::Fingerprints(_) => Trusted::Fingerprints,
            _ if !self.narrowed.is_empty() => Trusted::Fingerprints,
            Base::Authority { file, .. } => Trusted::Authority(file.display().to_string()),
            Base::Unchecked if self.ca_file.is_some() => {
                Trusted::Authority(self.ca_file.clone().unwrap_or_default())
            }
            Base::Unchecked => Trusted::Insecure,
            Base::System => Trusted::System,
        }
    }

    pub(super) fn warnings(&self, proxmox: &Proxmox) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.base == Base::Unchecked && self.narrowed.is_empty() && self.ca_file.is_none() {
            warnings.push(format!(
                "warning: certificates are not checked ({}): anybody on the network can read the credentials; \
                 TALMOX_FINGERPRINT does without that",
                self.by
            ));
        }
        if proxmox.insecure && self.base != Base::Unchecked {
            warnings.push(
                "warning: proxmox_insecure of the description is not obeyed: only you decide that a certificate is not checked"
                    .to_owned(),
            );
        }
        warnings
    }

    /// The trust itself.
    pub(super) fn load(&self, folder: &Folder) -> Result<Trust, Failure> {
        let trust = match &self.base {
            Base::Fingerprints(fingerprints) => Trust::Fingerprints(fingerprints.clone()),
            Base::Unchecked => match &self.ca_file {
                Some(file) => Trust::Authorities(authorities(&folder.readable(file)?, None)?),
                None => Trust::Insecure,
            },
            Base::System => Trust::System,
            Base::Authority { file, digest } => Trust::Authorities(authorities(file, digest.as_deref())?),
        };
        Ok(trust.narrowed(self.narrowed.clone()))
    }
}

fn authorities(file: &Path, digest: Option<&str>) -> Result<String, Failure> {
    let text = regular_file::text(file, LARGEST).map_err(|error| {
        Failure::new(format!("could not read the certificate authority {}: {error}", file.display()))
            .with_hint("on a Proxmox host it is /etc/pve/pve-root-ca.pem")
    })?;
    if digest.is_some_and(|digest| digest != sha256(text.as_bytes())) {
        return Err(Failure::new(format!(
            "{} is not the file that you allowed: it has changed",
            file.display()
        ))
        .with_hint("if it was renewed on purpose: talmox trust -f DIR --forget, and allow it again"));
    }
    Ok(text.to_string())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The grant for a file of authorities as it is now.
pub(crate) fn ca_file(file: &Path) -> Result<Certificate, Failure> {
    let text = authorities(file, None)?;
    let file =
        std::path::absolute(file).map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    Ok(Certificate::Authority { file: file.display().to_string(), digest: sha256(text.as_bytes()) })
}

impl fmt::Display for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base {
            Base::System => f.write_str("what this system trusts")?,
            Base::Fingerprints(_) => write!(f, "fingerprints of {}", self.by)?,
            Base::Authority { file, .. } => write!(f, "{}, by {}", file.display(), self.by)?,
            Base::Unchecked => write!(f, "not checked ({})", self.by)?,
        }
        if !self.narrowed.is_empty() {
            f.write_str(", and one of proxmox_fingerprints")?;
        }
        Ok(())
    }
}
