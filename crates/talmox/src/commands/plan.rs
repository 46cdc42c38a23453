//! `talmox plan`

use talmox_plan::Plan;

use super::Exit;
use super::apply::{lacks_secrets, refuse_without_uid};
use super::machines::Inside;
use super::shared::{Job, block_on, nonce, quoted};
use crate::args::{Format, PlanFormat, Simulate};
use crate::failure::{Failure, Told};
use crate::plan_file::PlanFile;
use crate::printer::Printer;
use crate::screens::{Places, PlanData, Story, Verbosity, nothing_to_do, plan_markdown, plan_text};
use crate::trust::confine;
use talmox_trust::Verb;

pub(super) fn run(args: &crate::args::Plan, printer: &Printer) -> anyhow::Result<Exit> {
    if args.untrusted {
        if args.connection.simulate == Simulate::Off {
            return Err(Failure::new(
                "--untrusted plans on a simulated Proxmox alone, and this is a real one",
            )
            .with_hint("add --simulate")
            .into());
        }
        match confine(&args.description.file)? {
            None => {}
            Some(0) => return Ok(Exit::Done),
            Some(2) => return Ok(Exit::Changes),
            Some(_) => return Err(Told.into()),
        }
    }
    block_on(async {
        let job = Job::open(Verb::Plan, &args.description, &args.connection, printer).await?;
        let job = job.with_variables(&args.variables);
        let result = plan(&job, args, printer).await;
        job.session.close().await?;
        result
    })
}

async fn plan(job: &Job, args: &crate::args::Plan, printer: &Printer) -> anyhow::Result<Exit> {
    let request = job.request(&args.scope)?;
    job.rehearse(&request, printer)?;
    let nonce = nonce()?;
    let inside = Inside::open(job, printer)?;
    if let Some(shut_out) = inside.shut_out().filter(|_| request.looks_inside()) {
        printer.problem(&shut_out.to_string());
    }
    let plan = job.plan(&request, &nonce, Some(&inside.reach(false))).await?;
    show(job, &plan, args.output, printer)?;
    if !plan.refusals.is_empty() {
        return Err(Told.into());
    }
    // What apply would refuse, or do first, is no news then.
    refuse_without_uid(job)?;
    if inside.shut_out().is_none() && lacks_secrets(job, &request, &inside).await? {
        printer.say("the cluster has no secrets yet: apply makes them first, beside the description");
    }
    if let Some(path) = &args.out {
        PlanFile::new(&args.description.file, &job.desired, &request, &nonce, &plan)?.write(path)?;
        let apply = job.command(&format!("apply {}", quoted(&path.display().to_string())));
        printer.say(&format!("kept in {}; to carry it out: {apply}", path.display()));
    }
    // What waits, for a restart or for somebody else, is not as described either.
    let changes = args.detailed_exitcode && !(plan.is_empty() && plan.waiting.is_empty());
    Ok(if changes { Exit::Changes } else { Exit::Done })
}

fn show(job: &Job, plan: &Plan, format: PlanFormat, printer: &Printer) -> anyhow::Result<()> {
    show_as(job, plan, format, &text(job, plan, printer), printer)
}

/// Prints a plan; `text` is what people are shown.
pub(super) fn show_as(
    job: &Job,
    plan: &Plan,
    format: PlanFormat,
    text: &str,
    printer: &Printer,
) -> anyhow::Result<()> {
    let story = Story::new(plan, &job.desired);
    let places = Places::of(plan, &job.outcome.description);
    match format {
        PlanFormat::Table => printer.screen(text),
        PlanFormat::Markdown => printer.data(&plan_markdown(&story, &places)),
        PlanFormat::Json => printer.structured(Format::Json, &PlanData::new(&story, &places)),
        PlanFormat::Yaml => printer.structured(Format::Yaml, &PlanData::new(&story, &places)),
    }
}

/// The plan for people.
pub(super) fn text(job: &Job, plan: &Plan, printer: &Printer) -> String {
    let verbosity = if printer.is_verbose() { Verbosity::Everything } else { Verbosity::Normal };
    if plan.is_empty() && plan.refusals.is_empty() {
        return nothing_to_do(plan, &job.desired, verbosity, job.session.requests(), job.elapsed());
    }
    let places = Places::of(plan, &job.outcome.description);
    plan_text(&Story::new(plan, &job.desired), &places, verbosity)
}
