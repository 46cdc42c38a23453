//! `talmox template build` and `talmox template prune`

use talmox_plan::{
    Goal, NamedTemplate, Nonce, Observed, Plan, Request, described_template, named_templates,
    wanted_templates,
};

use talmox_trust::Verb;

use super::source::{Need, Source};
use crate::args::{Approval, PlanFormat, PlanOnly, TemplateBuild, TemplatePrune};
use crate::commands::apply::refuse_without_uid;
use crate::commands::carry_out::{CarryOut, Gatekeeper};
use crate::commands::plan::{show_as, text};
use crate::commands::shared::{Job, nonce};
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::prompt;
use crate::screens::{Verbosity, duration, no_template_to_do, plural, reference_text};

pub(super) async fn build(args: &TemplateBuild, printer: &Printer) -> anyhow::Result<()> {
    let source =
        Source::open(&args.source, &args.connection, (Verb::TemplateBuild, Need::Templates), printer).await?;
    let result = build_from(&source, args, printer).await;
    source.job.session.close().await?;
    result
}

async fn build_from(source: &Source, args: &TemplateBuild, printer: &Printer) -> anyhow::Result<()> {
    let job = &source.job;
    if !source.references.is_empty() {
        let observed = job.observe_for(Goal::Templates).await?;
        find_references(source, &observed, args.plan.output, printer)?;
    }
    let wanted = wanted_templates(&job.desired).len();
    if wanted == 0 {
        if source.references.is_empty() {
            let words = "No node is cloned from a template talmox builds; there is nothing to build.";
            printer.say(words);
        }
        return Ok(());
    }
    let deed = Deed {
        request: Request { goal: Goal::Templates, ..Request::default() },
        verb: "template build",
        question: "Build? [y/N] ",
        nothing: format!(
            "{} as described",
            if wanted == 1 { "The template is" } else { "All templates are" }
        ),
    };
    deed.run(job, &args.plan, &args.approval, printer).await
}

pub(super) async fn prune(args: &TemplatePrune, printer: &Printer) -> anyhow::Result<()> {
    let source =
        Source::open(&args.source, &args.connection, (Verb::TemplatePrune, Need::Templates), printer).await?;
    let deed = Deed {
        request: Request { goal: Goal::PruneTemplates, prune: args.all, ..Request::default() },
        verb: if args.all { "template prune --all" } else { "template prune" },
        question: "Remove all of this? It cannot be undone. [y/N] ",
        nothing: "No template or image of ours can go".to_owned(),
    };
    let result = deed.run(&source.job, &args.plan, &args.approval, printer).await;
    source.job.session.close().await?;
    result
}

/// What is done to templates: planned, shown, asked about, carried out.
struct Deed {
    request: Request,
    verb: &'static str,
    question: &'static str,
    /// What is the case where there is nothing to do.
    nothing: String,
}

impl Deed {
    async fn run(
        &self,
        job: &Job,
        how: &PlanOnly,
        approval: &Approval,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        let nonce: Nonce = nonce()?;
        let plan = job.plan(&self.request, &nonce, None).await?;
        show_as(job, &plan, how.output, &self.text(job, &plan, printer), printer)?;
        if !plan.refusals.is_empty() {
            return Err(Told.into());
        }
        if how.plan_only || (plan.is_empty() && plan.waiting.is_empty()) {
            return Ok(());
        }
        if !job.desired.nodes.is_empty() {
            refuse_without_uid(job)?;
        }
        if !approval.auto_approve {
            self.confirm(job)?;
        }
        let gatekeeper = Gatekeeper::of(approval.auto_approve);
        CarryOut {
            site: job.site(),
            request: &self.request,
            nonce: &nonce,
            approval,
            verb: self.verb,
            reach: None,
        }
        .run(&plan, gatekeeper, printer)
        .await
    }

    fn text(&self, job: &Job, plan: &Plan, printer: &Printer) -> String {
        if !plan.is_empty() || !plan.refusals.is_empty() {
            return text(job, plan, printer);
        }
        let verbosity = if printer.is_verbose() { Verbosity::Everything } else { Verbosity::Normal };
        let requests = usize::try_from(job.session.requests()).unwrap_or(usize::MAX);
        let cost = format!("{}, {}", plural(requests, "request"), duration(job.elapsed()));
        no_template_to_do(plan, &job.desired, verbosity, (&self.nothing, &cost))
    }

    fn confirm(&self, job: &Job) -> anyhow::Result<()> {
        if !Printer::can_ask() {
            let command = job.command(&format!("{} --auto-approve", self.verb));
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

/// Says where templates are that somebody else made. One that is nowhere, or that will not do, ends it.
fn find_references(
    source: &Source,
    observed: &Observed,
    format: PlanFormat,
    printer: &Printer,
) -> anyhow::Result<()> {
    let mut broken = 0;
    for reference in &source.references {
        let found = named_templates(observed, &reference.template);
        let is_built =
            source.job.desired.templates.iter().any(|own| found.is_empty() && named(reference, &own.name));
        let problems = problems(&found, is_built, observed);
        let text =
            reference_text(&reference.name, &described_template(&reference.template), &found, &problems);
        // Whoever wants the plan as data gets nothing else on the same stream.
        match format {
            PlanFormat::Table => printer.screen(&format!("{text}\n"))?,
            PlanFormat::Json | PlanFormat::Yaml | PlanFormat::Markdown => printer.problem(&text),
        }
        broken += usize::from(!problems.is_empty());
    }
    if broken == 0 {
        return Ok(());
    }
    let count = plural(broken, "template");
    Err(Failure::new(format!("{count} somebody else made cannot be used as named; nothing was changed"))
        .into())
}

fn named(reference: &talmox_dialects::karpenter::Reference, name: &str) -> bool {
    reference.template == talmox_types::desired::TemplateRef::Name(name.to_owned())
}

/// What is wrong with what was found, each with a remedy.
fn problems(found: &[NamedTemplate], is_built: bool, observed: &Observed) -> Vec<(String, String)> {
    let usable: Vec<&NamedTemplate> = found.iter().filter(|template| template.unusable.is_none()).collect();
    if found.is_empty() {
        let hosts: Vec<&str> = observed.hosts.keys().map(talmox_types::HostName::as_str).collect();
        let missing = (
            format!("there is none on {}", hosts.join(", ")),
            "make one there, or correct templateName; a name counts letter by letter".to_owned(),
        );
        return if is_built { Vec::new() } else { vec![missing] };
    }
    let mut problems = Vec::new();
    if usable.is_empty() {
        problems.extend(found.iter().filter_map(|template| {
            let (problem, remedy) = template.unusable.as_ref()?.words(template);
            Some((format!("{} on {} {problem}", template.vmid, template.host), remedy))
        }));
    }
    for host in observed.hosts.keys() {
        let here: Vec<String> = usable
            .iter()
            .filter(|template| template.host == *host)
            .map(|template| template.vmid.to_string())
            .collect();
        if here.len() > 1 {
            problems.push((
                format!("{host} has several: {}", here.join(" and ")),
                "rename all but one, or tell them apart by tags".to_owned(),
            ));
        }
    }
    for template in usable.iter().filter(|template| template.storages.len() > 1) {
        let storages: Vec<&str> = template.storages.iter().map(talmox_types::StorageId::as_str).collect();
        problems.push((
            format!("the disks of {} on {} are on {}", template.vmid, template.host, storages.join(" and ")),
            "a template has all its disks on one storage: qm disk move".to_owned(),
        ));
    }
    problems
}
