//! `talmox apply`

use std::path::Path;

use talmox_plan::{Nonce, Plan, Request};
use talmox_types::ClusterUid;

use super::Exit;
use super::carry_out::{CarryOut, Gatekeeper};
use super::plan::text;
use super::shared::{Job, block_on, nonce};
use crate::args::Apply;
use crate::failure::{Failure, Told};
use crate::plan_file::{PlanFile, differences};
use crate::printer::Printer;
use crate::prompt;
use crate::screens::safe;

pub(super) fn run(args: &Apply, printer: &Printer) -> anyhow::Result<Exit> {
    block_on(async {
        let job = Job::open(&args.description, &args.connection, printer).await?;
        let result = apply(&job, args, printer).await;
        job.session.close().await?;
        result.map(|()| Exit::Done)
    })
}

async fn apply(job: &Job, args: &Apply, printer: &Printer) -> anyhow::Result<()> {
    refuse_without_uid(job)?;
    let (request, nonce, plan) = decided(job, args).await?;
    printer.data(&text(job, &plan, printer))?;
    if !plan.refusals.is_empty() {
        return Err(Told.into());
    }
    if plan.is_empty() {
        return Ok(());
    }
    if !args.approval.auto_approve {
        confirm(job)?;
    }
    let gatekeeper = Gatekeeper { asks: !args.approval.auto_approve };
    CarryOut { job, request: &request, nonce: &nonce, approval: &args.approval, verb: "apply" }
        .run(&plan, gatekeeper, printer)
        .await
}

/// Without an identity no VM could be told from those of another cluster.
fn refuse_without_uid(job: &Job) -> anyhow::Result<()> {
    if job.desired.uid.is_some() {
        return Ok(());
    }
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
    Err(Failure::new(format!(
        "{} has no cluster_uid, by which its VMs would be recognised; nothing was changed",
        job.desired.name
    ))
    .with_hint(format!(
        "add this line to cluster.yaml, and never change it:\n      cluster_uid: \"{}\"",
        ClusterUid::from(bytes)
    ))
    .into())
}

/// What to do: the plan that was kept, if the world still asks for it, or a new one.
async fn decided(job: &Job, args: &Apply) -> anyhow::Result<(Request, Nonce, Plan)> {
    let Some(path) = &args.plan else {
        let (request, nonce) = (job.request(&args.scope)?, nonce()?);
        let plan = job.plan(&request, &nonce).await?;
        return Ok((request, nonce, plan));
    };
    let kept = PlanFile::read(path)?;
    if !kept.fits(&job.desired)? {
        return Err(stale(job, path, &["the description has changed since".to_owned()]).into());
    }
    let plan = job.plan(&kept.request, &kept.nonce).await?;
    let differences = differences(&kept.plan, &plan);
    if !differences.is_empty() {
        return Err(stale(job, path, &differences).into());
    }
    Ok((kept.request, kept.nonce, plan))
}

fn stale(job: &Job, path: &Path, differences: &[String]) -> Failure {
    const SHOWN: usize = 10;
    let mut list: String = differences.iter().take(SHOWN).map(|what| format!("\n  {}", safe(what))).collect();
    if differences.len() > SHOWN {
        list.push_str(&format!("\n  and {} more", differences.len() - SHOWN));
    }
    let name = path.display();
    Failure::new(format!("the plan in {name} is stale; nothing was changed:{list}"))
        .with_hint(format!("look at a new one: {}", job.command(&format!("plan --out {name}"))))
}

fn confirm(job: &Job) -> anyhow::Result<()> {
    if !Printer::can_ask() {
        return Err(Failure::new("there is nobody to ask, and without a yes nothing is changed")
            .with_hint(format!("if the plan above is right: {}", job.command("apply --auto-approve")))
            .into());
    }
    let answer = prompt::line("Apply? [y/N] ")?.unwrap_or_default();
    if prompt::is_yes(&answer) {
        Ok(())
    } else {
        Err(Failure::new("not confirmed; nothing was changed").into())
    }
}
