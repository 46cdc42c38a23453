//! What went wrong, where, and what can be done about it.

use talmox_types::excerpt;

use crate::{Method, Server, Status, TransportError};

/// A failed call.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{action} at {server}: {cause}")]
pub struct Error {
    pub server: Server,
    /// What was being done, and to what: `evict pod default/web-0`.
    pub action: String,
    pub method: Method,
    pub cause: Cause,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Transport(TransportError),
    #[error("{0}")]
    Status(Box<Status>),
    /// The reply is not what the call promises.
    #[error("the reply makes no sense: {0}")]
    Reply(String),
}

/// What a caller can do about a failure. Codes and reasons decide, never sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing was sent: try again.
    NotReached,
    /// The server is not of this cluster.
    NotTrusted,
    /// It may or may not have happened: look before trying again.
    Uncertain,
    /// Not now; the server, or etcd behind it, has to get there first.
    NotReady,
    /// A disruption budget does not allow it now.
    Blocked,
    /// Somebody else changed it in between, or owns a field of it: look again.
    Conflict,
    AlreadyThere,
    NotFound,
    /// Our certificate is not known or does not allow it.
    Denied,
    /// What was sent is wrong.
    Refused,
    Failed,
}

impl Error {
    /// Words of whoever answers: an error holds them on one line and without characters that act on a terminal.
    pub(crate) fn new(server: Server, method: Method, action: &str, cause: Cause) -> Self {
        let cause = match cause {
            Cause::Transport(error) => Cause::Transport(shown(error)),
            Cause::Status(status) => Cause::Status(Box::new(status.shown())),
            Cause::Reply(place) => Cause::Reply(excerpt(&place)),
        };
        Self { server, action: excerpt(action), method, cause }
    }

    pub fn kind(&self) -> Kind {
        match &self.cause {
            Cause::Transport(TransportError::NotReached { .. }) => Kind::NotReached,
            Cause::Transport(TransportError::NotTrusted { .. }) => Kind::NotTrusted,
            Cause::Transport(TransportError::Lost { .. } | TransportError::Deadline { .. }) => {
                Kind::Uncertain
            }
            Cause::Status(status) => of_status(status, self.method),
            Cause::Reply(_) => Kind::Failed,
        }
    }

    /// The server's own words, if it had any.
    pub fn status(&self) -> Option<&Status> {
        if let Cause::Status(status) = &self.cause { Some(status) } else { None }
    }

    /// The budget in the way of an eviction.
    pub fn disruption_budget(&self) -> Option<&str> {
        self.status().and_then(Status::disruption_budget)
    }
}

fn shown(error: TransportError) -> TransportError {
    match error {
        TransportError::NotReached { reason } => TransportError::NotReached { reason: excerpt(&reason) },
        TransportError::NotTrusted { reason } => TransportError::NotTrusted { reason: excerpt(&reason) },
        TransportError::Lost { reason } => TransportError::Lost { reason: excerpt(&reason) },
        TransportError::Deadline { after } => TransportError::Deadline { after },
    }
}

fn of_status(status: &Status, method: Method) -> Kind {
    match (status.code, status.reason.as_str()) {
        (409, "AlreadyExists") => Kind::AlreadyThere,
        (409, _) => Kind::Conflict,
        (404, _) => Kind::NotFound,
        (401 | 403, _) => Kind::Denied,
        (400 | 405 | 406 | 413 | 415 | 422, _) => Kind::Refused,
        (429, _) if status.details.causes.iter().any(|cause| cause.reason == "DisruptionBudget") => {
            Kind::Blocked
        }
        (429 | 503, _) => Kind::NotReady,
        // What readyz says, and what etcd without a leader looks like.
        (500..=599, _) if method == Method::Get => Kind::NotReady,
        // The server gave up on etcd while something may already be written there.
        (500..=599, _) => Kind::Uncertain,
        _ => Kind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Details, StatusCause};

    #[test]
    fn codes_and_reasons_decide() {
        let of = |status: &Status| of_status(status, Method::Put);
        let kind =
            |code: u16, reason: &str| of(&Status { code, reason: reason.to_owned(), ..Status::default() });
        assert_eq!(kind(409, "AlreadyExists"), Kind::AlreadyThere);
        assert_eq!(kind(409, "Conflict"), Kind::Conflict);
        assert_eq!(kind(429, "TooManyRequests"), Kind::NotReady);
        assert_eq!(kind(504, "Timeout"), Kind::Uncertain);
        assert_eq!(kind(500, "InternalError"), Kind::Uncertain);
        assert_eq!(of_status(&Status { code: 500, ..Status::default() }, Method::Get), Kind::NotReady);
        assert_eq!(kind(422, "Invalid"), Kind::Refused);
        let cause = StatusCause { reason: "DisruptionBudget".to_owned(), ..StatusCause::default() };
        let details = Details { causes: vec![cause], ..Details::default() };
        assert_eq!(of(&Status { code: 429, details, ..Status::default() }), Kind::Blocked);
    }
}
