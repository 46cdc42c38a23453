//! One call, whoever is asked.

use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use tokio::time::Instant;

use crate::client::{Body, HttpRequest, Method, Params};

/// Headers that say who we are.
pub(crate) type Headers = Vec<(&'static str, SecretString)>;

/// How long a call may take, and until when.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    pub(crate) limit: Duration,
    pub(crate) deadline: Instant,
}

impl Time {
    pub(crate) fn starting_now(limit: Duration) -> Self {
        let now = Instant::now();
        // A limit beyond what the clock can hold means that there is none.
        let deadline = now.checked_add(limit).unwrap_or(now + Duration::from_hours(24 * 365));
        Self { limit, deadline }
    }
}

/// One call: what to ask, whoever is asked.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) params: Params,
    /// Sent instead of the parameters.
    pub(crate) body: Option<Body>,
    pub(crate) timeout: Option<Duration>,
}

impl Call {
    pub(crate) fn new(method: Method, path: impl Into<String>, params: Params) -> Self {
        Self { method, path: path.into(), params, body: None, timeout: None }
    }

    /// Method and path as errors name them.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method.as_str(), self.path)
    }

    pub(crate) fn request(&self, headers: Headers) -> HttpRequest {
        let mut path = format!("/api2/json{}", self.path);
        let body = match &self.body {
            Some(body) => body.clone(),
            None if self.method.has_body() => Body::Form(Bytes::from(self.params.encode())),
            None => {
                if !self.params.is_empty() {
                    path = format!("{path}?{}", self.params.encode());
                }
                Body::Empty
            }
        };
        HttpRequest { method: self.method, path, headers, body }
    }
}
