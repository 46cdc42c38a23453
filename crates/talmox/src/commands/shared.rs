//! What plan, apply, destroy, status and output have in common: read, connect, look, decide.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use talmox_config::{Colour, Outcome, Severity, report};
use talmox_exec::{Factories, Look, Reach, heartbeat};
use talmox_plan::{
    Goal, HostsRequest, Nonce, Observed, Plan, Request, Snapshot, Until, UpkeepRequest, Window, check, plan,
};
use talmox_pve::client::Client;
use talmox_trust::Verb;
use talmox_types::NodeName;
use talmox_types::desired::{Desired, Node, TemplateRef};

use super::configs::Described;
use super::{read, rehearsal, unknown_node};
use crate::args::{ConfiguredAgain, Connection, Description, Move, Roll, Scope, Simulate, VariableFlags};
use crate::connect::Session;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::{duration, plural};
use crate::secrets_file::now;
use crate::snapshot_file;
use crate::trust::{Aim, Folder, needs, settle};

/// A description that was read, and the way to its Proxmox.
pub(super) struct Job {
    /// In a box: a description has a field for every key there is.
    pub(super) outcome: Box<Outcome>,
    pub(super) desired: Desired,
    pub(super) session: Session,
    /// What paths in the description are relative to, and what it may cause.
    pub(super) folder: Folder,
    started: Instant,
    /// `-f`, `--simulate` and `--variable` as they were given, for commands to type next.
    pub(super) flags: String,
    /// What patches may refer to besides what is kept for the description.
    pub(super) variables: VariableFlags,
    printer: Printer,
}

/// The longest a look at Proxmox and the machines is silent.
const LOOK_SILENCE: Duration = Duration::from_secs(10);

/// Where a plan is carried out, and how that place is named on a command line.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) client: &'a Client,
    pub(super) images: &'a Factories,
    pub(super) desired: &'a Desired,
    pub(super) flags: &'a str,
    pub(super) simulated: bool,
}

impl Site<'_> {
    /// A command to type next, on the same description and world.
    pub(super) fn command(&self, verb: &str) -> String {
        format!("talmox {verb}{}", self.flags)
    }

    /// The same with all that was asked for: what it does must be what was looked at.
    pub(super) fn command_for(&self, verb: &str, request: &Request) -> String {
        self.command(&with_scope(verb, request))
    }
}

impl Job {
    /// Reads a description for a verb, has what it would cause allowed, and opens the way to its Proxmox.
    pub(super) async fn open(
        verb: Verb,
        description: &Description,
        connection: &Connection,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let folder = Folder::open(&description.file, &description.trust)?;
        let read = boxed(&folder, printer)?;
        Self::of(verb, read, &[], folder, connection, printer).await
    }

    /// The same for what was read otherwise. `named` are templates that must be there.
    pub(super) async fn of(
        verb: Verb,
        (outcome, desired): (Box<Outcome>, Desired),
        named: &[TemplateRef],
        folder: Folder,
        connection: &Connection,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let started = Instant::now();
        let aim = Aim { verb, simulated: connection.simulate != Simulate::Off };
        settle(&needs(aim, &outcome, &desired, &folder)?, &folder, printer)?;
        let session = Session::open((&desired, named), &folder, connection, printer).await?;
        let flags = flags(folder.description(), connection);
        let (variables, printer) = (VariableFlags::default(), printer.clone());
        Ok(Self { outcome, desired, session, folder, started, flags, variables, printer })
    }

    /// The same with variables for patches.
    pub(super) fn with_variables(mut self, variables: &VariableFlags) -> Self {
        self.flags.push_str(&variables.words());
        self.variables = variables.clone();
        self
    }

    /// Looks at Proxmox.
    pub(super) async fn observe(&self) -> anyhow::Result<Observed> {
        self.observe_for(Goal::Converge).await
    }

    /// Looks at Proxmox as far as a goal needs it.
    pub(super) async fn observe_for(&self, look: impl Into<Look>) -> anyhow::Result<Observed> {
        let observed = Box::pin(talmox_exec::observe_for(&self.session.client, &self.desired, look));
        self.looking(observed).await.context("could not look at Proxmox; nothing was changed")
    }

    /// Looks at Proxmox, and at the machines as far as a request needs it.
    pub(super) async fn observe_whole(
        &self,
        request: &Request,
        reach: Option<&Reach<'_>>,
    ) -> anyhow::Result<Observed> {
        let observed =
            Box::pin(talmox_exec::observe_whole(&self.session.client, &self.desired, request, reach));
        self.looking(observed).await.context("could not look at Proxmox; nothing was changed")
    }

    /// Looks at Proxmox for what another description wants.
    pub(super) async fn observe_as(&self, desired: &Desired) -> anyhow::Result<Observed> {
        let observed = Box::pin(talmox_exec::observe(&self.session.client, desired));
        self.looking(observed).await.context("could not look at Proxmox; nothing was changed")
    }

    /// Says that a look goes on which takes long. After a host was lost Proxmox takes seconds for every answer, until it has
    /// counted that host out.
    async fn looking<T>(&self, look: impl Future<Output = T>) -> T {
        let say = |elapsed| {
            let (time, answers) = (duration(elapsed), self.session.requests());
            let words = format!(
                "still looking: {answers} requests so far; a host that does not answer makes Proxmox slow   {time}"
            );
            self.printer.say(&words);
        };
        heartbeat(LOOK_SILENCE, look, say).await
    }

    /// Looks, plans, and has the plan checked. `reach` leads to the machines, if the request goes that far.
    pub(super) async fn plan(
        &self,
        request: &Request,
        nonce: &Nonce,
        reach: Option<&Reach<'_>>,
    ) -> anyhow::Result<Plan> {
        let observed = self.observe_whole(request, reach).await?;
        let plan = plan(&self.desired, &observed, request, nonce);
        let violations = check(&plan, &self.desired, &observed, request);
        if violations.is_empty() {
            return Ok(plan);
        }
        let list: Vec<String> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
        Err(Failure::new(format!("this plan breaks a safety rule and is not carried out:{}", list.concat()))
            .with_hint("this is a mistake of talmox, not yours; nothing was changed")
            .into())
    }

    /// Makes every configuration this request may send, and says what is wrong before anything is sent.
    pub(super) fn rehearse(&self, request: &Request, printer: &Printer) -> anyhow::Result<()> {
        if request.until < Until::Configured {
            return Ok(());
        }
        let covers = |node: &NodeName| request.covers(node);
        let problems = rehearsal::problems(&self.described(), covers, Severity::Error)?;
        if problems.is_empty() {
            return Ok(());
        }
        let text = report(&self.outcome.description.sources, &problems, Colour::Always);
        printer.problem(text.trim_end_matches('\n'));
        printer.problem("");
        let count = plural(problems.len(), "problem");
        Err(Failure::new(format!("{count} in the description. Nothing was changed.")).into())
    }

    /// What configurations are made from.
    pub(super) fn described(&self) -> Described<'_> {
        let Self { outcome, desired, folder, variables, .. } = self;
        Described { outcome, desired, folder, variables }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Where its plans are carried out.
    pub(super) fn site(&self) -> Site<'_> {
        let Self { session, desired, flags, .. } = self;
        let simulated = session.simulated_in().is_some();
        Site { client: &session.client, images: &session.images, desired, flags, simulated }
    }

    /// A command to type next, on the same description and world.
    pub(super) fn command(&self, verb: &str) -> String {
        self.site().command(verb)
    }

    /// The same with all that was asked for: what it does must be what was looked at.
    pub(super) fn command_for(&self, verb: &str, request: &Request) -> String {
        self.site().command_for(verb, request)
    }

    /// Names must be of declared nodes, unless they are named as gone.
    pub(super) fn request(&self, scope: &Scope) -> anyhow::Result<Request> {
        let Scope {
            target,
            remove,
            prune,
            replace,
            reconfigure,
            roll,
            host_gone,
            moves,
            allow_reboot,
            force_stop,
            ignore_drift,
            max_unavailable,
            stage,
            not_before,
            not_after,
            no_snapshot,
            restore,
            quorum_lost,
            until,
        } = scope;
        for name in target
            .iter()
            .filter(|name| !remove.contains(name))
            .chain(replace)
            .chain(reconfigure.iter().map(|asked| &asked.node))
            .chain(moves.iter().map(|asked| &asked.node))
        {
            self.declared(name)?;
        }
        let window = Window { not_before: not_before.clone(), not_after: not_after.clone() };
        window.opens_after(u64::try_from(now().unix()).unwrap_or_default()).map_err(|why| {
            Failure::new(format!("the window never opens: {why}"))
                .with_hint("--not-before and --not-after take a point in time to come, or a time of every day, such as 22:00 and 04:00")
        })?;
        let set = |names: &[NodeName]| names.iter().cloned().collect::<BTreeSet<_>>();
        Ok(Request {
            goal: Goal::Converge,
            until: until.map_or(Until::Healthy, Into::into),
            targets: set(target),
            remove: set(remove),
            prune: *prune,
            replace: set(replace),
            reconfigure: reconfigure
                .iter()
                .map(|ConfiguredAgain { node, fingerprint }| {
                    (node.clone(), fingerprint.map(|fingerprint| fingerprint.to_string()))
                })
                .collect(),
            roll_templates: *roll == Some(Roll::Template),
            moves: moves.iter().cloned().map(|Move { node, host }| (node, host)).collect(),
            allow_reboot: *allow_reboot,
            force_stop: *force_stop,
            ignore_drift: drift_fields(ignore_drift)?.into_iter().collect(),
            upkeep: UpkeepRequest {
                max_unavailable: *max_unavailable,
                stage: *stage,
                no_snapshot: *no_snapshot,
                restore: restore.as_deref().map(restored).transpose()?,
                quorum_lost: *quorum_lost,
                window,
            },
            hosts: HostsRequest { gone: host_gone.iter().cloned().collect(), ..HostsRequest::default() },
        })
    }

    /// The node of a name somebody typed.
    pub(super) fn declared_node(&self, name: &str) -> Result<&Node, Failure> {
        self.desired.nodes.iter().find(|node| node.name.as_str() == name).ok_or_else(|| {
            let closest = self.outcome.description.member(name).err().flatten();
            unknown_node(&self.outcome, name, closest.as_ref().map(NodeName::as_str))
        })
    }

    fn declared(&self, name: &NodeName) -> Result<(), Failure> {
        match self.outcome.description.member(name.as_str()) {
            Ok(_) => Ok(()),
            Err(closest) => {
                Err(unknown_node(&self.outcome, name.as_str(), closest.as_ref().map(NodeName::as_str)))
            }
        }
    }
}

/// A snapshot a cluster shall begin with: it must be one, and whole, before anything is made.
fn restored(path: &Path) -> anyhow::Result<Snapshot> {
    let judged = snapshot_file::judge(path)?;
    Ok(Snapshot { path: path.display().to_string(), digest: judged.digest })
}

/// Fields by their first names. A field nobody knows would otherwise be left alone in vain.
pub(super) fn drift_fields(names: &[String]) -> anyhow::Result<Vec<String>> {
    let field = |name: &String| {
        talmox_config::drift_field(name).map(str::to_owned).map_err(|unknown| {
            let failure = Failure::new(format!("--ignore-drift {name}: there is no such field"));
            match unknown.suggestion {
                Some(close) => failure.with_hint(format!("did you mean {close}?")),
                None => failure.with_hint("the keys of a node are the fields, such as vm_memory or tags"),
            }
        })
    };
    Ok(names.iter().map(field).collect::<Result<_, _>>()?)
}

/// A verb with the flags that ask for the same again.
fn with_scope(verb: &str, request: &Request) -> String {
    let Request {
        goal,
        until,
        targets,
        remove,
        prune,
        replace,
        reconfigure,
        roll_templates,
        moves,
        allow_reboot,
        force_stop,
        ignore_drift,
        upkeep,
        hosts: HostsRequest { gone, drain: _, back: _, move_back },
    } = request;
    let UpkeepRequest { max_unavailable, stage, no_snapshot, restore, quorum_lost, window } = upkeep;
    let mut words = verb.to_owned();
    for (flag, nodes) in [("--target", targets), ("--remove", remove), ("--replace", replace)] {
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        if !names.is_empty() {
            words.push_str(&format!(" {flag} {}", names.join(",")));
        }
    }
    for (node, fingerprint) in reconfigure {
        let fingerprint = fingerprint.as_ref().map(|shown| format!("={shown}")).unwrap_or_default();
        words.push_str(&format!(" --reconfigure {node}{fingerprint}"));
    }
    for host in gone {
        words.push_str(&format!(" --host-gone {host}"));
    }
    for (node, host) in moves {
        words.push_str(&format!(" --move {node}={host}"));
    }
    if let Some(workers) = max_unavailable {
        words.push_str(&format!(" --max-unavailable {workers}"));
    }
    for (flag, moment) in [("--not-before", &window.not_before), ("--not-after", &window.not_after)] {
        if let Some(moment) = moment {
            words.push_str(&format!(" {flag} {}", quoted(&moment.to_string())));
        }
    }
    if let Some(snapshot) = restore {
        words.push_str(&format!(" --restore {}", quoted(&snapshot.path)));
    }
    let given = [
        // Of templates it is a word of the verb.
        ("--prune", *prune && *goal != Goal::PruneTemplates),
        ("--allow-reboot", *allow_reboot),
        ("--force-stop", *force_stop),
        ("--stage", *stage),
        ("--no-snapshot", *no_snapshot),
        ("--quorum-lost", *quorum_lost),
        ("--move-back", *move_back),
        ("--roll template", *roll_templates),
    ];
    for (flag, given) in given {
        if given {
            words.push_str(&format!(" {flag}"));
        }
    }
    if *goal == Goal::Converge && *until != Until::Healthy {
        words.push_str(&format!(" --until {}", until.word()));
    }
    if !ignore_drift.is_empty() {
        let fields: Vec<&str> = ignore_drift.iter().map(String::as_str).collect();
        words.push_str(&format!(" --ignore-drift {}", fields.join(",")));
    }
    words
}

/// Where a command to be typed finds the same description and the same world.
pub(super) fn flags(file: &Path, connection: &Connection) -> String {
    let mut flags = match &connection.simulate {
        Simulate::Off => String::new(),
        Simulate::Here => " --simulate".to_owned(),
        Simulate::Folder(folder) => format!(" --simulate={}", quoted(&folder.display().to_string())),
    };
    if file != Path::new(".") {
        flags.push_str(&format!(" -f {}", quoted(&file.display().to_string())));
    }
    flags
}

pub(super) fn boxed(folder: &Folder, printer: &Printer) -> anyhow::Result<(Box<Outcome>, Desired)> {
    let (outcome, desired) = read(folder, printer)?;
    Ok((Box::new(outcome), desired))
}

/// As a shell wants it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@~".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// What tells the VMs this run makes from those of another.
pub(super) fn nonce() -> anyhow::Result<Nonce> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
    Ok(Nonce::new(u32::from_be_bytes(bytes)))
}

/// Runs what waits for the network, on this thread: nearly all of it is waiting, and what is not has threads of its own. What
/// still blocks at the end, such as a question nobody answered, is left behind.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("could not start")?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<NodeName> {
        names.iter().map(|name| NodeName::parse(name).unwrap()).collect()
    }

    #[test]
    fn a_command_to_type_asks_for_no_more_than_was_asked_for() {
        let request = Request { goal: Goal::Destroy, targets: names(&["worker-3"]), ..Request::default() };
        assert_eq!(
            with_scope("destroy --auto-approve", &request),
            "destroy --auto-approve --target worker-3"
        );
        let request = Request {
            targets: names(&["cp-1", "worker-1"]),
            remove: names(&["old"]),
            replace: names(&["worker-1"]),
            prune: true,
            allow_reboot: true,
            until: Until::Healthy,
            ..Request::default()
        };
        assert_eq!(
            with_scope("apply", &request),
            "apply --target cp-1,worker-1 --remove old --replace worker-1 --prune --allow-reboot"
        );
        let request = Request { until: Until::Configured, ..Request::default() };
        assert_eq!(with_scope("apply", &request), "apply --until configured");
        let request = Request { goal: Goal::PruneTemplates, prune: true, ..Request::default() };
        assert_eq!(with_scope("template prune --all", &request), "template prune --all");
    }
}
