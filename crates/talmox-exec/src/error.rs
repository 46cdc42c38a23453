//! Why a step was not done.

use talmox_pve::client::{Error, TaskError, WaitError};
use talmox_types::{HostName, VmId};

/// A step that failed: what was being done to what, and in the source what stood in the way.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("could not {doing}")]
    Call { doing: String, source: Error },
    #[error("could not {doing}")]
    Task { doing: String, source: TaskError },
    #[error("could not {doing}")]
    Wait { doing: String, source: WaitError },
    /// The VM does not carry the mark it carried when the plan was made. Nothing was done to it.
    #[error("VM {vmid} on {host} is not the one this was planned for: {found}")]
    NotOurs { vmid: VmId, host: HostName, found: String },
    /// A lock that no running task holds: only root can take it away.
    #[error("VM {vmid} on {host} is locked ({lock}) and nothing works on it")]
    Stuck { vmid: VmId, host: HostName, lock: String },
    #[error("not allowed to take {node} down: {reason}")]
    Gate { node: String, reason: String },
    /// The world changed under the plan; looking again will tell.
    #[error("{what} has changed since it was planned")]
    Changed { what: String },
}
