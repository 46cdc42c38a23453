//! Requests and answers.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::KubeCall;

use super::failure::Failure;
use super::path::{Place, Target};
use super::watch::{self, Watch};
use super::{Caller, Store};

/// What the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

/// Whether etcd behind the server has a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Serving,
    /// No quorum: what needs etcd fails, after as long as the server waits for it.
    NoQuorum,
    /// A member has no room left: nothing can be written.
    NoSpace,
}

/// A call, with what it needs at hand.
pub(super) struct Call<'a> {
    pub(super) method: &'a str,
    query: &'a [(String, String)],
    pub(super) content_type: &'a str,
    pub(super) body: &'a [u8],
    pub(super) now: u64,
}

impl<'a> Call<'a> {
    fn of(call: &'a KubeCall, now: u64) -> Self {
        let content_type = call.content_type.as_deref().unwrap_or_default();
        Self { method: &call.method, query: &call.query, content_type, body: &call.body, now }
    }

    pub(super) fn parameter(&self, name: &str) -> &str {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.parameter("dryRun") == "All"
    }
}

impl Store {
    /// Answers a request. Silence before an answer is the caller's business, see [`Health::NoQuorum`].
    pub fn handle(&mut self, call: &KubeCall, caller: Caller, health: Health, now: u64) -> Answer {
        if health != Health::NoQuorum {
            self.settle(now);
        }
        let target = self.target(&call.path);
        if let Err(failure) = caller.may(&call.method, target.as_ref()) {
            return failed(&failure);
        }
        let Some(target) = target else { return no_such_path() };
        match (target, health) {
            (Target::Health, health) => readiness(call, health),
            (Target::Objects(_), Health::NoQuorum) => {
                failed(&Failure::new(500, "", "etcdserver: request timed out"))
            }
            (Target::Objects(_), Health::NoSpace) if call.method != "GET" => {
                failed(&Failure::new(500, "", "etcdserver: mvcc: database space exceeded"))
            }
            (Target::Objects(place), Health::Serving | Health::NoSpace) => self.serve(call, &place, now),
            (Target::Nothing, _) => {
                failed(&Failure::new(404, "NotFound", "the server could not find the requested resource"))
            }
            (target, _) => self.describe(&target).map_or_else(no_such_path, |body| answer(200, &body)),
        }
    }

    /// Begins a watch, and gives what it is told at once. Whatever else was asked for is answered.
    pub(crate) fn handle_or_watch(
        &mut self,
        call: &KubeCall,
        caller: Caller,
        health: Health,
        now: u64,
    ) -> Result<(Watch, Vec<Bytes>), Answer> {
        // Who may not list may not watch, and what cannot be listed cannot be watched.
        let answer = self.handle(call, caller, health, now);
        let target = self.target(&call.path).filter(|_| answer.status == 200);
        let Some(Target::Objects(place)) = target else { return Err(answer) };
        let call = Call::of(call, now);
        if !watch::is_wanted(&call, &place) {
            return Err(answer);
        }
        self.watch(&call, place).map_err(|failure| failed(&failure))
    }

    /// What a watch has not been told yet, and when there may be more (Unix milliseconds).
    pub(crate) fn follow(&mut self, watch: &mut Watch, now: u64) -> (Vec<Bytes>, u64) {
        self.settle(now);
        (self.news(watch), self.wake)
    }

    fn serve(&mut self, call: &KubeCall, place: &Place, now: u64) -> Answer {
        let call = Call::of(call, now);
        if call.method == "GET" && place.name.is_empty() {
            let list = self.list(&call, place);
            return list.map_or_else(|failure| failed(&failure), |body| Answer { status: 200, body });
        }
        let result = self.objects_call(&call, place);
        self.settle(now);
        match result {
            Ok((status, body)) => answer(status, &body),
            Err(failure) => failed(&failure),
        }
    }

    fn objects_call(&mut self, call: &Call<'_>, place: &Place) -> Result<(u16, Value), Failure> {
        match (call.method, place.name.is_empty(), place.subresource.as_str()) {
            ("POST", false, "eviction") => self.evict(call, place),
            (_, _, "eviction") => Err(not_allowed()),
            ("GET", false, _) => self.read(place),
            ("POST", true, _) => self.create(call, place),
            ("PUT", false, _) => self.replace(call, place),
            ("PATCH", false, _) => self.patch(call, place),
            ("DELETE", false, "") => self.delete(call, place),
            _ => Err(not_allowed()),
        }
    }
}

fn not_allowed() -> Failure {
    Failure::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
}

fn answer(status: u16, body: &Value) -> Answer {
    Answer { status, body: Bytes::from(body.to_string()) }
}

fn failed(failure: &Failure) -> Answer {
    answer(failure.code, &failure.to_json())
}

/// What the server's multiplexer says, which knows no `Status`.
fn no_such_path() -> Answer {
    Answer { status: 404, body: Bytes::from_static(b"404 page not found\n") }
}

fn readiness(call: &KubeCall, health: Health) -> Answer {
    let what = call.path.trim_matches('/').split('/').next().unwrap_or_default();
    let verbose = call.query.iter().any(|(key, _)| key == "verbose");
    match health {
        Health::Serving | Health::NoSpace if verbose => {
            let body = format!(
                "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n{what} check passed\n"
            );
            Answer { status: 200, body: Bytes::from(body) }
        }
        Health::Serving | Health::NoSpace => Answer { status: 200, body: Bytes::from_static(b"ok") },
        Health::NoQuorum => {
            let body =
                format!("[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n{what} check failed\n");
            Answer { status: 500, body: Bytes::from(body) }
        }
    }
}

/// What the server says of a thing that is done and gone.
pub(super) fn success(details: &Value) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
