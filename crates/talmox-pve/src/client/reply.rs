//! Replies: Proxmox's envelope, or what it said instead.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::classify::classify;
use crate::client::error::changes_nothing;
use crate::client::{Endpoint, Error, ErrorKind, HttpResponse, Outcome, scalar};

/// A successful reply.
pub(crate) struct Reply<T> {
    pub(crate) data: T,
    /// Of lists that come in parts: how many there are.
    pub(crate) total: Option<u64>,
    /// Who answered.
    pub(crate) endpoint: Endpoint,
}

#[derive(Deserialize)]
struct Envelope<T> {
    data: T,
    #[serde(default, deserialize_with = "scalar::optional")]
    total: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    errors: Option<BTreeMap<String, Value>>,
}

/// Reads a reply to what was asked for, or to the error it is.
pub(crate) fn read<T: DeserializeOwned>(
    call: &str,
    endpoint: &Endpoint,
    response: &HttpResponse,
) -> Result<Reply<T>, Error> {
    if !(200..300).contains(&response.status) {
        return Err(refusal(call, endpoint, response));
    }
    match serde_json::from_slice(&response.body) {
        Ok(Envelope { data, total }) => Ok(Reply { data, total, endpoint: endpoint.clone() }),
        Err(error) => {
            let words = format!("the reply is not what was expected: {error}");
            let kind = ErrorKind::Unreadable;
            Err(Error::new(call, endpoint, kind, Outcome::MayHaveHappened, &words)
                .with_status(response.status))
        }
    }
}

fn refusal(call: &str, endpoint: &Endpoint, response: &HttpResponse) -> Error {
    let refusal: Refusal = serde_json::from_slice(&response.body).unwrap_or_default();
    let reasons = refusal.errors.unwrap_or_default();
    let errors = reasons.into_iter().map(|(key, value)| (key, reason(&value))).collect();
    // The reason phrase is the message's first line, and all there is before pve-http-server 5.2.
    let words = match refusal.message.as_deref().map(str::trim) {
        Some(message) if !message.is_empty() => message,
        _ if !response.reason.trim().is_empty() => response.reason.trim(),
        _ => "no reason given",
    };
    let kind = classify(response.status, words, &errors);
    let outcome = match response.status {
        // 595 is the hop's word for a connection it could not make, so most likely nothing was done. But nothing in the
        // reply proves it, and a change made twice is worse than one that is looked at before it is made again.
        595 if changes_nothing(call) => Outcome::NeverSent,
        595 | 596 | 597 | 599 => Outcome::MayHaveHappened,
        _ => Outcome::Refused,
    };
    let words = match response.status {
        595..=599 => format!("{words} (status {})", response.status),
        _ => words.to_owned(),
    };
    Error::new(call, endpoint, kind, outcome, &words).with_status(response.status)
}

/// Proxmox breaks reasons into lines as it likes.
fn reason(value: &Value) -> String {
    let text = scalar::text(value).ok().flatten().unwrap_or_else(|| value.to_string());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
