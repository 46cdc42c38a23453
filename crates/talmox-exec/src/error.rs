//! Why a step was not done.

use talmox_pve::client::{ChangeError, Error, ErrorKind, Outcome, TaskError, WaitError};
use talmox_types::{HostName, NodeName, VmId};

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
    /// Two VMs carry the mark of one node.
    #[error("{node} has two VMs: {vmid} on {host}, and {other} on {other_host} which should not be")]
    Double { node: NodeName, vmid: VmId, host: HostName, other: VmId, other_host: HostName },
    /// A removal would take volumes along that nobody has agreed to.
    #[error("VM {vmid} on {host} holds volumes that were not to be destroyed: {}", .volumes.join(", "))]
    WouldLose { vmid: VmId, host: HostName, volumes: Vec<String> },
    #[error("there is no VMID left for {node} from {from} to {to}")]
    NoId { node: NodeName, from: VmId, to: VmId },
    #[error("not allowed to take {node} down: {reason}")]
    Gate { node: String, reason: String },
    /// The world changed under the plan; looking again will tell.
    #[error("{what} has changed since it was planned")]
    Changed { what: String },
    /// The VM was there when the plan was made.
    #[error("VM {vmid} on {host} is gone")]
    Gone { vmid: VmId, host: HostName },
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
            | Self::Double { .. }
            | Self::WouldLose { .. }
            | Self::NoId { .. }
            | Self::Gate { .. }
            | Self::Changed { .. }
            | Self::Gone { .. }
            | Self::Interrupted { .. } => None,
        }
    }

    /// Whether the plan is out of date: another look and another plan may well get there.
    pub fn wants_another_plan(&self) -> bool {
        matches!(self, Self::Changed { .. } | Self::Gone { .. }) || self.kind() == Some(&ErrorKind::Conflict)
    }

    /// Whether nobody can tell what became of the last call.
    pub(crate) fn may_have_happened(&self) -> bool {
        matches!(self, Self::Call { source, .. } if source.outcome() == Outcome::MayHaveHappened)
    }

    /// The next things to look at or do, most useful first. Running the same command again is always safe.
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
            Self::NoId { .. } => vec!["widen proxmox_vmid_range, or give the node a vm_id".to_owned()],
            Self::NotOurs { vmid, .. } => vec![format!("nothing was done to VM {vmid}: plan again")],
            Self::Changed { .. } | Self::Gone { .. } => vec!["plan again".to_owned()],
            Self::Wait { source: WaitError::Deadline { .. }, .. }
            | Self::Impossible { .. }
            | Self::Gate { .. }
            | Self::Interrupted { .. } => Vec::new(),
        }
    }
}
