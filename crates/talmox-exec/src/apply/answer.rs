//! Waiting for machines that run and do not answer yet.

use std::net::IpAddr;
use std::time::Duration;

use talmox_pve::client::Waiting;
use talmox_types::NodeName;
use tokio::time::Instant;

use crate::machine::{Probe, last_words, probe};
use crate::{Reach, Run, StepError};

/// How long a machine of an earlier run may take to answer. Nobody switches it off and on: it may be a node that lives.
const LIMIT: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_secs(1);

/// Waits until there is anything at an address. Whose it is, the next look tells.
pub(super) async fn wait(
    run: &Run<'_>,
    reach: &Reach<'_>,
    node: &NodeName,
    address: IpAddr,
) -> Result<(), StepError> {
    let (begun, name) = (Instant::now(), format!("{node} to answer at {address}"));
    loop {
        let Probe::Unreachable { reason } = probe(reach, address, None).await else { return Ok(()) };
        let elapsed = begun.elapsed();
        if elapsed > LIMIT {
            return Err(StepError::NotThere {
                node: node.clone(),
                address,
                waiting_for: "an answer".to_owned(),
                limit: LIMIT,
                last_words: last_words(reach, address).await,
            });
        }
        run.reporter.waiting(&Waiting { name: &name, elapsed, limit: LIMIT, detail: &reason });
        let pause = run.stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        pause.ok_or_else(|| StepError::Interrupted { waiting_for: name.clone() })?;
    }
}
