//! Moving pods off a node.
//!
//! ```text
//!  cordoned, with a note that it was us ─▶ evict, again and again ─▶ pods gone ─▶ volumes detached
//!                                            └─ time is up: what is in the way is named, and the cordon lifted
//! ```
//!
//! Pods of daemon sets and those a kubelet runs by itself stay. A disruption budget is asked again until it yields or the time
//! for it is up; nothing is ever forced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use talmox_k8s::{Client, Kind, Pod, Selection};
use talmox_types::NodeName;
use talmox_types::sabotage::{Defect, sabotaged};
use tokio::time::Instant;

use super::kubernetes::{Servers, is_passing};
use crate::work::{End, Result, Work};
use crate::{Event, StepError};

/// How long pods may take to leave.
const LIMIT: Duration = Duration::from_mins(5);
/// How long volumes are waited for once they have: one that a pod of a daemon set uses never goes.
const VOLUMES_LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_secs(3);
/// How often the cordon is tried to be lifted after a drain that failed.
const TRIES: u32 = 5;

pub(super) async fn run(work: &Work<'_>, node: &NodeName) -> Result {
    if sabotaged(Defect::DrainForgotten) {
        return Ok(End::Changed);
    }
    let drain = Drain { work, node, servers: Servers::of(work).await?, begun: Instant::now() };
    let Some(cordoned) = drain.cordon().await? else { return Ok(End::Unchanged) };
    let end = drain.empty().await;
    if end.is_err() && cordoned {
        drain.lift().await;
    }
    end?;
    Ok(End::Changed)
}

struct Drain<'a> {
    work: &'a Work<'a>,
    node: &'a NodeName,
    servers: Servers,
    begun: Instant,
}

/// What became of one round.
#[derive(Default)]
struct Round {
    /// Pods that are still there.
    left: Vec<String>,
    /// What is in the way, by pod.
    blocked: BTreeMap<String, String>,
}

impl Drain<'_> {
    /// Keeps new pods off. Gives whether it was us who did; nothing if there is no such node. What somebody else cordoned
    /// stays theirs.
    async fn cordon(&self) -> Result<Option<bool>> {
        loop {
            let tried = self.cordon_once().await;
            let reason = match tried {
                Ok(done) => return Ok(done),
                Err(reason) => reason,
            };
            if self.begun.elapsed() > LIMIT {
                return Err(self.failed(reason, Vec::new()));
            }
            self.wait("Kubernetes", &reason, LIMIT).await?;
        }
    }

    async fn cordon_once(&self) -> std::result::Result<Option<bool>, String> {
        let (client, node) = self.servers.node(self.node.as_str()).await?;
        let Some(node) = node else { return Ok(None) };
        if node.spec.unschedulable {
            return Ok(Some(node.cordoned_for().is_some()));
        }
        let reason = &self.work.planned.reason;
        client.cordon(self.node.as_str(), reason).await.map_err(|error| error.to_string())?;
        Ok(Some(true))
    }

    /// Evicts until nobody is left.
    async fn empty(&self) -> Result<()> {
        let mut since = self.begun;
        loop {
            let (name, detail) = match self.round().await {
                Ok(round) if round.left.is_empty() => match self.attached().await {
                    Ok(volumes) if volumes.is_empty() => return Ok(()),
                    Ok(volumes) => {
                        let detail = volumes.into_iter().collect::<Vec<_>>().join(", ");
                        if since.elapsed() > VOLUMES_LIMIT {
                            self.work.warn(&format!("volumes are still attached to it: {detail}"));
                            return Ok(());
                        }
                        ("its volumes to be detached", detail)
                    }
                    Err(reason) => ("Kubernetes", reason),
                },
                Ok(round) => {
                    since = Instant::now();
                    let detail = words(&round);
                    if self.begun.elapsed() > LIMIT {
                        return Err(self.failed(detail, budgets(&round)));
                    }
                    ("its pods to leave", detail)
                }
                Err(reason) => ("Kubernetes", reason),
            };
            if self.begun.elapsed() > LIMIT + VOLUMES_LIMIT {
                return Err(self.failed(detail, Vec::new()));
            }
            self.wait(name, &detail, LIMIT).await?;
        }
    }

    /// Asks everybody who must leave to do so.
    async fn round(&self) -> std::result::Result<Round, String> {
        let (client, node) = self.servers.node(self.node.as_str()).await?;
        let mut round = Round::default();
        if node.is_none() {
            return Ok(round);
        }
        let here = Selection::all().with_fields(format!("spec.nodeName={}", self.node));
        let pods = client.pods(&here).await.map_err(|error| error.to_string())?;
        for pod in pods.iter().filter(|pod| pod.must_leave()) {
            round.left.push(pod.full_name());
            if !pod.is_terminating()
                && let Some(why) = self.evict(&client, pod).await?
            {
                round.blocked.insert(pod.full_name(), why);
            }
        }
        Ok(round)
    }

    /// Why a pod may not leave now; nothing if it is on its way.
    async fn evict(&self, client: &Client, pod: &Pod) -> std::result::Result<Option<String>, String> {
        match client.evict(pod).await {
            Ok(_) => Ok(None),
            Err(error) if error.kind() == Kind::Blocked => {
                let budget = error.disruption_budget().unwrap_or("a disruption budget");
                Ok(Some(budget.to_owned()))
            }
            Err(error) if is_passing(&error) => Err(error.to_string()),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// Volumes that still hang on the node.
    async fn attached(&self) -> std::result::Result<BTreeSet<String>, String> {
        let (client, _) = self.servers.node(self.node.as_str()).await?;
        let all = client.volume_attachments().await.map_err(|error| error.to_string())?;
        let here = all.into_iter().filter(|one| one.spec.node_name == self.node.as_str());
        let name = |one: talmox_k8s::VolumeAttachment| {
            one.spec.source.persistent_volume_name.unwrap_or(one.metadata.name)
        };
        Ok(here.map(name).collect())
    }

    async fn wait(&self, name: &str, detail: &str, limit: Duration) -> Result<()> {
        let (step, elapsed) = (self.work.planned, self.begun.elapsed());
        self.work.event(Event::Waiting { step, name, detail, elapsed, limit });
        self.work.pause(name, PAUSE).await
    }

    /// Lets pods back, if it was us who kept them off.
    async fn lift(&self) {
        for _ in 0..TRIES {
            if let Ok((client, node)) = self.servers.node(self.node.as_str()).await {
                let ours = node.is_some_and(|node| node.cordoned_for().is_some());
                if !ours || client.uncordon(self.node.as_str()).await.is_ok() {
                    return;
                }
            }
            self.work.run.pace().sleep(PAUSE).await;
        }
        self.work.warn("it could not be opened to pods again: the next apply does");
    }

    fn failed(&self, reason: String, budgets: Vec<String>) -> StepError {
        StepError::Undrained { node: self.node.clone(), limit: LIMIT, reason, budgets }
    }
}

/// So many pods are named; of the others, how many they are.
const NAMED: usize = 3;

fn words(round: &Round) -> String {
    let told = round.left.iter().map(|pod| match round.blocked.get(pod) {
        Some(budget) => format!("{pod} (kept by {budget})"),
        None => pod.clone(),
    });
    let mut named: Vec<String> = told.collect();
    // What is kept is what somebody has to look at.
    named.sort_by_key(|pod| !pod.ends_with(')'));
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named.join(", ")
}

fn budgets(round: &Round) -> Vec<String> {
    round.blocked.values().cloned().collect::<BTreeSet<String>>().into_iter().collect()
}
