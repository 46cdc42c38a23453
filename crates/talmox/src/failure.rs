//! What a command says when it cannot do what was asked.

use std::error::Error as StdError;

use talmox_image::client::Error as FactoryError;
use talmox_pve::client::{Error as CallError, ErrorKind, TaskError};

/// A failure that is the user's to correct: what failed, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new() }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Failure {}

/// Somebody has been told already; only the exit code is left to say.
#[derive(Debug)]
pub(crate) struct Told;

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it did not work")
    }
}

impl StdError for Told {}

/// What can be done about an error: what it brings along itself, and what the calls behind it suggest.
pub(crate) fn hints(error: &anyhow::Error) -> Vec<String> {
    let own = error.downcast_ref::<Failure>().map(|failure| failure.hints.clone()).unwrap_or_default();
    let behind = error.chain().flat_map(hints_of);
    own.into_iter().chain(behind).collect()
}

fn chain<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn StdError + 'static)| (*error).source())
}

fn hints_of(error: &(dyn StdError + 'static)) -> Vec<String> {
    if let Some(call) = error.downcast_ref::<CallError>() {
        let mut hints = call.hints();
        if let ErrorKind::Certificate(certificate) = call.kind() {
            hints.push(format!(
                "on a terminal talmox asks once and keeps the answer (talmox trust -f DIR lists it); for a pipeline:\n      \
                 export TALMOX_FINGERPRINT={}",
                certificate.fingerprint
            ));
        }
        return hints;
    }
    if let Some(factory) = error.downcast_ref::<FactoryError>() {
        return vec![factory.hint()];
    }
    error.downcast_ref::<TaskError>().map(TaskError::hints).unwrap_or_default()
}

/// What lies behind an error, with who said it.
pub(crate) fn causes(error: &(dyn StdError + 'static)) -> Vec<String> {
    let said = |cause: &(dyn StdError + 'static)| {
        if let Some(TaskError::Failed { upid, words, .. }) = cause.downcast_ref::<TaskError>() {
            return format!("Proxmox said: {words} (task {upid})");
        }
        match cause.downcast_ref::<CallError>() {
            Some(call) if call.status().is_some() => format!("Proxmox said: {call}"),
            _ => format!("because: {cause}"),
        }
    };
    chain(error).skip(1).map(said).collect()
}
