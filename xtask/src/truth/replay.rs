//! Sends the recorded requests to a simulator, in order, and notes what comes back otherwise.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_sim::{Body, Reply, Request, World, encode_form, percent_encode};

use super::compare::differences;
use super::credentials::{Credentials, Csrf, credentials};
use super::data::{Chain, OutsideVm, Pair, Worlds};
use super::gaps::{Gaps, agent_answers};
use super::ids::Ids;
use super::phase::broadcast_phase;
use super::setup::{PASSWORD, build, guessed_sizes, secret_of, text, uploaded};
use super::timeline::Timeline;

/// A task that ends within this many milliseconds is one the recorder waited for.
const PATIENCE: u64 = 3000;

/// A request and what the simulator said.
pub(crate) struct Outcome {
    pub(crate) number: usize,
    pub(crate) differences: Vec<String>,
    /// Its own reply alone tells what was done before it.
    pub(crate) self_evident: bool,
}

pub(crate) struct Replay<'a> {
    world: World,
    chain: Chain,
    ids: Ids,
    gaps: Gaps,
    clock: Timeline,
    agents: BTreeMap<u32, BTreeMap<String, Value>>,
    tickets: BTreeMap<String, (String, String)>,
    pairs: &'a [(usize, &'a Pair)],
    /// When the last reply was out: the recorder sent its next request after it.
    answered: u64,
    /// Tasks whose end was not recorded.
    unwatched: Vec<String>,
    pub(crate) assumptions: Vec<(usize, String)>,
    /// Pairs whose words leave open what was sent.
    pub(crate) not_understood: Vec<(usize, String)>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(worlds: &Worlds, chain: Chain, pairs: &'a [(usize, &'a Pair)]) -> Self {
        let clock = Timeline::new(pairs);
        let mut world = build(worlds, &chain, clock.epoch);
        let first = pairs.first().map(|(number, _)| *number).unwrap_or_default();
        let mut assumptions: Vec<(usize, String)> =
            guessed_sizes(&chain).into_iter().map(|said| (first, said)).collect();
        for host in &chain.hosts {
            if let Some(phase) = broadcast_phase(pairs, &clock, &host.name) {
                world.set_broadcast_phase(&host.name, phase);
                assumptions
                    .push((first, format!("host {} broadcasts {phase} ms into each period", host.name)));
            }
        }
        let agents = agent_answers(pairs);
        for (vmid, answers) in &agents {
            let commands: Vec<&str> = answers.keys().map(String::as_str).collect();
            assumptions
                .push((first, format!("the agent of VM {vmid} answers {} as recorded", commands.join(", "))));
        }
        Self {
            world,
            chain,
            ids: Ids::default(),
            gaps: Gaps::find(pairs),
            clock,
            agents,
            tickets: BTreeMap::new(),
            pairs,
            answered: 0,
            unwatched: Vec::new(),
            assumptions,
            not_understood: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let mut at = 0;
        while at < self.pairs.len() {
            let batch = self.pairs[at..]
                .iter()
                .take_while(|(_, pair)| pair.is_parallel() && pair.note == self.pairs[at].1.note)
                .count();
            if batch > 1 {
                outcomes.extend(self.run_batch(at, batch));
                at += batch;
            } else {
                outcomes.push(self.run_one(at));
                at += 1;
            }
        }
        outcomes
    }

    fn run_one(&mut self, at: usize) -> Outcome {
        let (number, pair) = self.pairs[at];
        let now = self.clock.next(number, pair, self.world.clock().max(self.answered));
        self.prepare(number, pair, now);
        let request = self.request(number, pair);
        let reply = self.world.handle(&request, now);
        self.answered = now + reply.delay;
        let differences = differences(pair, &reply, &mut self.ids);
        self.remember(pair, &reply);
        Outcome { number, differences, self_evident: self.gaps.is_self_evident(number) }
    }

    /// Requests sent at once: which of them won is chance, so equal requests are matched by what came of them.
    fn run_batch(&mut self, at: usize, count: usize) -> Vec<Outcome> {
        let batch = &self.pairs[at..at + count];
        let (first, pair) = batch[0];
        let now = self.clock.next(first, pair, self.world.clock().max(self.answered));
        self.prepare(first, pair, now);
        let replies: Vec<Reply> = batch
            .iter()
            .map(|(number, pair)| {
                let request = self.request(*number, pair);
                self.world.handle(&request, now)
            })
            .collect();
        let mut future = self.world.clone();
        future.advance_to(future.clock() + 60_000);
        let exit = |reply: &Reply| {
            data_upid(reply).and_then(|upid| future.task_status(&upid).flatten().map(str::to_owned))
        };
        let mut free: Vec<usize> = (0..count).collect();
        let mut outcomes = Vec::new();
        // Those whose end is known choose first.
        let mut order: Vec<&(usize, &Pair)> = batch.iter().collect();
        order.sort_by_key(|(_, pair)| pair.new_task().and_then(|upid| self.gaps.exit_of(upid)).is_none());
        for (number, pair) in order {
            let wanted = pair.new_task().and_then(|upid| self.gaps.exit_of(upid)).map(str::to_owned);
            let same_request = |index: &usize| {
                let other = batch[*index].1;
                (&other.request.path, &other.request.params, &other.request.method)
                    == (&pair.request.path, &pair.request.params, &pair.request.method)
                    || is_equal_but_for_values(other, pair)
            };
            let fits = |index: &usize| {
                let reply = &replies[*index];
                reply.status == pair.response.status
                    && reply.reason == pair.response.reason
                    && (wanted.is_none() || exit(reply) == wanted)
            };
            let exact = |index: &usize| batch[*index].1.request.params == pair.request.params;
            let candidates: Vec<usize> = free.iter().copied().filter(same_request).collect();
            let chosen = candidates
                .iter()
                .copied()
                .find(|index| fits(index) && exact(index))
                .or_else(|| candidates.iter().copied().find(exact))
                .or_else(|| candidates.first().copied());
            let Some(chosen) = chosen else { continue };
            free.retain(|index| *index != chosen);
            outcomes.push(Outcome {
                number: *number,
                differences: differences(pair, &replies[chosen], &mut self.ids),
                self_evident: self.gaps.is_self_evident(*number),
            });
        }
        outcomes
    }

    fn prepare(&mut self, number: usize, pair: &Pair, now: u64) {
        self.world.advance_to(now);
        let outside: Vec<OutsideVm> = self
            .chain
            .vms_made_outside_the_recording
            .iter()
            .filter(|vm| vm.before_pair == number)
            .cloned()
            .collect();
        for vm in &outside {
            self.add_outside(vm);
        }
        self.wait_for_unwatched();
        self.wait_for_task(pair);
        for said in self.gaps.fill(number, pair, &mut self.world) {
            self.assumptions.push((number, said));
        }
        for (vmid, answers) in &self.agents {
            self.world.set_guest(*vmid, true, answers.clone());
        }
        self.learn_digest(number, pair);
    }

    fn add_outside(&mut self, vm: &OutsideVm) {
        let set = vm.config.iter().filter(|(_, value)| !value.is_null());
        let mut config: BTreeMap<String, String> =
            set.map(|(key, value)| (key.clone(), text(value))).collect();
        if vm.template {
            config.insert("template".into(), "1".into());
        }
        let node = vm
            .node
            .clone()
            .or_else(|| self.chain.hosts.first().map(|host| host.name.clone()))
            .unwrap_or_default();
        self.world.add_vm(&node, vm.vmid, config, vm.running);
        let named: Vec<&str> = vm.note.split([' ', ',']).filter(|word| word.starts_with("UPID:")).collect();
        if named.is_empty() {
            let (pstart, start) = (self.world.clock() / 10, (self.clock.epoch + self.world.clock()) / 1000);
            let upid = format!(
                "UPID:{node}:{:08X}:{pstart:08X}:{start:08X}:qmcreate:{}:root@pam!full:",
                vm.vmid, vm.vmid
            );
            self.world.add_finished_task(&upid, "OK");
        }
        for upid in named {
            self.world.add_finished_task(upid, "OK");
        }
    }

    /// The recorder waits for what it starts, even where its polling was not kept; what takes long it left running.
    fn wait_for_unwatched(&mut self) {
        for upid in std::mem::take(&mut self.unwatched) {
            let mut future = self.world.clone();
            let deadline = future.clock() + PATIENCE;
            while future.task_status(&upid).is_some_and(|status| status.is_none()) {
                let Some(at) = future.next_event().filter(|at| *at <= deadline) else { break };
                future.advance_to(at);
            }
            if future.task_status(&upid).flatten().is_some() {
                self.world.advance_to(future.clock());
            }
        }
    }

    /// The recorder polled: a task it saw ended must have ended here too.
    fn wait_for_task(&mut self, pair: &Pair) {
        let Some(upid) = pair.request.path.split('/').find(|part| part.starts_with("UPID:")) else { return };
        let ended = match &pair.response.body["data"] {
            Value::Object(status) => status.get("status").is_some_and(|status| status == "stopped"),
            Value::Array(lines) => {
                let last = lines.last().and_then(|line| line["t"].as_str()).unwrap_or_default();
                last.starts_with("TASK ")
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        let Some(upid) = self.ids.get(upid).map(str::to_owned).filter(|_| ended) else { return };
        let deadline = self.world.clock() + 600_000;
        while self.world.task_status(&upid).is_some_and(|status| status.is_none()) {
            let Some(at) = self.world.next_event().filter(|at| *at <= deadline) else { break };
            self.world.advance_to(at);
        }
    }

    /// A fault of the recorded environment that ended a task is put in here as well, so that later pairs find the
    /// same state; the pairs themselves are not counted.
    fn fail_as_recorded(&mut self, recorded: &str) {
        let exit = self.gaps.exit_of(recorded).unwrap_or("a fault of the recorded environment").to_owned();
        if let (true, Some(own)) = (exit != "OK", self.ids.get(recorded).map(str::to_owned)) {
            self.world.fail_worker(&own, &exit);
        }
    }

    /// A digest that was accepted but never shown was the current one.
    fn learn_digest(&mut self, number: usize, pair: &Pair) {
        let (Some(digest), Some(vmid)) = (pair.param("digest"), pair.vm()) else { return };
        let accepted = pair.response.status == 200 && digest.len() == 40;
        if !self.ids.knows(&digest)
            && accepted
            && let Some(current) = self.world.config_digest(vmid)
        {
            self.ids.force(&digest, &current);
            self.gaps.believe(number);
            self.assumptions.push((number, format!("{digest} was the digest of VM {vmid}")));
        }
    }

    fn request(&mut self, number: usize, pair: &Pair) -> Request {
        let mut request = Request { method: pair.request.method.clone(), ..Request::default() };
        let path = self
            .ids
            .translate(&pair.request.path.replace("%3A", ":").replace("%21", "!").replace("%40", "@"));
        request.path = path;
        self.set_body(number, pair, &mut request);
        self.set_auth(number, pair, &mut request);
        request.via = self.via(number, pair);
        request
    }

    /// Notes say when another host than the first was asked.
    fn via(&mut self, number: usize, pair: &Pair) -> Option<String> {
        let asked =
            |name: &str| ["via", "through"].iter().any(|word| pair.note.contains(&format!("{word} {name}")));
        if let Some(host) = self.chain.hosts.iter().find(|host| asked(&host.name)) {
            return Some(host.name.clone());
        }
        let another = ["the other node", "another node", "the other host", "another host"];
        if !another.iter().any(|name| asked(name)) {
            return None;
        }
        if let [_, other] = &self.chain.hosts[..] {
            return Some(other.name.clone());
        }
        self.puzzled(number, pair, "which host was asked");
        None
    }

    fn puzzled(&mut self, number: usize, pair: &Pair, what: &str) {
        self.not_understood.push((number, format!("{} ({what})", pair.note)));
    }

    fn set_body(&mut self, number: usize, pair: &Pair, request: &mut Request) {
        let params = &pair.request.params;
        let encoding = pair.request.encoding.as_str();
        if encoding.starts_with("multipart/") {
            request.body = self.upload(params);
            return;
        }
        match (params, encoding) {
            (Value::String(raw), encoding) => {
                let bytes = match omitted_length(raw) {
                    Some(length) => {
                        self.puzzled(number, pair, "the body was not kept, one of its length is sent");
                        body_of_length(pair, length)
                    }
                    None => raw.clone().into_bytes(),
                };
                request.body = Body::Bytes { content_type: Some(encoding.to_owned()), bytes };
            }
            (Value::Object(_), "json") => {
                let bytes = self.ids.translate(&params.to_string()).into_bytes();
                request.body = Body::Bytes { content_type: Some("application/json".into()), bytes };
            }
            (Value::Object(map), _) => {
                let user = map.get("username").map(text).unwrap_or_default();
                let known = self.tickets.get(&user).map(|(ticket, _)| ticket.clone());
                let value = |value: &Value| match (text(value).as_str(), &known) {
                    ("<ticket>", Some(ticket)) => ticket.clone(),
                    (other, _) => self.ids.translate(other),
                };
                let pairs: Vec<(String, String)> =
                    map.iter().map(|(key, one)| (key.clone(), value(one))).collect();
                let form = encode_form(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
                if matches!(pair.request.method.as_str(), "POST" | "PUT") {
                    request.body = Body::Bytes { content_type: None, bytes: form.into_bytes() };
                } else {
                    request.query = form;
                }
            }
            _ => {}
        }
    }

    fn upload(&self, params: &Value) -> Body {
        let mut fields: BTreeMap<String, String> = params["multipart"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), text(value)))
            .collect();
        let filename = fields.remove("filename").unwrap_or_default();
        let file = uploaded(&self.chain, &filename, params["size"].as_u64().unwrap_or_default());
        Body::Upload { fields, filename, file }
    }

    fn set_auth(&mut self, number: usize, pair: &Pair, request: &mut Request) {
        match credentials(&pair.request.auth) {
            Some(Credentials::None) => {}
            Some(Credentials::Token { scheme, id, right_secret }) => {
                let secret = if right_secret { secret_of(&id) } else { "wrong".into() };
                request.authorization = Some(format!("{scheme}{id}={secret}"));
            }
            Some(Credentials::Header(header)) => request.authorization = Some(header),
            Some(Credentials::BrokenTicket) => request.cookie = Some("garbage".into()),
            Some(Credentials::Ticket { user, csrf }) => {
                let (ticket, right) = self.ticket(&user);
                request.cookie = Some(percent_encode(&ticket));
                request.csrf = match csrf {
                    Csrf::Right => Some(right),
                    Csrf::Wrong => Some("wrong".into()),
                    Csrf::Missing => None,
                };
            }
            None => self.puzzled(number, pair, &format!("auth '{}'", pair.request.auth)),
        }
    }

    fn ticket(&mut self, user: &str) -> (String, String) {
        if let Some(known) = self.tickets.get(user) {
            return known.clone();
        }
        let form = encode_form([("username", user), ("password", PASSWORD)]);
        let request = Request {
            method: "POST".into(),
            path: "/api2/json/access/ticket".into(),
            body: Body::Bytes { content_type: None, bytes: form.into_bytes() },
            ..Request::default()
        };
        let reply = self.world.handle(&request, self.world.clock());
        self.keep_ticket(&reply);
        self.tickets.get(user).cloned().unwrap_or_default()
    }

    fn keep_ticket(&mut self, reply: &Reply) {
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let part = |name: &str| body["data"][name].as_str().map(str::to_owned);
        if let (Some(user), Some(ticket), Some(csrf)) =
            (part("username"), part("ticket"), part("CSRFPreventionToken"))
        {
            self.tickets.insert(user, (ticket, csrf));
        }
    }

    fn remember(&mut self, pair: &Pair, reply: &Reply) {
        if pair.request.path.ends_with("/access/ticket") {
            self.keep_ticket(reply);
        }
        // A UPID counts as known even if the reply differs otherwise, so that one difference does not breed others.
        if let (Some(recorded), Some(own)) = (pair.new_task(), data_upid(reply))
            && !self.ids.knows(recorded)
        {
            self.ids.force(recorded, &own);
        }
        if let (Some(recorded), true) = (pair.new_task(), pair.environment_artifact.is_some()) {
            self.fail_as_recorded(recorded);
        }
        if let (Some(recorded), Some(own)) = (pair.new_task(), data_upid(reply))
            && self.gaps.exit_of(recorded).is_none()
        {
            self.unwatched.push(own);
        }
    }
}

fn is_equal_but_for_values(one: &Pair, other: &Pair) -> bool {
    let keys =
        |pair: &Pair| pair.request.params.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    one.request.path == other.request.path
        && one.request.method == other.request.method
        && keys(one) == keys(other)
}

fn data_upid(reply: &Reply) -> Option<String> {
    let body: Value = serde_json::from_slice(&reply.body).ok()?;
    body["data"].as_str().filter(|text| text.starts_with("UPID:")).map(str::to_owned)
}

/// Bodies too long to keep are recorded by their length: `<600017 bytes>`.
fn omitted_length(text: &str) -> Option<usize> {
    text.strip_prefix('<')?.strip_suffix(" bytes>")?.parse().ok()
}

/// A form of the length: what a collection needs to know its new entry by, and a long comment.
fn body_of_length(pair: &Pair, length: usize) -> Vec<u8> {
    let id = match pair.parts()[..] {
        ["pools"] => "poolid=x&",
        ["access", "roles"] => "roleid=x&",
        _ => "",
    };
    let mut bytes = format!("{id}comment=").into_bytes();
    bytes.resize(length.max(bytes.len()), b'c');
    bytes
}
