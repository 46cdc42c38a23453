//! `talmox etcd status` and `talmox etcd members`

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_exec::etcd::{Etcd, look};
use talmox_trust::Verb;
use talmox_types::NodeName;

use super::{no_etcd, open};
use crate::args::{Connection, Description, EtcdMembers, EtcdStatus, Format};
use crate::commands::shared::{Job, block_on};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::{EtcdData, MembersData, etcd_text, members_text};

pub(super) fn status(args: &EtcdStatus, printer: &Printer) -> anyhow::Result<()> {
    let (etcd, declared, seen) = ask(Verb::EtcdStatus, &args.description, &args.connection, printer)?;
    let data = EtcdData::new(&seen.cluster, &etcd, &declared.keys());
    match args.output.output {
        Format::Table => printer.screen(&etcd_text(&data, &seen.flags)),
        format @ (Format::Json | Format::Yaml) => printer.structured(format, &data),
    }
}

pub(super) fn members(args: &EtcdMembers, printer: &Printer) -> anyhow::Result<()> {
    let (etcd, _, seen) = ask(Verb::EtcdMembers, &args.description, &args.connection, printer)?;
    let data = MembersData::new(&seen.cluster, &etcd).ok_or_else(|| {
        Failure::new("etcd has no quorum, and without one nobody can tell who its members are")
            .with_hint(format!("talmox etcd status{} says what to do", seen.flags))
    })?;
    match args.output.output {
        Format::Table => printer.data(&members_text(&data)),
        format @ (Format::Json | Format::Yaml) => printer.structured(format, &data),
    }
}

/// Whose etcd it is, and what leads to it again.
struct Seen {
    cluster: String,
    flags: String,
}

fn ask(
    verb: Verb,
    description: &Description,
    connection: &Connection,
    printer: &Printer,
) -> anyhow::Result<(Etcd, BTreeMap<NodeName, IpAddr>, Seen)> {
    block_on(async {
        let job = Job::open(verb, description, connection, printer).await?;
        let result = look_at(&job, printer).await;
        let seen = Seen { cluster: job.desired.name.to_string(), flags: job.flags.clone() };
        job.session.close().await?;
        let (etcd, control_planes) = result?;
        Ok((etcd, control_planes, seen))
    })
}

async fn look_at(job: &Job, printer: &Printer) -> anyhow::Result<(Etcd, BTreeMap<NodeName, IpAddr>)> {
    let (inside, control_planes) = open(job, printer).await?;
    let etcd = look(&inside.reach(false), &control_planes).await;
    if etcd.is_there() { Ok((etcd, control_planes)) } else { Err(no_etcd(job, &etcd).into()) }
}
