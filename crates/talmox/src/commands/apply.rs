//! `talmox apply`

use std::path::Path;

use talmox_plan::{Goal, Nonce, Plan, Request};
use talmox_types::ClusterUid;

use super::Exit;
use super::carry_out::{CarryOut, Gatekeeper};
use super::plan::text;
use super::shared::{Job, block_on, nonce, quoted};
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
    let (request, nonce, plan) = decided(job, args).await?;
    printer.data(&text(job, &plan, printer))?;
    if !plan.refusals.is_empty() {
        return Err(Told.into());
    }
    refuse_without_uid(job)?;
    if plan.is_empty() {
        return Ok(());
    }
    if !args.approval.auto_approve {
        confirm(job, args, &request)?;
    }
    let gatekeeper = Gatekeeper { asks: !args.approval.auto_approve };
    CarryOut { job, request: &request, nonce: &nonce, approval: &args.approval, verb: "apply" }
        .run(&plan, gatekeeper, printer)
        .await
}

/// Without an identity no VM could be told from those of another cluster.
pub(super) fn refuse_without_uid(job: &Job) -> anyhow::Result<()> {
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
    // No plan is ever kept for it: destroying a cluster has a verb and a question of its own.
    if kept.request.goal != Goal::Converge {
        return Err(Failure::new(format!("{} is a plan to destroy; nothing was changed", path.display()))
            .with_hint(job.command_for("destroy", &kept.request))
            .into());
    }
    if !kept.fits(&job.desired)? {
        return Err(stale(job, path, &kept, &["the description has changed since".to_owned()]).into());
    }
    let plan = job.plan(&kept.request, &kept.nonce).await?;
    let differences = differences(&kept.plan, &plan);
    if !differences.is_empty() {
        return Err(stale(job, path, &kept, &differences).into());
    }
    Ok((kept.request, kept.nonce, plan))
}

fn stale(job: &Job, path: &Path, kept: &PlanFile, differences: &[String]) -> Failure {
    const SHOWN: usize = 10;
    let mut list: String = differences.iter().take(SHOWN).map(|what| format!("\n  {}", safe(what))).collect();
    if differences.len() > SHOWN {
        list.push_str(&format!("\n  and {} more", differences.len() - SHOWN));
    }
    let name = path.display();
    Failure::new(format!("the plan in {name} is stale; nothing was changed:{list}")).with_hint(format!(
        "look at a new one: {}",
        job.command_for(&format!("plan --out {}", shown(path)), &kept.request)
    ))
}

/// A path for a command to type.
fn shown(path: &Path) -> String {
    quoted(&path.display().to_string())
}

fn confirm(job: &Job, args: &Apply, request: &Request) -> anyhow::Result<()> {
    if !Printer::can_ask() {
        let command = match &args.plan {
            Some(path) => job.command(&format!("apply --auto-approve {}", shown(path))),
            None => job.command_for("apply --auto-approve", request),
        };
        return Err(Failure::new("there is nobody to ask, and without a yes nothing is changed")
            .with_hint(format!("if the plan above is right: {command}"))
            .into());
    }
    let answer = prompt::line("Apply? [y/N] ")?.unwrap_or_default();
    if prompt::is_yes(&answer) {
        Ok(())
    } else {
        Err(Failure::new("not confirmed; nothing was changed").into())
    }
}
