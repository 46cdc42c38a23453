//! One run with a fault, what is done about it, and what there is in the end.

use std::time::Duration;

use talmox_exec::Summary;
use talmox_test::thorough::runtime;

use crate::matrix::bed::{Bed, Stopped};
use crate::matrix::cases::Case;
use crate::matrix::faults::{BOUND, kills_workers, takes_hosts_down};
use crate::matrix::norm::{left_behind, norm};
use crate::matrix::scenarios::Scenario;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The fault met its call and made no difference.
    Missed,
    /// The disturbed run got there by itself.
    Through,
    /// It stopped and said what to do; after that another run got there.
    Stopped {
        volume_left: bool,
    },
    Failed(String),
}

impl Ended {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Missed => "could not strike",
            Self::Through => "went through",
            Self::Stopped { .. } => "stopped with a next step, then went through",
            Self::Failed(_) => "FAILED",
        }
    }
}

/// Runs after the disturbed one: the second only because the first says what to type.
const FURTHER_RUNS: u32 = 2;

pub(crate) fn run(scenario: &Scenario, case: &Case) -> Ended {
    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime().block_on(async {
            let bed = Bed::new(scenario.before.clone(), &scenario.wanted);
            for when in case.when() {
                bed.lab.plan(when, case.mishap.fault.clone());
            }
            let ended = disturbed(&bed, scenario, case).await;
            let failed = |words: String| Ended::Failed(format!("{words}\n{}", bed.lab.calls()));
            ended.unwrap_or_else(failed)
        })
    }));
    tried.unwrap_or_else(|_| Ended::Failed("it panicked; what it said is above".to_owned()))
}

async fn disturbed(bed: &Bed, scenario: &Scenario, case: &Case) -> Result<Ended, String> {
    let first = bounded(bed, scenario, 0xa).await?;
    bed.lab.transport().forget_faults();
    settle().await;
    let struck = bed.lab.transport().faults_struck() > 0;
    let mut said = Vec::new();
    let mut stopped = judge(bed, first, &mut said)?;
    if stopped.is_none() && takes_hosts_down(&case.mishap.fault) {
        stopped = Some(Stopped { words: "a host went down when it was done".to_owned(), hints: Vec::new() });
    }
    for number in 0..FURTHER_RUNS {
        let Some(stop) = stopped else { break };
        bed.repair(&stop.hints);
        settle().await;
        stopped = judge(bed, bounded(bed, scenario, 0xb + number).await?, &mut said)?;
    }
    if let Some(stop) = stopped {
        return Err(format!("runs without a fault do not get there: {}\n{:?}", stop.words, stop.hints));
    }
    settle().await;
    let volume_left = compare(bed, scenario, case, &said)?;
    nothing_left_to_do(bed, scenario).await?;
    Ok(match (struck, said.is_empty()) {
        (false, _) => Ended::Missed,
        (true, true) => Ended::Through,
        (true, false) => Ended::Stopped { volume_left },
    })
}

/// Whether the run got there; if not, it must have said what to do, and no secret.
fn judge(
    bed: &Bed,
    ended: Result<Summary, Stopped>,
    said: &mut Vec<String>,
) -> Result<Option<Stopped>, String> {
    let stopped = match ended {
        Ok(summary) if summary.waiting.is_empty() => return Ok(None),
        Ok(summary) => {
            let hints = summary.waiting.iter().map(|waiting| format!("{waiting:?}")).collect();
            Stopped { words: "waits".to_owned(), hints }
        }
        Err(stopped) => stopped,
    };
    let told = format!("{}\n{}", stopped.words, stopped.hints.join("\n"));
    if told.contains(&bed.secret) {
        return Err(format!("it shows the token's secret: {told}"));
    }
    if stopped.hints.is_empty() {
        return Err(format!("it does not say what to do next: {}", stopped.words));
    }
    said.push(told);
    Ok(Some(stopped))
}

/// A run that is given more time than anything may take.
async fn bounded(bed: &Bed, scenario: &Scenario, nonce: u32) -> Result<Result<Summary, Stopped>, String> {
    let run = bed.apply(&scenario.wanted, &scenario.request, nonce);
    tokio::time::timeout(BOUND, run).await.map_err(|_| "it hangs".to_owned())
}

/// Until backups are done and the hosts have told each other.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(150)).await;
}

/// Whether what is there is what there would be without the fault, and whether a volume was left that was spoken of.
fn compare(bed: &Bed, scenario: &Scenario, case: &Case, said: &[String]) -> Result<bool, String> {
    let dump = bed.lab.world(|world| world.dump());
    let found = norm(&dump);
    if found != scenario.expected {
        return Err(format!("it ended otherwise\n{found:#?}\ninstead of\n{:#?}", scenario.expected));
    }
    let (orphans, locked) = left_behind(&dump);
    if !locked.is_empty() {
        return Err(format!("locked: {locked:?}"));
    }
    // A worker that dies cleans nothing up, and Proxmox knows nothing of what it had made. That is for people to see.
    let excused = kills_workers(&case.mishap.fault)
        && said.iter().any(|words| words.contains("volumes without a VM") || words.contains("qm destroy"));
    if !orphans.is_empty() && !excused {
        return Err(format!("left without a VM: {orphans:?}; said was {said:?}"));
    }
    Ok(!orphans.is_empty())
}

/// The plan is empty, and another run writes nothing.
async fn nothing_left_to_do(bed: &Bed, scenario: &Scenario) -> Result<(), String> {
    let request = scenario.afterwards();
    let words = |stopped: Stopped| format!("afterwards: {}", stopped.words);
    let plan = bed.plan(&scenario.wanted, &request, 0xd).await.map_err(words)?;
    if !plan.steps.is_empty() || !plan.refusals.is_empty() || !plan.waiting.is_empty() {
        return Err(format!("the plan is not empty: {plan:#?}"));
    }
    let before = bed.lab.calls().len();
    bed.apply(&scenario.wanted, &request, 0xe).await.map_err(words)?;
    let writes: Vec<String> =
        bed.lab.calls().writes().filter(|call| call.number > before).map(ToString::to_string).collect();
    if writes.is_empty() { Ok(()) } else { Err(format!("another run writes: {writes:?}")) }
}
