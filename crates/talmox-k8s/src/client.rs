//! Calls to one API server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Access, Cause, Error, Method, Request, Response, Server, Status, Time, Transport, TransportError,
};

/// What a server says to somebody it does not know.
const UNAUTHORIZED: u16 = 401;
/// How long a call may take unless told otherwise. The server itself gives up after a minute.
const DEADLINE: Duration = Duration::from_secs(15);

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
/// JSON is YAML too, and every server takes it under this name.
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A server, and how it is approached.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    access: Access,
    deadline: Duration,
}

/// A call, before it is made.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Option<(&'static str, Value)>,
    /// What is being done, for errors.
    pub(crate) action: String,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(Method::Get, path, action)
    }

    pub(crate) fn new(method: Method, path: impl Into<String>, action: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: Vec::new(), body: None, action: action.into() }
    }

    pub(crate) fn query(mut self, key: &str, value: impl Into<String>) -> Self {
        self.query.push((key.to_owned(), value.into()));
        self
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: Value) -> Self {
        self.body = Some((content_type, body));
        self
    }
}

impl Client {
    pub fn new(transport: Arc<dyn Transport>, access: Access) -> Self {
        Self { transport, access, deadline: DEADLINE }
    }

    /// Gives every call so much time.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same at another server of the cluster.
    #[must_use]
    pub fn at(mut self, server: Server) -> Self {
        self.access = self.access.at(server);
        self
    }

    pub fn server(&self) -> &Server {
        &self.access.server
    }

    /// Makes a call and reads what came back.
    pub(crate) async fn ask<Reply: DeserializeOwned>(&self, call: Call) -> Result<Reply, Error> {
        self.ask_dated(call).await.map(|(reply, _)| reply)
    }

    /// The same, with the time the server had then.
    pub(crate) async fn ask_dated<Reply: DeserializeOwned>(
        &self,
        call: Call,
    ) -> Result<(Reply, Option<Time>), Error> {
        let (method, action) = (call.method, call.action.clone());
        let response = self.send(call).await?;
        let wrong = |error: serde_json::Error| {
            let cause = Cause::Reply(format!("line {} column {}", error.line(), error.column()));
            self.error(method, &action, cause)
        };
        let reply = serde_json::from_slice(&response.body).map_err(wrong)?;
        Ok((reply, response.date))
    }

    /// Makes a call; an answer other than success is an error.
    pub(crate) async fn send(&self, call: Call) -> Result<Response, Error> {
        let Call { method, path, query, body, action } = call;
        let Access { server, identity } = self.access.clone();
        let (content_type, body) = match body {
            Some((kind, value)) => (Some(kind), Bytes::from(value.to_string())),
            None => (None, Bytes::new()),
        };
        let deadline = self.deadline;
        let request = Request { server, identity, method, path, query, content_type, body, deadline };
        match self.exchange(request).await {
            Ok(response) if (200..300).contains(&response.status) => Ok(response),
            Ok(response) => {
                let status = Status::read(response.status, &response.body);
                Err(self.error(method, &action, Cause::Status(Box::new(status))))
            }
            Err(error) => Err(self.error(method, &action, Cause::Transport(error))),
        }
    }

    /// Sends as whoever the server knows us by. While an authority is being replaced that may be one of two, and a server that
    /// does not know the one has looked at nothing before it says so.
    async fn exchange(&self, request: Request) -> Result<Response, TransportError> {
        let (identity, server) = (Arc::clone(&request.identity), request.server.clone());
        let mut refused = None;
        for as_whom in identity.in_turn(&server) {
            let request = Request { identity: Arc::clone(&as_whom), ..request.clone() };
            let answer = self.transport.send(request).await;
            let unknown = match &answer {
                Ok(response) => response.status == UNAUTHORIZED,
                Err(error) => matches!(error, TransportError::NotTrusted { .. }),
            };
            if !unknown {
                if answer.is_ok() {
                    identity.known_to(&server, &as_whom);
                }
                return answer;
            }
            refused.get_or_insert(answer);
        }
        let nobody = || Err(TransportError::NotReached { reason: "nobody to be".to_owned() });
        refused.unwrap_or_else(nobody)
    }

    pub(crate) fn error(&self, method: Method, action: &str, cause: Cause) -> Error {
        Error::new(self.access.server.clone(), method, action, cause)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.access.server).finish_non_exhaustive()
    }
}
