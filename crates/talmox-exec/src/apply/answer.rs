//! Waiting for machines that run and do not answer yet.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use talmox_pve::client::Waiting;
use talmox_types::NodeName;
use tokio::time::Instant;

use crate::machine::{Probe, last_words, probe};
use crate::{Reach, Run, StepError};

/// How long nobody may answer. No machine is switched off and on for it: it may be a node that lives.
const LIMIT: Duration = Duration::from_mins(10);
/// How long others are waited for once one has answered. A worker answers only when a control plane has its configuration,
/// so waiting for all of them could last for ever.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

type Asked<'a> = Pin<Box<dyn Future<Output = Probe> + Send + 'a>>;

/// Waits until there is anything at some of the addresses. Whose it is, the next look tells.
pub(super) async fn wait(
    run: &Run<'_>,
    reach: &Reach<'_>,
    mut silent: Vec<(&NodeName, IpAddr)>,
) -> Result<(), StepError> {
    let begun = Instant::now();
    let mut last_news: Option<Instant> = None;
    while !silent.is_empty() {
        let asked: Vec<Asked<'_>> =
            silent.iter().map(|(_, address)| Box::pin(probe(reach, *address, None)) as Asked<'_>).collect();
        let answers = join_all(asked).await;
        let before = silent.len();
        let mut reason = String::new();
        let mut answers = answers.into_iter();
        silent.retain(|_| match answers.next() {
            Some(Probe::Unreachable { reason: said }) => {
                reason = said;
                true
            }
            _ => false,
        });
        if silent.len() < before {
            last_news = Some(Instant::now());
        }
        let Some((node, address)) = silent.first().copied() else { return Ok(()) };
        match last_news {
            Some(news) if news.elapsed() >= GRACE => return Ok(()),
            None if begun.elapsed() > LIMIT => return Err(nobody(reach, node, address).await),
            Some(_) | None => {}
        }
        let name = named(&silent);
        let waiting = Waiting { name: &name, elapsed: begun.elapsed(), limit: LIMIT, detail: &reason };
        run.reporter.waiting(&waiting);
        let pause = run.stop.run_until_cancelled(run.pace().sleep(PAUSE)).await;
        pause.ok_or_else(|| StepError::Interrupted { waiting_for: name.clone() })?;
    }
    Ok(())
}

fn named(silent: &[(&NodeName, IpAddr)]) -> String {
    match silent {
        [(node, address)] => format!("{node} to answer at {address}"),
        [(node, _), others @ ..] => format!("{node} and {} more to answer", others.len()),
        [] => String::new(),
    }
}

async fn nobody(reach: &Reach<'_>, node: &NodeName, address: IpAddr) -> StepError {
    StepError::NotThere {
        node: node.clone(),
        address,
        waiting_for: "an answer".to_owned(),
        limit: LIMIT,
        last_words: last_words(reach, address).await,
    }
}
