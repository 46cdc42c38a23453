//! Carrying a plan out: progress, questions at the gate, Ctrl-C, and the last screen.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use talmox_exec::{ApplyError, Gate, GateFuture, Interruption, Limits, Reach, Reporter, Run, Summary};
use talmox_plan::{Goal, Nonce, Plan, Planned, Request, Step, StepId, Until, Upkeep, Waiting};
use talmox_types::NodeName;
use talmox_types::desired::Role;
use tokio_util::sync::CancellationToken;

use super::left::{Left, conclude, of_waiting, tell_programs, waiting_nodes};
use super::shared::Site;
use super::signals::Signals;
use crate::args::{Approval, LogFormat};
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::progress::{Bars, JsonLines, Ledger, Lines, Screen};
use crate::prompt;
use crate::screens::{Broken, Failed, Finish, broken, could, finished, left_behind, plural, safe};

/// A plan that somebody said yes to.
pub(super) struct CarryOut<'a> {
    pub(super) site: Site<'a>,
    pub(super) request: &'a Request,
    pub(super) nonce: &'a Nonce,
    pub(super) approval: &'a Approval,
    /// What goes on with it after it was interrupted.
    pub(super) verb: &'a str,
    /// How the machines are reached, if the request goes that far.
    pub(super) reach: Option<&'a Reach<'a>>,
}

/// How it ended: what is shown last.
pub(super) enum Ended {
    There { screen: String, left: Vec<Left> },
    Short { screen: String, left: Vec<Left> },
}

impl CarryOut<'_> {
    pub(super) async fn run(
        &self,
        plan: &Plan,
        gatekeeper: Gatekeeper,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        printer.say("");
        let say = || Box::new(|line: &str| printer.say(line));
        let ended = match self.approval.log_format {
            LogFormat::Json => {
                let lines = JsonLines::new(Box::new(|line: &str| printer.line(line)));
                self.with(plan, &lines, None, gatekeeper, printer).await?
            }
            LogFormat::Text if Printer::is_watched() && !printer.is_quiet() => {
                let bars = Bars::new(plan);
                self.with(plan, &bars, Some(&bars), gatekeeper, printer).await?
            }
            LogFormat::Text => self.with(plan, &Lines::new(plan, say()), None, gatekeeper, printer).await?,
        };
        match ended {
            Ended::There { screen, left } => {
                printer.say(&format!("\n{}", screen.trim_end()));
                conclude(&left, self.approval.allow_incomplete, printer)
            }
            Ended::Short { screen, left } => {
                printer.problem(&format!("\n{}", screen.trim_end()));
                tell_programs(&left, printer);
                Err(Told.into())
            }
        }
    }

    /// Carries it out before a reporter; gives the last screen.
    pub(super) async fn with(
        &self,
        plan: &Plan,
        reporter: &dyn Reporter,
        bars: Option<&Bars>,
        gatekeeper: Gatekeeper,
        printer: &Printer,
    ) -> anyhow::Result<Ended> {
        let started = Instant::now();
        let ledger = Ledger::new(plan, reporter);
        let stop = CancellationToken::new();
        let gate = AskingGate {
            gatekeeper,
            screen: bars.map(Bars::screen),
            stop: stop.clone(),
            passed: Mutex::default(),
        };
        let limits = Limits::default();
        let run = Run {
            client: self.site.client,
            images: self.site.images,
            desired: self.site.desired,
            request: self.request,
            nonce: self.nonce,
            gate: &gate,
            reporter: &ledger,
            stop: &stop,
            reach: self.reach,
            limits: self.approval.parallelism.map_or(limits, |number| limits.with_parallelism(number.get())),
        };
        let signals = Signals::listen()?;
        let result = tokio::select! {
            biased;
            result = talmox_exec::apply(&run, plan) => Some(result),
            () = signals.twice(|| {
                stop.cancel();
                let words = "finishing what is under way, then stopping; Ctrl-C again stops at once";
                match bars {
                    Some(bars) => bars.screen().above(|| printer.problem(words)),
                    None => printer.problem(words),
                }
            }) => None,
        };
        // Before anything else is said: bars that are drawn again would overwrite it.
        if let Some(bars) = bars {
            bars.finish();
        }
        let Some(result) = result else { return Err(self.stopped_at_once(&ledger)) };
        Ok(match result {
            Ok(summary) => {
                let left = self.left(&summary, &ledger);
                let finish = self.finish(plan, &summary, started, left.is_empty());
                Ended::There { screen: finished(&finish), left }
            }
            Err(error) => {
                let ended = Broken {
                    failures: failures(&error),
                    state: ledger.state(),
                    interrupted: matches!(error, ApplyError::Interrupted { .. }),
                    again: self.again(&ledger),
                };
                Ended::Short { screen: broken(&ended), left: broken_off(&ended) }
            }
        })
    }

    fn stopped_at_once(&self, ledger: &Ledger<'_>) -> anyhow::Error {
        let words =
            "stopped at once. Proxmox may still be busy with what was begun; nothing has to be undone";
        Failure::new(words).with_hint(format!("to go on: {}", self.again(ledger))).into()
    }

    /// The command that goes on: with what was asked for, less what is done for good.
    fn again(&self, ledger: &Ledger<'_>) -> String {
        self.site.command_for(self.verb, &what_is_left(self.request, |node| ledger.is_replaced(node)))
    }

    /// What was asked for and is not so.
    fn left(&self, summary: &Summary, ledger: &Ledger<'_>) -> Vec<Left> {
        let request = what_is_left(self.request, |node| ledger.is_replaced(node));
        let command = |request: &Request| self.site.command_for(self.verb, request);
        let mut left = of_waiting(&summary.waiting, &request, command);
        if let Some((first, others)) = summary.left.split_first() {
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            left.push(Left {
                what: format!("nothing is interrupted now ({}): {first}{more}", request.upkeep.window),
                nodes: nodes_of(&summary.left),
                command: command(&request),
                waits: true,
            });
        }
        // What was to follow and does not, though nothing is known to keep it.
        if left.is_empty() && !summary.later.is_empty() {
            left.extend(summary.later.iter().map(|intent| Left {
                what: match &intent.node {
                    Some(node) => format!("{node}  {}: {}", intent.step, safe(&intent.reason)),
                    None => format!("{}: {}", intent.step, safe(&intent.reason)),
                },
                nodes: intent.node.iter().map(ToString::to_string).collect(),
                command: command(&request),
                waits: false,
            }));
        }
        left
    }

    fn finish(&self, plan: &Plan, summary: &Summary, started: Instant, complete: bool) -> Finish<'_> {
        let leaves_some = !left_behind(plan).is_empty() || !summary.waiting.is_empty();
        let Site { desired, simulated, .. } = self.site;
        let covered = desired.nodes.iter().filter(|node| self.request.covers(&node.name)).count();
        let (result, next) = match self.request.goal {
            Goal::Converge if !summary.left.is_empty() => (
                format!("{} left for another time", plural(summary.left.len(), "step")),
                vec![("look", self.site.command("status"))],
            ),
            Goal::Converge if staged(plan) > 0 => (
                format!(
                    "Talos {} is installed on {}; the restart is left for later",
                    desired.talos.version,
                    plural(staged(plan), "node")
                ),
                vec![
                    ("restart", self.site.command_for(self.verb, &without_stage(self.request))),
                    ("look", self.site.command("status")),
                ],
            ),
            Goal::Converge => (
                reached(self.request, covered, &summary.waiting),
                vec![
                    ("look", self.site.command("status")),
                    ("change", "edit the description, then ".to_owned() + &self.site.command("plan")),
                ],
            ),
            Goal::Destroy if self.request.targets.is_empty() && !leaves_some => {
                ("no VM is left".to_owned(), vec![("anew", self.site.command("apply"))])
            }
            Goal::Destroy => (
                format!("{} gone", plural(summary.removed, "VM")),
                vec![("look", self.site.command("status"))],
            ),
            Goal::Templates => (
                format!("{} built", plural(summary.templates, "template")),
                vec![("look", self.site.command("template list"))],
            ),
            Goal::PruneTemplates => (
                format!("{} gone", plural(summary.removed_templates, "template")),
                vec![("look", self.site.command("template list"))],
            ),
            Goal::Hosts => {
                let next = match &self.request.hosts.drain {
                    Some(host) => ("then", self.site.command(&format!("host return {host}"))),
                    None => ("look", self.site.command("status")),
                };
                let done = match &self.request.hosts.drain {
                    _ if !summary.waiting.is_empty() => {
                        format!("{} could not be touched yet", plural(summary.waiting.len(), "node"))
                    }
                    Some(host) => format!("no node runs on {host}"),
                    None => "its nodes are back".to_owned(),
                };
                (done, vec![next])
            }
        };
        Finish {
            cluster: desired.name.as_str(),
            result,
            steps: summary.done,
            complete,
            elapsed: started.elapsed(),
            simulated,
            next,
        }
    }
}

/// How many nodes a plan leaves with another Talos on their disks than they run.
fn staged(plan: &Plan) -> usize {
    let stages =
        |planned: &&Planned| matches!(planned.step, Step::Upkeep(Upkeep::UpgradeNode { stage: true, .. }));
    plan.steps.iter().filter(stages).count()
}

fn without_stage(request: &Request) -> Request {
    let mut request = request.clone();
    request.upkeep.stage = false;
    request
}

/// What was asked for, less what is done for good. A host that is gone has a say in what is built anew, removed or given up; with none
/// of that left its name would say nothing, and be refused once it is back.
fn what_is_left(request: &Request, is_replaced: impl Fn(&NodeName) -> bool) -> Request {
    let mut left = request.clone();
    left.replace.retain(|node| !is_replaced(node));
    // Which machine may have it is said anew by whoever looks at the next plan.
    left.reconfigure.clear();
    if left.replace.is_empty() && left.remove.is_empty() && !left.prune && !left.upkeep.quorum_lost {
        left.hosts.gone.clear();
    }
    left
}

/// How far it came: `healthy, 6 nodes as described`. A run for single nodes does not look at the health of the cluster.
fn reached(request: &Request, covered: usize, waiting: &[Waiting]) -> String {
    let nodes = plural(covered, "node");
    match request.until {
        Until::Reachable if waiting.is_empty() => format!("{nodes} answer"),
        Until::Configured if waiting.is_empty() => format!("{nodes} configured"),
        Until::Bootstrapped if waiting.is_empty() => format!("etcd is bootstrapped, {nodes} configured"),
        Until::Healthy if waiting.is_empty() && request.targets.is_empty() => {
            format!("healthy, {nodes} as described")
        }
        Until::Healthy if waiting.is_empty() => {
            format!("{nodes} as described; health not waited for (--target)")
        }
        Until::Vms | Until::Reachable | Until::Configured | Until::Bootstrapped | Until::Healthy => {
            as_described(covered, waiting)
        }
    }
}

/// `5 of 6 VMs as described`: those that wait for something are not, yet.
fn as_described(covered: usize, waiting: &[Waiting]) -> String {
    let behind: BTreeSet<&NodeName> = waiting.iter().flat_map(waiting_nodes).collect();
    if behind.is_empty() {
        format!("{} as described", plural(covered, "VM"))
    } else {
        format!("{} of {} as described", covered.saturating_sub(behind.len()), plural(covered, "VM"))
    }
}

/// The nodes of steps.
fn nodes_of(steps: &[StepId]) -> Vec<String> {
    let nodes: BTreeSet<&str> =
        steps.iter().filter_map(|step| step.as_str().split_once('/')).map(|(node, _)| node).collect();
    nodes.into_iter().map(str::to_owned).collect()
}

/// The same of a run that stopped short, for programs.
fn broken_off(broken: &Broken) -> Vec<Left> {
    let one = |failed: &Failed| Left {
        what: failed.what.clone(),
        nodes: Vec::new(),
        command: broken.again.clone(),
        waits: false,
    };
    let mut left: Vec<Left> = broken.failures.iter().map(one).collect();
    if left.is_empty() {
        let (what, command) = ("the run was interrupted".to_owned(), broken.again.clone());
        left.push(Left { what, nodes: Vec::new(), command, waits: false });
    }
    left
}

/// What stood in the way, one by one.
fn failures(error: &ApplyError) -> Vec<Failed> {
    match error {
        ApplyError::Failed { outcome, .. } | ApplyError::Interrupted { outcome, .. } => {
            // Where something failed on a node it is brought back; that this failed too follows from it.
            let follows = |at: usize, failure: &talmox_exec::Failure| {
                let earlier = outcome.failed.iter().take(at);
                failure.step.as_str().ends_with("/return")
                    && earlier.filter(|other| other.node == failure.node).count() > 0
            };
            let failed = outcome.failed.iter().enumerate().filter(|(at, failure)| !follows(*at, failure));
            failed.map(|(_, failure)| Failed::step(&failure.error)).collect()
        }
        ApplyError::Refused { refusals, .. } => refusals.iter().map(Failed::refusal).collect(),
        ApplyError::Blocked { source, .. } => vec![Failed::step(source)],
        ApplyError::Unsafe { .. }
        | ApplyError::OutsideApproval { .. }
        | ApplyError::Observe { .. }
        | ApplyError::Endless { .. } => vec![Failed::whole(error)],
    }
}

/// Who says whether a control plane goes down whose etcd nobody can ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gatekeeper {
    /// A person, once for each.
    Asks,
    /// Nobody is there: not while there may be an etcd that misses it.
    Refuses,
    /// All control planes go, and nobody is left to miss one.
    LetsPass,
}

impl Gatekeeper {
    pub(super) fn of(auto_approve: bool) -> Self {
        if auto_approve { Self::Refuses } else { Self::Asks }
    }
}

/// Workers pass that are known to be some, and control planes that etcd can do without: the plan was approved. Where nobody
/// could be asked, a person must say, once for each; where there is none, nothing that etcd may miss goes down.
struct AskingGate {
    gatekeeper: Gatekeeper,
    screen: Option<Screen>,
    stop: CancellationToken,
    passed: Mutex<BTreeSet<NodeName>>,
}

impl AskingGate {
    /// What to ask before a node goes down; nothing if nobody has to be asked.
    fn question(&self, interruption: &Interruption<'_>) -> Option<String> {
        let role = match interruption.role {
            Some(Role::Worker) => "is described as a worker and does not say whether it is one",
            Some(Role::Controller) => "is a control plane",
            None => "may have been a control plane",
        };
        let node = interruption.node;
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner).contains(node);
        let what = could(&interruption.step.step);
        (self.gatekeeper == Gatekeeper::Asks && !passed && !interruption.etcd_agrees).then(|| {
            format!(
                "{node} {role}, and no member of etcd could be asked whether it can do without it.\nGo on ({what})? [y/N] "
            )
        })
    }
}

impl AskingGate {
    /// Why a node stays up where there is nobody to ask.
    fn refusal(&self, interruption: &Interruption<'_>) -> Option<String> {
        let unknown = !interruption.etcd_agrees && interruption.etcd_begun;
        (self.gatekeeper == Gatekeeper::Refuses && unknown).then(|| {
            "etcd was begun here, and none of its members could be asked, which takes the cluster's secrets and a way to them; \
             --auto-approve is no answer of theirs. Run it where both are, or without --auto-approve and say yes yourself"
                .to_owned()
        })
    }

    /// Asks, until there is an answer or the run is stopped.
    async fn ask(&self, question: String) -> Result<Option<String>, String> {
        if let Some(screen) = &self.screen {
            screen.hide();
        }
        let asked = tokio::task::spawn_blocking(move || prompt::line(&question));
        let answer = self.stop.run_until_cancelled(asked).await;
        if let Some(screen) = &self.screen {
            screen.show();
        }
        let Some(answer) = answer else { return Err("the run was stopped instead of an answer".to_owned()) };
        answer.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

impl Gate for AskingGate {
    fn pass<'a>(&'a self, interruption: Interruption<'a>) -> GateFuture<'a> {
        let (question, refusal) = (self.question(&interruption), self.refusal(&interruption));
        let node = interruption.node.clone();
        Box::pin(async move {
            if let Some(reason) = refusal {
                return Err(reason);
            }
            let Some(question) = question else { return Ok(()) };
            let answer = self.ask(question).await?;
            if !prompt::is_yes(&answer.unwrap_or_default()) {
                return Err("you did not say yes".to_owned());
            }
            self.passed.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use talmox_plan::{Effect, Planned, Step, StepId};

    use super::*;

    #[test]
    fn a_yes_beforehand_is_no_word_of_the_members() {
        let node = NodeName::parse("cp-1").unwrap();
        let step = Planned {
            id: StepId::new(Some(&node), "reboot"),
            needs: Vec::new(),
            node: Some(node.clone()),
            step: Step::AwaitHealth,
            reason: String::new(),
            effect: Effect::Reboot,
            changes: Vec::new(),
            destroys: Vec::new(),
        };
        let refused = |gatekeeper, role, etcd_agrees, etcd_begun| {
            let gate = AskingGate {
                gatekeeper,
                screen: None,
                stop: CancellationToken::new(),
                passed: Mutex::default(),
            };
            let interruption = Interruption { node: &node, role, step: &step, etcd_agrees, etcd_begun };
            gate.refusal(&interruption).is_some()
        };
        let auto = Gatekeeper::of(true);
        assert!(refused(auto, Some(Role::Controller), false, true));
        assert!(refused(auto, None, false, true));
        // What is described as a worker, and nobody says whether it is one.
        assert!(refused(auto, Some(Role::Worker), false, true));
        // What etcd agrees to, and what never had an etcd.
        assert!(!refused(auto, Some(Role::Worker), true, true));
        assert!(!refused(auto, Some(Role::Controller), true, true));
        assert!(!refused(auto, Some(Role::Controller), false, false));
        assert!(!refused(Gatekeeper::of(false), Some(Role::Controller), false, true));
        assert!(!refused(Gatekeeper::LetsPass, Some(Role::Controller), false, true));
    }

    #[test]
    fn what_goes_on_does_not_build_anew_what_was_built() {
        let node = |text: &str| NodeName::parse(text).unwrap();
        let mut request = Request { replace: [node("cp-2"), node("cp-3")].into(), ..Request::default() };
        request.hosts.gone.insert("pve3".parse().unwrap());
        let left = what_is_left(&request, |name| name.as_str() == "cp-3");
        // The host is still needed for the other.
        assert_eq!((left.replace.len(), left.hosts.gone.len()), (1, 1));
        let left = what_is_left(&request, |_| true);
        assert!(left.replace.is_empty() && left.hosts.gone.is_empty());
        request.remove.insert(node("worker-2"));
        assert_eq!(what_is_left(&request, |_| true).hosts.gone.len(), 1);
    }
}
