//! The bootstrap, at most once in the life of a cluster.
//!
//! ```text
//!  every control plane: no data? ─▶ intent into the mark ─▶ Bootstrap ─▶ etcd runs and is healthy ─▶ done into the mark
//!                                        │ was there already: may have been called ──▶ taken? then only watched
//! ```
//!
//! With a snapshot the same, and its bytes are on the machine before the call.
//!
//! Talos itself guards this for one machine only, and says OK more than once; a reply proves nothing. What counts is the
//! service etcd.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use talmox_plan::{Expected, Snapshot};
use talmox_talos::{Client, Error, Kind, ServiceState, Stage};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{BootstrapWord, Mark, NodeName};
use tokio::time::Instant;

use crate::etcd::upload;
use crate::find::Found;
use crate::lease::write_mark;
use crate::machine::{has_data, last_words, looking};
use crate::work::{End, Result, Work};
use crate::{Event, StepError};

/// How long a machine may take until it can be bootstrapped: its clock has to be right, and its containers to be there.
const ACCEPT_LIMIT: Duration = Duration::from_mins(10);
/// How long etcd may take to run: its image is pulled first.
const ETCD_LIMIT: Duration = Duration::from_mins(15);
const PAUSE: Duration = Duration::from_secs(1);
/// How many looks in a row without a sign of the bootstrap mean that a machine that restarted has forgotten it.
const FORGOTTEN: u32 = 10;

/// What etcd begins with.
#[derive(Clone, Copy)]
pub(crate) enum Begin<'a> {
    Nothing,
    With(&'a Snapshot),
}

pub(crate) async fn run(
    work: &Work<'_>,
    vm: &Expected,
    address: IpAddr,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    begin: Begin<'_>,
) -> Result {
    let client = secure(work, address)?;
    let taken = nobody_has_data(work, vm, control_planes).await?;
    let found = work.expect(vm).await?;
    let called_before = write_intent(work, (vm, &client), &found, begin).await?;
    // Read before the call: a machine that restarts right after it is to be told from one that stands still.
    let boot = client.boot_id().await.ok();
    let order = Order { work, vm, client: &client, address, begin, boot };
    if !(taken || called_before && is_taken(&client, begin).await) {
        if let Begin::With(snapshot) = begin {
            upload(work, &client, snapshot).await?;
        }
        order.call().await?;
    }
    order.watch().await?;
    record(work, vm).await?;
    Ok(End::Changed)
}

/// Writes into the mark that the bootstrap was seen to work.
pub(super) async fn record(work: &Work<'_>, vm: &Expected) -> Result {
    let found = work.expect(vm).await?;
    let Some(mark) = found.mark() else { return Ok(End::Unchanged) };
    if mark.bootstrap.as_ref().is_some_and(|intent| intent.done) {
        return Ok(End::Unchanged);
    }
    let snapshot = mark.bootstrap.as_ref().and_then(|intent| intent.snapshot.clone());
    let intent = BootstrapWord { incarnation: mark.incarnation.clone(), done: true, snapshot };
    write_mark(work.run, &found, &Mark { bootstrap: Some(intent), ..mark }).await?;
    Ok(End::Changed)
}

fn secure(work: &Work<'_>, address: IpAddr) -> Result<Client> {
    let client = work.reach()?.secure(address);
    let client = client.ok_or(StepError::NoReach { lacks: "the cluster's secrets are not at hand" })?;
    Ok(client.with_deadlines(looking()))
}

type Asked<'a> = Pin<Box<dyn Future<Output = std::result::Result<bool, Error>> + Send + 'a>>;

/// Asks every control plane once more. Data on the node itself is that of a bootstrap whose end nobody saw; on any other it
/// is another cluster, or this one alive.
async fn nobody_has_data(
    work: &Work<'_>,
    vm: &Expected,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result<bool> {
    let mut asked: Vec<Asked<'_>> = Vec::new();
    for address in control_planes.values() {
        let client = secure(work, *address)?;
        asked.push(Box::pin(async move { has_data(&client).await }));
    }
    let mut own = false;
    for (node, answer) in control_planes.keys().zip(join_all(asked).await) {
        match answer {
            Ok(false) => {}
            Ok(true) if *node == vm.mark.node => own = true,
            Ok(true) => return Err(StepError::Changed { what: format!("etcd on {node}") }),
            // Whoever does not answer is waited for by name in the next plan.
            Err(error) if is_passing(&error) => {
                return Err(StepError::Changed { what: format!("{node}, which does not answer any more,") });
            }
            Err(error) => {
                return Err(StepError::machine(format!("ask {node} whether it has data of etcd"))(error));
            }
        }
    }
    Ok(own)
}

fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), Kind::NotReached | Kind::Uncertain | Kind::NotReady | Kind::NotTrusted)
}

/// Writes the intent, guarded by the digest of the state it was decided on; true if it was there already.
async fn write_intent(
    work: &Work<'_>,
    (vm, client): (&Expected, &Client),
    found: &Found,
    begin: Begin<'_>,
) -> Result<bool> {
    let changed = || StepError::Changed { what: format!("the mark of {}", found.name()) };
    let mark = found.mark().ok_or_else(changed)?;
    let snapshot = match begin {
        Begin::Nothing => None,
        Begin::With(snapshot) => Some(BootstrapWord::digits(&snapshot.digest)),
    };
    match &mark.bootstrap {
        Some(intent) if intent.done && snapshot.is_none() => return Err(changed()),
        Some(intent) if intent.done => {}
        Some(intent) if intent.incarnation == vm.mark.incarnation && intent.snapshot == snapshot => {
            return Ok(true);
        }
        // What somebody else began with other data must not go on in the name of this.
        Some(intent) if intent.snapshot != snapshot && is_taken(client, begin).await => {
            return Err(changed());
        }
        Some(_) | None => {}
    }
    if sabotaged(Defect::IntentNotWritten) {
        return Ok(false);
    }
    let intent = BootstrapWord { incarnation: vm.mark.incarnation.clone(), done: false, snapshot };
    write_mark(work.run, found, &Mark { bootstrap: Some(intent), ..mark }).await?;
    // What was written is read before anything is called.
    let again = work.expect(vm).await?;
    let written = again.mark().and_then(|mark| mark.bootstrap);
    if written.is_some_and(|intent| intent.incarnation == vm.mark.incarnation) {
        Ok(false)
    } else {
        Err(changed())
    }
}

/// Whether a machine shows signs of a bootstrap it has taken: the stage changes at that moment, data comes later.
async fn is_taken(client: &Client, begin: Begin<'_>) -> bool {
    let service = client.service("etcd").await.ok().flatten();
    // A snapshot that is none ends the service, and the machine takes another then.
    let failed = service.as_ref().is_some_and(|service| service.state == "Failed");
    if failed && matches!(begin, Begin::With(_)) {
        return has_data(client).await.unwrap_or_default();
    }
    let state = client.machine_state().await.ok().flatten();
    if state.is_some_and(|state| state.stage == Stage::Running) {
        return true;
    }
    let runs = service.is_some_and(|service| service.state == "Running");
    runs || has_data(client).await.unwrap_or_default()
}

/// What etcd said last, and the kubelet if that does not run either: then it is not etcd that is the matter.
fn said(etcd: &ServiceState, services: &[ServiceState]) -> String {
    let kubelet = services.iter().find(|service| service.id == "kubelet" && service.state != "Running");
    let kubelet = kubelet.map(|kubelet| format!("; kubelet is {}: {}", kubelet.state, kubelet.message));
    format!("{}: {}{}", etcd.state, etcd.message, kubelet.unwrap_or_default())
}

struct Order<'a> {
    work: &'a Work<'a>,
    vm: &'a Expected,
    client: &'a Client,
    address: IpAddr,
    begin: Begin<'a>,
    /// Which start of the machine the call went to; none if it did not tell.
    boot: Option<String>,
}

impl Order<'_> {
    /// Calls until the machine has taken it.
    async fn call(&self) -> Result<()> {
        let (begun, name) = (Instant::now(), "a machine that can be bootstrapped");
        loop {
            let Err(error) = self.client.bootstrap(matches!(self.begin, Begin::With(_))).await else {
                return Ok(());
            };
            match error.kind() {
                Kind::AlreadyThere => return Ok(()),
                // Whatever became of it, it is not called again where it shows.
                Kind::Uncertain | Kind::Failed if is_taken(self.client, self.begin).await => return Ok(()),
                Kind::NotReady | Kind::NotReached | Kind::NotTrusted | Kind::Uncertain => {}
                Kind::NotFound | Kind::Denied | Kind::Unsupported | Kind::Refused | Kind::Failed => {
                    return Err(StepError::machine(format!("bootstrap {}", self.vm.mark.node))(error));
                }
            }
            self.pause(name, &error.to_string(), (begun, ACCEPT_LIMIT)).await?;
        }
    }

    /// Waits until etcd runs and is healthy.
    async fn watch(&self) -> Result<()> {
        let (begun, mut without_sign, mut last) = (Instant::now(), 0, String::new());
        loop {
            let seen = match self.client.services().await {
                Ok(services) => match services.iter().find(|service| service.id == "etcd") {
                    Some(etcd) if etcd.state == "Running" && etcd.healthy == Some(true) => return Ok(()),
                    // etcd says only here what is wrong with a snapshot, and does not try again.
                    Some(etcd) if etcd.state == "Failed" && matches!(self.begin, Begin::With(_)) => {
                        let doing = format!("recover etcd on {}", self.vm.mark.node);
                        return Err(StepError::Etcd { doing, reason: etcd.message.clone() });
                    }
                    Some(etcd) => {
                        // A program that cannot start is there for a moment, over and over: why it ended tells more.
                        let begins = etcd.state == "Running" && etcd.healthy.is_none();
                        if !begins || last.is_empty() {
                            last = said(etcd, &services);
                        }
                        last.clone()
                    }
                    None => "there is no service etcd yet".to_owned(),
                },
                Err(error) => error.to_string(),
            };
            without_sign = if is_taken(self.client, self.begin).await { 0 } else { without_sign + 1 };
            // A machine whose programs do not come up shows no sign either, and has the bootstrap in mind all the same.
            if without_sign >= FORGOTTEN && self.has_restarted().await {
                let what = format!("{}, which has restarted and forgotten the bootstrap,", self.vm.mark.node);
                return Err(StepError::Changed { what });
            }
            self.pause("etcd to run", &seen, (begun, ETCD_LIMIT)).await?;
        }
    }

    /// Whether the machine runs since another start than the one the call went to, as far as it tells.
    async fn has_restarted(&self) -> bool {
        let now = self.client.boot_id().await.ok();
        self.boot.as_ref().zip(now).is_some_and(|(before, now)| *before != now)
    }

    async fn pause(&self, name: &str, detail: &str, (begun, limit): (Instant, Duration)) -> Result<()> {
        let elapsed = begun.elapsed();
        if elapsed > limit {
            let words = last_words(self.work.reach()?, self.address).await;
            return Err(StepError::NotThere {
                node: self.vm.mark.node.clone(),
                address: self.address,
                waiting_for: name.to_owned(),
                limit,
                last_words: if words.contains(detail) { words } else { format!("{detail}; {words}") },
            });
        }
        self.work.event(Event::Waiting { step: self.work.planned, name, detail, elapsed, limit });
        self.work.pause(name, PAUSE).await
    }
}
