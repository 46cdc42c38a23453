//! The error of a call.

use std::fmt;

use talmox_types::excerpt;

use crate::client::{Endpoint, ErrorKind, UnknownCertificate};

/// Whether a failed call may have done something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It never reached the host that would act: asking again, elsewhere too, is safe.
    NeverSent,
    /// It was answered with a no.
    Refused,
    /// It was sent, and no answer tells what became of it: look before trying again.
    MayHaveHappened,
}

/// The login as errors name it.
pub(crate) const LOGIN: &str = "POST /access/ticket";

/// Whether a call can be made twice without harm: it reads, or only makes another ticket.
pub(crate) fn changes_nothing(call: &str) -> bool {
    call.starts_with("GET ") || call == LOGIN
}

/// A call that failed: what was asked of whom, Proxmox's own words, their class, and whether it may have happened.
///
/// The words can come from anybody who answers at the endpoint, so an error holds them on one line and without characters
/// that act on a terminal.
pub struct Error(Box<Details>);

struct Details {
    call: String,
    endpoint: Endpoint,
    kind: ErrorKind,
    outcome: Outcome,
    words: String,
    status: Option<u16>,
}

impl Error {
    pub(crate) fn new(
        call: &str,
        endpoint: &Endpoint,
        kind: ErrorKind,
        outcome: Outcome,
        words: &str,
    ) -> Self {
        Self(Box::new(Details {
            call: call.to_owned(),
            endpoint: endpoint.clone(),
            kind: kind.map_texts(&excerpt),
            outcome,
            words: excerpt(words),
            status: None,
        }))
    }

    /// The same with something done to every text a server had a part in.
    pub(crate) fn map_texts(self, map: &dyn Fn(&str) -> String) -> Self {
        let Details { call, endpoint, kind, outcome, words, status } = *self.0;
        let (kind, words) = (kind.map_texts(map), map(&words));
        Self(Box::new(Details { call, endpoint, kind, outcome, words, status }))
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// What was asked: `POST /nodes/pve1/qemu/100/status/start`.
    pub fn call(&self) -> &str {
        &self.0.call
    }

    /// Who was asked.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Proxmox's own words, or what the connection died of.
    pub fn words(&self) -> &str {
        &self.0.words
    }

    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// Whether the server showed a certificate that is not trusted.
    pub fn is_of_a_certificate(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Certificate(_))
    }

    /// Whether the same call can be made again without harm.
    pub fn is_safe_to_retry(&self) -> bool {
        match self.0.outcome {
            Outcome::NeverSent => !matches!(self.0.kind, ErrorKind::Certificate(_) | ErrorKind::Other),
            Outcome::Refused => {
                matches!(self.0.kind, ErrorKind::Busy | ErrorKind::QuorumLost | ErrorKind::Locked { .. })
            }
            Outcome::MayHaveHappened => changes_nothing(&self.0.call),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { call, endpoint, kind, outcome, words, .. } = &*self.0;
        if let ErrorKind::Certificate(UnknownCertificate { fingerprint, reason, vouched_for }) = kind {
            let fault = if *vouched_for { "is not allowed" } else { "nobody vouches for" };
            writeln!(f, "{endpoint} shows a certificate that {fault}: {reason}")?;
            return write!(f, "  SHA-256 fingerprint {fingerprint}");
        }
        if *kind == ErrorKind::Unreachable {
            return write!(f, "no connection to {endpoint}: {words}");
        }
        if *kind == ErrorKind::Unauthenticated {
            return write!(f, "{endpoint} does not accept the credentials: {words}");
        }
        write!(f, "{call} on {endpoint}: {words}")?;
        if *outcome == Outcome::MayHaveHappened && !changes_nothing(call) {
            f.write_str(" (it was sent and may have happened)")?;
        }
        if let ErrorKind::Invalid(reasons) | ErrorKind::StaysPending(reasons) = kind {
            for (parameter, reason) in reasons {
                write!(f, "\n  {parameter}: {}", reason.split_whitespace().collect::<Vec<_>>().join(" "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { call, endpoint, kind, outcome, words, status } = &*self.0;
        f.debug_struct("Error")
            .field("call", call)
            .field("endpoint", endpoint)
            .field("kind", kind)
            .field("outcome", outcome)
            .field("words", words)
            .field("status", status)
            .finish()
    }
}

impl std::error::Error for Error {}
