//! Kubernetes, at whichever control plane answers: the one that was asked before may be the one that is away.

use talmox_k8s::{Client, Error, Kind, Node};

use crate::machine::kubernetes::control_planes;
use crate::work::{Result, Work};
use crate::{StepError, observe_for};

pub(super) struct Servers(Vec<Client>);

impl Servers {
    /// Every server of the cluster; none if there is no way to any.
    pub(super) async fn of(work: &Work<'_>) -> Result<Self> {
        let (run, reach) = (work.run, work.reach()?);
        let observed = observe_for(run.client, run.desired, run.request)
            .await
            .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
        Ok(Self(reach.kubernetes_at(control_planes(run.desired, &observed).into_iter())))
    }

    /// A node, none if there is none of that name, and who said so.
    pub(super) async fn node(&self, name: &str) -> std::result::Result<(Client, Option<Node>), String> {
        let mut last = "there is no way to Kubernetes".to_owned();
        for client in &self.0 {
            match client.node(name).await {
                Ok(node) => return Ok((client.clone(), Some(node))),
                Err(error) if error.kind() == Kind::NotFound => return Ok((client.clone(), None)),
                Err(error) => last = error.to_string(),
            }
        }
        Err(last)
    }
}

/// Whether another try, perhaps at another server, may well get there.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), Kind::NotReached | Kind::NotReady | Kind::Uncertain | Kind::Conflict)
}
