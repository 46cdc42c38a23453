//! Waiting until everything holds.

use std::time::Duration;

use talmox_types::NodeName;
use tokio::time::Instant;

use super::member::Cluster;
use super::state::{CheckState, Health};
use super::words::{self, LastWords};
use super::{CHECKS, Name, check, look};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that is being waited for, or that holds now.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub name: &'static str,
    pub state: &'a CheckState,
    /// Checks that hold already, of how many.
    pub held: usize,
    pub of: usize,
    pub elapsed: Duration,
    pub limit: Duration,
}

/// Time was up.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not healthy after {} s: waiting for {name}: {why}{}", .after.as_secs(), said(.words))]
pub struct Unhealthy {
    pub after: Duration,
    /// The check that does not hold, and why.
    pub name: &'static str,
    pub why: String,
    pub nodes: Vec<NodeName>,
    pub words: Vec<LastWords>,
    pub health: Health,
}

fn said(words: &[LastWords]) -> String {
    words.iter().map(|one| format!("\n{one}")).collect()
}

/// Waits for one check after the other, and in the end for all of them at once. Every look is reported.
///
/// # Cancel safety
/// Nothing is written: it may be dropped at any time.
pub async fn await_health(
    cluster: &Cluster,
    limit: Duration,
    report: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Health, Unhealthy> {
    let start = Instant::now();
    let progress = |name: Name, held: usize, state: &CheckState| {
        let progress =
            Progress { name: name.words(), state, held, of: CHECKS.len(), elapsed: start.elapsed(), limit };
        report(progress);
    };
    loop {
        for (held, name) in CHECKS.into_iter().enumerate() {
            loop {
                let state = check(cluster, name).await;
                progress(name, held, &state);
                if state.holds() {
                    break;
                }
                if start.elapsed() >= limit {
                    return verdict(cluster, limit).await;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        let health = look(cluster).await;
        if health.is_healthy() {
            return Ok(health);
        }
        if start.elapsed() >= limit {
            return verdict(cluster, limit).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The last look, when time is up.
async fn verdict(cluster: &Cluster, after: Duration) -> Result<Health, Unhealthy> {
    let health = look(cluster).await;
    let Some((name, missing)) = health.missing() else { return Ok(health) };
    let missing = missing.clone();
    let words = words::collect(cluster, &missing).await;
    Err(Unhealthy { after, name, why: missing.why, nodes: missing.nodes, words, health })
}
