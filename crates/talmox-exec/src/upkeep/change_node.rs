//! Giving a machine that lives another configuration.
//!
//! ```text
//!  without a restart   send ─▶ read back ─▶ its pods are those of the new one ─▶ well
//!  on trial            send for a while ─▶ it answers and is well ─▶ send the same for good ─▶ read back
//!                        └─ it does not: it takes the change back by itself, which nobody announces
//!  on trial first      the same with all but what needs a restart, which follows
//!  with a restart      write down ─▶ restart ─▶ in force
//!  for later           write down
//!  what is written     restart ─▶ in force
//! ```
//!
//! The machine is the VM: its uuid is compared before anything is sent. What is there already is not sent again.

mod pods;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_plan::{Change, ChangeMode, Expected};
use talmox_talos::{ApplyMode, Client, Deadlines, Kind};
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{FamilyPair, NodeName};
use tokio::time::Instant;

use super::kubernetes::Servers;
use super::well::{Patient, until_well};
use crate::machine::{
    Held, Probe, compare_texts, held, last_words, live_part, looking, phases_at, probe, without_secrets,
    without_secrets_of,
};
use crate::work::{End, Result, Work};
use crate::{Event, MachineConfig, Reach, StepError, Whereabouts};

/// How long a machine keeps a change on trial. It must suffice to see that it is well, and be short enough to wait for.
const TRIAL: Duration = Duration::from_mins(2);
/// How long a trial of somebody else is waited for: they chose how long it runs, and a minute is what `talosctl` does unasked.
const OTHERS_TRIAL: Duration = Duration::from_mins(15);
/// How long it may take to answer at all.
const ANSWER_LIMIT: Duration = Duration::from_mins(5);
/// How long a restart may take until the new configuration is in force.
const RESTART_LIMIT: Duration = Duration::from_mins(10);
/// How long a restart that was asked for may leave no trace before it is asked for again.
const RESTART_SEEN: Duration = Duration::from_mins(1);
/// How long it may take to be well with it.
const WELL_LIMIT: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_secs(2);
/// How often a configuration is sent whose answer was lost or refused for the moment.
const TRIES: u32 = 5;

pub(super) async fn run(
    work: &Work<'_>,
    vm: &Expected,
    address: FamilyPair<IpAddr>,
    mode: ChangeMode,
) -> Result {
    let found = work.expect(vm).await?;
    let uuid = found.config.smbios().ok().flatten().and_then(|smbios| smbios.uuid);
    let node = &vm.mark.node;
    let phases = phases_at(work, node, address.primary()).await?;
    let at = Whereabouts { address, vmid: Some(found.vmid), host: Some(found.host.clone()), uuid, phases };
    let change = ChangeOrder::new(work, node, &at)?;
    match mode {
        ChangeMode::NoReboot => change.at_once().await,
        ChangeMode::Try if sabotaged(Defect::TrialSkipped) => change.at_once().await,
        ChangeMode::Try => change.on_trial().await,
        ChangeMode::TryFirst => change.live_part().await?.on_trial().await,
        ChangeMode::Reboot => change.with_restart().await,
        ChangeMode::Restart => change.written_part().await?.with_restart().await,
        ChangeMode::Staged => change.for_later().await,
    }
}

/// A configuration for one machine.
pub(super) struct ChangeOrder<'a> {
    work: &'a Work<'a>,
    reach: &'a Reach<'a>,
    node: &'a NodeName,
    at: &'a Whereabouts,
    wanted: MachineConfig,
}

/// What a machine has that it should not have, on its disk and in force.
pub(super) struct Seen {
    client: Client,
    kept: Vec<Change>,
    active: Vec<Change>,
    in_force: SecretString,
    on_disk: SecretString,
    /// Whether somebody else's change is in force and not on the disk, and goes back by itself.
    on_trial: bool,
    /// Since when what is in force is younger than what is on the disk.
    tried: Option<Duration>,
}

impl Seen {
    /// The first place where it is not as described.
    pub(super) fn difference(&self) -> Option<&str> {
        self.kept.iter().chain(&self.active).map(|change| change.key.as_str()).next()
    }
}

impl<'a> ChangeOrder<'a> {
    /// What is described for a machine in the phases that `at` says.
    pub(super) fn new(work: &'a Work<'a>, node: &'a NodeName, at: &'a Whereabouts) -> Result<Self> {
        let reach = work.reach()?;
        let wanted = reach.machines.config(node, at);
        let wanted = wanted.map_err(|reason| StepError::NoConfig { node: node.clone(), reason })?;
        Ok(Self { work, reach, node, at, wanted })
    }

    /// While it runs.
    pub(super) async fn at_once(&self) -> Result {
        let sent = self.send_until_kept(ApplyMode::NoReboot).await?;
        self.settle().await?;
        Ok(if sent { End::Changed } else { End::Unchanged })
    }

    /// The same, where nothing that runs is started anew.
    pub(super) async fn taken_over(&self) -> Result {
        let sent = self.send_until_kept(ApplyMode::NoReboot).await?;
        Ok(if sent { End::Changed } else { End::Unchanged })
    }

    /// The same order without what needs a restart.
    async fn live_part(self) -> Result<Self> {
        let failed = |reason| StepError::NoConfig { node: self.node.clone(), reason };
        // What somebody tries is not what it has.
        let in_force = self.after_other_trials().await?.in_force;
        let text = live_part(&self.wanted.text, &in_force).map_err(failed)?;
        Ok(Self { wanted: MachineConfig { text, ..self.wanted }, ..self })
    }

    /// The same order for what is on the machine's disk already: there is nothing to send.
    async fn written_part(self) -> Result<Self> {
        let text = self.after_other_trials().await?.on_disk;
        Ok(Self { wanted: MachineConfig { text, ..self.wanted }, ..self })
    }

    /// Sends for a while; only once the machine is well with it, for good.
    async fn on_trial(&self) -> Result {
        if !self.begin_trial().await? {
            return Ok(End::Unchanged);
        }
        let begun = Instant::now();
        loop {
            let detail = match self.try_look().await {
                Err(reason) => reason,
                // Nobody says when it goes back: what is in force does.
                Ok(seen) if !seen.active.is_empty() => return Err(self.taken_back(&seen.active)),
                Ok(seen) => match self.is_well(&seen.client).await {
                    None => break,
                    Some(complaint) => complaint,
                },
            };
            if begun.elapsed() > TRIAL + ANSWER_LIMIT {
                return Err(self.silent(&detail, TRIAL + ANSWER_LIMIT).await);
            }
            self.wait("it to be well with the change", &detail, begun, TRIAL).await?;
        }
        self.confirm().await?;
        self.settle().await?;
        Ok(End::Changed)
    }

    /// Sends until the machine has taken the change on trial, or it is in force; false if it was there for good before. What did not
    /// arrive was not taken back either: it is sent again.
    async fn begin_trial(&self) -> Result<bool> {
        let (mut unanswered, mut tried) = (None, None);
        for _ in 0..TRIES {
            let seen = self.after_other_trials().await?;
            if seen.kept.is_empty() && seen.active.is_empty() {
                return Ok(false);
            }
            // A trial of a run that died is not begun anew: the second one would go back to the first.
            if seen.active.is_empty() {
                return Ok(true);
            }
            // The answer was lost, and what is in force was replaced since, by what it had before: so the change was there.
            let is_lost = |error: &talmox_talos::Error| error.kind() == Kind::Uncertain;
            if unanswered.as_ref().is_some_and(is_lost) && seen.tried != tried {
                return Err(self.taken_back(&seen.active));
            }
            unanswered = self.send(&seen.client, ApplyMode::Try(TRIAL)).await?;
            if unanswered.is_none() {
                return Ok(true);
            }
            tried = seen.tried;
        }
        let never = || StepError::NoConfig {
            node: self.node.clone(),
            reason: "it never took what was sent".to_owned(),
        };
        Err(unanswered.map_or_else(never, |error| self.not_sent(error)))
    }

    /// Sends what is on trial for good, for as long as it is: once it went back, it would come without a trial.
    async fn confirm(&self) -> Result<()> {
        let mut unanswered = None;
        for _ in 0..TRIES {
            let seen = self.look().await?;
            if !seen.active.is_empty() {
                return Err(self.taken_back(&seen.active));
            }
            if seen.kept.is_empty() {
                return Ok(());
            }
            unanswered = self.send(&seen.client, ApplyMode::NoReboot).await?;
        }
        let left = self.look().await?.kept;
        match unanswered {
            _ if left.is_empty() => Ok(()),
            Some(error) => Err(self.not_sent(error)),
            None => Err(self.read_back(&left)),
        }
    }

    /// Waits until nothing else is on trial: a run that died may have begun with what was described then, and others try too. A trial
    /// on top of it would not go back to what is on the disk, but to the one before, and that stays.
    async fn after_other_trials(&self) -> Result<Seen> {
        let begun = Instant::now();
        loop {
            let seen = self.look().await?;
            if seen.active.is_empty() || !seen.on_trial {
                return Ok(seen);
            }
            if begun.elapsed() > OTHERS_TRIAL {
                let (node, limit) = (self.node.clone(), OTHERS_TRIAL);
                return Err(StepError::OtherTrial { node, address: self.at.address.primary(), limit });
            }
            let detail = "it goes back to what it had before";
            self.wait("another change on trial to end", detail, begun, OTHERS_TRIAL).await?;
        }
    }

    async fn with_restart(&self) -> Result {
        let wrote = self.send_until_kept(ApplyMode::Staged).await?;
        let mut begun = Instant::now();
        let (mut asked, mut restarts): (Option<Instant>, u32) = (None, 0);
        loop {
            let detail = match self.try_look().await {
                Ok(seen) if seen.active.is_empty() => {
                    return Ok(if wrote || asked.is_some() { End::Changed } else { End::Unchanged });
                }
                Ok(seen) if asked.is_none_or(|at| at.elapsed() > RESTART_SEEN) && restarts < TRIES => {
                    // One that was told to restart in time, and did not, is only told again.
                    match asked {
                        None => self.work.go_down_now().await?,
                        Some(_) => self.work.go_down_again().await?,
                    }
                    begun = Instant::now();
                    // Whatever becomes of the call: what is in force tells.
                    if let Err(error) = seen.client.reboot(false).await
                        && !matches!(error.kind(), Kind::Uncertain | Kind::NotReached | Kind::NotReady)
                    {
                        return Err(StepError::machine(format!("restart {}", self.node))(error));
                    }
                    (asked, restarts) = (Some(Instant::now()), restarts + 1);
                    "it was told to restart".to_owned()
                }
                Ok(_) => "it has not restarted yet".to_owned(),
                Err(reason) => reason,
            };
            if begun.elapsed() > RESTART_LIMIT {
                return Err(self.silent(&detail, RESTART_LIMIT).await);
            }
            self.wait("its restart with the new configuration", &detail, begun, RESTART_LIMIT).await?;
        }
    }

    async fn for_later(&self) -> Result {
        let sent = self.send_until_kept(ApplyMode::Staged).await?;
        Ok(if sent { End::Changed } else { End::Unchanged })
    }

    /// Sends until what is on the machine's disk is what was sent, every document; gives whether it was sent at all.
    async fn send_until_kept(&self, mode: ApplyMode) -> Result<bool> {
        let (mut sent, mut unanswered) = (false, None);
        for attempt in 1..=TRIES {
            let seen = self.look().await?;
            let in_force = mode == ApplyMode::Staged || seen.active.is_empty();
            if seen.kept.is_empty() && in_force {
                return Ok(sent);
            }
            if attempt == TRIES && sent {
                let left = if seen.kept.is_empty() { seen.active } else { seen.kept };
                // It has another one because it did not take this one: why it did not is what helps.
                return Err(unanswered.map_or_else(|| self.read_back(&left), |error| self.not_sent(error)));
            }
            unanswered = self.send(&seen.client, mode).await?;
            sent = true;
        }
        let reason = "it never took what was sent".to_owned();
        Err(StepError::NoConfig { node: self.node.clone(), reason })
    }

    /// Sends once. What may have arrived is looked for by whoever asked; the error is why it may not have.
    async fn send(&self, client: &Client, mode: ApplyMode) -> Result<Option<talmox_talos::Error>> {
        let text = Bytes::from(self.wanted.text.expose_secret().as_bytes().to_vec());
        let client = client.clone().with_deadlines(Deadlines::default());
        match client.apply_configuration(text, mode, false).await {
            Ok(applied) => {
                for warning in &applied.warnings {
                    self.work.warn(&without_secrets(warning, &self.wanted));
                }
                Ok(None)
            }
            Err(error) if matches!(error.kind(), Kind::Uncertain | Kind::NotReached | Kind::NotReady) => {
                self.work.pause("the machine to take its configuration", PAUSE).await?;
                Ok(Some(error))
            }
            Err(error) => Err(self.not_sent(error)),
        }
    }

    fn not_sent(&self, error: talmox_talos::Error) -> StepError {
        let error = without_secrets_of(error, &self.wanted);
        StepError::machine(format!("change the configuration of {}", self.node))(error)
    }

    /// Looks until the machine answers.
    pub(super) async fn look(&self) -> Result<Seen> {
        let begun = Instant::now();
        loop {
            let reason = match self.try_look().await {
                Ok(seen) => return Ok(seen),
                Err(reason) => reason,
            };
            if begun.elapsed() > ANSWER_LIMIT {
                return Err(self.silent(&reason, ANSWER_LIMIT).await);
            }
            self.wait("an answer", &reason, begun, ANSWER_LIMIT).await?;
        }
    }

    async fn try_look(&self) -> std::result::Result<Seen, String> {
        let client = match probe(self.reach, self.at.address.primary(), self.at.uuid.as_deref()).await {
            Probe::Configured(client) => client.with_deadlines(looking()),
            Probe::Unreachable { reason } => return Err(reason),
            Probe::Stranger { why } => return Err(why),
            Probe::Maintenance { .. } => return Err("it is in maintenance mode".to_owned()),
        };
        let held = held(&client).await.map_err(|error| error.to_string())?;
        let since = held.on_trial(self.reach.clock.now());
        let Held { kept: Some(kept), active: Some(in_force), tried } = held else {
            return Err("it does not say what it is configured with".to_owned());
        };
        let on_trial = since.is_some() && !compare_texts(&kept, &in_force)?.is_empty();
        let against = |has| compare_texts(has, &self.wanted.text);
        let (on_disk, kept, active) = (kept.clone(), against(&kept)?, against(&in_force)?);
        Ok(Seen { client, kept, active, in_force, on_disk, on_trial, tried })
    }

    /// Waits until everything runs with what was sent: pods of the control plane first, which the machine itself takes half a
    /// minute to notice.
    async fn settle(&self) -> Result<()> {
        let servers = Servers::of(self.work).await?;
        let (work, node, address) = (self.work, self.node, self.at.address.primary());
        let patient = Patient { work, node, address, servers: &servers };
        if work.run.role(node) != Some(Role::Controller) {
            return until_well(&patient, WELL_LIMIT).await;
        }
        // What pods are made from follows a configuration by a moment, certificates by more.
        loop {
            self.until_renewed(&servers).await?;
            until_well(&patient, WELL_LIMIT).await?;
            if self.stale_pods(&servers).await.is_none() {
                return Ok(());
            }
        }
    }

    async fn until_renewed(&self, servers: &Servers) -> Result<()> {
        let begun = Instant::now();
        while let Some(stale) = self.stale_pods(servers).await {
            if begun.elapsed() > WELL_LIMIT {
                return Err(self.silent(&stale, WELL_LIMIT).await);
            }
            self.wait("its control plane with the new configuration", &stale, begun, WELL_LIMIT).await?;
        }
        Ok(())
    }

    pub(super) async fn stale_pods(&self, servers: &Servers) -> Option<String> {
        match self.try_look().await {
            Ok(seen) => pods::stale(&seen.client, servers, self.node).await,
            Err(reason) => Some(reason),
        }
    }

    /// Why a machine with a change on trial is not well; nothing if it is.
    async fn is_well(&self, client: &Client) -> Option<String> {
        let servers = match Servers::of(self.work).await {
            Ok(servers) => servers,
            Err(error) => return Some(error.to_string()),
        };
        let (work, node, address) = (self.work, self.node, self.at.address.primary());
        let patient = Patient { work, node, address, servers: &servers };
        match patient.complaint().await {
            None if work.run.role(node) == Some(Role::Controller) => {
                pods::stale(client, &servers, node).await
            }
            other => other,
        }
    }

    async fn wait(&self, name: &str, detail: &str, begun: Instant, limit: Duration) -> Result<()> {
        let (step, elapsed) = (self.work.planned, begun.elapsed());
        self.work.event(Event::Waiting { step, name, detail, elapsed, limit });
        self.work.pause(name, PAUSE).await
    }

    async fn silent(&self, detail: &str, limit: Duration) -> StepError {
        let address = self.at.address.primary();
        let said = last_words(self.reach, address).await;
        StepError::NotThere {
            node: self.node.clone(),
            address,
            waiting_for: "it to take its configuration".to_owned(),
            limit,
            last_words: format!("{detail}; {said}"),
        }
    }

    fn read_back(&self, left: &[Change]) -> StepError {
        let fields = left.iter().map(|change| change.key.clone()).collect();
        StepError::ReadBack { node: self.node.clone(), fields }
    }

    fn taken_back(&self, left: &[Change]) -> StepError {
        let fields = left.iter().map(|change| change.key.clone()).collect();
        StepError::TakenBack { node: self.node.clone(), fields }
    }
}
