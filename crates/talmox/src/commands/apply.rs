//! `talmox apply`

use std::path::{Path, PathBuf};

use talmox_exec::{Handout, Reach};
use talmox_plan::{BEGINS_WITH_NOTHING, Goal, Nonce, Plan, Request, Until, Waiting, identify};
use talmox_types::ClusterUid;
use talmox_types::desired::ConfigDelivery;

use super::Exit;
use super::carry_out::{CarryOut, Gatekeeper};
use super::configs::read_text;
use super::etcd;
use super::left::{conclude, of_waiting};
use super::machines::Inside;
use super::plan::text;
use super::secrets::FirstBundle;
use super::shared::{Job, block_on, nonce, quoted};
use crate::args::{Apply, ConfigServing};
use crate::config_server::ConfigServer;
use crate::failure::{Failure, Told};
use crate::plan_file::{PlanFile, differences};
use crate::printer::Printer;
use crate::prompt;
use crate::screens::safe;
use crate::secrets_file;
use talmox_trust::Verb;

pub(super) fn run(args: &Apply, printer: &Printer) -> anyhow::Result<Exit> {
    block_on(async {
        let job = Job::open(Verb::Apply, &args.description, &args.connection, printer).await?;
        let job = job.with_variables(&args.variables);
        let result = apply(&job, args, printer).await;
        job.session.close().await?;
        result.map(|()| Exit::Done)
    })
}

async fn apply(job: &Job, args: &Apply, printer: &Printer) -> anyhow::Result<()> {
    let mut inside = Inside::open(job, printer)?;
    let (request, nonce, plan) = decided(job, args, &inside, printer).await?;
    printer.screen(&text(job, &plan, printer))?;
    if !plan.refusals.is_empty() {
        return Err(Told.into());
    }
    refuse_without_uid(job)?;
    let first_secrets = needs_secrets(job, &request, &inside, printer).await?;
    // Machines that do not answer yet are what `--until` waits for; that needs nobody's consent.
    let silent = plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Answer { .. }));
    if plan.is_empty() && !silent {
        hand_out(job, &request, &inside, printer).await?;
        let command = |request: &Request| job.command_for("apply", request);
        let left = of_waiting(&plan.waiting, &request, command);
        return conclude(&left, args.approval.allow_incomplete, printer);
    }
    let server = Serving::open(job, args, &plan, printer).await?;
    if !args.approval.auto_approve && !plan.is_empty() {
        confirm(job, args, &request)?;
    }
    if let Some(first) = first_secrets {
        first.make(job.desired.talos.contract, printer)?;
        inside = Inside::open(job, printer)?;
    }
    let gatekeeper = Gatekeeper::of(args.approval.auto_approve);
    let reach = Reach { handout: server.handout(), ..inside.reach(args.take_over) };
    let carry_out = CarryOut {
        site: job.site(),
        request: &request,
        nonce: &nonce,
        approval: &args.approval,
        verb: server.verb(),
        reach: Some(&reach),
    };
    let result = carry_out.run(&plan, gatekeeper, printer).await;
    server.close().await;
    for left_out in inside.left_out() {
        printer.say(&left_out);
    }
    for (_, path) in inside.kept().iter() {
        printer.say(&format!("snapshot of etcd: {}", path.display()));
    }
    // A user who has to find out what is wrong needs a way to the cluster too, once there is one.
    let handed_out = hand_out(job, &request, &inside, printer).await;
    result.and(handed_out)
}

/// The server machines fetch their configuration from, if they do.
struct Serving {
    server: Option<ConfigServer>,
    /// What goes on with it after it was interrupted.
    verb: String,
}

impl Serving {
    /// Opened before anybody is asked: what would not work is said before a yes.
    async fn open(job: &Job, args: &Apply, plan: &Plan, printer: &Printer) -> anyhow::Result<Self> {
        let words = plan.steps.iter().map(|step| step.step.word());
        let mut words = words.chain(plan.later.iter().map(|intent| intent.step.as_str()));
        let delivers = job.desired.talos.config_delivery == ConfigDelivery::Url;
        if !delivers || !words.any(|word| matches!(word, "publish-config" | "configure-node")) {
            return Ok(Self { server: None, verb: "apply".to_owned() });
        }
        let serving = &args.serving;
        let trusts = serving.config_ca.as_deref().map(read_text).transpose()?;
        let simulated = job.session.simulated_in().is_some();
        let server = ConfigServer::open(serving, trusts.as_deref(), simulated, printer).await?;
        job.session.have_machines_trust(trusts.as_deref().unwrap_or_default());
        Ok(Self { server: Some(server), verb: again(serving) })
    }

    fn handout(&self) -> Option<&Handout> {
        self.server.as_ref().map(ConfigServer::handout)
    }

    fn verb(&self) -> &str {
        &self.verb
    }

    async fn close(self) {
        if let Some(server) = self.server {
            server.close().await;
        }
    }
}

/// The verb with everything a server needs.
fn again(serving: &ConfigServing) -> String {
    let ConfigServing { config_url, config_cert, config_key, config_ca, config_listen } = serving;
    let file = |path: &Option<PathBuf>| path.as_deref().map(shown);
    let flags = [
        ("--config-url", config_url.as_deref().map(quoted)),
        ("--config-cert", file(config_cert)),
        ("--config-key", file(config_key)),
        ("--config-ca", file(config_ca)),
        ("--config-listen", config_listen.map(|address| address.to_string())),
    ];
    let given = flags.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", value?)));
    format!("apply{}", given.collect::<String>())
}

/// The cluster's first secrets, to be made after a yes; none if it has some, or needs none.
async fn needs_secrets(
    job: &Job,
    request: &Request,
    inside: &Inside<'_>,
    printer: &Printer,
) -> anyhow::Result<Option<FirstBundle>> {
    if !lacks_secrets(job, request, inside).await? {
        return Ok(None);
    }
    let first = FirstBundle::choose(&job.folder, printer)?;
    if let Some(path) = first.path() {
        printer.say(&format!("the cluster has no secrets yet: they are made first, in {}", path.display()));
    }
    Ok(Some(first))
}

/// Whether the cluster's first secrets are yet to be made. They are never made beside VMs: those know others.
pub(super) async fn lacks_secrets(job: &Job, request: &Request, inside: &Inside<'_>) -> anyhow::Result<bool> {
    let configures = request.until >= Until::Configured;
    if !configures || inside.has_secrets() {
        return Ok(false);
    }
    let ours = identify(&job.desired, &job.observe().await?).ours().count();
    if ours == 0 && job.desired.talos.secrets_file.is_none() {
        return Ok(true);
    }
    // Says where it was looked for.
    Err(secrets_file::load(&job.desired, &job.folder)
        .err()
        .map_or_else(
            || Failure::new("the secrets bundle cannot be read"),
            |failure| failure.with_hint(format!("without it: {}", job.command("apply --until reachable"))),
        )
        .into())
}

/// Puts the cluster's contexts where `talosctl` and `kubectl` look for them, once it was bootstrapped: before that they lead nowhere,
/// and the one the user works with must stay the current one.
async fn hand_out(
    job: &Job,
    request: &Request,
    inside: &Inside<'_>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let reached = request.until >= Until::Bootstrapped && request.goal == Goal::Converge;
    if !reached || !inside.has_secrets() {
        return Ok(());
    }
    // A run that stopped within a rotation leaves machines that take other certificates than before.
    inside.look_how_far().await?;
    let (clients, home) = (inside.clients()?, inside.home());
    if clients.are_good(&home) || !is_bootstrapped(job).await? {
        return Ok(());
    }
    clients.merge(&home, printer)
}

/// Whether a VM's mark says that etcd was seen to run.
async fn is_bootstrapped(job: &Job) -> anyhow::Result<bool> {
    let identities = identify(&job.desired, &job.observe().await?);
    Ok(identities.ours().any(|owned| owned.mark.bootstrap.as_ref().is_some_and(|word| word.done)))
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
async fn decided(
    job: &Job,
    args: &Apply,
    inside: &Inside<'_>,
    printer: &Printer,
) -> anyhow::Result<(Request, Nonce, Plan)> {
    let reach = &inside.reach(args.take_over);
    let Some(path) = &args.plan else {
        let (mut request, nonce) = (job.request(&args.scope)?, nonce()?);
        if let Some(shut_out) = inside.shut_out().filter(|_| request.until >= Until::Reachable) {
            return Err(shut_out.into());
        }
        job.rehearse(&request, printer)?;
        let mut plan = job.plan(&request, &nonce, Some(reach)).await?;
        if plan.refusals.iter().any(|refusal| refusal.problem == BEGINS_WITH_NOTHING) {
            request.upkeep.restore = Some(etcd::keep_what_is_left(job, inside, reach, printer).await?);
            printer
                .say(&format!("if this is interrupted, go on with: {}", job.command_for("apply", &request)));
            plan = job.plan(&request, &nonce, Some(reach)).await?;
        }
        return Ok((request, nonce, plan));
    };
    let kept = PlanFile::read(path)?;
    // No plan is ever kept for it: destroying a cluster has a verb and a question of its own.
    if kept.request.goal != Goal::Converge {
        return Err(Failure::new(format!("{} is a plan to destroy; nothing was changed", path.display()))
            .with_hint(job.command_for("destroy", &kept.request))
            .into());
    }
    if let Some(until) = args.scope.until.map(Until::from).filter(|until| *until != kept.request.until) {
        let (name, made) = (path.display(), kept.request.until.word());
        return Err(Failure::new(format!("the plan in {name} is made --until {made}, not {}", until.word()))
            .with_hint("leave --until (TALMOX_UNTIL) out: a plan goes as far as it was made for")
            .into());
    }
    if !kept.fits(&job.desired)? {
        return Err(stale(job, path, &kept, &["the description has changed since".to_owned()]).into());
    }
    job.rehearse(&kept.request, printer)?;
    let plan = job.plan(&kept.request, &kept.nonce, Some(reach)).await?;
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
