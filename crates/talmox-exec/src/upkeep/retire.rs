//! Taking a node out of etcd and wiping it, before its VM goes.
//!
//! ```text
//!  still a member, say the others? ─▶ leadership given away ─▶ leave, once ─▶ the others do not list it ─▶ noted ─▶ reset ─▶ off
//! ```
//!
//! A second call to leave hangs for ever, so nobody makes one: whether the first worked, the others tell.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::Expected;
use talmox_talos::{Client, Deadlines, Kind, ResetPlan};
use talmox_types::{AwayWord, Mark, NodeName};
use tokio::time::Instant;

use super::members;
use crate::find::Found;
use crate::lease::write_mark;
use crate::machine::{Probe, probe};
use crate::work::{End, Result, Work};
use crate::{Event, Reach, StepError};

/// Leaving takes ten seconds by itself.
const LEAVE_LIMIT: Duration = Duration::from_mins(1);
/// How long the others may go on listing a member whose leave got no answer.
const UNLISTED_LIMIT: Duration = Duration::from_secs(45);
/// How long a machine may take to wipe itself. Its VM goes in any case.
const RESET_LIMIT: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_secs(1);

struct Order<'a> {
    work: &'a Work<'a>,
    reach: &'a Reach<'a>,
    vm: &'a Expected,
    address: IpAddr,
    control_planes: &'a BTreeMap<NodeName, IpAddr>,
}

pub(super) async fn run(
    work: &Work<'_>,
    vm: &Expected,
    address: IpAddr,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result {
    let reach = work.reach()?;
    let Some(found) = work.find(vm).await? else { return Ok(End::Unchanged) };
    let order = Order { work, reach, vm, address, control_planes };
    let uuid = found.config.smbios().ok().flatten().and_then(|smbios| smbios.uuid);
    let client = match probe(reach, address, uuid.as_deref()).await {
        Probe::Configured(client) => client,
        // Wiped already, by a run before; the mark said so before the machine was told to.
        Probe::Maintenance { .. } | Probe::Unreachable { .. } if is_retired(&found) => {
            return Ok(End::Unchanged);
        }
        // It answered as a node of the cluster when this was planned. Whether it was reset since, or another machine is at its address,
        // the next look has to tell.
        Probe::Maintenance { .. } => {
            let what = format!("{} (a machine in maintenance mode is at its address)", vm.mark.node);
            return Err(StepError::Changed { what });
        }
        Probe::Stranger { why } => {
            return Err(StepError::Stranger { node: vm.mark.node.clone(), address, why });
        }
        Probe::Unreachable { reason } => {
            return Err(StepError::Changed { what: format!("{} ({reason}), which answered,", vm.mark.node) });
        }
    };
    order.leave_etcd(&client).await?;
    order.note(&found).await?;
    order.wipe(&client).await?;
    Ok(End::Changed)
}

fn is_retired(found: &Found) -> bool {
    found.mark().is_some_and(|mark| mark.away == Some(AwayWord::Retired))
}

impl Order<'_> {
    fn node(&self) -> &NodeName {
        &self.vm.mark.node
    }

    /// Whether the others count it among the members.
    async fn is_listed(&self) -> Result<bool> {
        let answer = members::ask(self.reach, self.control_planes).await?;
        Ok(!members::of_node(&answer.members, self.node(), Some(self.address)).is_empty())
    }

    async fn leave_etcd(&self, client: &Client) -> Result<()> {
        if !self.is_listed().await? {
            return Ok(());
        }
        // One whose etcd does not run cannot ask for anything: the others forget it by its number, once its VM is gone.
        let service = client.service("etcd").await.ok().flatten();
        if service.is_some_and(|service| service.state != "Running") {
            return Ok(());
        }
        let client = client.clone().with_deadlines(Deadlines { long: LEAVE_LIMIT, ..Deadlines::default() });
        // A leader that leaves makes the others elect in haste; one that cannot give it away leaves all the same.
        if let Err(error) = client.etcd_forfeit_leadership().await {
            tracing::debug!(node = %self.node(), "leadership was not given away: {error}");
        }
        match client.etcd_leave().await {
            Ok(()) => {}
            Err(error) if error.kind() == Kind::Uncertain => {
                tracing::warn!(node = %self.node(), "asking the others whether it left: {error}");
            }
            Err(error) => return Err(StepError::machine(format!("take {} out of etcd", self.node()))(error)),
        }
        self.until_unlisted().await
    }

    async fn until_unlisted(&self) -> Result<()> {
        let since = Instant::now();
        let waiting_for = "the other control planes to count it out of etcd";
        while self.is_listed().await? {
            if since.elapsed() > UNLISTED_LIMIT {
                return Err(StepError::NotThere {
                    node: self.node().clone(),
                    address: self.address,
                    waiting_for: waiting_for.to_owned(),
                    limit: UNLISTED_LIMIT,
                    last_words: "they still list it".to_owned(),
                });
            }
            self.report(waiting_for, "they still list it", since, UNLISTED_LIMIT);
            self.work.run.pace().sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Whoever comes after a run that dies now must not start this machine again.
    async fn note(&self, found: &Found) -> Result<()> {
        let Some(mark) = found.mark().filter(|mark| mark.away != Some(AwayWord::Retired)) else {
            return Ok(());
        };
        // What is wiped is not configured any more.
        let mark = Mark { away: Some(AwayWord::Retired), configured: false, ..mark };
        write_mark(self.work.run, found, &mark).await
    }

    /// Wipes it. It is off afterwards; if it is not in time, its VM is stopped by the next step.
    async fn wipe(&self, client: &Client) -> Result<()> {
        let plan = ResetPlan { graceful: true, reboot: false, partitions: Vec::new() };
        match client.reset(&plan).await {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), Kind::Uncertain | Kind::NotReached) => {
                tracing::warn!(node = %self.node(), "looking whether it wipes itself: {error}");
            }
            Err(error) => return Err(StepError::machine(format!("wipe {}", self.node()))(error)),
        }
        let since = Instant::now();
        while matches!(probe(self.reach, self.address, None).await, Probe::Configured(_)) {
            if since.elapsed() > RESET_LIMIT {
                self.work.warn("it has not wiped itself in time: its VM goes as it is");
                return Ok(());
            }
            self.report("it to wipe itself and go off", "it still answers", since, RESET_LIMIT);
            self.work.run.pace().sleep(PAUSE).await;
        }
        Ok(())
    }

    fn report(&self, name: &str, detail: &str, since: Instant, limit: Duration) {
        let (step, elapsed) = (self.work.planned, since.elapsed());
        self.work.event(Event::Waiting { step, name, detail, elapsed, limit });
    }
}
