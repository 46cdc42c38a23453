//! What a cluster is handed once it is bootstrapped: manifests, and a program of the user's that takes over.
//!
//! That it was done is noted in the cluster itself, by the digest of what was done, so that nobody does it twice.

use std::time::Duration;

use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use talmox_k8s::{Apply, ApplyError, Client, Kind, Manifest};
use tokio::time::Instant;

use crate::machine::kubernetes::{DIGEST, MANIFESTS, NAMESPACE, POST_BOOTSTRAP, control_planes, note};
use crate::work::{End, Result, Work};
use crate::{Event, Reach, StepError, observe_for};

/// How long Kubernetes may take to answer after the bootstrap: its images are pulled first.
const API_LIMIT: Duration = Duration::from_mins(15);
const PAUSE: Duration = Duration::from_secs(1);
/// How often manifests are tried while the server is still getting there.
const TRIES: u32 = 30;
const NAME: &str = "Kubernetes to answer";

pub(super) async fn manifests(work: &Work<'_>) -> Result {
    let reach = work.reach()?;
    let doing = || "apply the manifests".to_owned();
    let failed = |reason| StepError::HandOver { doing: doing(), reason };
    let texts = reach.machines.manifests().await.map_err(failed)?;
    let mut manifests = Vec::new();
    let mut hash = Sha256::new();
    for text in &texts {
        let content = text.text.expose_secret();
        hash.update(content.as_bytes());
        let read = Manifest::read_all(content);
        manifests.extend(read.map_err(|error| failed(format!("{}: {error}", text.name)))?);
    }
    let client = answering(work, reach).await?;
    if done(&client, MANIFESTS, &doing()).await? {
        return Ok(End::Unchanged);
    }
    manifests.extend(written_down(MANIFESTS, &hex(&hash.finalize())));
    apply(work, &client, &manifests, &doing()).await?;
    Ok(End::Changed)
}

pub(super) async fn post_bootstrap(work: &Work<'_>, command: &[String]) -> Result {
    let reach = work.reach()?;
    let doing = format!("run {}", command.first().map(String::as_str).unwrap_or_default());
    let client = answering(work, reach).await?;
    if done(&client, POST_BOOTSTRAP, &doing).await? {
        return Ok(End::Unchanged);
    }
    let failed = |reason| StepError::HandOver { doing: doing.clone(), reason };
    reach.machines.post_bootstrap(command).await.map_err(failed)?;
    let digest = hex(&Sha256::digest(command.join("\0").as_bytes()));
    apply(work, &client, &written_down(POST_BOOTSTRAP, &digest), &doing).await?;
    Ok(End::Changed)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The note that something was done.
fn written_down(name: &str, digest: &str) -> Vec<Manifest> {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {NAMESPACE}\ndata:\n  {DIGEST}: \"{digest}\"\n"
    );
    Manifest::read_all(&text).unwrap_or_default()
}

async fn done(client: &Client, name: &str, doing: &str) -> Result<bool> {
    let failed =
        |error: talmox_k8s::Error| StepError::HandOver { doing: doing.to_owned(), reason: error.to_string() };
    Ok(note(client, name).await.map_err(failed)?.is_some())
}

/// A control plane whose Kubernetes answers.
async fn answering(work: &Work<'_>, reach: &Reach<'_>) -> Result<Client> {
    let run = work.run;
    let observed = observe_for(run.client, run.desired, run.request)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    let clients = reach.kubernetes_at(control_planes(run.desired, &observed).into_iter());
    if clients.is_empty() {
        return Err(StepError::NoReach { lacks: "this run was given no way to Kubernetes" });
    }
    let begun = Instant::now();
    loop {
        let mut last = String::new();
        for client in &clients {
            match client.nodes().await {
                Ok(_) => return Ok(client.clone()),
                Err(error) => last = error.to_string(),
            }
        }
        let elapsed = begun.elapsed();
        if elapsed > API_LIMIT {
            let doing = format!("see {NAME}");
            return Err(StepError::HandOver { doing, reason: last });
        }
        let limit = API_LIMIT;
        work.event(Event::Waiting { step: work.planned, name: NAME, detail: &last, elapsed, limit });
        work.pause(NAME, PAUSE).await?;
    }
}

/// Applies, as often as it takes while the server is getting there. Applying the same twice changes nothing.
async fn apply(work: &Work<'_>, client: &Client, manifests: &[Manifest], doing: &str) -> Result<()> {
    let mut tries = 1;
    loop {
        let order = Apply { force: true, ..Apply::default() };
        let Err(error) = client.apply(manifests, order).await else { return Ok(()) };
        let passing = matches!(&error, ApplyError::Call { source, .. } if matches!(
            source.kind(),
            Kind::NotReached | Kind::Uncertain | Kind::NotReady | Kind::Conflict
        ));
        if !passing || tries >= TRIES {
            return Err(StepError::HandOver { doing: doing.to_owned(), reason: told(&error) });
        }
        tries += 1;
        work.pause(NAME, PAUSE).await?;
    }
}

fn told(error: &ApplyError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
