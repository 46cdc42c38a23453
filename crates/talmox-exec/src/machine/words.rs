//! What a machine last said, for whoever waited in vain.

use std::net::IpAddr;

use talmox_talos::{Client, ServiceState};

use super::{Probe, probe, stage};
use crate::Reach;

/// How many lines of a log are shown.
const LINES: u16 = 5;

/// Stage, unmet conditions, services that are not well and the last lines of the log; or why nothing is said.
pub(crate) async fn last_words(reach: &Reach<'_>, address: IpAddr) -> String {
    match probe(reach, address, None).await {
        Probe::Unreachable { reason } => format!("it does not answer: {reason}"),
        Probe::Stranger { why } => why,
        Probe::Maintenance { client, .. } => {
            format!("it is in maintenance mode{}", log(&client).await)
        }
        Probe::Configured(client) => said(&client).await,
    }
}

async fn said(client: &Client) -> String {
    let mut words = Vec::new();
    match client.machine_state().await {
        Ok(Some(state)) => {
            let ready = if state.ready { "ready" } else { "not ready" };
            words.push(format!("its stage is {:?} and it is {ready}", stage(state.stage)).to_lowercase());
            words.extend(state.unmet.into_iter().map(|unmet| format!("{}: {}", unmet.name, unmet.reason)));
        }
        Ok(None) => words.push("it does not know its stage yet".to_owned()),
        Err(error) => words.push(error.to_string()),
    }
    let services = client.services().await.unwrap_or_default();
    words.extend(services.into_iter().filter_map(ill));
    format!("{}{}", words.join(", "), log(client).await)
}

fn ill(service: ServiceState) -> Option<String> {
    let ServiceState { id, state, healthy, message } = service;
    let well = healthy != Some(false) && matches!(state.as_str(), "Running" | "Finished" | "Skipped");
    (!well).then(|| format!("{id} is {state}: {message}"))
}

async fn log(client: &Client) -> String {
    let text = client.logs("machined", LINES).await.unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(usize::from(LINES));
    if lines.is_empty() { String::new() } else { format!("\n{}", lines[last..].join("\n")) }
}
