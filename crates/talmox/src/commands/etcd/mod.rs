//! `talmox etcd`

mod defrag;
mod restore;
mod snapshot;
mod status;

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::NodeName;

use super::machines::Inside;
use super::shared::Job;
use crate::args::{Etcd, EtcdWhat};
use crate::failure::Failure;
use crate::printer::Printer;

pub(super) use snapshot::keep_what_is_left;

pub(super) fn run(args: &Etcd, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        EtcdWhat::Status(args) => status::status(args, printer),
        EtcdWhat::Members(args) => status::members(args, printer),
        EtcdWhat::Snapshot(args) => snapshot::run(args, printer),
        EtcdWhat::Defrag(args) => defrag::run(args, printer),
        EtcdWhat::Restore(args) => restore::run(args, printer),
    }
}

/// The machines, and where the control planes are. Without the cluster's secrets nobody can ask them.
async fn open<'a>(
    job: &'a Job,
    printer: &Printer,
) -> anyhow::Result<(Inside<'a>, BTreeMap<NodeName, IpAddr>)> {
    let inside = Inside::open(job, printer)?;
    if !inside.has_secrets() {
        return Err(Failure::new("without the secrets bundle nobody can ask the machines of this cluster")
            .with_hint("get the file, or name it with secrets_file")
            .into());
    }
    if let Some(shut_out) = inside.shut_out() {
        return Err(shut_out.into());
    }
    let control_planes = inside.control_planes(&job.observe().await?);
    Ok((inside, control_planes))
}

/// Nobody has a member.
fn no_etcd(job: &Job, etcd: &talmox_exec::etcd::Etcd) -> Failure {
    let said = etcd.nodes.iter().find_map(|(node, health)| Some((node, health.as_ref().err()?)));
    let said = said.map(|(node, error)| format!(" ({node}: {error})")).unwrap_or_default();
    Failure::new(format!("no control plane of {} has etcd running{said}", job.desired.name))
        .with_hint(format!("{} shows how far each of them is", job.command("status")))
}
