//! Why a step was not done.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_pve::client::{ChangeError, Error, ErrorKind, Outcome, TaskError, WaitError};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::shell::command;
use talmox_types::{Checksum, HostName, NodeName, Realm, SchematicId, StorageId, Version, VmId};

use crate::images::{ImageError, ImageFault};

/// A step that failed: what was being done to what, and in the source what stood in the way.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("could not {doing}")]
    Call { doing: String, source: Error },
    #[error("could not {doing}")]
    Task { doing: String, source: TaskError },
    #[error("could not {doing}")]
    Wait { doing: String, source: WaitError },
    /// A change that would lose something, and was not sent.
    #[error("could not {doing}")]
    Impossible { doing: String, source: ChangeError },
    /// The VM does not carry the mark it carried when the plan was made. Nothing was done to it.
    #[error("VM {vmid} on {host} is not the one this was planned for: {found}")]
    NotOurs { vmid: VmId, host: HostName, found: String },
    /// A lock that no running task holds: only root can take it away.
    #[error("VM {vmid} on {host} is locked ({lock}) and nothing works on it")]
    Stuck { vmid: VmId, host: HostName, lock: String },
    /// The guest did not react when it was asked to shut down.
    #[error("VM {vmid} on {host} did not shut down within {} s: its guest ignores the ACPI power button", .limit.as_secs())]
    NoShutdown { vmid: VmId, host: HostName, limit: Duration },
    /// Two VMs carry the mark of one node, or are the same template.
    #[error("{whose} has two VMs: {vmid} on {host}, and {other} on {other_host} which should not be")]
    Double { whose: String, vmid: VmId, host: HostName, other: VmId, other_host: HostName },
    /// A removal would take volumes along that nobody has agreed to.
    #[error("VM {vmid} on {host} holds volumes that were not to be destroyed: {}", .volumes.join(", "))]
    WouldLose { vmid: VmId, host: HostName, volumes: Vec<String> },
    /// Every id of a range is taken; `remedy` says what would give more.
    #[error("there is no VMID left for {whose} from {from} to {to}")]
    NoId { whose: String, from: VmId, to: VmId, remedy: &'static str },
    /// An Image Factory, or whoever else has the image, did not give it.
    #[error("could not {doing}")]
    Image { doing: String, source: ImageError },
    /// A schematic names extensions that are not there for that version of Talos.
    #[error("Talos {talos} has no extension {}", .unknown.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "))]
    UnknownExtensions {
        talos: Version,
        factory: String,
        /// Each with the name that was probably meant.
        unknown: Vec<(String, Option<String>)>,
    },
    /// The factory made another id of a schematic than was computed: its images would be others.
    #[error("the Image Factory {factory} calls the schematic {registered}; computed was {computed}")]
    OtherSchematic { factory: String, computed: SchematicId, registered: String },
    /// The bytes that came are not those the checksum was made of.
    #[error("could not {doing}: its {} is {got}, not {}", .expected.algorithm().word(), .expected.value())]
    OtherBytes { doing: String, expected: Checksum, got: String },
    /// An image cannot be unpacked, or this machine has no room for it.
    #[error("could not {doing}")]
    Unpack { doing: String, source: std::io::Error },
    /// An upload broke off and left a part of the file behind, which looks like all of it.
    #[error("{volume} on {host} has {found} bytes and should have {expected}: what brought it broke off")]
    Partial { volume: String, host: HostName, storage: StorageId, found: u64, expected: u64 },
    /// A machine, or the way to it, refused.
    #[error("could not {doing}")]
    Machine { doing: String, source: talmox_talos::Error },
    /// Another machine than the VM has the node's address. It got nothing.
    #[error("the machine at {address} is not {node}: {why}")]
    Stranger { node: NodeName, address: IpAddr, why: String },
    /// A machine in maintenance mode at the address of a node that was configured before. It got nothing.
    #[error(
        "{node} was configured before, and the machine at {address} is in maintenance mode: another one may pretend to be it. \
         Its certificate has the fingerprint {}", .shown.as_deref().unwrap_or("unknown")
    )]
    ConfiguredBefore { node: NodeName, address: IpAddr, vmid: VmId, shown: Option<String> },
    /// A machine in maintenance mode has another certificate than a person approved. It got nothing.
    #[error(
        "the machine at {address} gets no configuration for {node}: its certificate has the fingerprint {}, and {approved} was \
         approved", .shown.as_deref().unwrap_or("unknown")
    )]
    OtherCertificate { node: NodeName, address: IpAddr, shown: Option<String>, approved: String },
    /// A machine did not get there in time.
    #[error("{node} at {address}: waited {} for {waiting_for}; {last_words}", minutes(*.limit))]
    NotThere { node: NodeName, address: IpAddr, waiting_for: String, limit: Duration, last_words: String },
    /// The cluster did not get there in time.
    #[error("the cluster is not healthy after {}: {last_words}", minutes(*.limit))]
    NotHealthy { limit: Duration, last_words: String },
    /// A machine has another configuration than it was given.
    #[error("{node} has another configuration than it was given: {} differ", .fields.join(", "))]
    ReadBack { node: NodeName, fields: Vec<String> },
    /// A change that was on trial is gone again: the machine was not well with it, or nobody could tell in time.
    #[error("{node} took the change back by itself, and is as it was: {}", .fields.join(", "))]
    TakenBack { node: NodeName, fields: Vec<String> },
    /// Somebody else's change stays on trial. Ours on top of it would go back to theirs, and that would stay.
    #[error("{node} has a change of somebody else on trial, still after {}", minutes(*.limit))]
    OtherTrial { node: NodeName, address: IpAddr, limit: Duration },
    /// A machine has a configuration on its disk that is not in force. Sending another would lose it.
    #[error(
        "{node} has a configuration that waits for its restart; Kubernetes is not upgraded before, or that one would be lost"
    )]
    WaitsForRestart { node: NodeName },
    /// A machine has a configuration in force that is not on its disk. Sending another would keep it.
    #[error(
        "{node} has a configuration on trial, which ends by itself; Kubernetes is not upgraded meanwhile"
    )]
    TrialRuns { node: NodeName },
    /// What a machine is to be configured with cannot be told.
    #[error("{node} has no configuration: {reason}")]
    NoConfig { node: NodeName, reason: String },
    /// A machine that joins while authorities are replaced would get one that its neighbours do not believe.
    #[error(
        "{node} gets no configuration: an authority is being replaced, and no control plane says how far that is ({silent})"
    )]
    NoPhase { node: NodeName, silent: String },
    /// Nobody gave the way to the machines, or the secrets it takes.
    #[error("the machines cannot be reached: {lacks}")]
    NoReach { lacks: &'static str },
    /// The bootstrap never became possible.
    #[error("{node} was not bootstrapped: {} did not say whether they have data of etcd", .missing.join(", "))]
    Stalled { node: NodeName, missing: Vec<String> },
    /// Somebody else works on this cluster.
    #[error("{holder} works on this cluster, last seen {seconds} s ago")]
    Leased { holder: String, seconds: u64 },
    /// Manifests or the user's own program failed.
    #[error("could not {doing}: {reason}")]
    HandOver { doing: String, reason: String },
    /// A node does not run the Talos it was to run.
    #[error("{node}: {fault}")]
    Upgrade { node: NodeName, fault: crate::UpgradeFault },
    /// Pods did not leave a node in time; it is open to them again.
    #[error("{node} was not drained within {}: {reason}", minutes(*.limit))]
    Undrained { node: NodeName, limit: Duration, reason: String, budgets: Vec<String> },
    /// A snapshot of etcd could not be taken, or not be used.
    #[error("could not {doing}: {reason}")]
    Etcd { doing: String, reason: String },
    /// A snapshot of etcd has no place to be kept in.
    #[error("could not keep a snapshot of etcd: {reason}")]
    Unkept { reason: String },
    /// An authority that is being replaced stays in the phase it is in.
    #[error("could not replace the authority of {}: {reason}", .realm.name())]
    Rotation { realm: Realm, reason: String },
    /// `is_down` says whether a step before has taken it down already.
    #[error("not allowed to take {node} down: {reason}")]
    Gate { node: String, reason: String, is_down: bool },
    /// As many workers are away as may be.
    #[error("{} up: {}", stay(.held), absences(.away))]
    WorkersAway { held: Vec<NodeName>, away: BTreeMap<NodeName, String> },
    /// What is described as a worker is none.
    #[error(
        "not allowed to take {node} down: it is described as a worker, and {why}: its vote in etcd would be lost"
    )]
    StillVotes { node: NodeName, why: &'static str },
    /// The world changed under the plan; looking again will tell.
    #[error("{what} has changed since it was planned")]
    Changed { what: String },
    /// The VM was there when the plan was made.
    #[error("VM {vmid} on {host} is gone")]
    Gone { vmid: VmId, host: HostName },
    /// The maintenance window ended before what would interrupt a node was begun.
    #[error("nothing is interrupted now ({window})")]
    Closed { window: String },
    /// Told to stop while nothing was under way that had to be finished.
    #[error("interrupted while waiting for {waiting_for}")]
    Interrupted { waiting_for: String },
}

impl StepError {
    pub(crate) fn call(doing: impl Into<String>) -> impl FnOnce(Error) -> Self {
        let doing = doing.into();
        move |source| Self::Call { doing, source }
    }

    pub(crate) fn task(doing: impl Into<String>) -> impl FnOnce(TaskError) -> Self {
        let doing = doing.into();
        move |source| Self::Task { doing, source }
    }

    pub(crate) fn impossible(doing: impl Into<String>) -> impl FnOnce(ChangeError) -> Self {
        let doing = doing.into();
        move |source| Self::Impossible { doing, source }
    }

    pub(crate) fn machine(doing: impl Into<String>) -> impl FnOnce(talmox_talos::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Machine { doing, source }
    }

    /// The class of what Proxmox said, if it was Proxmox who refused.
    pub fn kind(&self) -> Option<&ErrorKind> {
        match self {
            Self::Call { source, .. } | Self::Wait { source: WaitError::Call { source, .. }, .. } => {
                Some(source.kind())
            }
            Self::Task { source, .. } => source.kind(),
            Self::Wait { source: WaitError::Deadline { .. }, .. }
            | Self::Impossible { .. }
            | Self::NotOurs { .. }
            | Self::Stuck { .. }
            | Self::NoShutdown { .. }
            | Self::Double { .. }
            | Self::WouldLose { .. }
            | Self::NoId { .. }
            | Self::Image { .. }
            | Self::UnknownExtensions { .. }
            | Self::OtherSchematic { .. }
            | Self::OtherBytes { .. }
            | Self::Unpack { .. }
            | Self::Partial { .. }
            | Self::Machine { .. }
            | Self::Stranger { .. }
            | Self::ConfiguredBefore { .. }
            | Self::OtherCertificate { .. }
            | Self::NotThere { .. }
            | Self::NotHealthy { .. }
            | Self::ReadBack { .. }
            | Self::TakenBack { .. }
            | Self::OtherTrial { .. }
            | Self::WaitsForRestart { .. }
            | Self::TrialRuns { .. }
            | Self::NoConfig { .. }
            | Self::NoPhase { .. }
            | Self::NoReach { .. }
            | Self::Stalled { .. }
            | Self::Leased { .. }
            | Self::HandOver { .. }
            | Self::Upgrade { .. }
            | Self::Undrained { .. }
            | Self::Etcd { .. }
            | Self::Unkept { .. }
            | Self::Rotation { .. }
            | Self::Gate { .. }
            | Self::WorkersAway { .. }
            | Self::StillVotes { .. }
            | Self::Changed { .. }
            | Self::Gone { .. }
            | Self::Closed { .. }
            | Self::Interrupted { .. } => None,
        }
    }

    /// Whether the plan is out of date: another look and another plan may well get there.
    pub fn wants_another_plan(&self) -> bool {
        matches!(self, Self::Changed { .. } | Self::Gone { .. } | Self::WorkersAway { .. })
            || self.kind() == Some(&ErrorKind::Conflict)
    }

    /// Whether nobody can tell what became of the last call.
    pub(crate) fn may_have_happened(&self) -> bool {
        !sabotaged(Defect::LostReplyIsFailure)
            && matches!(self, Self::Call { source, .. } if source.outcome() == Outcome::MayHaveHappened)
    }

    /// The next things to look at or do, most useful first. Running the same command again is always safe.
    #[expect(clippy::too_many_lines, reason = "one arm for each error, and most are a line or two")]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Call { source, .. } | Self::Wait { source: WaitError::Call { source, .. }, .. } => {
                source.hints()
            }
            Self::Task { source, .. } => source.hints(),
            Self::Stuck { vmid, host, lock } => vec![
                format!(
                    "the {lock} was cut off; no token can take its lock away. On {host}, if nobody needs the VM:"
                ),
                format!("qm unlock {vmid}"),
                format!("qm destroy {vmid}"),
            ],
            Self::Double { other, other_host, .. } => {
                vec![format!("look at VM {other} on {other_host}, and remove it there if it is not needed")]
            }
            Self::WouldLose { vmid, host, .. } => vec![format!(
                "`qm config {vmid}` on {host} shows them: move them to another VM, or plan again"
            )],
            Self::NoId { remedy, .. } => vec![(*remedy).to_owned()],
            Self::Image { source, .. } => image_hints(source),
            Self::UnknownExtensions { factory, talos, unknown } => {
                let meant = unknown.iter().filter_map(|(name, meant)| Some((name, meant.as_ref()?)));
                let mut hints: Vec<String> =
                    meant.map(|(name, meant)| format!("{name}: did you mean {meant}?")).collect();
                hints.push(format!("all of them: {factory}/version/v{talos}/extensions/official"));
                hints
            }
            Self::OtherSchematic { .. } => vec![
                "something between here and the factory changes what is sent, or the factory is another program"
                    .to_owned(),
            ],
            Self::OtherBytes { .. } => vec![
                "compare the checksum with the one the image's maker publishes; if that is the same, fetch it again"
                    .to_owned(),
            ],
            // Bounds of our own; a file system's limit has a number.
            Self::Unpack { source, .. }
                if source.kind() == std::io::ErrorKind::FileTooLarge && source.raw_os_error().is_none() =>
            {
                vec![
                    "check the image's URL and its checksum: what is behind it is no image of a disk".to_owned(),
                    "nothing was sent to Proxmox".to_owned(),
                ]
            }
            Self::Unpack { source, .. } if is_about_bytes(source) => {
                vec!["what is behind the URL is not compressed in that way, or not whole".to_owned()]
            }
            Self::Unpack { .. } => {
                let place = std::env::temp_dir();
                vec![format!("images are unpacked in {}; TMPDIR names another folder", place.display())]
            }
            Self::Partial { volume, host, .. } => {
                vec![format!("remove it on {host} and run this again: `{}`", command(&["pvesm", "free", volume]))]
            }
            Self::NotOurs { vmid, .. } => vec![format!("nothing was done to VM {vmid}: plan again")],
            Self::Changed { .. } | Self::Gone { .. } => vec!["plan again".to_owned()],
            Self::Wait { source: WaitError::Deadline { .. }, .. } => vec![
                "what was waited for may still come: `pvenode task list` on the host shows what works on it"
                    .to_owned(),
            ],
            Self::Machine { source, .. } => machine_hints(source),
            Self::Stranger { address, .. } => {
                vec![format!("find out what has the address {address}, or give the node another")]
            }
            Self::ConfiguredBefore { node, vmid, shown, .. } => {
                let shown = shown.as_ref().map(|shown| format!("={shown}")).unwrap_or_default();
                vec![
                    format!("compare the fingerprint with the one on the console of VM {vmid}; if they are the same:"),
                    format!("talmox apply --reconfigure {node}{shown}"),
                    format!("or build it anew, with empty disks: talmox apply --replace {node}"),
                ]
            }
            Self::OtherCertificate { node, .. } => vec![
                "a machine that restarts in maintenance mode makes another certificate: plan again, and compare the fingerprint \
                 with the one on its console"
                    .to_owned(),
                format!("or build it anew, with empty disks: talmox apply --replace {node}"),
            ],
            Self::NotThere { node, address, .. } => vec![
                format!("the VM's console in Proxmox shows what {node} is doing"),
                format!("can this machine reach {address}, port 50000?"),
                "what was waited for may still come: run this again".to_owned(),
            ],
            Self::NotHealthy { .. } => vec![
                "talmox health shows every check".to_owned(),
                "a node that does not get there by itself may need a restart, one at a time: talosctl -n ADDRESS reboot"
                    .to_owned(),
                AGAIN.to_owned(),
            ],
            Self::Stalled { .. } => vec!["talmox status shows what each of them says".to_owned()],
            Self::TakenBack { .. } => vec![
                "it did not answer, or was not well, with the change: look at what it would do to its network".to_owned(),
            ],
            Self::OtherTrial { node, address, .. } => vec![
                format!(
                    "whoever began it (talosctl apply-config --mode=try) can end it, or it ends by itself; talmox diff {node} shows it"
                ),
                format!("a restart ends it too: talosctl -n {address} reboot"),
                AGAIN.to_owned(),
            ],
            Self::ReadBack { node, .. } => vec![format!("talmox diff {node} shows what it has")],
            Self::NoReach { .. } => vec![
                "talmox apply --until vms does without, for what is not in a cluster yet: no control plane leaves one by it"
                    .to_owned(),
            ],
            Self::NoShutdown { vmid, .. } => vec![
                "talmox apply --allow-reboot --force-stop stops it hard after that time, and starts it again".to_owned(),
                format!("or restart it by hand: qm stop {vmid} && qm start {vmid}"),
            ],
            Self::Leased { .. } => vec![
                "wait until they are done, or ask them".to_owned(),
                "--take-over, if whoever that was is gone".to_owned(),
            ],
            Self::Rotation { .. } => vec![AGAIN.to_owned(), "talmox status shows how far it is".to_owned()],
            Self::Unkept { .. } => vec![
                "nothing risky was begun; make room there, or let etcd_backup.dir name a folder that can be written to".to_owned(),
                AGAIN.to_owned(),
            ],
            Self::Etcd { .. } => vec!["talmox etcd status shows what each member says".to_owned()],
            Self::Upgrade { node, fault } => fault.hints(node.as_str()),
            Self::Gate { is_down: false, .. } => vec![
                "talmox health shows what etcd lacks".to_owned(),
                "nothing was taken down: run this again once it is well".to_owned(),
            ],
            Self::Gate { is_down: true, .. } => {
                vec!["talmox health shows what etcd lacks".to_owned(), AGAIN.to_owned()]
            }
            Self::WorkersAway { away, .. } => {
                let replaced: Vec<String> = away.keys().map(|node| format!("--replace {node}")).collect();
                vec![
                    "talmox status and talmox health say what is wrong; the others go on once it is back".to_owned(),
                    format!("talmox apply {} builds anew what does not come back", replaced.join(" ")),
                    format!("--max-unavailable {}, if more may be away", away.len() + 1),
                ]
            }
            Self::StillVotes { node, .. } => vec![
                format!("make it a control plane again in the description: {node} with controller: true"),
                format!(
                    "take {node} out of the description, and let it leave: talmox apply --remove {node}; then describe it as a \
                     worker"
                ),
            ],
            Self::Undrained { budgets, .. } if !budgets.is_empty() => vec![
                format!("{} allows no pod to leave: more replicas, or a wider budget", budgets.join(", ")),
                "kubectl get poddisruptionbudgets -A".to_owned(),
            ],
            Self::Undrained { .. } => vec!["kubectl get pods -A -o wide shows who is still there".to_owned()],
            Self::WaitsForRestart { node } => vec![
                "apply --allow-reboot restarts it first".to_owned(),
                format!("talmox diff {node} shows what waits; talosctl reboot brings it into force too"),
            ],
            Self::TrialRuns { node } => vec![
                format!("whoever began it (talosctl apply-config --mode=try) can end it; talmox diff {node} shows it"),
                AGAIN.to_owned(),
            ],
            Self::NoConfig { .. } => {
                vec!["put that right and run this again: what was done is not done twice".to_owned()]
            }
            Self::NoPhase { .. } => no_phase(),
            Self::HandOver { .. } => vec![
                "kubectl get pods -A shows how far Kubernetes is; its words are above".to_owned(),
                AGAIN.to_owned(),
            ],
            Self::Impossible { .. }
            | Self::Closed { .. }
            | Self::Interrupted { .. } => Vec::new(),
        }
    }
}

/// What to do where no control plane says how far a rotation is.
fn no_phase() -> Vec<String> {
    vec![
        "bring a control plane back, then run this again: talmox health shows what is missing".to_owned(),
        "if all of them are lost: talmox apply --restore FILE builds the cluster from a snapshot".to_owned(),
    ]
}

fn minutes(limit: Duration) -> String {
    match (limit.as_secs() / 60, limit.as_secs() % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// `worker-1, worker-3 stay`.
fn stay(held: &[NodeName]) -> String {
    let names: Vec<&str> = held.iter().map(NodeName::as_str).collect();
    format!("{} {}", names.join(", "), if names.len() == 1 { "stays" } else { "stay" })
}

fn absences(away: &BTreeMap<NodeName, String>) -> String {
    let each = away.iter().map(|(node, why)| format!("{node} is away ({why})"));
    each.collect::<Vec<_>>().join("; ")
}

fn machine_hints(error: &talmox_talos::Error) -> Vec<String> {
    use talmox_talos::Kind;
    match error.kind() {
        Kind::NotReached | Kind::Uncertain => {
            vec![format!("is {} up, and can this machine reach its port 50000?", error.node)]
        }
        Kind::NotTrusted => vec![format!(
            "the machine at {} has a certificate of another authority: are these the cluster's secrets?",
            error.node
        )],
        Kind::Denied => vec!["is the certificate that of an administrator (os:admin)?".to_owned()],
        Kind::NotReady
        | Kind::AlreadyThere
        | Kind::NotFound
        | Kind::Unsupported
        | Kind::Refused
        | Kind::Failed => {
            vec![format!("talosctl -n {} dmesg shows what it is doing", error.node), AGAIN.to_owned()]
        }
    }
}

/// What helps against much that passes by itself.
const AGAIN: &str = "run this again: what was done is not done twice";

fn image_hints(error: &ImageError) -> Vec<String> {
    let host = error.host();
    match error.kind {
        ImageFault::Unreachable => vec![
            format!("is {host} up, and can this machine reach it?"),
            "factory_url names another Image Factory, one of your own for example".to_owned(),
        ],
        ImageFault::BrokeOff => vec![
            format!(
                "run this again; if it always breaks off, {host} is not well, or what is between cuts it"
            ),
            "factory_url names another Image Factory, one of your own for example".to_owned(),
        ],
        ImageFault::Certificate => vec![format!(
            "add the authority that vouches for {host} to the system's, or name its file in SSL_CERT_FILE"
        )],
        ImageFault::Refused(404) => {
            vec![format!("{host} has no such image: are version, schematic and factory_url right?")]
        }
        ImageFault::Refused(_) => vec![format!("{host} answers, but not with that: try again in a while")],
        ImageFault::Unreadable => vec![format!("is {host} an Image Factory?")],
    }
}

/// Whether bytes are to blame, and not this machine.
fn is_about_bytes(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}
