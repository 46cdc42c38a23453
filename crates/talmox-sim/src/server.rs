//! One request from the wire to the reply, in the order of the real server: method, format, authentication, body, route,
//! token rule, doubled parameters, permission, host, worker, schema, handler.

use serde_json::{Value, json};

use crate::access::{Caller, Check};
use crate::api::{self, Call};
use crate::auth::REFUSAL_DELAY;
use crate::reply::{ApiError, success};
use crate::schema::{Args, Route, route_for};
use crate::wire::{Body, Param, Params, Reply, Request, decode};
use crate::world::{Reach, World};

/// While members of a cluster find out that one is gone, each call to it waits for an answer of the network.
const MEMBERSHIP_CHANGES: u64 = 30_000;
const UNANSWERED: u64 = 3_000;
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

impl World {
    /// One step of a call, without regard to whether it waits.
    pub(crate) fn respond(&mut self, request: &Request, now: u64) -> Reply {
        if !METHODS.contains(&request.method.as_str()) {
            return Reply::plain(501, &format!("method '{}' not available", request.method), "");
        }
        let Some((format, path)) = split_path(&request.path) else {
            return Reply::plain(404, "not found", "");
        };
        let world_readable =
            || route_for(&request.method, &path).is_some_and(|(route, _)| route.check == Check::World);
        let caller = match self.authenticate(request) {
            Ok(caller) => caller,
            Err(_) if world_readable() => Caller { user: String::new(), token: None },
            Err(reason) => return Reply { delay: REFUSAL_DELAY, ..Reply::plain(401, &reason, "") },
        };
        let params = match decode(request) {
            Ok(params) => params,
            Err(error) => return Reply::plain(error.status, &error.text, &error.text),
        };
        if !matches!(format.as_str(), "json" | "extjs") {
            let text =
                format!("no formatter for uri {}, {format}", if path.is_empty() { "/" } else { &path });
            return Reply::plain(501, &text, &text);
        }
        let mut reply = self.route(request, &caller, &path, params);
        // Its worker is busy with it for a while.
        let end = self.call.waiting.worker_end.unwrap_or_default();
        reply.delay += end.max(self.clock) - now.min(self.clock);
        if let Some(late) = self.given_up(end) {
            reply = late;
        }
        if format == "extjs" { as_extjs(&reply) } else { reply }
    }

    fn route(&mut self, request: &Request, caller: &Caller, path: &str, params: Params) -> Reply {
        let known = route_for(&request.method, path).filter(|(route, _)| self.knows(route));
        let Some((route, found)) = known else {
            let text = format!("Method '{} {path}' not implemented", request.method);
            return ApiError::Status(501, text).reply();
        };
        let is_upload = matches!(request.body, Body::Upload { .. });
        match self.answer(request, caller, path, route, found, params) {
            Ok(data) => success(data),
            // The proxy checks an upload's permission before it reads the file, and says only the reason.
            Err(error @ ApiError::Permission(_)) if is_upload => {
                let reply = error.reply();
                Reply::plain(reply.status, &reply.reason, "")
            }
            Err(ApiError::Status(401, text)) => {
                Reply { delay: REFUSAL_DELAY, ..ApiError::Status(401, text).reply() }
            }
            Err(error) => error.reply(),
        }
    }

    pub(crate) fn answer(
        &mut self,
        request: &Request,
        caller: &Caller,
        path: &str,
        route: &'static Route,
        found: std::collections::BTreeMap<String, String>,
        mut params: Params,
    ) -> Result<Value, ApiError> {
        if caller.token.is_some() && !route.tokens_allowed {
            let text = format!("URI '{path}' not available with API token, need proper ticket.\n");
            return Err(ApiError::Permission(Some(text)));
        }
        for (name, value) in found {
            let value = Param::Text(value);
            if params.get(&name).is_some_and(|given| *given != value) {
                let text = "duplicate parameter (already defined in URI) with conflicting values!";
                return Err(ApiError::parameter(&name, text));
            }
            params.insert(name, value);
        }
        let raw = |name: &str| match params.get(name) {
            Some(Param::Text(text)) => Some(text.clone()),
            _ => None,
        };
        self.apply_check(self.check_of(route), caller, &raw)?;
        let contact = request.via.clone().unwrap_or_else(|| self.contact.clone());
        let mut node =
            raw("node").filter(|_| route.template.contains("{node}")).unwrap_or_else(|| contact.clone());
        if node == "localhost" {
            node.clone_from(&contact);
        }
        if route.proxied {
            self.broken_connection(&contact, &node)?;
            self.hop(&contact, &node)?;
        }
        let file = match &request.body {
            Body::Upload { file, .. } => Some(file.clone()),
            Body::Empty | Body::Bytes { .. } => None,
        };
        let call = Call { caller: caller.clone(), node, contact, args: Args::default(), file };
        let host = if route.proxied { call.node.clone() } else { call.contact.clone() };
        self.as_host(&host, |world| world.carry_out(route, call, &params))
    }

    /// What the host does that a call is about.
    fn carry_out(&mut self, route: &Route, call: Call, params: &Params) -> Result<Value, ApiError> {
        let raw = |name: &str| match params.get(name) {
            Some(Param::Text(text)) => Some(text.clone()),
            _ => None,
        };
        if call.node != call.contact {
            // It has a mind of its own of what a call asks for.
            self.apply_check(self.check_of(route), &call.caller, &raw)?;
        }
        if route.protected {
            let first = self.call.waiting.worker_end.is_none();
            self.take_worker(&call.node)?;
            let slow = self.slowness(route, raw("storage").as_deref());
            if first && slow > 0 {
                self.keep_worker(&call.node, slow);
            }
        }
        let args = self.check_parameters(route, params).map_err(ApiError::Parameter)?;
        api::dispatch(self, route, &Call { args, ..call })
    }

    /// How long storages take that a call lists.
    fn slowness(&self, route: &Route, storage: Option<&str>) -> u64 {
        let listing = route.method == "GET" && route.template.starts_with("/nodes/{node}/storage");
        let asked = |id: &str| storage.is_none_or(|asked| asked == id);
        self.slow_storages.iter().filter(|(id, _)| listing && asked(id)).map(|(_, slow)| *slow).sum()
    }

    /// A host whose API was just killed: the connection the other kept to it breaks once.
    fn broken_connection(&mut self, contact: &str, node: &str) -> Result<(), ApiError> {
        let host = self.nodes.get_mut(node).filter(|host| host.severed && node != contact);
        let Some(host) = host else { return Ok(()) };
        host.severed = false;
        Err(ApiError::Hop { status: 596, text: "Connection reset by peer".into(), delay: 0 })
    }

    /// Sets how a host looks from the others.
    pub fn set_reach(&mut self, host: &str, reach: Reach) {
        let now = self.clock();
        if let Some(node) = self.nodes.get_mut(host).filter(|node| node.reach != reach) {
            node.severed = reach == Reach::ProxyDown;
            node.reach = reach;
            node.reach_since = Some(now);
        }
    }

    /// The way to another host, or how it fails.
    pub(crate) fn hop(&self, contact: &str, node: &str) -> Result<(), ApiError> {
        if node == contact {
            return Ok(());
        }
        let found = self.nodes.get(node);
        match found.map(|node| node.reach) {
            Some(Reach::Up) => Ok(()),
            Some(Reach::ProxyDown) => {
                Err(ApiError::Hop { status: 595, text: "Connection refused".into(), delay: 0 })
            }
            Some(Reach::Unreachable) => {
                let lost = found.and_then(|node| node.reach_since);
                let is_new =
                    lost.is_some_and(|since| self.clock().saturating_sub(since) < MEMBERSHIP_CHANGES);
                let delay = if is_new { UNANSWERED } else { 0 };
                Err(ApiError::Hop { status: 595, text: "No route to host".into(), delay })
            }
            None => {
                let text = format!(
                    "hostname lookup '{node}' failed - failed to get address info for: {node}: Name or service not known"
                );
                Err(ApiError::Plain(text))
            }
        }
    }
}

/// Splits `/api2/json/version` into format and path; empty parts are dropped.
fn split_path(path: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (first, rest) = parts.split_first()?;
    let (format, rest) = rest.split_first().filter(|_| *first == "api2")?;
    Some(((*format).to_owned(), format!("/{}", rest.join("/"))))
}

/// The path of a call as the API names it, if there is such a call.
#[cfg(feature = "serve")]
pub(crate) fn endpoint(method: &str, path: &str) -> Option<String> {
    let (_, path) = split_path(path)?;
    route_for(method, &path).map(|(route, _)| route.template.clone())
}

/// The format of the web interface: always 200, with the outcome in the body.
fn as_extjs(reply: &Reply) -> Reply {
    let mut body: Value = serde_json::from_slice(&reply.body).unwrap_or_else(|_| json!({"data": null}));
    let good = reply.status == 200;
    body["success"] = json!(u8::from(good));
    if !good {
        body["status"] = if reply.status == 400 { json!("400") } else { json!(reply.status) };
    }
    Reply { delay: reply.delay, ..Reply::json(200, "OK", &body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_the_server_splits_them() {
        let split = |path: &str| split_path(path).unwrap();
        assert_eq!(split("/api2/json//version"), ("json".into(), "/version".into()));
        assert_eq!(split("/api2/version"), ("version".into(), "/".into()));
        assert_eq!(split("/api2/json/nodes/"), ("json".into(), "/nodes".into()));
        assert!(split_path("/pve2/x").is_none());
    }
}
