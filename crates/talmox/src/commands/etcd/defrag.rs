//! `talmox etcd defrag`

use serde::Serialize;
use talmox_exec::etcd::{DefragmentError, Defragmented, defragment, look};
use talmox_exec::{Event, Reporter, Writer};
use talmox_pve::client::Waiting;
use tokio_util::sync::CancellationToken;

use super::{no_etcd, open};
use crate::args::{EtcdDefrag, Format};
use crate::commands::shared::{Job, block_on};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::{bytes, duration};
use talmox_trust::Verb;

/// What came of it, for programs.
#[derive(Serialize)]
struct DefragData {
    format: &'static str,
    cluster: String,
    members: Vec<MemberData>,
    /// Whose alarms were taken back.
    disarmed: Vec<String>,
}

#[derive(Serialize)]
struct MemberData {
    node: String,
    bytes_before: u64,
    bytes_after: u64,
}

pub(super) fn run(args: &EtcdDefrag, printer: &Printer) -> anyhow::Result<()> {
    block_on(async {
        let job = Job::open(Verb::EtcdDefrag, &args.description, &args.connection, printer).await?;
        let result = defrag(&job, args, printer).await;
        job.session.close().await?;
        let data = result?;
        match args.output.output {
            Format::Table => Ok(()),
            format @ (Format::Json | Format::Yaml) => printer.structured(format, &data),
        }
    })
}

/// Says who is waited for.
struct Waits<'a>(&'a Printer);

impl Reporter for Waits<'_> {
    fn event(&self, _event: Event<'_>) {}

    fn waiting(&self, waiting: &Waiting<'_>) {
        // Once is enough.
        if waiting.elapsed.as_secs() == 0 {
            let (name, detail, limit) = (waiting.name, waiting.detail, duration(waiting.limit));
            self.0.say(&format!("waiting for {name}: {detail} (at most {limit})"));
        }
    }
}

fn failure(job: &Job, error: &DefragmentError) -> Failure {
    let because = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    let failure = Failure::new(format!("{error}{because}"));
    match error {
        DefragmentError::NotAlone { source } => source.hints().into_iter().fold(failure, Failure::with_hint),
        DefragmentError::NotHealthy(_) | DefragmentError::Call { .. } | DefragmentError::NotBack { .. } => {
            failure.with_hint(format!("{} says what to do about it", job.command("etcd status")))
        }
    }
}

async fn defrag(job: &Job, args: &EtcdDefrag, printer: &Printer) -> anyhow::Result<DefragData> {
    let (inside, control_planes) = open(job, printer).await?;
    let reach = inside.reach(args.take_over);
    let etcd = look(&reach, &control_planes).await;
    if !etcd.is_there() {
        return Err(no_etcd(job, &etcd).into());
    }
    let mut members = Vec::new();
    let mut done = |one: &Defragmented| {
        let Defragmented { node, bytes_before, bytes_after } = one;
        printer.say(&format!("{node}  {} → {}", bytes(*bytes_before), bytes(*bytes_after)));
        let node = node.to_string();
        members.push(MemberData { node, bytes_before: *bytes_before, bytes_after: *bytes_after });
    };
    let (stop, waits) = (CancellationToken::new(), Waits(printer));
    let site = job.site();
    let writer = Writer { client: site.client, desired: site.desired, reporter: &waits, stop: &stop };
    defragment(writer, &reach, &control_planes, &mut done).await.map_err(|error| failure(job, &error))?;
    let mut disarmed = Vec::new();
    if args.disarm && !etcd.alarms.is_empty() {
        let client = control_planes.values().find_map(|address| reach.secure(*address));
        let client = client.ok_or_else(|| Failure::new("nobody can be asked to take alarms back"))?;
        disarmed = client.etcd_disarm().await?.into_iter().map(|(id, _)| etcd.name_of(id)).collect();
        printer.say(&format!("alarms taken back: {}", disarmed.join(", ")));
    } else if !etcd.alarms.is_empty() {
        printer.say(&format!("alarms still stand: {}", job.command("etcd defrag --disarm")));
    }
    Ok(DefragData {
        format: "talmox.etcd-defrag/v1",
        cluster: job.desired.name.to_string(),
        members,
        disarmed,
    })
}
