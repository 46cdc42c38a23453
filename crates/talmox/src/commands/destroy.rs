//! `talmox destroy`

use talmox_plan::{Goal, Plan, Request};
use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::Exit;
use super::carry_out::{CarryOut, Gatekeeper};
use super::client_files::Home;
use super::left::{conclude, of_waiting};
use super::machines::Inside;
use super::plan::text;
use super::shared::{Job, block_on, nonce};
use crate::args::Destroy;
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::prompt;
use crate::screens::left_behind;
use talmox_trust::Verb;

pub(super) fn run(args: &Destroy, printer: &Printer) -> anyhow::Result<Exit> {
    block_on(async {
        let job = Job::open(Verb::Destroy, &args.description, &args.connection, printer).await?;
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
    let plan = job.plan(&request, &nonce, None).await?;
    if plan.is_empty() && plan.refusals.is_empty() {
        return nothing_goes(job, (&plan, &request), args, printer);
    }
    printer.screen(&text(job, &plan, printer))?;
    if !plan.refusals.is_empty() {
        return Err(Told.into());
    }
    if !args.approval.auto_approve {
        confirm(job, &request)?;
    }
    // Where all control planes go, no member is left that could miss another. A part of them may hold the rest up.
    let mut stays = job.desired.nodes.iter().filter(|node| !request.covers(&node.name));
    let some_stay = stays.any(|node| node.role == Role::Controller);
    let gatekeeper = match (args.approval.auto_approve, some_stay) {
        (false, _) if !args.target.is_empty() => Gatekeeper::Asks,
        (true, true) => Gatekeeper::Refuses,
        (true | false, _) => Gatekeeper::LetsPass,
    };
    let inside = inside(job, printer);
    let reach = inside.as_ref().map(|inside| inside.reach(args.take_over));
    let carry_out = CarryOut {
        site: job.site(),
        request: &request,
        nonce: &nonce,
        approval: &args.approval,
        verb: "destroy",
        reach: reach.as_ref(),
    };
    carry_out.run(&plan, gatekeeper, printer).await?;
    if args.target.is_empty() { forget(job, args, printer) } else { Ok(()) }
}

/// The machines, so that members of etcd and whoever else works on the cluster can be asked. Without its secrets nobody can; that
/// must not keep anybody from destroying what is left of it.
fn inside<'a>(job: &'a Job, printer: &Printer) -> Option<Inside<'a>> {
    match Inside::open(job, &Printer::silent()) {
        Ok(inside) => Some(inside).filter(Inside::has_secrets),
        Err(error) => {
            printer.problem(&format!(
                "the cluster's secrets cannot be used, so its machines are not asked: {error}"
            ));
            None
        }
    }
}

/// Takes the cluster's contexts out of the files people reached it by, and offers to do so with those their owner changed. Without
/// the cluster's secrets its contexts cannot be told from others.
fn forget(job: &Job, args: &Destroy, printer: &Printer) -> anyhow::Result<()> {
    let inside = Inside::open(job, &Printer::silent())?;
    if !inside.has_secrets() {
        return Ok(());
    }
    let (clients, home) = (inside.clients()?, inside.home());
    clients.take_back(&home, printer)?;
    let found = clients.found(&home);
    if found.is_empty() {
        return Ok(());
    }
    // What lies with a simulation is nobody's but the simulation's.
    let asks = matches!(home, Home::User) && !args.approval.auto_approve;
    if asks {
        let question = format!("Remove its contexts that were changed too ({})? [y/N] ", found.join(", "));
        let answer = prompt::line(&question)?.unwrap_or_default();
        if !prompt::is_yes(&answer) {
            return Ok(());
        }
    } else if matches!(home, Home::User) {
        printer.say(&format!("its contexts that were changed are still there: {}", found.join(", ")));
        return Ok(());
    }
    clients.remove(&home, printer)
}

/// Nothing of it is there, or nothing of it can go now, or what is there is not proven its own.
fn nothing_goes(
    job: &Job,
    (plan, request): (&Plan, &Request),
    args: &Destroy,
    printer: &Printer,
) -> anyhow::Result<()> {
    let names: Vec<&str> = args.target.iter().map(NodeName::as_str).collect();
    let what = if names.is_empty() { plan.cluster.to_string() } else { names.join(", ") };
    let said = left_behind(plan);
    if !plan.waiting.is_empty() {
        printer.data(&said)?;
        printer.problem(&format!("nothing of {what} can be destroyed now; nothing was changed"));
        let left = of_waiting(&plan.waiting, request, |request| job.command_for("destroy", request));
        return conclude(&left, args.approval.allow_incomplete, printer);
    }
    let nothing = if said.is_empty() { "Nothing" } else { "Nothing that is proven to be" };
    printer.data(&format!("{said}{nothing} of {what} is there."))
}

fn confirm(job: &Job, request: &Request) -> anyhow::Result<()> {
    let name = job.desired.name.as_str();
    if !Printer::can_ask() {
        return Err(Failure::new("there is nobody to ask, and without a yes nothing is destroyed")
            .with_hint(format!(
                "if all of the above may go: {}",
                job.command_for("destroy --auto-approve", request)
            ))
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
