//! What a person can do next about a failed call.

use std::borrow::Cow;

use talmox_types::shell::quoted;

use crate::client::classify::Denial;
use crate::client::error::changes_nothing;
use crate::client::{Error, ErrorKind, Outcome, TaskError, Upid};

impl Error {
    /// The next things to look at or do, most useful first.
    pub fn hints(&self) -> Vec<String> {
        let mut hints = self.hints_by_kind();
        if self.outcome() == Outcome::MayHaveHappened && !changes_nothing(self.call()) {
            hints.push("look at what is there before asking again: the request was sent".to_owned());
        }
        hints
    }

    /// The VM the call was about.
    fn vmid(&self) -> Option<&str> {
        self.call().split_once("/qemu/").and_then(|(_, rest)| rest.split('/').next())
    }

    /// The storage the call was about.
    fn storage(&self) -> Option<&str> {
        self.call().split_once("/storage/").and_then(|(_, rest)| rest.split('/').next())
    }

    /// What a download needs: of rights it asks for together Proxmox does not say which one is missing.
    fn download_rights(&self) -> Option<String> {
        let path = self.call().split_once("/nodes/")?.1.strip_suffix("/download-url")?;
        let (node, storage) = path.split_once("/storage/")?;
        Some(format!(
            "the credentials need Datastore.AllocateTemplate on /storage/{storage}, and Sys.AccessNetwork on \
             /nodes/{node} (or Sys.Audit and Sys.Modify on /)"
        ))
    }

    /// What making a VM needs: Proxmox accepts it from two places, and names neither.
    fn making_rights(&self) -> Option<String> {
        let path = self.call().strip_prefix("POST ")?;
        let makes = path.ends_with("/qemu") || path.ends_with("/clone");
        makes.then(|| {
            "the credentials need VM.Allocate on the pool the VM is put into, or on /vms with propagation"
                .to_owned()
        })
    }

    fn wrong_content(&self) -> Vec<String> {
        let storage = self.storage().unwrap_or("STORAGE");
        let wanted = self.words().split("content-type '").nth(1).and_then(|rest| rest.split('\'').next());
        let Some(wanted) = wanted else {
            return vec![format!(
                "{storage} holds no files: name a storage that does (dir, nfs, cifs, btrfs, cephfs)"
            )];
        };
        vec![
            format!(
                "allow it there: `pvesm config {storage}` shows what {storage} takes, `pvesm set {storage} --content \
                 …,{wanted}` adds to it"
            ),
            format!("or name another storage that takes {wanted}"),
        ]
    }

    fn hints_by_kind(&self) -> Vec<String> {
        let host = self.endpoint().host();
        match self.kind() {
            ErrorKind::Certificate(certificate) => vec![
                format!(
                    "compare the fingerprint on {host}: `pvenode cert info`, or in the web interface Datacenter → node → \
                     System → Certificates"
                ),
                if certificate.vouched_for {
                    format!("if it is the same, allow the fingerprint {} too", certificate.fingerprint)
                } else {
                    format!(
                        "if it is the same, trust the fingerprint {}, or the cluster's CA (/etc/pve/pve-root-ca.pem)",
                        certificate.fingerprint
                    )
                },
            ],
            ErrorKind::Unauthenticated => vec![
                "a token is USER@REALM!NAME=SECRET; `pveum user token list USER@REALM` shows the names and when each \
                 expires, the secret is shown only when the token is made"
                    .to_owned(),
            ],
            ErrorKind::Denied(denial) => {
                let mut hints = denied(denial);
                if denial.path.is_none() && !denial.root_only {
                    hints.splice(0..0, self.download_rights().or_else(|| self.making_rights()));
                }
                hints
            }
            ErrorKind::Locked { by } => vec![format!(
                "wait until the {by} is done; if no task of that VM runs any more, `qm unlock {}` on its host",
                self.vmid().unwrap_or("VMID")
            )],
            ErrorKind::QuorumLost => vec![
                "the cluster is read-only until a majority of its hosts is back: `pvecm status` on any of them".to_owned(),
            ],
            ErrorKind::NodeDown => {
                vec!["the host that should act cannot be reached from the one that was asked: is it up?".to_owned()]
            }
            ErrorKind::Unreachable => vec![format!(
                "is {host} up, and does a firewall let port {} through?",
                self.endpoint().port()
            )],
            ErrorKind::Lost | ErrorKind::Timeout => {
                vec!["the tasks of the host (`pvenode task list`) tell whether it still works on it".to_owned()]
            }
            ErrorKind::StorageFull => vec!["`pvesm status` on the host shows what is left".to_owned()],
            ErrorKind::WrongContent => self.wrong_content(),
            ErrorKind::ChecksumMismatch => vec![OTHER_BYTES.to_owned()],
            ErrorKind::DownloadFailed => vec![download_failed(self.words(), host)],
            ErrorKind::Busy => vec!["another operation holds the lock: try again in a while".to_owned()],
            ErrorKind::Conflict => vec!["somebody else changed this meanwhile: look again and repeat".to_owned()],
            ErrorKind::NotImplemented => vec!["this version of Proxmox does not know the call".to_owned()],
            ErrorKind::StaysPending(_) => vec!["the change is kept and takes effect at the next restart".to_owned()],
            ErrorKind::NotFound
            | ErrorKind::Exists
            | ErrorKind::Invalid(_)
            | ErrorKind::WrongState
            | ErrorKind::InUse
            | ErrorKind::Agent => Vec::new(),
            ErrorKind::Unreadable => vec![format!(
                "is {host} a Proxmox server, and does nothing between here and there change what it says?"
            )],
            ErrorKind::Other => vec![format!(
                "if these words do not say enough: `journalctl -u pvedaemon -u pveproxy` on {host}"
            )],
        }
    }
}

impl TaskError {
    /// The next things to look at or do, most useful first.
    pub fn hints(&self) -> Vec<String> {
        let (mut hints, upid) = match self {
            Self::Failed { upid, words, kind, .. } => (after_failure(upid, words, kind), upid),
            Self::Wait { upid, .. } => {
                (vec!["the task goes on without us: its log tells how far it is".to_owned()], upid)
            }
        };
        hints.push(format!("the whole log: `pvenode task log {}` on {}", pasted(upid), upid.node()));
        hints
    }
}

/// A task's id in a command. That of a token has a `!`, which a shell leaves alone before a letter only in scripts; people
/// know it as it is. Anything stranger is quoted.
fn pasted(upid: &Upid) -> Cow<'_, str> {
    let known = |c: char| c.is_ascii_alphanumeric() || ":@!-_.+=".contains(c);
    if upid.as_str().chars().all(known) { Cow::Borrowed(upid.as_str()) } else { quoted(upid.as_str()) }
}

fn after_failure(upid: &Upid, words: &str, kind: &ErrorKind) -> Vec<String> {
    if words == "unexpected status" {
        return vec![
            "its worker died without a word and left everything as it was: look for a VM with a lock, and for volumes \
             without a VM, before trying again"
                .to_owned(),
        ];
    }
    if words.contains("received interrupt") || words.contains("interrupted by signal") {
        return vec!["somebody stopped it: look at what is there before trying again".to_owned()];
    }
    if let ErrorKind::Denied(denial) = kind {
        return denied(denial);
    }
    let host = upid.node();
    let hint = if let ErrorKind::Locked { by } = kind {
        let unlock = format!("`qm unlock {}` on {host}", quoted(upid.id()));
        format!("wait until the {by} is done; if no task of that VM runs any more, {unlock}")
    } else if *kind == ErrorKind::StorageFull {
        format!("`pvesm status` on {host} shows what is left")
    } else if *kind == ErrorKind::ChecksumMismatch {
        OTHER_BYTES.to_owned()
    } else if *kind == ErrorKind::DownloadFailed {
        download_failed(words, host.as_str())
    } else if *kind == ErrorKind::Busy {
        "another operation holds the lock: try again in a while".to_owned()
    } else {
        return Vec::new();
    };
    vec![hint]
}

const OTHER_BYTES: &str =
    "what came is not what the checksum was made of: compare it with the one the image's maker publishes";

/// Proxmox fetches with wget, which tells by its exit code what went wrong.
fn download_failed(words: &str, host: &str) -> String {
    let code = words.rsplit_once("exit code ").and_then(|(_, code)| code.trim().parse::<u32>().ok());
    match code {
        Some(3) => format!("{host} could not write the file: `pvesm status` there shows what is left"),
        Some(5) => {
            format!("{host} does not trust the certificate of the server: `update-ca-certificates` there")
        }
        Some(8) => "the server has no such file, or did not want to give it: is the URL right?".to_owned(),
        _ => format!(
            "{host} fetches it by itself, and its connection failed or broke off: can it reach the server, does it need \
             a proxy (`http_proxy` in the datacenter's options)? Then run this again"
        ),
    }
}

fn denied(denial: &Denial) -> Vec<String> {
    let both =
        "a token with privilege separation needs it granted twice: to its user and to itself".to_owned();
    match denial {
        Denial { root_only: true, .. } => {
            vec!["only root@pam, logged in by password, may do this; no token can".to_owned()]
        }
        Denial { path: Some(path), privileges, .. } => {
            let mut hints = vec![format!("the credentials need {} on {path}", privileges.join(" or "))];
            if path.starts_with("/vms/") {
                hints.push("Proxmox checks rights first, so the VM may also not exist".to_owned());
            }
            hints.push(both);
            hints
        }
        Denial { .. } => vec![both],
    }
}
