//! Whether what goes down as a worker is one, and whether what is destroyed leaves members of etcd behind.
//!
//! The description may call a worker what has a vote in etcd: somebody has changed the file. So a machine says itself whether it has
//! a part in etcd, which costs two calls once for each node; where it does not answer, the members say whom they list.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use talmox_plan::Observed;
use talmox_types::NodeName;
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::EtcdGate;
use super::ask::{self, Answers, Own};
use super::judge::{Asked, lists, staying};
use crate::work::Result;
use crate::{Reach, StepError, observe_for};

/// How long somebody is waited for who could say whether a silent machine has a vote. Then whoever watches is asked: that all are
/// silent may be why it is to go.
const LIMIT: Duration = Duration::from_mins(2);

/// What was found out while one plan is carried out.
#[derive(Default)]
pub(crate) struct Known {
    /// Proxmox when the first worker was about to go down: which machines there are, and where. Neither changes before they go.
    look: OnceCell<Observed>,
    /// What the members said before the first of what is destroyed went: afterwards nobody may be left to say it.
    members: OnceCell<Answers>,
    /// Nodes that were seen to have no vote. A machine keeps the role it began with.
    workers: Mutex<BTreeSet<NodeName>>,
}

impl Known {
    fn has_no_vote(&self, node: &NodeName) -> bool {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }

    fn remember(&self, node: &NodeName) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone());
    }
}

/// What is known of the vote of a node that is described as a worker.
enum Vote {
    None,
    Has { why: &'static str },
    Unknown { reason: String },
}

const LISTED: &str = "the members of etcd list it";
const HAS_DATA: &str = "it runs etcd, or has its data";

impl EtcdGate<'_> {
    /// Whether a node that is described as a worker is known to be one; false if nobody could tell. Refused if it has a vote.
    pub(super) async fn is_worker(&self, node: &NodeName, reach: &Reach<'_>) -> Result<bool> {
        self.hold_lease(node).await?;
        if sabotaged(Defect::VoteTakenForWorker) {
            return Ok(true);
        }
        // A snapshot takes the place of what all members have.
        if self.work.run.request.upkeep.restore.is_some() || self.door.known.has_no_vote(node) {
            return Ok(true);
        }
        let begun = Instant::now();
        let name = format!("a word on whether {node} has a vote in etcd");
        loop {
            match self.vote(node, reach).await {
                Vote::None => {
                    self.door.known.remember(node);
                    return Ok(true);
                }
                Vote::Has { why } => return Err(still_votes(node, why)),
                // Whoever watches has been asked.
                Vote::Unknown { .. } if !self.door.asks || begun.elapsed() > LIMIT => return Ok(false),
                Vote::Unknown { reason } => self.wait(&name, &reason, begun, LIMIT).await?,
            }
        }
    }

    async fn vote(&self, node: &NodeName, reach: &Reach<'_>) -> Vote {
        let own = self.own_word(node, reach).await;
        if matches!(own, Own::NoPart) {
            return Vote::None;
        }
        let answers = match Box::pin(ask::members(self.work.run, reach, node)).await {
            Ok(answers) => answers,
            Err(error) => return Vote::Unknown { reason: format!("Proxmox does not answer: {error}") },
        };
        match (lists(&answers.asked, node), own) {
            (Some(true), _) => Vote::Has { why: LISTED },
            (Some(false), _) | (None, Own::NoPart) => Vote::None,
            (None, Own::HasPart) => Vote::Has { why: HAS_DATA },
            (None, Own::Silent(_)) if !answers.begun => Vote::None,
            (None, Own::Silent(reason)) => {
                let complaints: Vec<String> = answers.asked.iter().filter_map(Asked::complaint).collect();
                Vote::Unknown { reason: format!("{node} does not say ({reason}); {}", complaints.join("; ")) }
            }
        }
    }

    async fn own_word(&self, node: &NodeName, reach: &Reach<'_>) -> Own {
        let run = self.work.run;
        let look = self
            .door
            .known
            .look
            .get_or_try_init(|| Box::pin(observe_for(run.client, run.desired, run.request)));
        match look.await {
            Ok(observed) => ask::own_word(run, reach, observed, node).await,
            Err(error) => Own::Silent(error.to_string()),
        }
    }

    /// Whether etcd does without a node that is destroyed with others; false if nobody could tell. It does where no member stays;
    /// while some do, one of them has to take its leave first.
    pub(super) async fn may_be_destroyed(
        &self,
        node: &NodeName,
        role: Option<Role>,
        reach: &Reach<'_>,
    ) -> Result<bool> {
        let (run, known) = (self.work.run, self.door.known);
        let goes = |name: &str| NodeName::parse(name).is_ok_and(|name| run.request.covers(&name));
        let nobody_stays = |answers: &Answers| {
            lists(&answers.asked, node).is_some() && staying(&answers.asked, goes).is_empty()
        };
        // With the last member goes what the lease is kept in.
        if known.members.get().is_some_and(nobody_stays) {
            self.held().await?;
        } else {
            self.hold_lease(node).await?;
        }
        let is_worker = role == Some(Role::Worker);
        if known.has_no_vote(node) {
            return Ok(true);
        }
        let own = if is_worker { self.own_word(node, reach).await } else { Own::HasPart };
        if matches!(own, Own::NoPart) {
            known.remember(node);
            return Ok(true);
        }
        let members = known.members.get_or_try_init(|| Box::pin(ask::members(run, reach, node))).await;
        let answers =
            members.map_err(|error| self.refused(node, format!("Proxmox does not answer: {error}")))?;
        match lists(&answers.asked, node) {
            Some(false) => Ok(true),
            Some(true) => match staying(&answers.asked, goes).as_slice() {
                [] => Ok(true),
                _ if is_worker => Err(still_votes(node, LISTED)),
                stay => {
                    let reason = format!(
                        "it is a member of etcd, and others stay ({}): it has to take its leave first, by talmox apply --remove {node}",
                        stay.join(", ")
                    );
                    Err(self.refused(node, reason))
                }
            },
            None if is_worker && matches!(own, Own::HasPart) => Err(still_votes(node, HAS_DATA)),
            // Before the bootstrap there is nothing to miss a worker.
            None => Ok(is_worker && !answers.begun),
        }
    }
}

fn still_votes(node: &NodeName, why: &'static str) -> StepError {
    StepError::StillVotes { node: node.clone(), why }
}
