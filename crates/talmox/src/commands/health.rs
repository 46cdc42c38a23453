//! `talmox health`

use std::time::{Duration, Instant};

use talmox_exec::health::{Cluster, Health as Seen, Progress, Unhealthy, await_health, look};

use super::machines::Inside;
use super::shared::{Job, block_on};
use super::signals::Signals;
use crate::args::{Format, Health};
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::screens::{HealthData, health_line, health_text};
use talmox_trust::Verb;

pub(super) fn run(args: &Health, printer: &Printer) -> anyhow::Result<()> {
    block_on(async {
        let job = Job::open(Verb::Health, &args.description, &args.connection, printer).await?;
        let result = health(&job, args, printer).await;
        job.session.close().await?;
        result
    })
}

async fn health(job: &Job, args: &Health, printer: &Printer) -> anyhow::Result<()> {
    let cluster = cluster(job, printer).await?;
    let (started, limit) = (Instant::now(), args.timeout.0);
    let looked = if limit.is_zero() {
        Ok(look(&cluster).await)
    } else {
        let signals = Signals::listen()?;
        tokio::select! {
            looked = wait(&cluster, limit, printer) => looked,
            () = signals.once() => return Err(Failure::new("stopped; nothing was changed").into()),
        }
    };
    let (seen, words) = match looked {
        Ok(seen) => (seen, Vec::new()),
        Err(Unhealthy { health, words, .. }) => (health, words),
    };
    let data = HealthData {
        cluster: job.desired.name.as_str(),
        health: &seen,
        words: &words,
        elapsed: started.elapsed(),
    };
    match args.output.output {
        Format::Table => printer.screen(&health_text(&data))?,
        format @ (Format::Json | Format::Yaml) => printer.structured(format, &data.told())?,
    }
    if seen.is_healthy() { Ok(()) } else { Err(Told.into()) }
}

/// Waits, and says so whenever something else is waited for.
async fn wait(cluster: &Cluster, limit: Duration, printer: &Printer) -> Result<Seen, Unhealthy> {
    let last = std::sync::Mutex::new(String::new());
    let report = |progress: Progress<'_>| {
        let Some(line) = health_line(&progress) else { return };
        let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *last != line {
            printer.say(&line);
            *last = line;
        }
    };
    await_health(cluster, limit, &report).await
}

/// The cluster, with addresses as they are in Proxmox.
async fn cluster(job: &Job, printer: &Printer) -> anyhow::Result<Cluster> {
    let inside = Inside::open(job, printer)?;
    if let Some(shut_out) = inside.shut_out() {
        return Err(shut_out.into());
    }
    let observed = job.observe().await?;
    let cluster = inside.cluster(&observed).ok_or_else(|| {
        Failure::new("without the secrets bundle nobody can ask the machines of this cluster")
            .with_hint("get the file, or name it with secrets_file")
    })?;
    Ok(cluster)
}
