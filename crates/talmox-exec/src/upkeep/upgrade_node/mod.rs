//! Moving a machine to another Talos, or to one with other extensions.
//!
//! ```text
//!  on target? ── yes ──▶ done (staged, and another waits for the restart: installed over it)
//!      │ no
//!      ├─ on its way down ───────────────────────────────┐
//!      ├─ installed, and not restarted since ──────┐     │
//!      ▼                                           ▼     ▼
//!  pull ─▶ install beside what runs ─▶ (staged: done) ─▶ restart ─▶ another boot ─▶ version, schematic, well ─▶ done
//!      │        before 1.13 Talos does all of it by itself           │                     │ no
//!      │ fails: nothing has changed                                  │ the old version     ▼
//!      ▼                                                             ▼                 roll back
//!  say so; whoever comes next lets pods back ◀───────────────────────┴─────────────────────┘
//! ```
//!
//! Every look begins at the top, so it goes on wherever an earlier run was cut off. That an installer was run is noted on the
//! node's object in Kubernetes: running it twice would overwrite the Talos that a node falls back to.

mod back;
mod fault;
mod install;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::{CarriedRestart, Expected, Upkeep};
use talmox_talos::{Client, Stage, kinds};
use talmox_types::NodeName;
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};
use tokio::time::Instant;

pub use fault::UpgradeFault;

use crate::find::Found;
use crate::machine::looking;
use crate::steps::power;
use crate::work::{End, Result, Work};
use crate::{Event, Reach, StepError};
use install::Install;

/// How often an installer is run whose end nobody saw.
const TRIES: u32 = 3;
/// How long a node may take until its restart has begun.
const PAUSE: Duration = Duration::from_secs(2);

/// What is to be installed where.
struct Order<'a> {
    work: &'a Work<'a>,
    reach: &'a Reach<'a>,
    vm: &'a Expected,
    found: Found,
    uuid: String,
    address: IpAddr,
    from: &'a str,
    to: &'a str,
    image: String,
    schematic: Option<&'a str>,
    /// What of its VM waits for a restart as well.
    carries: Option<&'a CarriedRestart>,
    control_planes: &'a BTreeMap<NodeName, IpAddr>,
}

/// A machine that answers.
struct Seen {
    client: Client,
    boot: String,
    version: String,
    schematic: Option<String>,
    stage: Stage,
    ready: bool,
}

pub(super) async fn run(work: &Work<'_>, upkeep: &Upkeep) -> Result {
    let Upkeep::UpgradeNode { vm, address, from, to, installer, schematic, stage, carries, control_planes } =
        upkeep
    else {
        return Err(StepError::Changed { what: "the plan".to_owned() });
    };
    let reach = work.reach()?;
    let found = work.expect(vm).await?;
    let uuid = found.config.smbios().ok().flatten().and_then(|smbios| smbios.uuid);
    let Some(uuid) = uuid else {
        let reason = format!("{} has no SMBIOS uuid to know it by", found.name());
        return Err(StepError::NoConfig { node: vm.mark.node.clone(), reason });
    };
    let image = if sabotaged(Defect::WrongInstaller) {
        format!("ghcr.io/siderolabs/installer:v{to}")
    } else {
        installer.clone()
    };
    let order = Order {
        work,
        reach,
        vm,
        found,
        uuid,
        address: *address,
        from,
        to,
        image,
        schematic: schematic.as_deref(),
        carries: carries.as_ref(),
        control_planes,
    };
    order.carry_out(*stage).await
}

impl Order<'_> {
    async fn carry_out(&self, stage: bool) -> Result {
        for _ in 0..TRIES {
            let seen = self.answer().await?;
            if self.is_on_target(&seen) && !(stage && self.another_waits(&seen).await) {
                self.note(None).await;
                return Ok(End::Unchanged);
            }
            if matches!(seen.stage, Stage::Upgrading | Stage::Rebooting) {
                return self.follow(&seen).await;
            }
            if !self.is_installed(&seen).await {
                match self.install(&seen).await {
                    Ok(Install::Done) => self.note(Some(&seen.boot)).await,
                    Ok(Install::ByItself) => return self.follow(&seen).await,
                    // Whatever became of it, the next look shows.
                    Ok(Install::Unsure) => continue,
                    Err(error) => return Err(error),
                }
            }
            if stage || self.is_too_late() {
                return Ok(End::Changed);
            }
            match self.restart(&seen).await {
                Ok(()) => return self.follow(&seen).await,
                // It ended while the members were asked.
                Err(StepError::Closed { .. }) if self.is_too_late() => return Ok(End::Changed),
                Err(error) => return Err(error),
            }
        }
        let words = "it was begun several times, and nobody saw an end".to_owned();
        Err(self.fault(UpgradeFault::Installer { image: self.image.clone(), words }))
    }

    fn is_on_target(&self, seen: &Seen) -> bool {
        let schematic = self.schematic.is_none_or(|wanted| seen.schematic.as_deref() == Some(wanted));
        seen.version == self.to && schematic
    }

    fn node(&self) -> &NodeName {
        &self.vm.mark.node
    }

    fn is_control_plane(&self) -> bool {
        self.work.run.role(self.node()) != Some(Role::Worker)
    }

    /// What the machine runs now.
    async fn look(&self, client: Client) -> std::result::Result<Seen, talmox_talos::Error> {
        let boot = client.boot_id().await?;
        let version = client.version().await?.tag.trim_start_matches('v').to_owned();
        let machine = client.machine_state().await?;
        let extensions = client.list::<kinds::ExtensionStatus>().await?;
        let mut metadata = extensions.into_iter().filter_map(|resource| resource.spec.metadata);
        let schematic = metadata.find(|one| one.name == "schematic").map(|one| one.version);
        let (stage, ready) =
            machine.map_or((Stage::Unknown, false), |machine| (machine.stage, machine.ready));
        Ok(Seen { client, boot, version, schematic, stage, ready })
    }

    /// Whether the installer was run since the machine booted.
    async fn is_installed(&self, seen: &Seen) -> bool {
        self.installed(seen).await.is_some_and(|image| image == self.image)
    }

    /// Whether another image waits for the restart of a machine that runs what it should.
    async fn another_waits(&self, seen: &Seen) -> bool {
        self.installed(seen).await.is_some_and(|image| image != self.image)
    }

    /// The image that was installed since the machine booted, if anybody noted it.
    async fn installed(&self, seen: &Seen) -> Option<String> {
        for client in self.reach.kubernetes_at(self.control_planes.values().copied()) {
            if let Ok(node) = client.node(self.node().as_str()).await {
                let (image, boot) = node.metadata.annotations.get(talmox_k8s::INSTALLED)?.split_once(' ')?;
                return (boot == seen.boot).then(|| image.to_owned());
            }
        }
        None
    }

    /// Notes that the installer was run in this boot. Nobody depends on it: without it the installer is run once more.
    async fn note(&self, boot: Option<&str>) {
        let installed = boot.map(|boot| (self.image.as_str(), boot));
        for client in self.reach.kubernetes_at(self.control_planes.values().copied()) {
            match client.note_installed(self.node().as_str(), installed).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(node = %self.node(), "could not note the installer: {error}"),
            }
        }
    }

    /// Whether the window in which it may restart has ended while the installer worked. What is installed waits, and is known by its
    /// note.
    fn is_too_late(&self) -> bool {
        let late = !self.work.run.may_interrupt();
        if late {
            let window = &self.work.run.request.upkeep.window;
            self.work.warn(&format!(
                "Talos {} is installed and waits for the restart: nothing is interrupted now ({window})",
                self.to
            ));
        }
        late
    }

    /// Restarts into what was installed, if etcd can still do without it. A leader hands over first, so that etcd need not notice that it is gone.
    async fn restart(&self, seen: &Seen) -> Result<()> {
        self.work.others_are_there().await?;
        self.work.go_down_now().await?;
        let client = seen.client.clone().with_deadlines(looking());
        if self.is_control_plane()
            && let Err(error) = client.etcd_forfeit_leadership().await
        {
            tracing::debug!(node = %self.node(), "it did not hand over leadership: {error}");
        }
        // Of what waits for the VM's restart nothing may be left, or somebody else restarted it: then Talos does.
        if let Some(CarriedRestart { timeout, .. }) = self.carries
            && power::reboot(self.work, self.vm, *timeout).await? == End::Changed
        {
            return Ok(());
        }
        match client.reboot(false).await {
            Ok(_) => Ok(()),
            Err(error) if is_lost(&error) => Ok(()),
            Err(error) => Err(StepError::machine(format!("restart {}", self.node()))(error)),
        }
    }

    fn fault(&self, fault: UpgradeFault) -> StepError {
        StepError::Upgrade { node: self.node().clone(), fault }
    }

    fn report(&self, name: &str, detail: &str, (begun, limit): (Instant, Duration)) {
        let elapsed = begun.elapsed();
        self.work.event(Event::Waiting { step: self.work.planned, name, detail, elapsed, limit });
    }
}

/// Whether nobody can tell what became of a call.
fn is_lost(error: &talmox_talos::Error) -> bool {
    use talmox_talos::Kind;
    matches!(error.kind(), Kind::NotReached | Kind::Uncertain | Kind::NotTrusted | Kind::NotReady)
}
