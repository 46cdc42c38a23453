//! Giving a machine its configuration.
//!
//! ```text
//!  does not answer ─▶ answers in maintenance mode, uuid the VM's ─▶ sent ─▶ answers with our certificates ─▶ read back ─▶ noted
//!       │ too long, and this run made the VM: switched off and on, once; a control plane of a cluster that was begun may vote
//!       ▼ by now, and goes through the gate
//! ```
//!
//! That a machine has answered with our certificates, and has installed itself, is noted in its VM's mark. Once it is, nothing is
//! sent in maintenance mode any more unless a person approved it, and then only behind the certificate that person saw: whoever has taken over the
//! address can claim the uuid too. With `config_delivery: cidata` nothing is ever sent there.
//!
//! A worker that is configured before etcd runs need not answer, because it may reach no control plane that signs its certificate
//! yet. Its step ends when the worker has left maintenance mode, and a later look confirms it.
//!
//! Only calls with one reply are made before: a stream that is open would keep the machine's port closed for ten seconds.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use secrecy::ExposeSecret as _;
use talmox_plan::{Expected, Incomparable, Proof, Reconfigure, config_source, identify, seed_in};
use talmox_talos::{ApplyMode, Client, Fingerprint, Kind};
use talmox_types::desired::{ConfigDelivery, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{BootstrapWord, FamilyPair};
use tokio::time::Instant;

use super::{power, publish, record_configured};
use crate::find::Found;
use crate::machine::{
    Probe, differences, last_words, looking, phases_of_newcomer, probe, stage, without_secrets,
    without_secrets_of,
};
use crate::work::{End, Result, Work};
use crate::{Event, MachineConfig, Reach, StepError, Whereabouts, observe_for};

/// How long a machine may take from power-on to its first answer. Now and then one hangs while it boots.
const BOOT_LIMIT: Duration = Duration::from_mins(5);
/// How long it may take from the configuration to the first answer with our certificates: one that boots from an ISO pulls
/// an image, installs itself and restarts.
const CONFIGURED_LIMIT: Duration = Duration::from_mins(20);
/// How long a machine that took its configuration may still look as if it had none.
const LEAVES_MAINTENANCE: Duration = Duration::from_secs(30);
/// How long a step waits for a worker's certificate before it leaves that to a later look. The port of a machine that leaves
/// maintenance mode is closed for up to 12 s; a worker that discovers a control plane has its certificate by then.
const SIGNED: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(1);

struct Order<'a> {
    work: &'a Work<'a>,
    reach: &'a Reach<'a>,
    vm: &'a Expected,
    found: Found,
    at: Whereabouts,
    /// What a person approved, if the node was configured before.
    reconfigure: Option<&'a Reconfigure>,
    proof: Proof,
}

/// Since when what is waited for.
struct Watch {
    since: Instant,
    limit: Duration,
    /// When the configuration was sent.
    sent: Option<Instant>,
    /// Whether it may be switched off and on.
    may_cycle: bool,
}

pub(super) async fn run(
    work: &Work<'_>,
    vm: &Expected,
    address: FamilyPair<IpAddr>,
    (reconfigure, proof): (Option<&Reconfigure>, Proof),
) -> Result {
    let reach = work.reach()?;
    let found = work.expect(vm).await?;
    let uuid = found.config.smbios().ok().flatten().and_then(|smbios| smbios.uuid);
    let Some(uuid) = uuid else {
        let reason = format!("{} has no SMBIOS uuid to know it by", found.name());
        return Err(StepError::NoConfig { node: vm.mark.node.clone(), reason });
    };
    publish::offer_again(work, vm, &found, address).await?;
    let host = Some(found.host.clone());
    let phases = phases_of_newcomer(work, &vm.mark.node).await?;
    let at = Whereabouts { address, vmid: Some(found.vmid), host, uuid: Some(uuid), phases };
    Order { work, reach, vm, found, at, reconfigure, proof }.carry_out().await
}

impl Order<'_> {
    async fn carry_out(&self) -> Result {
        let address = self.at.address.primary();
        // A VM of an earlier run may be a node that lives.
        let is_awaited = self.proof == Proof::Awaited;
        let may_cycle = self.vm.mark.incarnation == self.work.run.nonce.as_str() && !is_awaited;
        // One that finds its configuration by itself does not answer before it has used it.
        let limit = if self.finds_its_own() || is_awaited { CONFIGURED_LIMIT } else { BOOT_LIMIT };
        let mut watch = Watch { since: Instant::now(), limit, sent: None, may_cycle };
        loop {
            let seen = match probe(self.reach, address, self.at.uuid.as_deref()).await {
                Probe::Configured(client) => match self.confirm(&client, watch.sent.is_some()).await? {
                    Ok(end) => return self.note(&client, end).await,
                    Err(unread) => unread,
                },
                Probe::Stranger { why } => return Err(self.stranger(why)),
                Probe::Maintenance { .. } if self.comes_by_drive() => {
                    "it is in maintenance mode, and reads its configuration from its drive".to_owned()
                }
                Probe::Maintenance { client, uuid, version, fingerprint } => {
                    self.compare(&uuid)?;
                    self.send_in_time((&client, fingerprint), version.as_deref(), &mut watch).await?
                }
                // That it was configured is noted once it has answered.
                Probe::Unreachable { .. } if self.has_left(&watch) => return Ok(End::Changed),
                Probe::Unreachable { reason } => reason,
            };
            if watch.since.elapsed() > watch.limit {
                self.give_up(&mut watch).await?;
            }
            self.report(&watch, &seen);
            let name = format!("{} to answer", self.vm.mark.node);
            self.work.pause(&name, PAUSE).await?;
        }
    }

    /// Whether a machine that does not answer has left maintenance mode with its configuration, where that is enough.
    fn has_left(&self, watch: &Watch) -> bool {
        let patience = if self.proof == Proof::LeftMaintenance { SIGNED } else { return false };
        watch.sent.is_some_and(|sent| sent.elapsed() >= patience)
    }

    /// Whether nothing may be sent over a connection on which the machine has not proved itself by a certificate.
    fn comes_by_drive(&self) -> bool {
        self.work.run.desired.talos.config_delivery == ConfigDelivery::Cidata
    }

    /// Has the mark say that the machine was configured, now that it has answered with a certificate of the cluster. One that
    /// installs itself, or does not say, may still lose what it was sent: a later look notes it.
    async fn note(&self, client: &Client, end: End) -> Result {
        let state = client.machine_state().await.ok().flatten();
        if !state.is_some_and(|state| stage(state.stage).keeps_configuration()) {
            return Ok(end);
        }
        let noted = record_configured::run(self.work, self.vm).await?;
        Ok(if noted.wrote() { noted } else { end })
    }

    /// Nothing is sent to a node that was configured before, unless a person approved this very certificate. The mark is read
    /// right before: another run may have configured the machine since the plan was made.
    async fn may_send(&self, shown: Option<Fingerprint>) -> Result<()> {
        let (node, address) = (self.vm.mark.node.clone(), self.at.address.primary());
        let shown = shown.map(|shown| shown.to_string());
        if let Some(Reconfigure { fingerprint: Some(approved) }) = self.reconfigure
            && shown.as_ref() != Some(approved)
        {
            let approved = approved.clone();
            return Err(StepError::OtherCertificate { node, address, shown, approved });
        }
        let found = self.work.expect(self.vm).await?;
        let configured = found.mark().is_some_and(|mark| mark.configured);
        if configured && self.reconfigure.is_none() && !sabotaged(Defect::ConfiguredAgain) {
            return Err(StepError::ConfiguredBefore { node, address, vmid: found.vmid, shown });
        }
        Ok(())
    }

    /// Whether the configuration is on a drive, or is fetched.
    fn finds_its_own(&self) -> bool {
        seed_in(&self.found.config).is_some() || config_source(&self.found.config).is_some()
    }

    /// Nothing is sent to a machine that is not the VM.
    fn compare(&self, uuid: &str) -> Result<()> {
        let own = self.at.uuid.as_deref().unwrap_or_default();
        if own.eq_ignore_ascii_case(uuid) || sabotaged(Defect::UuidNotCompared) {
            return Ok(());
        }
        Err(self.stranger(format!("its SMBIOS uuid is {uuid}, and that of {} is {own}", self.found.name())))
    }

    fn stranger(&self, why: String) -> StepError {
        let (node, address) = (self.vm.mark.node.clone(), self.at.address.primary());
        StepError::Stranger { node, address, why }
    }

    /// Sends the configuration, unless it was sent a moment ago; gives what is waited for now.
    async fn send_in_time(
        &self,
        (client, shown): (&Client, Option<Fingerprint>),
        version: Option<&str>,
        watch: &mut Watch,
    ) -> Result<String> {
        if watch.sent.is_some_and(|sent| sent.elapsed() < LEAVES_MAINTENANCE) {
            return Ok("it has its configuration and leaves maintenance mode".to_owned());
        }
        self.may_send(shown).await?;
        let config = self.config()?;
        // The mode that means the same to all of them has two names: what Talos does without being told differs.
        let mode = if version.is_some() { ApplyMode::NoReboot } else { ApplyMode::Reboot };
        let text = Bytes::from(config.text.expose_secret().as_bytes().to_vec());
        let client = client.clone().with_deadlines(talmox_talos::Deadlines::default());
        match client.apply_configuration(text, mode, false).await {
            Ok(applied) => {
                for warning in &applied.warnings {
                    self.work.warn(&without_secrets(warning, &config));
                }
            }
            Err(error) => match error.kind() {
                // It may have got there: whatever the next look shows.
                Kind::Uncertain => {}
                Kind::NotReached | Kind::NotReady | Kind::NotTrusted | Kind::AlreadyThere => {
                    return Ok(without_secrets_of(error, &config).to_string());
                }
                Kind::NotFound | Kind::Denied | Kind::Unsupported | Kind::Refused | Kind::Failed => {
                    let error = without_secrets_of(error, &config);
                    return Err(StepError::machine(format!("configure {}", self.vm.mark.node))(error));
                }
            },
        }
        let now = Instant::now();
        // Counted from the first time: a machine that takes what it is sent and forgets it would be sent it for ever.
        if watch.sent.is_none() {
            (watch.since, watch.limit) = (now, CONFIGURED_LIMIT);
        }
        watch.sent = Some(now);
        Ok("it has its configuration".to_owned())
    }

    fn config(&self) -> Result<MachineConfig> {
        let node = &self.vm.mark.node;
        let config = self.reach.machines.config(node, &self.at);
        config.map_err(|reason| StepError::NoConfig { node: node.clone(), reason })
    }

    /// What arrived is what was sent, every document. A machine that was configured before is left as it is. Gives what stands
    /// in the way of reading it, if that may pass.
    async fn confirm(&self, client: &Client, sent: bool) -> Result<std::result::Result<End, String>> {
        let source = config_source(&self.found.config);
        if let Some(url) = &source {
            publish::forget(self.work, url)?;
        }
        // What came by drive, or was fetched, was sent by us too.
        if !sent && !self.finds_its_own() {
            return Ok(Ok(End::Unchanged));
        }
        if sabotaged(Defect::ConfigNotReadBack) {
            return Ok(Ok(End::Changed));
        }
        let node = &self.vm.mark.node;
        let client = client.clone().with_deadlines(looking());
        match differences(self.reach, node, &self.at, &client).await {
            Ok(changes) if changes.is_empty() => Ok(Ok(End::Changed)),
            Ok(changes) => {
                let fields = changes.into_iter().map(|change| change.key).collect();
                Err(StepError::ReadBack { node: node.clone(), fields })
            }
            Err(Incomparable::Wanted(reason)) => Err(StepError::NoConfig { node: node.clone(), reason }),
            Err(Incomparable::Has(reason)) => {
                Ok(Err(format!("what configuration it has cannot be read: {reason}")))
            }
        }
    }

    /// Switches a machine that hangs off and on, once; then there is nothing more to try.
    async fn give_up(&self, watch: &mut Watch) -> Result<()> {
        if watch.sent.is_none() && watch.may_cycle {
            if self.may_vote().await? {
                self.work.go_down_now().await?;
            }
            self.work.warn("it does not answer: it is switched off and on, once");
            let found = self.work.expect(self.vm).await?;
            power::cycle(self.work, &found).await?;
            (watch.may_cycle, watch.since) = (false, Instant::now());
            return Ok(());
        }
        let address = self.at.address.primary();
        Err(StepError::NotThere {
            node: self.vm.mark.node.clone(),
            address,
            waiting_for: self.waited_for(watch).to_owned(),
            limit: watch.limit,
            last_words: match publish::progress(self.work, &self.found) {
                Some(progress) => format!("{}; {progress}", last_words(self.reach, address).await),
                None => last_words(self.reach, address).await,
            },
        })
    }

    /// Whether it may be a member of etcd. That this run made its VM proves nothing: the same run may have configured it before. It
    /// cannot be one while no mark says that etcd was begun, and where etcd begins with a snapshot, with that one.
    async fn may_vote(&self) -> Result<bool> {
        let run = self.work.run;
        if run.role(&self.vm.mark.node) == Some(Role::Worker) {
            return Ok(false);
        }
        let observed = observe_for(run.client, run.desired, run.request).await;
        let observed =
            observed.map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
        let begins_with = run.request.upkeep.restore.as_ref();
        let begins_with = begins_with.map(|snapshot| BootstrapWord::digits(&snapshot.digest));
        let is_this = |word: &BootstrapWord| begins_with.is_none() || word.snapshot == begins_with;
        let identities = identify(run.desired, &observed);
        Ok(identities.marks().any(|mark| mark.bootstrap.as_ref().is_some_and(is_this)))
    }

    fn report(&self, watch: &Watch, seen: &str) {
        let detail = match publish::progress(self.work, &self.found) {
            Some(progress) => format!("{seen}; {progress}"),
            None => seen.to_owned(),
        };
        self.work.event(Event::Waiting {
            step: self.work.planned,
            name: self.waited_for(watch),
            detail: &detail,
            elapsed: watch.since.elapsed(),
            limit: watch.limit,
        });
    }

    fn waited_for(&self, watch: &Watch) -> &'static str {
        match (watch.sent.is_some() || self.proof == Proof::Awaited, self.finds_its_own()) {
            (true, _) => "an answer with its new configuration",
            (false, true) => "an answer with the configuration it finds when it boots",
            (false, false) => "an answer in maintenance mode",
        }
    }
}
