//! Makes recorded calls to simulated nodes.

#![expect(clippy::wildcard_enum_match_arm, reason = "of replies, peers and codes one or two are special")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bytes::Bytes;
use prost_reflect::MethodDescriptor;
use serde_json::Value;
use talmox_sim_talos::{ApiCall, ApiReply, Code, Listener, Peer, Status, StreamId};

use super::compare::{Comparison, Outcome};
use super::environment::{Environment, environments, hosts, missing_images, roles};
use super::file::{Call, Payloads};
use super::lab::{Known, Lab};
use super::mapping::{Blank, Mapping};
use super::messages::{Messages, encode};
use super::sent::{self, Change};

/// A stream this long was open while other calls were made.
const LONG: u64 = 5000;
/// How long a call may have come after the one before it, in milliseconds and in things that happened meanwhile.
const PAUSE: u64 = 180_000;
const EVENTS: usize = 40;
/// The longer it is ago, the less it matters when exactly.
const STRIDES: [(usize, u64); 3] = [(30, 5000), (15, 1000), (0, 1)];
/// How long a client waits that did not give up in the recording.
const PATIENCE: u64 = 60_000;
/// How far calls that are made in parallel lie apart.
const OVERLAP: u64 = 20;

pub(super) struct Replay<'a> {
    pub(super) messages: &'a Messages,
    pub(super) files: &'a Payloads,
    pub(super) blank: &'a Blank,
    environments: BTreeMap<String, Environment>,
    missing: Vec<String>,
    /// What hosts were called.
    hosts: BTreeMap<IpAddr, String>,
    /// What nodes are, as far as it is known without asking them directly.
    roles: BTreeMap<IpAddr, String>,
    labs: BTreeMap<(String, bool), Place>,
    /// Groups whose machine never got further than booting.
    booting: BTreeSet<String>,
    /// What images were asked for, by the names they got.
    pulled: BTreeMap<String, String>,
    /// What configurations changed whose bytes were not kept, by the number of the call.
    changes: BTreeMap<usize, Change>,
}

/// A lab, what is known of its machines, and the streams that are open.
#[derive(Clone)]
struct Place {
    lab: Lab,
    known: BTreeMap<IpAddr, Known>,
    mapping: Mapping,
    /// By the number of the call.
    open: BTreeMap<usize, Opened>,
}

#[derive(Clone)]
struct Opened {
    since: u64,
    reply: Opening,
}

#[derive(Clone)]
enum Opening {
    Stream(StreamId),
    Ended(Outcome),
}

/// What became of a call.
pub(super) enum Replayed {
    /// It could not be made again: no such call, no node, a file that was not kept.
    Not,
    Made {
        same_code: bool,
        what: Vec<String>,
    },
}

impl<'a> Replay<'a> {
    pub(super) fn new(messages: &'a Messages, files: &'a Payloads, blank: &'a Blank, calls: &[Call]) -> Self {
        Self {
            messages,
            files,
            blank,
            environments: environments(calls),
            missing: missing_images(calls),
            hosts: hosts(calls),
            roles: roles(calls),
            labs: BTreeMap::new(),
            booting: sent::only_booting(calls),
            pulled: sent::pulled_names(calls),
            changes: sent::changes(calls),
        }
    }

    /// Opens the streams of later calls that were open already when this one was made.
    pub(super) fn open(&mut self, number: usize, call: &Call) {
        let Some(method) = self.messages.method(&call.method) else { return };
        let Some(mut place) = self.place(call) else { return };
        self.bring(&mut place, call);
        if let Some(request) = self.api_call(&place, call, &method) {
            let since = place.lab.now();
            let reply = match place.lab.nodes.call(&request.0, since) {
                ApiReply::Stream(id) => Opening::Stream(id),
                other => Opening::Ended(self.ended(call, &method, other)),
            };
            place.open.insert(number, Opened { since, reply });
        }
        self.put(call, place);
    }

    pub(super) fn make(&mut self, number: usize, call: &Call) -> Replayed {
        let Some(method) = self.messages.method(&call.method) else { return Replayed::Not };
        let Some(mut place) = self.place(call) else { return Replayed::Not };
        if let Some(opened) = place.open.remove(&number) {
            let outcome = self.follow(&mut place, call, &method, opened);
            let same = self.compare(&mut place, call, &outcome, true);
            self.put(call, place);
            return made(call, &outcome, same);
        }
        self.bring(&mut place, call);
        let Some((request, same_bytes)) = self.api_call(&place, call, &method) else {
            if let (Some(change), Some(target)) = (self.changes.get(&number), sent::target(call)) {
                place.lab.change(target, change, call);
                place.lab.pass(call.elapsed_ms);
            }
            self.put(call, place);
            return Replayed::Not;
        };
        let (place, replayed) = self.at_the_right_moment(place, call, &method, &request, same_bytes);
        self.put(call, place);
        replayed
    }

    /// Nobody wrote down when a call was made: it is made at the first moment at which the reply is the recorded one, or
    /// at once, if there is none.
    fn at_the_right_moment(
        &self,
        place: Place,
        call: &Call,
        method: &MethodDescriptor,
        request: &ApiCall,
        same_bytes: bool,
    ) -> (Place, Replayed) {
        let mut later = place.clone();
        let end = place.lab.now() + PAUSE;
        let mut fallback: Option<(Place, Replayed)> = None;
        for attempt in 0..EVENTS {
            let mut tried = later.clone();
            let outcome = self.send(&mut tried, call, method, request);
            let what = self.compare(&mut tried, call, &outcome, same_bytes);
            let replayed = made(call, &outcome, what);
            let Replayed::Made { same_code, what } = &replayed else { continue };
            if what.is_empty() {
                return (tried, replayed);
            }
            let better =
                matches!(&fallback, Some((_, Replayed::Made { same_code: false, .. })) if *same_code);
            if fallback.is_none() || better {
                fallback = Some((tried, replayed));
            }
            let parallel = made_in_parallel(call).then_some(later.lab.now() + OVERLAP);
            match later.lab.nodes.next_event().into_iter().chain(parallel).min() {
                Some(next) if next <= end => {
                    let stride =
                        STRIDES.iter().find(|(from, _)| attempt >= *from).map_or(1, |(_, stride)| *stride);
                    later.lab.nodes.advance_to(next.max(later.lab.now() + stride));
                }
                _ => break,
            }
        }
        fallback.unwrap_or((place, Replayed::Not))
    }

    fn send(&self, place: &mut Place, call: &Call, method: &MethodDescriptor, request: &ApiCall) -> Outcome {
        let since = place.lab.now();
        if let Some(outcome) = handshake(place, call) {
            return outcome;
        }
        match place.lab.nodes.call(request, since) {
            ApiReply::Stream(id) => {
                let opened = Opened { since, reply: Opening::Stream(id) };
                self.follow(place, call, method, opened)
            }
            ApiReply::Done { after, .. } if is_deadline(call) && after > call.elapsed_ms => {
                place.lab.pass(call.elapsed_ms);
                deadline()
            }
            reply => {
                let took = if let ApiReply::Done { after, .. } = &reply { *after } else { 0 };
                if !made_in_parallel(call) {
                    place.lab.pass(call.elapsed_ms.max(took));
                }
                let mut outcome = self.ended(call, method, reply);
                // Of a stream that was there at once, the client saw what it wanted and went.
                let leaves = ["OK", "Canceled", "none"].contains(&call.code.as_str());
                if outcome.code == "OK" && leaves && call.stream().is_some() && closed_by_client(call) {
                    outcome = Outcome { messages: outcome.messages, ..failed(&call.code, &call.message) };
                }
                if call.method.ends_with("/EtcdSnapshot") && outcome.code == "OK" {
                    place.lab.snapshot = bytes_of(&outcome);
                }
                outcome
            }
        }
    }

    /// What a stream brings until it ends or the client gives up.
    fn follow(&self, place: &mut Place, call: &Call, method: &MethodDescriptor, opened: Opened) -> Outcome {
        let id = match opened.reply {
            Opening::Ended(outcome) => return outcome,
            Opening::Stream(id) => id,
        };
        let gives_up = is_deadline(call) || closed_by_client(call);
        let end = opened.since + if gives_up { call.elapsed_ms } else { call.elapsed_ms.max(PATIENCE) };
        let mut messages = Vec::new();
        let status = loop {
            let streamed = place.lab.poll(id);
            messages.extend(streamed.messages);
            if let Some(status) = streamed.end {
                break Some(status);
            }
            let next = place.lab.nodes.next_event().unwrap_or(u64::MAX);
            if place.lab.now() >= end {
                break None;
            }
            place.lab.nodes.advance_to(next.clamp(place.lab.now() + 1, end));
        };
        place.lab.nodes.close(id);
        if call.method.ends_with("/EtcdSnapshot") {
            place.lab.snapshot = messages.iter().flat_map(data_of).collect();
        }
        let mut outcome = match status {
            Some(status) => of_status(&status),
            None if closed_by_client(call) => failed(&call.code, &call.message),
            None => deadline(),
        };
        outcome.messages = self.decode(method, &messages);
        outcome
    }

    fn ended(&self, call: &Call, method: &MethodDescriptor, reply: ApiReply) -> Outcome {
        match reply {
            ApiReply::Refused => {
                failed("Unavailable", &format!("connection error: desc = refused by {}", call.endpoint))
            }
            ApiReply::NotTrusted { reason } => {
                failed("Unavailable", &format!("connection error: desc = {reason}"))
            }
            ApiReply::HungUp => failed("Unavailable", "connection error: desc = write: broken pipe"),
            ApiReply::Silence | ApiReply::Stream(_) => deadline(),
            ApiReply::Lost { .. } => failed("Unavailable", "error reading from server: EOF"),
            ApiReply::Done { messages, end, .. } => {
                let mut outcome = of_status(&end);
                outcome.messages = self.decode(method, &messages);
                outcome
            }
        }
    }

    fn decode(&self, method: &MethodDescriptor, messages: &[Bytes]) -> Vec<Value> {
        let decoded = messages.iter().map(|message| self.messages.decode(&method.output(), message));
        decoded
            .map(|message| message.unwrap_or_else(|error| Value::String(format!("unreadable: {error:#}"))))
            .collect()
    }

    fn compare(&self, place: &mut Place, call: &Call, outcome: &Outcome, same_bytes: bool) -> Vec<String> {
        let mut mapping = place.mapping.clone();
        let mut comparison = Comparison { blank: self.blank, mapping: &mut mapping, same_bytes };
        let what = comparison.differences(call, outcome);
        if what.is_empty() {
            place.mapping = mapping;
        }
        what
    }

    /// The call in bytes, and whether the files it holds are those that were sent.
    fn api_call(&self, place: &Place, call: &Call, method: &MethodDescriptor) -> Option<(ApiCall, bool)> {
        let mut request = self.files.request(call, &place.lab.snapshot)?;
        request.messages.iter_mut().for_each(|message| self.name_images(message));
        let encoded = |message: &Value| encode(&method.input(), message).ok().map(Bytes::from);
        let messages = request.messages.iter().map(encoded).collect::<Option<_>>()?;
        let metadata = call.metadata.iter().flatten();
        let metadata = metadata
            .flat_map(|(key, values)| values.iter().map(|value| (key.clone(), value.clone())))
            .collect();
        let to = call.address()?;
        let peer = peer(place, call);
        Some((
            ApiCall { to, peer, path: format!("/{}", call.method), metadata, messages },
            request.same_bytes,
        ))
    }

    /// Digests are of the images that were there: ours have others, and can be named as they were asked for.
    fn name_images(&self, message: &mut Value) {
        if let Some(name) = message.pointer_mut("/source/image_name")
            && let Some(reference) = name.as_str().and_then(|name| self.pulled.get(name))
        {
            *name = Value::String(reference.clone());
        }
    }

    fn place(&self, call: &Call) -> Option<Place> {
        call.address()?;
        let key = (call.talos_version.clone(), call.in_a_vm());
        Some(self.labs.get(&key).cloned().unwrap_or_else(|| Place {
            lab: Lab::new(&call.talos_version, self.files, &self.missing),
            known: BTreeMap::new(),
            mapping: Mapping::default(),
            open: BTreeMap::new(),
        }))
    }

    fn put(&mut self, call: &Call, place: Place) {
        self.labs.insert((call.talos_version.clone(), call.in_a_vm()), place);
    }

    /// The recorded state; a machine of which nobody says more than where it is may only have booted.
    fn state(&self, call: &Call) -> String {
        let only_boots = call.state == "metal-vm" && self.booting.contains(&call.group);
        if only_boots { format!("booting-{}", call.state) } else { call.state.clone() }
    }

    /// Has the machine in the recorded state, where the recording says something new about it.
    fn bring(&self, place: &mut Place, call: &Call) {
        let Some(endpoint) = call.address() else { return };
        let target = call.values("node").next().and_then(|text| text.parse().ok());
        let subject = match (place.known.get(&endpoint), target) {
            // The words are about the node that was asked through another.
            (Some(known), Some(target)) if known.role != call.node_role => target,
            _ => endpoint,
        };
        self.bring_target(place, call, endpoint, target);
        let known =
            Known { state: self.state(call), role: call.node_role.clone(), group: call.group.clone() };
        let before = place.known.insert(subject, known.clone());
        if before.as_ref().is_none_or(|before| before.group != call.group) {
            place.mapping.forget();
        }
        let same_group = before.as_ref().is_some_and(|before| before.group == call.group);
        // Within a group a call may fail on the way from one state to the next.
        let on_the_way = same_group && call.code == "Unavailable";
        if before.as_ref() == Some(&known) || on_the_way {
            return;
        }
        if let Some(environment) = self.environments.get(&call.group) {
            place.lab.surround(*environment);
        }
        place.lab.bring(subject, &known, call.in_a_vm(), self.files);
        if let (Some(theirs), Some(ours)) = (self.hosts.get(&subject), place.lab.host(subject)) {
            place.mapping.name(theirs, &ours);
        }
    }
}

impl Replay<'_> {
    /// A node that was reached through another is there, in the same state; what it is its calls tell.
    fn bring_target(&self, place: &mut Place, call: &Call, endpoint: IpAddr, target: Option<IpAddr>) {
        let Some(target) = target.filter(|target| *target != endpoint) else { return };
        let reached = !["Unavailable", "PermissionDenied"].contains(&call.code.as_str());
        if !reached || place.lab.has(target) || !place.lab.has(endpoint) {
            return;
        }
        let role = self.roles.get(&target).map_or("worker", String::as_str).to_owned();
        let known = Known { state: call.state.clone(), role, group: call.group.clone() };
        place.known.insert(target, known.clone());
        place.lab.bring(target, &known, call.in_a_vm(), self.files);
    }
}

/// What a client that looks at the server's certificate makes of one it does not know.
fn handshake(place: &Place, call: &Call) -> Option<Outcome> {
    let verifies = call.auth != "none"
        && !["not verified", "verification off"].iter().any(|words| call.note().contains(words));
    let unknown = matches!(place.lab.nodes.listener(call.address()?), Listener::Maintenance { .. });
    (verifies && unknown).then(|| failed("Unavailable", "connection error: desc"))
}

fn made(call: &Call, outcome: &Outcome, what: Vec<String>) -> Replayed {
    Replayed::Made { same_code: call.code == outcome.code, what }
}

/// Calls that did not wait for each other: the next may come at the same moment, or a little later.
fn made_in_parallel(call: &Call) -> bool {
    call.note().contains("in parallel")
}

/// Whether a call was open while others were made.
pub(super) fn is_long(call: &Call) -> bool {
    call.stream().is_some() && call.elapsed_ms >= LONG
}

fn peer(place: &Place, call: &Call) -> Peer {
    if call.note().starts_with("old client certificate") {
        return place.lab.old_peer();
    }
    let Some(role) = call.auth.strip_prefix("client cert O=") else {
        return if call.auth.starts_with("client certificate") {
            place.lab.peer(&["os:admin"])
        } else {
            Peer::Nobody
        };
    };
    let roles: Vec<&str> = role.split(',').map(str::trim).collect();
    match place.lab.peer(&roles) {
        Peer::Certificate { organisations, .. } if call.note().contains("another") => {
            Peer::Certificate { authority: b"another".to_vec(), organisations }
        }
        peer => peer,
    }
}

/// The client had what it wanted.
fn closed_by_client(call: &Call) -> bool {
    ["Canceled", "none"].contains(&call.code.as_str())
        || call.reply["ended"].as_str().is_some_and(|words| words.contains("client"))
}

fn is_deadline(call: &Call) -> bool {
    call.code == "DeadlineExceeded"
}

fn deadline() -> Outcome {
    failed("DeadlineExceeded", "context deadline exceeded")
}

fn failed(code: &str, message: &str) -> Outcome {
    Outcome { code: code.to_owned(), message: message.to_owned(), messages: Vec::new() }
}

fn of_status(status: &Status) -> Outcome {
    let code = match status.code {
        Code::Ok => "OK".to_owned(),
        code => format!("{code:?}"),
    };
    Outcome { code, message: status.message.clone(), messages: Vec::new() }
}

fn data_of(message: &Bytes) -> Vec<u8> {
    use talmox_proto::Message as _;
    talmox_proto::common::Data::decode(message.clone()).map(|data| data.bytes).unwrap_or_default()
}

fn bytes_of(outcome: &Outcome) -> Vec<u8> {
    use base64::Engine as _;
    let text = outcome.messages.iter().filter_map(|message| message["bytes"].as_str());
    text.flat_map(|text| base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default()).collect()
}
