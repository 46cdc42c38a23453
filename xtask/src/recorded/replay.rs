//! Sends recorded requests to a simulator and compares what it says.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_sim::{Body, FileFacts, Reply, Request, World, encode_form, percent_encode};

use super::file::{Exchange, Recording};
use super::shape;
use super::world::{REDACTED, TOKEN};

/// How long something is waited for that had happened when it was recorded: milliseconds.
const PATIENCE: u64 = 600_000;
const SECOND: u64 = 1000;
/// A VM that is there only to wake the manager.
const PASSING_VM: u32 = 999_999_999;
/// A VM without disks is elsewhere by then.
const MIGRATION: u64 = 60 * SECOND;

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
        let mut replay = Self {
            world,
            now: 60 * SECOND,
            authorization: by_token.then(|| format!("PVEAPIToken=root@pam!{TOKEN}={REDACTED}")),
            ticket: None,
            tasks: BTreeMap::new(),
            name: recording.name.clone(),
            assumed: Vec::new(),
        };
        if was_awake(recording) {
            replay.wake_manager();
        }
        replay
    }

    /// A manager that once had something to manage stays awake.
    fn wake_manager(&mut self) {
        let Some(host) = self.world.nodes.keys().next().cloned() else { return };
        self.log_in();
        self.world.add_vm(&host, PASSING_VM, BTreeMap::new(), false);
        let form = [("sid", format!("vm:{PASSING_VM}")), ("state", "stopped".to_owned())];
        let form = form.map(|(key, value)| (key.to_owned(), value));
        self.ask("POST", "/cluster/ha/resources", &form.into());
        self.now += 60 * SECOND;
        self.ask("DELETE", &format!("/cluster/ha/resources/vm:{PASSING_VM}"), &BTreeMap::new());
        self.ask("DELETE", &format!("/nodes/{host}/qemu/{PASSING_VM}"), &BTreeMap::new());
        self.now += 60 * SECOND;
        self.ticket = None;
        self.assumed.push(format!("{}: high availability had been in use before", self.name));
    }

    fn log_in(&mut self) {
        let form = [("username", "root@pam"), ("password", REDACTED)];
        let form = form.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let reply = self.ask("POST", "/access/ticket", &form.into());
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        self.keep_ticket(&body["data"]);
    }

    /// Replays one exchange and tells where the replies differ.
    pub(crate) fn step(&mut self, exchange: &Exchange) -> Vec<String> {
        self.follow_vms(exchange);
        let mut reply = self.send(exchange);
        // Nobody recorded how long the recorder slept between two looks.
        let deadline = self.now + PATIENCE;
        while self.now < deadline && is_early(exchange, &reply) {
            self.now += SECOND;
            reply = self.send(exchange);
        }
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        self.remember(exchange, &body["data"]);
        Self::compare(exchange, &reply, &body)
    }

    /// The manager of high availability moved VMs as it pleased: they are brought where the recording finds them.
    fn follow_vms(&mut self, exchange: &Exchange) {
        let shown = exchange
            .entries()
            .filter(|entry| entry["type"] == "qemu")
            .filter_map(|entry| Some((entry["node"].as_str()?.to_owned(), entry["vmid"].to_string())));
        let asked = exchange.vm().map(|(host, vmid)| (host.to_owned(), vmid.to_owned()));
        for (host, vmid) in shown.chain(asked).collect::<Vec<_>>() {
            self.follow_vm(&host, &vmid);
        }
    }

    fn follow_vm(&mut self, host: &str, vmid: &str) {
        let list = self.ask("GET", "/cluster/resources", &BTreeMap::from([("type".into(), "vm".into())]));
        let body: Value = serde_json::from_slice(&list.body).unwrap_or_default();
        let entries = body["data"].as_array().cloned().unwrap_or_default();
        let entry = entries.iter().find(|entry| entry["vmid"].as_u64() == vmid.parse().ok());
        let Some(other) = entry.and_then(|entry| entry["node"].as_str()).filter(|node| *node != host) else {
            return;
        };
        let form = [("target", host), ("online", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        // What the manager looks after it moves itself, and here it moves nothing: it looks away.
        let looks = |state: &str| BTreeMap::from([("state".to_owned(), state.to_owned())]);
        let resource = format!("/cluster/ha/resources/vm:{vmid}");
        self.ask("PUT", &resource, &looks("ignored"));
        self.ask("POST", &format!("/nodes/{other}/qemu/{vmid}/migrate"), &form.into());
        self.now += MIGRATION;
        self.ask("PUT", &resource, &looks("started"));
        self.assumed.push(format!("{}: high availability moved VM {vmid} from {other} to {host}", self.name));
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
        self.keep_ticket(data);
    }

    fn keep_ticket(&mut self, data: &Value) {
        if let (Some(ticket), Some(csrf)) = (data["ticket"].as_str(), data["CSRFPreventionToken"].as_str()) {
            self.ticket = Some((ticket.to_owned(), csrf.to_owned()));
        }
    }

    fn compare(exchange: &Exchange, reply: &Reply, body: &Value) -> Vec<String> {
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
            _ if exchange.path.contains("/tasks/") => Self::same_end(recorded, own),
            _ => shape::differences("data", recorded, own),
        });
        found
    }

    /// A task that ran when it was recorded may have ended here.
    fn same_end(recorded: &Value, own: &Value) -> Vec<String> {
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

/// Does the recording show what is yet to come here? A task has ended, a manager knows its hosts, a VM has a name.
fn is_early(exchange: &Exchange, reply: &Reply) -> bool {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let nameless = |data: &Value| {
        let mut entries = data.as_array().into_iter().flatten();
        entries.any(|entry| entry["type"] == "qemu" && entry["name"].is_null())
    };
    let ended = |data: &Value| data["status"] == "stopped";
    match exchange.path.as_str() {
        "/cluster/ha/rules" => exchange.code() == 200 && reply.status == 500,
        "/cluster/resources" => !nameless(exchange.data()) && nameless(&body["data"]),
        path => path.contains("/tasks/") && ended(exchange.data()) && body["data"]["status"] == "running",
    }
}

/// Was high availability in use before the recording? Hosts have a state in it, or rules are taken at once.
fn was_awake(recording: &Recording) -> bool {
    let mut exchanges = recording.exchanges.iter();
    let first = exchanges.find_map(|exchange| match (exchange.method.as_str(), exchange.path.as_str()) {
        ("POST", "/cluster/ha/rules") => Some(exchange.code() == 200),
        (_, "/cluster/resources") => {
            let mut hosts = exchange.entries().filter(|entry| entry["type"] == "node");
            hosts.next().map(|host| !host["hastate"].is_null())
        }
        _ => None,
    });
    first.unwrap_or_default()
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
