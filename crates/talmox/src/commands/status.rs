//! `talmox status`

use std::collections::BTreeSet;
use std::time::Duration;

use talmox_machine::Time;
use talmox_plan::{NodeView, Power, Request, Until, View, view};
use talmox_pve::client::{Client, TaskQuery, TaskSource, VmPower};
use talmox_types::HostName;
use talmox_types::desired::DriftPolicy;

use super::configs::now;
use super::machines::Inside;
use super::shared::{Job, block_on, drift_fields};
use super::signals::Signals;
use crate::args::{Format, Status};
use crate::printer::Printer;
use crate::screens::{Ending, StatusData, status_text};
use talmox_trust::Verb;

/// Back to the top left, and clear what is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(super) fn run(args: &Status, printer: &Printer) -> anyhow::Result<()> {
    block_on(async {
        let ignored = drift_fields(&args.ignore_drift)?;
        let job = Job::open(Verb::Status, &args.description, &args.connection, printer).await?;
        let mut job = job.with_variables(&args.variables);
        for node in &mut job.desired.nodes {
            node.vm.drift.extend(ignored.iter().map(|field| (field.clone(), DriftPolicy::Show)));
        }
        let result = match args.watch {
            None => once(&job, args, "", printer).await,
            Some(seconds) => watch(&job, args, seconds, printer).await,
        };
        job.session.close().await?;
        result
    })
}

async fn once(job: &Job, args: &Status, before: &str, printer: &Printer) -> anyhow::Result<()> {
    let inside = Inside::open(job, &Printer::silent())?;
    let reach = inside.reach(false);
    let until = args.until.map_or(Until::Healthy, Into::into);
    let asks = inside.has_secrets() && until > Until::Vms;
    let request = Request { until, ..Request::default() };
    let observed = job.observe_whole(&request, asks.then_some(&reach)).await?;
    let mut view = view(&job.desired, &observed);
    let mut inside = if asks { Some(inside.view(observed).await) } else { None };
    if let Some(inside) = &mut inside {
        inside.ending.extend(token_ending(&job.session.client).await);
    }
    add_tasks(&job.session.client, &mut view).await;
    add_obstacles(&job.session.client, &mut view).await;
    match args.output.output {
        Format::Table => {
            printer.screen(&format!("{before}{}", status_text(&view, inside.as_ref(), &job.flags)))
        }
        format @ (Format::Json | Format::Yaml) => {
            printer.structured(format, &StatusData::new(&view, inside.as_ref()))
        }
    }
}

/// The token this is asked with, if it ends soon. Few tokens may read that of themselves.
async fn token_ending(client: &Client) -> Option<Ending> {
    let (user, name) = client.login().split_once('!')?;
    let expires = client.token_info(user, name).await.ok()?.expire;
    let ends = i64::try_from(expires).ok().filter(|ends| *ends > 0).map(Time::from_unix)?;
    let remedy = "make another before: talmox check --setup prints how";
    Ending::soon(format!("the Proxmox token {user}!{name}"), ends, now(), remedy)
}

/// Adds what runs on the nodes just now. A token sees its own tasks, and others' with `Sys.Audit`; who may not ask, or
/// does not get an answer, sees the rest.
async fn add_tasks(client: &Client, view: &mut View) {
    let hosts: BTreeSet<HostName> = view.nodes.iter().filter_map(|node| node.host.clone()).collect();
    let query = TaskQuery { source: TaskSource::Active, ..TaskQuery::default() };
    for host in hosts {
        let tasks = client.tasks(&host, &query).await.unwrap_or_default();
        for task in tasks.iter().filter(|task| task.endtime.is_none()) {
            let on = |node: &&mut NodeView| {
                node.host.as_ref() == Some(&host) && node.vmid.map(|vmid| vmid.to_string()) == task.id
            };
            if let Some(node) = view.nodes.iter_mut().chain(&mut view.undeclared).find(on) {
                node.tasks.push(format!("{} {}", task.kind, task.upid));
            }
        }
    }
}

/// Adds what stands in the way of changes and no plan is made from: guests that are halted, and snapshots. Who gets no
/// answer sees the rest.
async fn add_obstacles(client: &Client, view: &mut View) {
    let hosts: BTreeSet<HostName> = running(view).filter_map(|node| node.host.clone()).collect();
    for host in hosts {
        let seen = client.vms_in_full(&host).await.unwrap_or_default();
        for vm in seen {
            let halted = vm.qmpstatus.filter(|state| vm.status == VmPower::Running && state != "running");
            let mut nodes = view.nodes.iter_mut().chain(&mut view.undeclared);
            if let Some(node) = nodes.find(|node| node.vmid == Some(vm.vmid)) {
                node.halted = halted;
            }
        }
    }
    // The configuration names the last one, so only those that have any are asked.
    for node in view.nodes.iter_mut().chain(&mut view.undeclared).filter(|node| !node.snapshots.is_empty()) {
        let (Some(host), Some(vmid)) = (&node.host, node.vmid) else { continue };
        let Ok(mut snapshots) = client.snapshots(host, vmid).await else { continue };
        snapshots.retain(|snapshot| snapshot.name != "current");
        snapshots.sort_by_key(|snapshot| snapshot.snaptime);
        node.snapshots = snapshots.into_iter().map(|snapshot| snapshot.name).collect();
    }
}

fn running(view: &View) -> impl Iterator<Item = &NodeView> {
    view.nodes.iter().chain(&view.undeclared).filter(|node| node.power == Some(Power::Running))
}

/// Again and again until Ctrl-C. A look that fails is told, and the next one may succeed.
async fn watch(job: &Job, args: &Status, seconds: u16, printer: &Printer) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let before = if Printer::data_is_watched() { CLEAR } else { "" };
    loop {
        let looked = tokio::select! {
            looked = once(job, args, before, printer) => looked,
            () = signals.once() => return Ok(()),
        };
        match looked {
            Err(error) if crate::is_broken_pipe(&error) => return Err(error),
            Err(error) => printer.failure(&error),
            Ok(()) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds.into())) => {}
            () = signals.once() => return Ok(()),
        }
    }
}
