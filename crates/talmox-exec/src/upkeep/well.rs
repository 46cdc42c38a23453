//! Whether a node is well: Talos says so, its member of etcd votes and is healthy, and Kubernetes has it ready.
//!
//! One look proves little: after a restart or a change readiness comes, goes once more, and comes to stay.

use std::net::IpAddr;
use std::time::Duration;

use talmox_talos::{Client, Stage};
use talmox_types::NodeName;
use talmox_types::desired::Role;
use tokio::time::Instant;

use super::kubernetes::Servers;
use crate::find::{find, vms};
use crate::health::expects_network;
use crate::machine::{Probe, last_words, looking, probe};
use crate::work::{Result, Work};
use crate::{Event, StepError};

/// Looks in a row that have to find it well, and the time between: a kubelet that restarted is ready, and not ready seven
/// seconds later.
const SURE: u32 = 3;
const PAUSE: Duration = Duration::from_secs(4);
/// Proxmox is asked whether the VM runs once in so many looks.
const OFF_PAUSE: u32 = 5;

/// A node that was touched.
pub(super) struct Patient<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) node: &'a NodeName,
    pub(super) address: IpAddr,
    pub(super) servers: &'a Servers,
}

/// Waits until a node is well, several looks in a row.
pub(super) async fn until_well(patient: &Patient<'_>, limit: Duration) -> Result<()> {
    let Patient { work, node, address, .. } = patient;
    let (begun, name) = (Instant::now(), format!("{node} to be well"));
    let (mut well, mut off) = (0, Off::default());
    loop {
        let complaint = patient.complaint().await;
        well = if complaint.is_none() { well + 1 } else { 0 };
        if well >= SURE {
            return Ok(());
        }
        if let Some(why) = off.look(patient, well > 0).await {
            return Err(StepError::NotThere {
                node: (*node).clone(),
                address: *address,
                waiting_for: "it to be well".to_owned(),
                limit: begun.elapsed(),
                last_words: why,
            });
        }
        if begun.elapsed() > limit {
            let reason = complaint.unwrap_or_else(|| "it comes and goes".to_owned());
            let said = last_words(work.reach()?, *address).await;
            return Err(StepError::NotThere {
                node: (*node).clone(),
                address: *address,
                waiting_for: "it to be well".to_owned(),
                limit,
                last_words: format!("{reason}; {said}"),
            });
        }
        let detail = complaint.unwrap_or_else(|| "it looks so; another look makes sure".to_owned());
        work.event(Event::Waiting {
            step: work.planned,
            name: &name,
            detail: &detail,
            elapsed: begun.elapsed(),
            limit,
        });
        // Whoever was told to stop lets a node that is nearly back come back, and no longer.
        let pause = work.run.pace().sleep(PAUSE);
        if well > 0 {
            pause.await;
        } else {
            work.unless_stopped(&name, pause).await?;
        }
    }
}

/// Whether the machine is off: then nothing comes of waiting. One that restarts is off for a moment, and one that HA looks after is
/// started again by HA.
#[derive(Default)]
struct Off {
    looks: u32,
    seen: u32,
}

impl Off {
    /// Looks now and then; gives what is to be said once it is sure.
    async fn look(&mut self, patient: &Patient<'_>, answers: bool) -> Option<String> {
        self.looks += 1;
        if answers || !self.looks.is_multiple_of(OFF_PAUSE) {
            return None;
        }
        let state = patient.power().await;
        self.seen = if state.is_some() { self.seen + 1 } else { 0 };
        state.filter(|_| self.seen >= SURE)
    }
}

impl Patient<'_> {
    /// Why its VM cannot answer; nothing if it runs, or nobody can tell.
    async fn power(&self) -> Option<String> {
        let run = self.work.run;
        let listed = vms(run.client).await.ok()?;
        let named = listed.into_iter().filter(|vm| vm.name.as_deref() == Some(self.node.as_str()));
        let mut own = None;
        for vm in named {
            let found = find(run.client, &vm.node, vm.vmid).await.ok()?;
            let mark = found.and_then(|found| found.mark());
            let is_own = mark.is_some_and(|mark| {
                Some(&mark.uid) == run.desired.uid.as_ref() && mark.node == *self.node && mark.vmid == vm.vmid
            });
            own = own.or(is_own.then_some(vm));
        }
        let Some(vm) = own else { return Some("it has no VM".to_owned()) };
        let stopped = vm.status == "stopped" && vm.hastate.is_none() && vm.lock.is_none();
        stopped.then(|| {
            format!("VM {} on {} is stopped, and nobody starts it: talmox apply does", vm.vmid, vm.node)
        })
    }

    /// Why it is not well; nothing if it is.
    pub(super) async fn complaint(&self) -> Option<String> {
        let reach = self.work.reach().ok()?;
        let client = match probe(reach, self.address, None).await {
            Probe::Configured(client) => client.with_deadlines(looking()),
            Probe::Unreachable { reason } => return Some(format!("it does not answer: {reason}")),
            Probe::Stranger { why } => return Some(why),
            Probe::Maintenance { .. } => return Some("it has no configuration".to_owned()),
        };
        if let Some(complaint) = of_machine(&client).await {
            return Some(complaint);
        }
        if self.work.run.role(self.node) == Some(Role::Controller)
            && let Some(complaint) = self.of_member(&client).await
        {
            return Some(complaint);
        }
        self.of_kubernetes().await
    }

    async fn of_member(&self, client: &Client) -> Option<String> {
        let service = match client.service("etcd").await {
            Ok(service) => service,
            Err(error) => return Some(error.to_string()),
        };
        let healthy = service.is_some_and(|one| one.state == "Running" && one.healthy == Some(true));
        if !healthy {
            return Some("its member of etcd is not healthy".to_owned());
        }
        match client.etcd_health().await {
            Err(error) => Some(error.to_string()),
            Ok(status) if status.is_learner => Some("its member of etcd does not vote yet".to_owned()),
            Ok(status) if status.leader.is_none() => Some("its member of etcd knows no leader".to_owned()),
            Ok(_) => None,
        }
    }

    async fn of_kubernetes(&self) -> Option<String> {
        let must_be_ready = expects_network(self.work.run.desired);
        match self.servers.node(self.node.as_str()).await {
            Err(reason) => Some(format!("Kubernetes does not answer: {reason}")),
            Ok((_, None)) => Some("it is not in Kubernetes".to_owned()),
            Ok((_, Some(node))) if must_be_ready && !node.is_ready() => {
                let why = node.readiness().map(|ready| ready.message.clone()).unwrap_or_default();
                Some(format!("it is not ready in Kubernetes: {why}"))
            }
            Ok((_, Some(_))) => None,
        }
    }
}

async fn of_machine(client: &Client) -> Option<String> {
    match client.machine_state().await {
        Err(error) => Some(error.to_string()),
        Ok(None) => Some("it does not know yet what it is doing".to_owned()),
        Ok(Some(state)) if state.stage != Stage::Running => {
            Some(format!("its stage is {:?}", state.stage).to_lowercase())
        }
        Ok(Some(state)) if !state.ready => {
            let unmet: Vec<String> =
                state.unmet.into_iter().map(|one| format!("{}: {}", one.name, one.reason)).collect();
            Some(format!("it is not ready: {}", unmet.join(", ")))
        }
        Ok(Some(_)) => None,
    }
}
