//! `talmox host`

use talmox_plan::{Goal, HostsRequest, Plan, Request, Until, UpkeepRequest};

use talmox_trust::Verb;

use super::Exit;
use super::apply::refuse_without_uid;
use super::carry_out::{CarryOut, Gatekeeper};
use super::machines::Inside;
use super::plan::{show_as, text};
use super::shared::{Job, block_on, nonce};
use crate::args::{Approval, Connection, Description, Host, HostWhat, PlanOnly, VariableFlags};
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::prompt;

pub(super) fn run(args: &Host, printer: &Printer) -> anyhow::Result<Exit> {
    let deed = match &args.what {
        HostWhat::Drain(args) => Deed {
            verb: Verb::HostDrain,
            hosts: HostsRequest { drain: Some(args.host.clone()), ..HostsRequest::default() },
            upkeep: UpkeepRequest { max_unavailable: args.max_unavailable, ..UpkeepRequest::default() },
            command: format!("host drain {}", args.host),
            question: "Drain it? [y/N] ",
            nothing: format!("No node of the cluster runs on {}.", args.host),
            with: (&args.description, &args.connection, &args.plan, &args.approval),
            variables: &args.variables,
        },
        HostWhat::Return(args) => Deed {
            verb: Verb::HostReturn,
            hosts: HostsRequest {
                back: Some(args.host.clone()),
                move_back: args.move_back,
                ..HostsRequest::default()
            },
            upkeep: UpkeepRequest::default(),
            command: format!("host return {}", args.host),
            question: "Bring them back? [y/N] ",
            nothing: format!("No node of the cluster is away because {} was drained.", args.host),
            with: (&args.description, &args.connection, &args.plan, &args.approval),
            variables: &args.variables,
        },
    };
    block_on(async {
        let (description, connection, ..) = deed.with;
        let job =
            Job::open(deed.verb, description, connection, printer).await?.with_variables(deed.variables);
        let result = deed.run(&job, printer).await;
        job.session.close().await?;
        result.map(|()| Exit::Done)
    })
}

/// What is done to a host: planned, shown, asked about, carried out.
struct Deed<'a> {
    verb: Verb,
    hosts: HostsRequest,
    upkeep: UpkeepRequest,
    /// To be typed again.
    command: String,
    question: &'static str,
    /// What is the case where there is nothing to do.
    nothing: String,
    with: (&'a Description, &'a Connection, &'a PlanOnly, &'a Approval),
    variables: &'a VariableFlags,
}

impl Deed<'_> {
    async fn run(&self, job: &Job, printer: &Printer) -> anyhow::Result<()> {
        let (.., how, approval) = self.with;
        let (hosts, upkeep) = (self.hosts.clone(), self.upkeep.clone());
        let request =
            Request { goal: Goal::Hosts, until: Until::Healthy, hosts, upkeep, ..Request::default() };
        let (inside, nonce) = (Inside::open(job, printer)?, nonce()?);
        let reach = inside.reach(false);
        let plan = job.plan(&request, &nonce, Some(&reach)).await?;
        show_as(job, &plan, how.output, &self.text(job, &plan, printer), printer)?;
        if !plan.refusals.is_empty() {
            return Err(Told.into());
        }
        if how.plan_only || (plan.is_empty() && plan.waiting.is_empty()) {
            return Ok(());
        }
        refuse_without_uid(job)?;
        if !approval.auto_approve {
            self.confirm(job, &request)?;
        }
        let gatekeeper = Gatekeeper::of(approval.auto_approve);
        let (verb, request, nonce, reach) = (self.command.as_str(), &request, &nonce, Some(&reach));
        CarryOut { site: job.site(), request, nonce, approval, verb, reach }
            .run(&plan, gatekeeper, printer)
            .await
    }

    fn text(&self, job: &Job, plan: &Plan, printer: &Printer) -> String {
        if !plan.is_empty() || !plan.refusals.is_empty() || !plan.waiting.is_empty() {
            return text(job, plan, printer);
        }
        let notes = plan.notes.iter().map(|note| match &note.node {
            Some(node) => format!("{node} {}\n", note.text),
            None => format!("{}\n", note.text),
        });
        format!("{}\n{}", self.nothing, notes.collect::<String>())
    }

    fn confirm(&self, job: &Job, request: &Request) -> anyhow::Result<()> {
        if !Printer::can_ask() {
            let command = job.command_for(&format!("{} --auto-approve", self.command), request);
            return Err(Failure::new("there is nobody to ask, and without a yes nothing is changed")
                .with_hint(format!("if the plan above is right: {command}"))
                .into());
        }
        let answer = prompt::line(self.question)?.unwrap_or_default();
        if prompt::is_yes(&answer) {
            Ok(())
        } else {
            Err(Failure::new("not confirmed; nothing was changed").into())
        }
    }
}
