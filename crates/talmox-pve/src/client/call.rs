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

    /// The time of a part that begins now: at most `limit`, and never beyond the end of the whole.
    pub(crate) fn part(self, limit: Duration) -> Self {
        let part = Self::starting_now(limit.min(self.left()));
        Self { deadline: part.deadline.min(self.deadline), ..part }
    }

    pub(crate) fn left(self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The limit in words for people. What is left of a minute is a minute, not 59 seconds.
    pub(crate) fn seconds(self) -> u64 {
        self.limit.saturating_add(Duration::from_millis(500)).as_secs()
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
