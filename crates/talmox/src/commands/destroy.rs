//! `talmox destroy`

use talmox_plan::{Goal, Request};
use talmox_types::NodeName;

use super::Exit;
use super::carry_out::{CarryOut, Gatekeeper};
use super::plan::text;
use super::shared::{Job, block_on, nonce};
use crate::args::Destroy;
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::prompt;

pub(super) fn run(args: &Destroy, printer: &Printer) -> anyhow::Result<Exit> {
    block_on(async {
        let job = Job::open(&args.description, &args.connection, printer).await?;
        let result = destroy(&job, args, printer).await;
        job.session.close().await?;
        result.map(|()| Exit::Done)
    })
}

async fn destroy(job: &Job, args: &Destroy, printer: &Printer) -> anyhow::Result<()> {
    if job.desired.uid.is_none() {
        return Err(Failure::new(format!(
            "{} has no cluster_uid, so no VM can be proven to be its own; nothing was changed",
            job.desired.name
        ))
        .into());
    }
    let request =
        Request { goal: Goal::Destroy, targets: args.target.iter().cloned().collect(), ..Request::default() };
    let nonce = nonce()?;
    let plan = job.plan(&request, &nonce).await?;
    if plan.is_empty() && plan.refusals.is_empty() {
        let names: Vec<&str> = args.target.iter().map(NodeName::as_str).collect();
        let what = if names.is_empty() { job.desired.name.to_string() } else { names.join(", ") };
        printer.data(&format!("Nothing of {what} is there."))?;
        return Ok(());
    }
    printer.data(&text(job, &plan, printer))?;
    if !plan.refusals.is_empty() {
        return Err(Told.into());
    }
    if !args.approval.auto_approve {
        confirm(job)?;
    }
    // The whole cluster goes: no member is left that could miss another. A part of it may hold the rest up.
    let gatekeeper = Gatekeeper { asks: !args.approval.auto_approve && !args.target.is_empty() };
    CarryOut { job, request: &request, nonce: &nonce, approval: &args.approval, verb: "destroy" }
        .run(&plan, gatekeeper, printer)
        .await
}

fn confirm(job: &Job) -> anyhow::Result<()> {
    let name = job.desired.name.as_str();
    if !Printer::can_ask() {
        return Err(Failure::new("there is nobody to ask, and without a yes nothing is destroyed")
            .with_hint(format!("if all of the above may go: {}", job.command("destroy --auto-approve")))
            .into());
    }
    let answer =
        prompt::line(&format!("This cannot be undone. Type the cluster's name ({name}) to go on: "))?;
    if answer.as_deref() == Some(name) {
        Ok(())
    } else {
        Err(Failure::new("that is not its name; nothing was changed").into())
    }
}
