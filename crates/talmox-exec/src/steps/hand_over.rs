//! What a cluster is handed once it is bootstrapped: manifests, and a program of the user's that takes over.

use crate::StepError;
use crate::work::{End, Result, Work};

/// Nobody can apply manifests without a way to Kubernetes.
pub(super) fn manifests() -> Result {
    Err(StepError::NoReach { lacks: "this run was given no way to Kubernetes" })
}

pub(super) async fn post_bootstrap(work: &Work<'_>, command: &[String]) -> Result {
    let reach = work.reach()?;
    let program = command.first().cloned().unwrap_or_default();
    let failed = |reason| StepError::HandOver { doing: format!("run {program}"), reason };
    reach.machines.post_bootstrap(command).await.map_err(failed)?;
    Ok(End::Changed)
}
