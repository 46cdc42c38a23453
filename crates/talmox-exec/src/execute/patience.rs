//! Trying again where that helps.
//!
//! A step looks before it acts, so trying again is running it again: whatever became of the last try is seen first.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use talmox_pve::client::ErrorKind;
use tokio::time::Instant;

use crate::work::{End, Result, Work};
use crate::{Event, StepError, steps};

/// Tries in all.
const TRIES: u32 = 6;
/// Tries of what a factory or another server does not give: it is not ours, and may be gone for good.
const IMAGE_TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longer than the ten seconds Proxmox itself waits for a lock.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Runs a step until it is done, fails for good, or has been tried often enough.
pub(super) async fn carry_out(work: &Work<'_>) -> Result {
    let start = Instant::now();
    let mut unsure = false;
    let mut attempt = 1;
    loop {
        match steps::run(work).await {
            // What is there may well be the work of a try whose answer was lost.
            Ok(End::Unchanged) if unsure => return Ok(End::Changed),
            Err(error) if attempt < TRIES && is_passing(&error, attempt) => {
                unsure |= error.may_have_happened();
                tracing::warn!(step = %work.planned.id, attempt, "trying again: {error}");
                wait(work, &error, attempt, start).await?;
                attempt += 1;
            }
            end => return end,
        }
    }
}

/// Whether the same step may well succeed a little later: another operation held a lock, nobody knows what became of the
/// last call, the VM went away between two calls, which the first look of another try will see, or a server with images
/// did not answer.
fn is_passing(error: &StepError, attempt: u32) -> bool {
    let busy = matches!(
        error.kind(),
        Some(ErrorKind::Busy | ErrorKind::Locked { .. } | ErrorKind::QuorumLost | ErrorKind::Conflict)
    );
    let vanished = error.kind() == Some(&ErrorKind::NotFound) && attempt == 1;
    let offline =
        matches!(error, StepError::Image { source, .. } if source.is_passing()) && attempt < IMAGE_TRIES;
    busy || vanished || offline || error.may_have_happened()
}

async fn wait(
    work: &Work<'_>,
    error: &StepError,
    attempt: u32,
    start: Instant,
) -> std::result::Result<(), StepError> {
    let pause = pause(work, attempt);
    let detail = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    work.event(Event::Waiting {
        step: work.planned,
        name: "another try",
        detail: &detail,
        elapsed: start.elapsed(),
        limit: LONGEST_PAUSE * TRIES,
    });
    work.pause("another try", pause).await
}

/// Between half and all of a pause that doubles: steps that failed together must not come back together.
fn pause(work: &Work<'_>, attempt: u32) -> Duration {
    let full = (FIRST_PAUSE * 2_u32.saturating_pow(attempt - 1)).min(LONGEST_PAUSE);
    let mut hasher = DefaultHasher::new();
    (work.run.nonce.as_str(), work.planned.id.as_str(), attempt).hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % 1024).unwrap_or_default();
    full / 2 + full * part / 2048
}
