//! What a caller can do about a failure, told from Proxmox's words.
//!
//! Proxmox has no error codes: "not found", "already exists" and "locked" all come as 500 with a sentence. The
//! sentences are matched here and nowhere else. A task that fails ends with the same ones.

use std::collections::BTreeMap;

/// Failures by what a caller can do about them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The VM, volume, storage, task or host is not there (any more).
    NotFound,
    /// The id or name is taken: take another, or look whether it is ours.
    Exists,
    /// Another operation holds the VM: wait until its `lock` is gone.
    Locked { by: String },
    /// A lock of Proxmox's own could not be had in time: try again later.
    Busy,
    /// Somebody else changed the configuration meanwhile: read it again.
    Conflict,
    /// The credentials may not do this.
    Denied(Denial),
    /// The credentials are wrong, expired or missing.
    Unauthenticated,
    /// A parameter is wrong: reasons by parameter.
    Invalid(BTreeMap<String, String>),
    /// The guest did not take a change while running; it stays pending until the next restart.
    StaysPending(BTreeMap<String, String>),
    /// The VM is running and must not be, or the other way round.
    WrongState,
    /// Protection or use by something else forbids this.
    InUse,
    /// The guest agent is off, silent or refuses the command.
    Agent,
    /// The storage has no room left.
    StorageFull,
    /// The storage is not set up for such files, or cannot hold files at all.
    WrongContent,
    /// The bytes are not those the checksum was made of.
    ChecksumMismatch,
    /// The host could not fetch what is behind a URL.
    DownloadFailed,
    /// The cluster has lost its majority and is read-only.
    QuorumLost,
    /// The host that should act cannot be reached by the one that was asked.
    NodeDown,
    /// No answer in time.
    Timeout,
    /// Proxmox does not know this call, parameter or method.
    NotImplemented,
    /// No connection to the endpoint.
    Unreachable,
    /// The endpoint showed a certificate that is not trusted.
    Certificate(UnknownCertificate),
    /// The connection broke before the reply was complete.
    Lost,
    /// The reply is not what this client understands.
    Unreadable,
    /// Proxmox said no, in words this client has no class for.
    Other,
}

/// What the credentials lack, as far as Proxmox says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denial {
    /// Where the privilege is needed: `/vms/100`.
    pub path: Option<String>,
    /// Any one of these would do.
    pub privileges: Vec<String>,
    /// Only `root@pam`, logged in by password, may do this; no token can.
    pub root_only: bool,
}

/// A certificate that is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCertificate {
    pub fingerprint: talmox_types::Fingerprint,
    /// Why it is not trusted.
    pub reason: String,
    /// Whether a trusted issuer vouches for it, and only its fingerprint is not an allowed one.
    pub vouched_for: bool,
}

/// More parameters than any call has.
const MOST_REASONS: usize = 100;

impl ErrorKind {
    /// The same with something done to every text a server had a part in.
    pub(crate) fn map_texts(self, map: &dyn Fn(&str) -> String) -> Self {
        let all = |reasons: BTreeMap<String, String>| -> BTreeMap<String, String> {
            reasons
                .into_iter()
                .take(MOST_REASONS)
                .map(|(parameter, reason)| (map(&parameter), map(&reason)))
                .collect()
        };
        match self {
            Self::Locked { by } => Self::Locked { by: map(&by) },
            Self::Denied(Denial { path, privileges, root_only }) => Self::Denied(Denial {
                path: path.map(|path| map(&path)),
                privileges: privileges.iter().map(|privilege| map(privilege)).collect(),
                root_only,
            }),
            Self::Invalid(reasons) => Self::Invalid(all(reasons)),
            Self::StaysPending(reasons) => Self::StaysPending(all(reasons)),
            Self::Certificate(UnknownCertificate { fingerprint, reason, vouched_for }) => {
                Self::Certificate(UnknownCertificate { fingerprint, reason: map(&reason), vouched_for })
            }
            Self::NotFound
            | Self::Exists
            | Self::Busy
            | Self::Conflict
            | Self::Unauthenticated
            | Self::WrongState
            | Self::InUse
            | Self::Agent
            | Self::StorageFull
            | Self::WrongContent
            | Self::ChecksumMismatch
            | Self::DownloadFailed
            | Self::QuorumLost
            | Self::NodeDown
            | Self::Timeout
            | Self::NotImplemented
            | Self::Unreachable
            | Self::Lost
            | Self::Unreadable
            | Self::Other => self,
        }
    }
}

const ROOT_ONLY: ErrorKind =
    ErrorKind::Denied(Denial { path: None, privileges: Vec::new(), root_only: true });

/// Parts of sentences and what they mean; the first match counts.
const SENTENCES: &[(&str, ErrorKind)] = &[
    ("no quorum", ErrorKind::QuorumLost),
    ("checksum mismatch (file change by other user", ErrorKind::Conflict),
    ("detected modified configuration", ErrorKind::Conflict),
    ("can't lock file", ErrorKind::Busy),
    ("cfs-lock", ErrorKind::Busy),
    ("got lock request timeout", ErrorKind::Busy),
    ("-locked command timed out", ErrorKind::Busy),
    ("got no worker upid", ErrorKind::Busy),
    ("guest agent", ErrorKind::Agent),
    ("qga command", ErrorKind::Agent),
    ("out of space", ErrorKind::StorageFull),
    ("not enough free space", ErrorKind::StorageFull),
    ("No space left on device", ErrorKind::StorageFull),
    ("insufficient free space", ErrorKind::StorageFull),
    ("is not configured for content-type", ErrorKind::WrongContent),
    ("not a file based storage", ErrorKind::WrongContent),
    ("checksum mismatch: got", ErrorKind::ChecksumMismatch),
    ("download failed", ErrorKind::DownloadFailed),
    ("already exists", ErrorKind::Exists),
    ("File exists", ErrorKind::Exists),
    ("already defined", ErrorKind::Exists),
    ("already used", ErrorKind::Exists),
    ("refusing to override existing file", ErrorKind::Exists),
    ("is already a pool member", ErrorKind::Exists),
    ("protection mode enabled", ErrorKind::InUse),
    ("is still in use", ErrorKind::InUse),
    ("used in HA resources", ErrorKind::InUse),
    ("is not empty", ErrorKind::InUse),
    ("already running", ErrorKind::WrongState),
    ("not running", ErrorKind::WrongState),
    ("is running - destroy failed", ErrorKind::WrongState),
    ("VM is paused", ErrorKind::WrongState),
    ("if VM is running", ErrorKind::WrongState),
    ("convert a template to a template", ErrorKind::WrongState),
    ("if it's a template", ErrorKind::WrongState),
    ("can't migrate running VM", ErrorKind::WrongState),
    ("does not exist", ErrorKind::NotFound),
    ("unable to find configuration file", ErrorKind::NotFound),
    ("no such", ErrorKind::NotFound),
    ("No such", ErrorKind::NotFound),
    ("not HA managed", ErrorKind::NotFound),
    ("hostname lookup", ErrorKind::NotFound),
    ("got timeout", ErrorKind::Timeout),
    ("only root can", ROOT_ONLY),
    ("Only root ", ROOT_ONLY),
];

/// The class of a refusal with its status, Proxmox's words and its reasons by parameter.
pub(crate) fn classify(status: u16, words: &str, errors: &BTreeMap<String, String>) -> ErrorKind {
    match status {
        401 => ErrorKind::Unauthenticated,
        403 => denied(words),
        400 => by_parameter(words, errors),
        501 | 505 | 506 => ErrorKind::NotImplemented,
        595 => ErrorKind::NodeDown,
        596 | 597 | 599 => ErrorKind::Timeout,
        _ => by_words(words),
    }
}

/// The class of a sentence alone, such as a task's last words.
pub(crate) fn by_words(words: &str) -> ErrorKind {
    if let Some(lock) = words.split_once("VM is locked (").and_then(|(_, rest)| rest.split_once(')')) {
        return ErrorKind::Locked { by: lock.0.to_owned() };
    }
    if words.contains("Permission check failed") {
        return denied(words);
    }
    if let Some((_, reasons)) = words.split_once("Parameter verification failed.") {
        let reasons =
            reasons.split_once(':').map(|(key, reason)| (key.trim().to_owned(), reason.trim().to_owned()));
        return by_parameter(words, &reasons.into_iter().collect());
    }
    // The cluster's file system cannot be written to while there is no quorum, not even by root.
    if words.contains("'/etc/pve/") && words.contains("Permission denied") {
        return ErrorKind::QuorumLost;
    }
    SENTENCES.iter().find(|(part, _)| words.contains(part)).map_or(ErrorKind::Other, |(_, kind)| kind.clone())
}

fn by_parameter(words: &str, errors: &BTreeMap<String, String>) -> ErrorKind {
    if errors.is_empty() {
        return if words.contains("Parameter verification failed") {
            ErrorKind::Invalid(BTreeMap::new())
        } else {
            by_words(words)
        };
    }
    if errors.values().any(|reason| reason.contains("hotplug problem")) {
        return ErrorKind::StaysPending(errors.clone());
    }
    // Some refusals are about the world and not about how the parameter was written.
    let about_the_world =
        |kind: &ErrorKind| matches!(kind, ErrorKind::NotFound | ErrorKind::Exists | ErrorKind::Denied(_));
    match errors.values().map(|reason| by_words(reason)).find(about_the_world) {
        Some(kind) if errors.len() == 1 => kind,
        _ => ErrorKind::Invalid(errors.clone()),
    }
}

/// Reads `Permission check failed (/vms/100, VM.Audit|VM.Config.Disk)`.
fn denied(words: &str) -> ErrorKind {
    let inside = words.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map(|(inside, _)| inside);
    match inside {
        Some(missing) if missing.ends_with("does not exist") => ErrorKind::NotFound,
        Some(inside) => match inside.split_once(", ") {
            Some((path, privileges)) if path.starts_with('/') => ErrorKind::Denied(Denial {
                path: Some(path.to_owned()),
                privileges: privileges.split('|').map(str::to_owned).collect(),
                root_only: false,
            }),
            _ => ErrorKind::Denied(Denial::default()),
        },
        None => ErrorKind::Denied(Denial::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, words: &str) -> ErrorKind {
        classify(status, words, &BTreeMap::new())
    }

    #[test]
    fn sentences_of_proxmox() {
        for (words, expected) in [
            ("Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist", ErrorKind::NotFound),
            ("hostname lookup 'pve9' failed - failed to get address info", ErrorKind::NotFound),
            ("unable to create VM 100 - VM 100 already exists on node 'pve1'", ErrorKind::Exists),
            ("unable to create VM 121: config file already exists", ErrorKind::Exists),
            ("VM is locked (clone)", ErrorKind::Locked { by: "clone".to_owned() }),
            ("can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", ErrorKind::Busy),
            ("create pool failed: cfs-lock 'file-user_cfg' error: no quorum!", ErrorKind::QuorumLost),
            ("cfs-lock 'storage-nfs' error: got lock request timeout", ErrorKind::Busy),
            ("cluster not ready - no quorum?", ErrorKind::QuorumLost),
            (
                "unable to open file '/etc/pve/nodes/pve1/qemu-server/2014.conf.tmp.14203' - Permission denied",
                ErrorKind::QuorumLost,
            ),
            ("unable to open file '/mnt/images/x' - Permission denied", ErrorKind::Other),
            ("checksum mismatch (file change by other user?)", ErrorKind::Conflict),
            ("VM 100 already running", ErrorKind::WrongState),
            ("VM 100 is running - destroy failed", ErrorKind::WrongState),
            ("QEMU guest agent is not running", ErrorKind::Agent),
            ("can't remove VM 100 - protection mode enabled", ErrorKind::InUse),
            ("zfs error: cannot create 'rpool/x': out of space", ErrorKind::StorageFull),
            ("storage 'nfs' is not configured for content-type 'import'", ErrorKind::WrongContent),
            ("can't upload to storage type 'lvm', not a file based storage!", ErrorKind::WrongContent),
            ("checksum mismatch: got 'a' != expect 'b', aborting", ErrorKind::ChecksumMismatch),
            ("download failed: exit code 4", ErrorKind::DownloadFailed),
            ("shrinking disks is not supported", ErrorKind::Other),
        ] {
            assert_eq!(kind(500, words), expected, "{words}");
        }
        assert_eq!(kind(595, "No route to host"), ErrorKind::NodeDown);
        assert_eq!(kind(596, "Connection timed out"), ErrorKind::Timeout);
        assert_eq!(kind(501, "Method 'GET /foo' not implemented"), ErrorKind::NotImplemented);
    }

    #[test]
    fn a_denial_names_privilege_and_path() {
        let denial = Denial {
            path: Some("/storage/local".to_owned()),
            privileges: vec!["Datastore.Audit".to_owned(), "Datastore.AllocateSpace".to_owned()],
            root_only: false,
        };
        let words = "Permission check failed (/storage/local, Datastore.Audit|Datastore.AllocateSpace)";
        assert_eq!(kind(403, words), ErrorKind::Denied(denial.clone()));
        assert_eq!(by_words(&format!("403 {words}")), ErrorKind::Denied(denial));
        assert_eq!(kind(403, "Permission check failed (pool 'x' does not exist)"), ErrorKind::NotFound);
        assert_eq!(kind(403, "Permission check failed"), ErrorKind::Denied(Denial::default()));
    }

    #[test]
    fn parameters_that_speak_of_the_world() {
        let one = |key: &str, reason: &str| BTreeMap::from([(key.to_owned(), reason.to_owned())]);
        let failed = "Parameter verification failed.";
        assert_eq!(classify(400, failed, &one("upid", "no such task")), ErrorKind::NotFound);
        assert_eq!(classify(400, failed, &one("vmid", "VM 110 already exists")), ErrorKind::Exists);
        assert_eq!(classify(400, failed, &one("storage", "No such storage.")), ErrorKind::NotFound);
        let bad = one("cores", "type check ('integer') failed - got 'abc'");
        assert_eq!(classify(400, failed, &bad), ErrorKind::Invalid(bad));
        let task = "400 Parameter verification failed. net1: hotplug problem - error on hot-unplugging device 'net1'";
        assert!(matches!(by_words(task), ErrorKind::StaysPending(reasons) if reasons.contains_key("net1")));
    }
}
