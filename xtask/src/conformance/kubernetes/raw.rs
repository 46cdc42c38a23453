//! A server and those who call it: through the client, or with requests of the script's own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regex_lite::Regex;
use serde_json::Value;
use talmox_k8s::{Access, Client, Identity, Method, Request, Server, Transport};

use super::access::Authority;

pub(super) const ADMINISTRATORS: &str = "system:masters";
pub(super) const OTHERS: &str = "nobody-in-particular";

pub(super) struct World {
    transport: Arc<dyn Transport>,
    server: Server,
    administrator: Arc<Identity>,
    other: Arc<Identity>,
    stranger: Arc<Identity>,
}

/// Who calls.
#[derive(Clone, Copy)]
pub(super) enum Who {
    Administrator,
    Other,
    Stranger,
}

/// A code and what came with it.
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) body: Value,
    text: String,
}

impl World {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        server: Server,
        authority: &Authority,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            transport,
            server,
            administrator: authority.client(ADMINISTRATORS)?,
            other: authority.client(OTHERS)?,
            stranger: authority.stranger(),
        })
    }

    pub(super) fn client(&self) -> Client {
        let access = Access { server: self.server.clone(), identity: Arc::clone(&self.administrator) };
        Client::new(Arc::clone(&self.transport), access)
    }

    /// A request as `METHOD PATH?QUERY`; a patch says how in front of its path: `PATCH:merge`.
    pub(super) async fn send(&self, who: Who, line: &str, body: &Value) -> anyhow::Result<Reply> {
        let (verb, target) = line.split_once(' ').unwrap_or((line, ""));
        let (verb, kind) = verb.split_once(':').unwrap_or((verb, ""));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let identity = match who {
            Who::Administrator => &self.administrator,
            Who::Other => &self.other,
            Who::Stranger => &self.stranger,
        };
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let request = Request {
            server: self.server.clone(),
            identity: Arc::clone(identity),
            method: match verb {
                "GET" => Method::Get,
                "POST" => Method::Post,
                "PUT" => Method::Put,
                "PATCH" => Method::Patch,
                _ => Method::Delete,
            },
            path: path.to_owned(),
            query: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            content_type: match kind {
                _ if body.is_null() => None,
                "merge" => Some("application/merge-patch+json"),
                "strategic" => Some("application/strategic-merge-patch+json"),
                "json" => Some("application/json-patch+json"),
                "apply" => Some("application/apply-patch+yaml"),
                "strange" => Some("text/plain"),
                _ => Some("application/json"),
            },
            body: if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) },
            deadline: Duration::from_secs(30),
        };
        let response = self.transport.send(request).await?;
        let text = String::from_utf8_lossy(&response.body).trim().to_owned();
        Ok(Reply { code: response.status, body: serde_json::from_str(&text).unwrap_or_default(), text })
    }
}

impl Reply {
    /// A failure in the server's words, without what differs from run to run; a success by its code.
    pub(super) fn line(&self) -> String {
        let Self { code, body, text } = self;
        if body["status"] == "Failure" {
            let reason = body["reason"].as_str().unwrap_or("-");
            let mut line = format!("{code} {reason}: {}", body["message"].as_str().unwrap_or_default());
            for cause in body["details"]["causes"].as_array().into_iter().flatten() {
                line.push_str(&format!(" | {} {} {}", cause["reason"], cause["field"], cause["message"]));
            }
            return masked(&line);
        }
        if body.is_null() && *code >= 400 { format!("{code} {text}") } else { code.to_string() }
    }
}

/// Without uids and times.
pub(super) fn masked(line: &str) -> String {
    let line = line.replace('\n', " / ");
    let rules = [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    ];
    rules.into_iter().fold(line, |line, (pattern, mask)| match Regex::new(pattern) {
        Ok(pattern) => pattern.replace_all(&line, mask).into_owned(),
        Err(_) => line,
    })
}
