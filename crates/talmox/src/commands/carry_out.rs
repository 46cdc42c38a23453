//! Carrying a plan out: progress, questions at the gate, Ctrl-C, and the last screen.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use indicatif::MultiProgress;
use talmox_exec::{ApplyError, Gate, GateFuture, Interruption, Limits, Reporter, Run, Summary};
use talmox_plan::{Goal, Nonce, Plan, Request};
use talmox_types::NodeName;
use talmox_types::desired::Role;
use tokio_util::sync::CancellationToken;

use super::shared::Job;
use super::signals::Signals;
use crate::args::{Approval, LogFormat};
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::progress::{Bars, JsonLines, Ledger, Lines};
use crate::prompt;
use crate::screens::{Broken, Failed, Finish, broken, could, finished, plural, waits};

/// A plan that somebody said yes to.
pub(super) struct CarryOut<'a> {
    pub(super) job: &'a Job,
    pub(super) request: &'a Request,
    pub(super) nonce: &'a Nonce,
    pub(super) approval: &'a Approval,
    /// What goes on with it after it was interrupted.
    pub(super) verb: &'static str,
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
        match self.approval.log_format {
            LogFormat::Json => {
                let lines = JsonLines::new(Box::new(|line: &str| printer.problem(line)));
                self.with(plan, &lines, None, gatekeeper, printer).await
            }
            LogFormat::Text if Printer::is_watched() && !printer.is_quiet() => {
                let bars = Bars::new(plan);
                self.with(plan, &bars, Some(&bars), gatekeeper, printer).await
            }
            LogFormat::Text => self.with(plan, &Lines::new(plan, say()), None, gatekeeper, printer).await,
        }
    }

    async fn with(
        &self,
        plan: &Plan,
        reporter: &dyn Reporter,
        bars: Option<&Bars>,
        gatekeeper: Gatekeeper,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        let ledger = Ledger::new(plan, reporter);
        let stop = CancellationToken::new();
        let gate = AskingGate { gatekeeper, screen: bars.map(Bars::screen), passed: Mutex::default() };
        let limits = Limits::default();
        let run = Run {
            client: &self.job.session.client,
            desired: &self.job.desired,
            request: self.request,
            nonce: self.nonce,
            gate: &gate,
            reporter: &ledger,
            stop: &stop,
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
                    Some(bars) => bars.screen().suspend(|| printer.problem(words)),
                    None => printer.problem(words),
                }
            }) => None,
        };
        // Before anything else is said: bars that are drawn again would overwrite it.
        if let Some(bars) = bars {
            bars.finish();
        }
        let Some(result) = result else { return Err(self.stopped_at_once(&ledger)) };
        match result {
            Ok(summary) => {
                printer.say(&format!("\n{}", finished(&self.finish(&summary, started)).trim_end()));
                Ok(())
            }
            Err(error) => {
                let ended = Broken {
                    failures: failures(&error),
                    state: ledger.state(),
                    interrupted: matches!(error, ApplyError::Interrupted { .. }),
                    again: self.again(&ledger),
                };
                printer.problem(&format!("\n{}", broken(&ended).trim_end()));
                Err(Told.into())
            }
        }
    }

    fn stopped_at_once(&self, ledger: &Ledger<'_>) -> anyhow::Error {
        let words =
            "stopped at once. Proxmox may still be busy with what was begun; nothing has to be undone";
        Failure::new(words).with_hint(format!("to go on: {}", self.again(ledger))).into()
    }

    /// The command that goes on: with what was asked for, less what is done for good.
    fn again(&self, ledger: &Ledger<'_>) -> String {
        let Request { goal: _, targets, remove, prune, replace, allow_reboot } = self.request;
        let left: BTreeSet<NodeName> =
            replace.iter().filter(|node| !ledger.is_removed(node)).cloned().collect();
        let mut verb = self.verb.to_owned();
        for (flag, nodes) in [("--target", targets), ("--remove", remove), ("--replace", &left)] {
            let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
            if !names.is_empty() {
                verb.push_str(&format!(" {flag} {}", names.join(",")));
            }
        }
        for (flag, given) in [("--prune", *prune), ("--allow-reboot", *allow_reboot)] {
            if given {
                verb.push_str(&format!(" {flag}"));
            }
        }
        self.job.command(&verb)
    }

    fn finish(&self, summary: &Summary, started: Instant) -> Finish<'_> {
        let Job { desired, session, .. } = self.job;
        let covered = desired.nodes.iter().filter(|node| self.request.covers(&node.name)).count();
        let (result, next) = match self.request.goal {
            Goal::Converge => (
                format!("{} as described", plural(covered, "VM")),
                vec![
                    ("look", self.job.command("status")),
                    ("change", "edit the description, then ".to_owned() + &self.job.command("plan")),
                ],
            ),
            Goal::Destroy if self.request.targets.is_empty() => {
                ("no VM is left".to_owned(), vec![("anew", self.job.command("apply"))])
            }
            Goal::Destroy => (
                format!("{} gone", plural(self.request.targets.len(), "VM")),
                vec![("look", self.job.command("status"))],
            ),
        };
        Finish {
            cluster: desired.name.as_str(),
            result,
            steps: summary.done,
            waiting: summary.waiting.iter().map(waits).collect(),
            elapsed: started.elapsed(),
            simulated: session.simulated_in().is_some(),
            next,
        }
    }
}

/// What stood in the way, one by one.
fn failures(error: &ApplyError) -> Vec<Failed> {
    match error {
        ApplyError::Failed { outcome, .. } | ApplyError::Interrupted { outcome, .. } => {
            outcome.failed.iter().map(|failure| Failed::step(&failure.error)).collect()
        }
        ApplyError::Refused { refusals, .. } => refusals.iter().map(Failed::refusal).collect(),
        ApplyError::Blocked { source, .. } => vec![Failed::step(source)],
        ApplyError::Unsafe { .. }
        | ApplyError::OutsideApproval { .. }
        | ApplyError::Observe { .. }
        | ApplyError::Endless { .. } => vec![Failed::whole(error)],
    }
}

/// Whether somebody is asked before a control plane goes down.
#[derive(Clone, Copy)]
pub(super) struct Gatekeeper {
    pub(super) asks: bool,
}

/// Workers pass: the plan was approved. Of a control plane nobody knows yet whether etcd can do without it, so a person
/// must say, once for each.
struct AskingGate {
    gatekeeper: Gatekeeper,
    screen: Option<MultiProgress>,
    passed: Mutex<BTreeSet<NodeName>>,
}

impl AskingGate {
    /// What to ask before a node goes down; nothing if nobody has to be asked.
    fn question(&self, interruption: &Interruption<'_>) -> Option<String> {
        let role = match interruption.role {
            Some(Role::Worker) => return None,
            Some(Role::Controller) => "is a control plane",
            None => "may have been a control plane",
        };
        let node = interruption.node;
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner).contains(node);
        let what = could(&interruption.step.step);
        (self.gatekeeper.asks && !passed).then(|| {
            format!(
                "{node} {role}, and whether etcd can do without it cannot be checked yet.\nGo on ({what})? [y/N] "
            )
        })
    }
}

impl Gate for AskingGate {
    fn pass<'a>(&'a self, interruption: Interruption<'a>) -> GateFuture<'a> {
        let question = self.question(&interruption);
        let (screen, node) = (self.screen.clone(), interruption.node.clone());
        Box::pin(async move {
            let Some(question) = question else { return Ok(()) };
            let asked = tokio::task::spawn_blocking(move || match screen {
                Some(screen) => screen.suspend(|| prompt::line(&question)),
                None => prompt::line(&question),
            });
            let answer =
                asked.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            if !prompt::is_yes(&answer.unwrap_or_default()) {
                return Err("you did not say yes".to_owned());
            }
            self.passed.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
            Ok(())
        })
    }
}
