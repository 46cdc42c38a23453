//! `talmox etcd snapshot`

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use talmox_exec::Reach;
use talmox_exec::etcd::{choose, look, take};
use talmox_plan::Snapshot;
use talmox_secrets::age::Recipient;
use talmox_talos::Client;
use talmox_types::NodeName;

use super::{no_etcd, open};
use crate::args::{EtcdSnapshot, Format};
use crate::commands::configs::now;
use crate::commands::machines::Inside;
use crate::commands::shared::{Job, block_on};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::bytes;
use crate::snapshot_file::{self, Draft};
use talmox_trust::Verb;

pub(super) fn run(args: &EtcdSnapshot, printer: &Printer) -> anyhow::Result<()> {
    let to_stdout = args.to.as_deref() == Some(Path::new("-"));
    if to_stdout && Printer::data_is_watched() {
        return Err(Failure::new("a snapshot is no text, and nothing for a terminal")
            .with_hint("name a file, or send it somewhere: talmox etcd snapshot - | …")
            .into());
    }
    block_on(async {
        let job = Job::open(Verb::EtcdSnapshot, &args.description, &args.connection, printer).await?;
        let result = snapshot(&job, args, printer).await;
        job.session.close().await?;
        let data = result?;
        match args.output.output {
            // Where the snapshot itself went, nothing else goes.
            _ if to_stdout => Ok(()),
            Format::Table => Ok(()),
            format @ (Format::Json | Format::Yaml) => printer.structured(format, &data),
        }
    })
}

/// A snapshot that was kept, for programs.
#[derive(Serialize)]
struct SnapshotData {
    format: &'static str,
    cluster: String,
    /// Whose data it is.
    node: String,
    file: String,
    /// Before it was encrypted.
    bytes: u64,
    encrypted: bool,
}

async fn snapshot(job: &Job, args: &EtcdSnapshot, printer: &Printer) -> anyhow::Result<SnapshotData> {
    // What cannot be kept is not asked for.
    if let Some(file) = args.to.as_deref().filter(|file| file.exists()) {
        return Err(Failure::new(format!("{} is there already, and may be the only one", file.display()))
            .with_hint("name another file, or move that one away first")
            .into());
    }
    let (inside, control_planes) = open(job, printer).await?;
    let reach = inside.reach(false);
    let (node, client) = source(job, &reach, &control_planes, printer).await?;
    let kept = match &args.to {
        None => to_place(job, &inside, recipients(&inside, args)?, &client).await?,
        Some(file) => to_file(&inside, args, file, &client).await?,
    };
    kept.tell(&node, printer);
    let Kept { place: file, length: bytes, encrypted } = kept;
    let (cluster, node) = (job.desired.name.to_string(), node.to_string());
    Ok(SnapshotData { format: "talmox.etcd-snapshot/v1", cluster, node, file, bytes, encrypted })
}

/// A snapshot of whoever knows most, where there is no majority any more, kept where the description keeps them. It can be opened
/// again with what is at hand: what it is taken from is about to go.
pub(in crate::commands) async fn keep_what_is_left(
    job: &Job,
    inside: &Inside<'_>,
    reach: &Reach<'_>,
    printer: &Printer,
) -> anyhow::Result<Snapshot> {
    let control_planes = inside.control_planes(&job.observe().await?);
    let (node, client) = source(job, reach, &control_planes, printer).await?;
    let recipients = inside.place().map_or_else(|_| Vec::new(), |place| place.recipients);
    let kept = to_place(job, inside, recipients, &client).await?;
    kept.tell(&node, printer);
    let judged = snapshot_file::judge(Path::new(&kept.place))?;
    Ok(Snapshot { path: kept.place, digest: judged.digest })
}

/// Who is asked for a snapshot.
async fn source(
    job: &Job,
    reach: &Reach<'_>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    printer: &Printer,
) -> anyhow::Result<(NodeName, Client)> {
    let etcd = look(reach, control_planes).await;
    let node = choose(&etcd, true).ok_or_else(|| no_etcd(job, &etcd))?;
    if !etcd.has_quorum() {
        printer.problem(&format!(
            "warning: etcd has no quorum; {node} knows most, and what was not agreed on yet is not in the snapshot"
        ));
    }
    let client = control_planes.get(node).and_then(|address| reach.secure(*address));
    Ok((node.clone(), client.ok_or_else(|| Failure::new(format!("{node} cannot be asked")))?))
}

struct Kept {
    place: String,
    length: u64,
    encrypted: bool,
}

impl Kept {
    fn tell(&self, node: &NodeName, printer: &Printer) {
        let Self { place, length, encrypted } = self;
        let how = if *encrypted { ", encrypted" } else { "" };
        printer.say(&format!("snapshot of etcd from {node}: {}{how}, {place}", bytes(*length)));
    }
}

/// To where the description keeps them.
async fn to_place(
    job: &Job,
    inside: &Inside<'_>,
    recipients: Vec<Recipient>,
    client: &Client,
) -> anyhow::Result<Kept> {
    let mut place = inside.place().map_err(|reason| {
        Failure::new(format!("nobody says where the snapshot goes: {reason}"))
            .with_hint("name a file: talmox etcd snapshot FILE".to_owned() + &job.flags)
            .with_hint("or a folder in cluster.yaml: etcd_backup: {dir: etcd-backup}")
    })?;
    place.recipients = recipients;
    let mut draft = place.begin().map_err(Failure::new)?;
    let length = taken(client, &mut draft).await?;
    let path = place.keep(draft, now()).map_err(Failure::new)?;
    Ok(Kept { place: path.display().to_string(), length, encrypted: !place.recipients.is_empty() })
}

async fn to_file(
    inside: &Inside<'_>,
    args: &EtcdSnapshot,
    file: &Path,
    client: &Client,
) -> anyhow::Result<Kept> {
    let recipients = recipients(inside, args)?;
    let encrypted = !recipients.is_empty();
    let to_stdout = file == Path::new("-");
    let beside = std::env::temp_dir();
    let folder = match file.parent() {
        _ if to_stdout => beside.as_path(),
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let failed = |error: io::Error| Failure::new(format!("could not write {}: {error}", file.display()));
    let mut draft = Draft::begin(folder, &recipients).map_err(failed)?;
    let length = taken(client, &mut draft).await?;
    if to_stdout {
        // Only what is whole leaves.
        draft.pour(&mut io::stdout().lock()).context("could not write to the standard output")?;
        return Ok(Kept { place: "to the standard output".to_owned(), length, encrypted });
    }
    draft.keep(file).map_err(failed)?;
    Ok(Kept { place: file.display().to_string(), length, encrypted })
}

/// Whom it is encrypted for: those that were named, else those of the description, unless nobody shall be.
fn recipients(inside: &Inside<'_>, args: &EtcdSnapshot) -> Result<Vec<Recipient>, Failure> {
    if args.plain {
        return Ok(Vec::new());
    }
    if !args.age.is_empty() || !inside.has_place() {
        return Ok(args.age.clone());
    }
    Ok(inside.place().map_err(Failure::new)?.recipients)
}

async fn taken(client: &Client, draft: &mut Draft) -> anyhow::Result<u64> {
    let length =
        take(client, &mut |piece: &[u8]| draft.write(piece).map_err(|error| error.to_string())).await;
    length.context("could not take a snapshot of etcd; nothing was kept")
}
