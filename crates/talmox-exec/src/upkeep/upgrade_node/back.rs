//! Seeing a machine come back, and taking it back if it is not well.

use std::time::Duration;

use talmox_plan::SeenEtcd;
use talmox_talos::Stage;
use tokio::time::Instant;

use super::{Order, PAUSE, Seen, UpgradeFault, is_lost};
use crate::machine::{Probe, looking, probe, seen_etcd};
use crate::work::{End, Result};
use crate::{StepError, machine};

/// How long a machine may be away: it installs on the way, and a boot that fails is followed by one that goes back.
const BACK_LIMIT: Duration = Duration::from_mins(20);
/// How long it may take from its first answer until everything on it works.
const WELL_LIMIT: Duration = Duration::from_mins(15);
/// How long nobody answers before its VM is looked at, and how often.
const SILENCE: Duration = Duration::from_secs(30);
/// How many looks in a row must find it well: readiness comes and goes while a control plane joins.
const SURE: u32 = 3;
/// After this without a sign of a restart, it is asked for once more.
const RESTART_AGAIN: Duration = Duration::from_mins(3);

impl Order<'_> {
    /// Waits until the machine answers, whatever it runs.
    pub(super) async fn answer(&self) -> Result<Seen> {
        self.wait("an answer", |_| true, None).await
    }

    /// Waits for another boot than the one that was seen, and judges what came back.
    pub(super) async fn follow(&self, before: &Seen) -> Result {
        let seen = self.wait("another boot", |seen| seen.boot != before.boot, Some(before)).await?;
        if seen.version != self.to && seen.version == before.version {
            self.note(None).await;
            return Err(self.fell_back(&seen));
        }
        let complaint = self.judge(&seen, before.ready).await?;
        self.note(None).await;
        let Some(words) = complaint else { return Ok(End::Changed) };
        let now = self.look_again().await.unwrap_or(seen);
        // What Talos itself went back from must not be gone back to.
        if self.is_as_before(&now, before) {
            return Err(self.fell_back(&now));
        }
        Err(self.take_back(&now, words).await)
    }

    /// Whether what ran before the upgrade runs again.
    fn is_as_before(&self, now: &Seen, before: &Seen) -> bool {
        let same_image = now.version != self.to || now.schematic == before.schematic;
        now.version == before.version && same_image
    }

    fn fell_back(&self, seen: &Seen) -> StepError {
        let same = seen.version == self.to;
        let version = if same { "the image before".to_owned() } else { seen.version.clone() };
        let to = if same { format!("{} with the described extensions", self.to) } else { self.to.to_owned() };
        self.fault(UpgradeFault::FellBack { to, version })
    }

    /// What is wrong with a machine that came back, if anything is once it had time. What it runs is read when it is found well and
    /// not before: a Talos that answers may still fall back to the one before, which is well too.
    async fn judge(&self, first: &Seen, was_ready: bool) -> Result<Option<String>> {
        let (begun, mut well, mut boot) = (Instant::now(), 0, first.boot.clone());
        loop {
            let mut complaint = self.complaint(was_ready).await?;
            well = if complaint.is_none() { well + 1 } else { 0 };
            if well >= SURE {
                match self.look_again().await {
                    Some(now) if now.boot == boot => {
                        return Ok(self.wrong_image(&now).or_else(|| self.wrong_version(&now)));
                    }
                    Some(now) => {
                        (boot, complaint) = (now.boot, Some("it has restarted once more".to_owned()));
                    }
                    None => complaint = Some("it does not say what it runs".to_owned()),
                }
                well = 0;
            }
            let detail = complaint.unwrap_or_else(|| "it looks so; another look makes sure".to_owned());
            if begun.elapsed() > WELL_LIMIT {
                return Ok(Some(format!("runs and is not well: {detail}")));
            }
            self.report("it to be well", &detail, (begun, WELL_LIMIT));
            self.work.run.pace().sleep(PAUSE).await;
        }
    }

    /// What the machine runs now, if it says so.
    async fn look_again(&self) -> Option<Seen> {
        match probe(self.reach, self.address, Some(&self.uuid)).await {
            Probe::Configured(client) => self.look(client).await.ok(),
            Probe::Unreachable { .. } | Probe::Maintenance { .. } | Probe::Stranger { .. } => None,
        }
    }

    fn wrong_version(&self, seen: &Seen) -> Option<String> {
        (seen.version != self.to).then(|| format!("is described, and {} runs", seen.version))
    }

    /// Whether what runs is made from another schematic.
    fn wrong_image(&self, seen: &Seen) -> Option<String> {
        let wanted = self.schematic?;
        let short = |id: &str| id.chars().take(12).collect::<String>();
        match seen.schematic.as_deref() {
            Some(has) if has == wanted => None,
            Some(has) => Some(format!("runs, made from schematic {} and not {}", short(has), short(wanted))),
            None => Some(format!("runs, and does not say that it is made from schematic {}", short(wanted))),
        }
    }

    /// Why the machine is not well; one that was not ready before need not be now.
    async fn complaint(&self, was_ready: bool) -> Result<Option<String>> {
        let client = match probe(self.reach, self.address, Some(&self.uuid)).await {
            Probe::Configured(client) => client,
            Probe::Unreachable { reason } => return Ok(Some(reason)),
            Probe::Maintenance { .. } => return Ok(Some("it has lost its configuration".to_owned())),
            Probe::Stranger { why } => return Err(self.stranger(why)),
        };
        let state = match client.machine_state().await {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(Some("it does not know its stage yet".to_owned())),
            Err(error) => return Ok(Some(error.to_string())),
        };
        if state.stage != Stage::Running || (was_ready && !state.ready) {
            let unmet = state.unmet.iter().map(|unmet| format!(", {}: {}", unmet.name, unmet.reason));
            let word = format!("{:?}", machine::stage(state.stage)).to_lowercase();
            return Ok(Some(format!("{word}{}", unmet.collect::<String>())));
        }
        if !self.is_control_plane() {
            return Ok(None);
        }
        Ok(match seen_etcd(&client).await {
            SeenEtcd::Member { healthy: true, learners: 0, .. } => None,
            SeenEtcd::Member { .. } => Some("its member of etcd is not healthy".to_owned()),
            SeenEtcd::Empty => Some("etcd has no data".to_owned()),
            SeenEtcd::Unknown { reason } => Some(format!("etcd: {reason}")),
        })
    }

    /// Goes back to the Talos before.
    async fn take_back(&self, sick: &Seen, words: String) -> StepError {
        let to = self.to.to_owned();
        // Sick as it is, its member of etcd may be one the others cannot do without by now.
        if let Err(error) = self.work.go_down_again().await {
            return self.fault(UpgradeFault::Stranded { to, words, reason: error.to_string() });
        }
        let client = sick.client.clone().with_deadlines(looking());
        if let Err(error) = client.roll_back().await
            && !is_lost(&error)
        {
            let reason = error.to_string();
            return self.fault(UpgradeFault::Stranded { to, words, reason });
        }
        match self.wait("the Talos before", |seen| seen.boot != sick.boot, None).await {
            Ok(seen) if seen.version == self.from => {
                self.fault(UpgradeFault::TakenBack { from: self.from.to_owned(), to, words })
            }
            Ok(seen) => {
                let reason = format!("it runs {}", seen.version);
                self.fault(UpgradeFault::Stranded { to, words, reason })
            }
            Err(error) => {
                let reason = error.to_string();
                self.fault(UpgradeFault::Stranded { to, words, reason })
            }
        }
    }

    /// Looks until the machine answers and what it says will do. A restart that was asked for in the boot `before` is asked
    /// for again if it never shows: the call may have been lost.
    async fn wait(&self, name: &str, will_do: impl Fn(&Seen) -> bool, before: Option<&Seen>) -> Result<Seen> {
        let (begun, mut answered, mut looked, mut asked) =
            (Instant::now(), Instant::now(), Instant::now(), Instant::now());
        loop {
            let detail = match probe(self.reach, self.address, Some(&self.uuid)).await {
                Probe::Stranger { why } => return Err(self.stranger(why)),
                Probe::Maintenance { .. } => "it has lost its configuration".to_owned(),
                Probe::Unreachable { reason } => reason,
                Probe::Configured(client) => match self.look(client).await {
                    Ok(seen) if will_do(&seen) => return Ok(seen),
                    Ok(seen) => {
                        answered = Instant::now();
                        if seen.stage == Stage::Running && asked.elapsed() > RESTART_AGAIN {
                            asked = Instant::now();
                            self.ask_again(before, &seen).await;
                        }
                        "it has not gone down yet".to_owned()
                    }
                    Err(error) => error.to_string(),
                },
            };
            if answered.elapsed() > SILENCE && looked.elapsed() > SILENCE {
                looked = Instant::now();
                if matches!(self.found.is_running(self.work.client()).await, Ok(false)) {
                    return Err(self.fault(UpgradeFault::Off));
                }
            }
            if begun.elapsed() > BACK_LIMIT {
                return Err(self.fault(UpgradeFault::Gone { after: BACK_LIMIT, words: detail }));
            }
            self.report(name, &detail, (begun, BACK_LIMIT));
            // Until something was begun it can be told to stop; after that it sees it through.
            if before.is_some() {
                self.work.run.pace().sleep(PAUSE).await;
            } else {
                self.work.pause(name, PAUSE).await?;
            }
        }
    }

    /// Asks for the restart once more, if an installer of ours waits for one.
    async fn ask_again(&self, before: Option<&Seen>, seen: &Seen) {
        if before.is_some() && self.is_installed(seen).await && self.work.go_down_again().await.is_ok() {
            let client = seen.client.clone().with_deadlines(looking());
            if let Err(error) = client.reboot(false).await {
                tracing::debug!(node = %self.node(), "could not ask for the restart again: {error}");
            }
        }
    }

    fn stranger(&self, why: String) -> StepError {
        StepError::Stranger { node: self.node().clone(), address: self.address, why }
    }
}
