//! Sends recorded requests to a simulator and compares what it says.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_sim::{Body, FileFacts, Reply, Request, World, encode_form, percent_encode};

use super::file::{Exchange, Recording};
use super::shape;
use super::world::{REDACTED, TOKEN};

/// How long a task is waited for that had ended when it was recorded: milliseconds.
const PATIENCE: u64 = 600_000;
const SECOND: u64 = 1000;

pub(crate) struct Replay {
    world: World,
    now: u64,
    authorization: Option<String>,
    ticket: Option<(String, String)>,
    /// The simulator's UPID for each recorded one.
    tasks: BTreeMap<String, String>,
    name: String,
    pub(crate) assumed: Vec<String>,
}

impl Replay {
    pub(crate) fn new(recording: &Recording, world: World) -> Self {
        let by_token = recording.cluster().is_none();
        Self {
            world,
            now: 60 * SECOND,
            authorization: by_token.then(|| format!("PVEAPIToken=root@pam!{TOKEN}={REDACTED}")),
            ticket: None,
            tasks: BTreeMap::new(),
            name: recording.name.clone(),
            assumed: Vec::new(),
        }
    }

    /// Replays one exchange and tells where the replies differ.
    pub(crate) fn step(&mut self, exchange: &Exchange) -> Vec<String> {
        self.follow_vm(exchange);
        let mut reply = self.send(exchange);
        if exchange.data()["status"] == "stopped" && exchange.path.contains("/tasks/") {
            reply = self.wait_for_end(exchange, reply);
        }
        if (exchange.path == "/cluster/ha/rules") && exchange.code() == 200 && reply.status == 500 {
            reply = self.wait_for_manager(exchange, reply);
        }
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        self.remember(exchange, &body["data"]);
        self.compare(exchange, &reply, &body)
    }

    /// The manager of high availability moved VMs as it pleased: they are brought where the recording finds them.
    fn follow_vm(&mut self, exchange: &Exchange) {
        let Some((host, vmid)) = exchange.vm() else { return };
        let list = self.ask("GET", "/cluster/resources", &BTreeMap::from([("type".into(), "vm".into())]));
        let body: Value = serde_json::from_slice(&list.body).unwrap_or_default();
        let entries = body["data"].as_array().cloned().unwrap_or_default();
        let entry = entries.iter().find(|entry| entry["vmid"].to_string() == vmid);
        let Some(other) = entry.and_then(|entry| entry["node"].as_str()).filter(|node| *node != host) else {
            return;
        };
        let form =
            BTreeMap::from([("target".to_owned(), host.to_owned()), ("online".to_owned(), "1".to_owned())]);
        self.ask("POST", &format!("/nodes/{other}/qemu/{vmid}/migrate"), &form);
        self.now += 120 * SECOND;
        self.assumed.push(format!("{}: high availability moved VM {vmid} from {other} to {host}", self.name));
    }

    fn wait_for_end(&mut self, exchange: &Exchange, mut reply: Reply) -> Reply {
        let deadline = self.now + PATIENCE;
        while self.now < deadline && String::from_utf8_lossy(&reply.body).contains(r#""status":"running""#) {
            self.now += SECOND;
            reply = self.send(exchange);
        }
        reply
    }

    /// Rules are refused until the manager has seen its hosts; how long that takes is chance.
    fn wait_for_manager(&mut self, exchange: &Exchange, mut reply: Reply) -> Reply {
        let deadline = self.now + 120 * SECOND;
        while self.now < deadline && reply.status == 500 {
            self.now += SECOND;
            reply = self.send(exchange);
        }
        reply
    }

    fn send(&mut self, exchange: &Exchange) -> Reply {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a round trip in milliseconds"
        )]
        let round_trip = exchange.ms.max(1.0) as u64;
        self.now += round_trip;
        let mut path = exchange.path.clone();
        for (recorded, own) in &self.tasks {
            path = path.replace(recorded, own);
        }
        if path.ends_with("/upload") {
            return self.upload(&path);
        }
        let is_read = exchange.method == "GET" || exchange.method == "DELETE";
        self.ask(&exchange.method, &path, if is_read { &exchange.query } else { &exchange.form })
    }

    fn request(&self, method: &str, path: &str) -> Request {
        Request {
            method: method.to_owned(),
            path: format!("/api2/json{path}"),
            authorization: self.authorization.clone(),
            cookie: self.ticket.as_ref().map(|(ticket, _)| percent_encode(ticket)),
            csrf: self.ticket.as_ref().map(|(_, csrf)| csrf.clone()),
            ..Request::default()
        }
    }

    fn ask(&mut self, method: &str, path: &str, params: &BTreeMap<String, String>) -> Reply {
        let form = encode_form(params.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let mut request = self.request(method, path);
        if matches!(method, "POST" | "PUT") {
            request.body = Body::Bytes { content_type: None, bytes: form.into_bytes() };
        } else {
            request.query = form;
        }
        self.world.handle(&request, self.now)
    }

    /// What was uploaded is not recorded: an ISO.
    fn upload(&mut self, path: &str) -> Reply {
        let fields = BTreeMap::from([("content".to_owned(), "iso".to_owned())]);
        let file = FileFacts { size: 1 << 20, ..FileFacts::default() };
        let mut request = self.request("POST", path);
        request.body = Body::Upload { fields, filename: "recorded.iso".into(), file };
        self.world.handle(&request, self.now)
    }

    fn remember(&mut self, exchange: &Exchange, data: &Value) {
        if let (Some(recorded), Some(own)) = (exchange.data().as_str(), data.as_str())
            && recorded.starts_with("UPID:")
        {
            self.tasks.insert(recorded.to_owned(), own.to_owned());
        }
        if let (Some(ticket), Some(csrf)) = (data["ticket"].as_str(), data["CSRFPreventionToken"].as_str()) {
            self.ticket = Some((ticket.to_owned(), csrf.to_owned()));
        }
    }

    fn compare(&self, exchange: &Exchange, reply: &Reply, body: &Value) -> Vec<String> {
        let mut found = Vec::new();
        if reply.status != exchange.code() || reply.reason != exchange.reason() {
            let Reply { status, reason, .. } = reply;
            found.push(format!("{status} {reason} instead of {} {}", exchange.code(), exchange.reason()));
            return found;
        }
        for key in ["message", "errors"] {
            if exchange.reply[key] != body[key] {
                found.push(format!("{key}: {} instead of {}", body[key], exchange.reply[key]));
            }
        }
        let (recorded, own) = (exchange.data(), &body["data"]);
        found.extend(match (recorded.as_str(), own.as_str()) {
            (Some(recorded), Some(own)) if recorded.starts_with("UPID:") => same_task(recorded, own),
            _ if exchange.path == "/version" => same_values(recorded, own, &["version", "release", "repoid"]),
            _ if exchange.path.contains("/tasks/") => self.same_end(recorded, own),
            _ => shape::differences("data", recorded, own),
        });
        found
    }

    /// A task that ran when it was recorded may have ended here.
    fn same_end(&self, recorded: &Value, own: &Value) -> Vec<String> {
        let mut own = own.clone();
        if recorded["status"] == "running" && own["status"] == "stopped" {
            own["status"] = "running".into();
            if let Some(map) = own.as_object_mut() {
                map.remove("exitstatus");
            }
        }
        let known = ["type", "id", "user", "tokenid", "node", "status", "exitstatus"];
        let mut found = same_values(recorded, &own, &known);
        found.extend(shape::differences("data", recorded, &own));
        found
    }
}

fn same_values(recorded: &Value, own: &Value, keys: &[&str]) -> Vec<String> {
    let differ = keys.iter().filter(|key| recorded[**key] != own[**key]);
    differ.map(|key| format!("{key}: {} instead of {}", own[*key], recorded[*key])).collect()
}

/// Host, type, id and user of the tasks; the rest is numbers.
fn same_task(recorded: &str, own: &str) -> Vec<String> {
    let known = |upid: &str| -> Vec<String> {
        let parts: Vec<&str> = upid.split(':').collect();
        [1, 5, 6, 7].iter().filter_map(|at| parts.get(*at)).map(|part| (*part).to_owned()).collect()
    };
    if known(recorded) == known(own) { Vec::new() } else { vec![format!("task {own} instead of {recorded}")] }
}
