//! What went wrong, for whom, and what can be done about it.

use std::net::IpAddr;

use talmox_types::excerpt;

use crate::{Code, Status, TransportError};

/// A failed call.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{method} on {node}: {cause}")]
pub struct Error {
    pub node: IpAddr,
    /// `Bootstrap`.
    pub method: &'static str,
    pub cause: TransportError,
}

/// What a caller can do about a failure. Codes decide, never texts: those differ between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing was sent: try again.
    NotReached,
    /// The node is another one, or in another mode, than it was taken for.
    NotTrusted,
    /// It may or may not have happened: look before trying again.
    Uncertain,
    /// Not now; the node has to get there first.
    NotReady,
    /// It is so already.
    AlreadyThere,
    NotFound,
    /// Our certificate does not allow it, or the node is in maintenance mode.
    Denied,
    /// This version, or this kind of node, does not know the call.
    Unsupported,
    /// What was sent is wrong.
    Refused,
    Failed,
}

impl Error {
    /// The words can come from anybody who answers at the node's address, in maintenance mode even without a certificate
    /// that proves anything: an error holds them on one line and without characters that act on a terminal.
    pub(crate) fn new(node: IpAddr, method: &'static str, cause: TransportError) -> Self {
        let cause = match cause {
            TransportError::Connect { reason } => TransportError::Connect { reason: excerpt(&reason) },
            TransportError::Certificate { reason } => {
                TransportError::Certificate { reason: excerpt(&reason) }
            }
            TransportError::Refused { reason } => TransportError::Refused { reason: excerpt(&reason) },
            TransportError::Closed { reason } => TransportError::Closed { reason: excerpt(&reason) },
            TransportError::Lost { reason } => TransportError::Lost { reason: excerpt(&reason) },
            TransportError::Deadline { after } => TransportError::Deadline { after },
            TransportError::Status(Status { code, message }) => {
                TransportError::Status(Status { code, message: excerpt(&message) })
            }
        };
        Self { node, method, cause }
    }

    pub fn kind(&self) -> Kind {
        match &self.cause {
            TransportError::Connect { .. } | TransportError::Closed { .. } => Kind::NotReached,
            TransportError::Certificate { .. } | TransportError::Refused { .. } => Kind::NotTrusted,
            TransportError::Lost { .. } | TransportError::Deadline { .. } => Kind::Uncertain,
            TransportError::Status(status) => of_code(status.code),
        }
    }

    /// The node's own words, if it had any.
    pub fn status(&self) -> Option<&Status> {
        if let TransportError::Status(status) = &self.cause { Some(status) } else { None }
    }
}

fn of_code(code: Code) -> Kind {
    match code {
        // A proxy or a server that is going down says Unavailable, and may have passed the call on before.
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => Kind::Uncertain,
        Code::FailedPrecondition => Kind::NotReady,
        Code::AlreadyExists => Kind::AlreadyThere,
        Code::NotFound => Kind::NotFound,
        Code::PermissionDenied | Code::Unauthenticated => Kind::Denied,
        Code::Unimplemented => Kind::Unsupported,
        Code::InvalidArgument | Code::OutOfRange => Kind::Refused,
        Code::Ok | Code::Unknown | Code::ResourceExhausted | Code::Internal | Code::DataLoss => Kind::Failed,
    }
}
