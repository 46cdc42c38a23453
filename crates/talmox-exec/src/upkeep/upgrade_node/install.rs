//! Getting another Talos onto the disk, beside the one that runs.

use std::time::Duration;

use talmox_talos::{Client, Error, Installer, Kind, Stage, Store};
use tokio::time::Instant;

use super::{Order, PAUSE, Seen, UpgradeFault, is_lost};
use crate::machine::looking;
use crate::work::Result;

/// How long an installer that somebody else began may take.
const OTHERS_LIMIT: Duration = Duration::from_mins(15);
/// How long a machine that upgrades by itself may take until it shows. Its answer was lost, and a second call while the first
/// one works would leave it unable to upgrade until it restarts.
const SIGN_LIMIT: Duration = Duration::from_mins(10);

/// How an installation ended.
pub(super) enum Install {
    /// It is on the disk and waits for a restart.
    Done,
    /// The machine installs and restarts by itself.
    ByItself,
    /// Nobody saw the end.
    Unsure,
}

impl Order<'_> {
    /// Pulls the installer and runs it; before 1.13 the machine does all of it.
    pub(super) async fn install(&self, seen: &Seen) -> Result<Install> {
        let client = seen.client.clone().with_deadlines(talmox_talos::Deadlines::default());
        let begun = Instant::now();
        let mut progress = |layer: talmox_talos::PullProgress| {
            let detail = format!("{} of {} bytes of {}", layer.offset, layer.total, layer.layer);
            self.report("its installer to be pulled", &detail, (begun, OTHERS_LIMIT));
        };
        match client.pull(Store::System, &self.image, &mut progress).await {
            Ok(pinned) => self.run_installer(&client, &pinned).await,
            Err(error) if error.kind() == Kind::Unsupported => self.upgrade_by_itself(&client, seen).await,
            Err(error) if is_lost(&error) => Ok(Install::Unsure),
            Err(error) => Err(self.not_installed(&error)),
        }
    }

    /// The exit code decides, which the client looks at: a call that ends well says nothing.
    async fn run_installer(&self, client: &Client, pinned: &str) -> Result<Install> {
        let begun = Instant::now();
        loop {
            let mut said = |words: &str| {
                let last = words.lines().last().unwrap_or_default().to_owned();
                self.report("the installer", &last, (begun, OTHERS_LIMIT));
            };
            let error = match client.install_upgrade(pinned, &mut said).await {
                Ok(()) => return Ok(Install::Done),
                Err(error) => error,
            };
            match error.kind() {
                // Another installer runs: of an earlier run that was cut off, or of somebody else.
                Kind::NotReady if begun.elapsed() < OTHERS_LIMIT => {
                    self.report("another installer to end", &error.to_string(), (begun, OTHERS_LIMIT));
                    self.work.pause("another installer to end", PAUSE).await?;
                }
                Kind::Uncertain | Kind::NotReached | Kind::NotTrusted => return Ok(Install::Unsure),
                Kind::NotReady
                | Kind::AlreadyThere
                | Kind::NotFound
                | Kind::Denied
                | Kind::Unsupported
                | Kind::Refused
                | Kind::Failed => return Err(self.not_installed(&error)),
            }
        }
    }

    async fn upgrade_by_itself(&self, client: &Client, seen: &Seen) -> Result<Install> {
        let installer = Installer { image: self.image.clone(), stage: false };
        let called = client.upgrade_by_itself(&installer).await;
        match called {
            Ok(_) => Ok(Install::ByItself),
            Err(error) if is_lost(&error) => self.sign(client, seen, &error).await,
            Err(error) => Err(self.not_installed(&error)),
        }
    }

    /// Waits until it shows that the machine has taken the call.
    async fn sign(&self, client: &Client, seen: &Seen, error: &Error) -> Result<Install> {
        let (begun, client) = (Instant::now(), client.clone().with_deadlines(looking()));
        while begun.elapsed() < SIGN_LIMIT {
            let boot = client.boot_id().await;
            let state = client.machine_state().await;
            let went_down = matches!(&boot, Ok(boot) if *boot != seen.boot);
            let goes_down = matches!(&state, Ok(Some(state)) if matches!(state.stage, Stage::Upgrading | Stage::Rebooting));
            if went_down || goes_down || boot.is_err() {
                return Ok(Install::ByItself);
            }
            self.report("a sign of the upgrade", &error.to_string(), (begun, SIGN_LIMIT));
            self.work.run.pace().sleep(PAUSE).await;
        }
        Err(self.not_installed(error))
    }

    fn not_installed(&self, error: &Error) -> crate::StepError {
        let words = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
        self.fault(UpgradeFault::Installer { image: self.image.clone(), words })
    }
}
