//! One run with a fault, what is done about it, and what there is in the end.

use std::time::Duration;

use talmox_exec::Summary;
use talmox_test::Fault;

use super::cases::Case;
use super::scenarios::Scenario;
use talmox_test::thorough::runtime;

use crate::bringup::bed::{Bed, Stopped, healthy, unspeakable};

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The disturbed run got there by itself.
    Through,
    /// It stopped and said what to do; after that another run got there.
    Stopped,
    Failed(String),
}

impl Ended {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Through => "went through",
            Self::Stopped => "stopped with a next step, then went through",
            Self::Failed(_) => "FAILED",
        }
    }
}

/// Runs after the disturbed one: the second only because the first says what to do.
const FURTHER_RUNS: u32 = 2;
/// Longer than anything that may be waited for, in simulated time.
const BOUND: Duration = Duration::from_hours(6);

pub(crate) fn run(scenario: &Scenario, case: &Case) -> Ended {
    caught(|| async {
        let bed = scenario.bed();
        for when in case.when() {
            bed.lab.plan(when, Fault::Node(case.mishap.fault.clone()));
        }
        let ended = disturbed(&bed).await;
        ended.unwrap_or_else(|words| failed(&bed, &words))
    })
}

/// What a run of a test comes to, panics included.
pub(super) fn caught<F: Future<Output = Ended>>(run: impl FnOnce() -> F) -> Ended {
    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime().block_on(run())));
    tried.unwrap_or_else(|_| Ended::Failed("it panicked; what it said is above".to_owned()))
}

/// With what was said and asked last: logs are long.
pub(super) fn failed(bed: &Bed, words: &str) -> Ended {
    let last = |lines: Vec<String>| lines[lines.len().saturating_sub(40)..].join("\n");
    let mut told = bed.told.lines();
    told.dedup();
    let calls = bed.lab.calls().iter().map(ToString::to_string).collect();
    Ended::Failed(format!("{words}\n{}\n{}", last(told), last(calls)))
}

async fn disturbed(bed: &Bed) -> Result<Ended, String> {
    let first = bounded(bed, 0xa).await?;
    if bed.lab.transport().faults_struck() == 0 {
        return Err("the fault did not strike".to_owned());
    }
    bed.lab.transport().forget_faults();
    let stopped = judge(first)?;
    let ended = if stopped.is_some() { Ended::Stopped } else { Ended::Through };
    gets_there(bed, stopped).await?;
    Ok(ended)
}

/// Runs again if it stopped, and looks at what there is.
pub(super) async fn gets_there(bed: &Bed, mut stopped: Option<Stopped>) -> Result<(), String> {
    for number in 0..FURTHER_RUNS {
        if stopped.is_none() {
            break;
        }
        stopped = judge(bounded(bed, 0xb + number).await?)?;
    }
    if let Some(Stopped { words, hints }) = stopped {
        return Err(format!("runs without a fault do not get there: {words}\n{hints:?}"));
    }
    bed.is_healthy().await;
    let clusters = bed.etcd_clusters();
    if clusters != 1 {
        return Err(format!("{clusters} clusters of etcd were made"));
    }
    nothing_left_to_do(bed).await
}

/// Whether the run got there; if not, it must have said what to do, and no secret.
pub(super) fn judge(ended: Result<Summary, Stopped>) -> Result<Option<Stopped>, String> {
    let stopped = match ended {
        Ok(summary) if summary.waiting.is_empty() => return Ok(None),
        Ok(summary) => {
            let hints = summary.waiting.iter().map(|waiting| format!("{waiting:?}")).collect();
            Stopped { words: "waits".to_owned(), hints }
        }
        Err(stopped) => stopped,
    };
    let told = format!("{}\n{}", stopped.words, stopped.hints.join("\n"));
    if unspeakable().iter().any(|secret| told.contains(secret)) {
        return Err(format!("it shows a secret: {told}"));
    }
    if stopped.hints.is_empty() {
        return Err(format!("it does not say what to do next: {}", stopped.words));
    }
    Ok(Some(stopped))
}

/// A run that is given more time than anything may take.
pub(super) async fn bounded(bed: &Bed, nonce: u32) -> Result<Result<Summary, Stopped>, String> {
    let request = healthy();
    let run = bed.attempt(&request, nonce);
    tokio::time::timeout(BOUND, run).await.map_err(|_| "it hangs".to_owned())
}

/// The plan is empty, and another run writes nothing.
async fn nothing_left_to_do(bed: &Bed) -> Result<(), String> {
    let plan = bed.plan(&healthy()).await;
    if !plan.is_empty() || !plan.refusals.is_empty() || !plan.waiting.is_empty() {
        return Err(format!("the plan is not empty: {plan:#?}"));
    }
    let before = bed.lab.calls().len();
    bed.attempt(&healthy(), 0xe).await.map_err(|stopped| format!("afterwards: {}", stopped.words))?;
    let writes: Vec<String> =
        bed.lab.calls().writes().filter(|call| call.number > before).map(ToString::to_string).collect();
    let writes: Vec<String> = writes.into_iter().filter(|call| !call.contains("/access/ticket")).collect();
    if writes.is_empty() { Ok(()) } else { Err(format!("another run writes: {writes:?}")) }
}
