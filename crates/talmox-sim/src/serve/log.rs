//! What was called and how it was answered, one JSON object per line.
//!
//! Neither queries nor bodies nor headers are written: they hold passwords, tokens and what VMs are given.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::simulation::Delivery;
use crate::wire::Request;

/// A file that calls are written to. Each is there before its caller hears the answer.
#[derive(Clone, Debug)]
pub struct CallLog(Arc<Mutex<File>>);

/// One line of a [`CallLog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedCall {
    pub host: String,
    pub method: String,
    pub path: String,
    /// The path as the API names it (`/nodes/{node}/qemu`); none if the simulator has no such endpoint.
    pub endpoint: Option<String>,
    /// None if a fault took the answer.
    pub status: Option<u16>,
    /// What the caller waited, the time on the wire included.
    pub milliseconds: u64,
}

impl CallLog {
    /// Begins the file anew.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(File::create(path)?))))
    }

    pub(super) fn write(&self, request: &Request, delivery: &Delivery, took: Duration) {
        let call = LoggedCall {
            host: request.via.clone().unwrap_or_default(),
            method: request.method.clone(),
            path: request.path.clone(),
            endpoint: crate::server::endpoint(&request.method, &request.path),
            status: status(delivery),
            milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        let Ok(line) = serde_json::to_string(&call) else { return };
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk is no reason to keep a client waiting; whoever counts lines will miss some.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

fn status(delivery: &Delivery) -> Option<u16> {
    match delivery {
        Delivery::Reply(reply) | Delivery::ReplyThenClose(reply) | Delivery::Cut(reply, _) => {
            Some(reply.status)
        }
        Delivery::Lost { .. } | Delivery::Silence | Delivery::HostDown => None,
    }
}
