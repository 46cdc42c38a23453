//! Replies that come bit by bit.

use bytes::Bytes;
use talmox_proto::common::Metadata;

use super::cosi::watch::Watch;
use super::files::Followed;
use super::health::HealthCheck;
use super::proxy::with_metadata;
use crate::hardware::MachineId;
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Status, StreamId, Streamed};

/// A stream somebody listens to.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) machine: MachineId,
    pub(crate) kind: Kind,
    /// Messages that are there and were not fetched yet.
    pub(crate) ready: Vec<Bytes>,
    /// How it ended; it still has to be told.
    pub(crate) end: Option<Status>,
}

/// Where further messages come from.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// All of them are known: each comes at its time, and the end at its own.
    Script { messages: Vec<(u64, Bytes)>, end: (u64, Status) },
    /// Resources, whenever they change.
    Watch(Box<Watch>),
    /// What happens on the machine, from this entry of its journal on.
    Events { next: u64 },
    /// A log, whenever it grows.
    Log(Followed),
    /// A look at the whole cluster.
    Health(Box<HealthCheck>),
    /// Streams of several machines, and what each is called.
    Joined(Vec<(StreamId, String)>),
}

impl Nodes {
    pub(crate) fn open_stream(&mut self, machine: MachineId, kind: Kind) -> ApiReply {
        self.open_stream_with(machine, kind, Vec::new())
    }

    /// The same, with messages that are there at once.
    pub(crate) fn open_stream_with(&mut self, machine: MachineId, kind: Kind, ready: Vec<Bytes>) -> ApiReply {
        let id = self.next_stream;
        self.next_stream += 1;
        self.streams.insert(id, Stream { machine, kind, ready, end: None });
        ApiReply::Stream(StreamId(id))
    }

    /// When a stream brings its next message, if that is known already.
    pub fn next_message(&self, stream: StreamId) -> Option<u64> {
        match &self.streams.get(&stream.0)?.kind {
            Kind::Script { messages, end } => Some(messages.first().map_or(end.0, |(at, _)| *at)),
            Kind::Joined(parts) => parts.iter().filter_map(|(part, _)| self.next_message(*part)).min(),
            // It looks again and again.
            Kind::Health(_) => Some(self.clock + self.timing.retry),
            Kind::Watch(_) | Kind::Events { .. } | Kind::Log(_) => None,
        }
    }

    /// Something happened to a machine: whoever watches it hears of it. Others hear when they look, or when something
    /// happens to theirs.
    pub(crate) fn tell_watchers(&mut self, machine: MachineId) {
        let open = self.streams.iter().filter(|(_, one)| one.end.is_none() && one.machine == machine);
        let open: Vec<u64> = open.map(|(id, _)| *id).collect();
        for id in open {
            self.tell(id);
        }
    }

    /// Brings one stream up to date.
    fn tell(&mut self, id: u64) {
        if let Some(mut stream) = self.streams.remove(&id) {
            // A machine that is down tells nothing; how its streams end is decided elsewhere.
            if stream.end.is_none() && self.run(stream.machine).is_some() {
                match &mut stream.kind {
                    Kind::Watch(watch) => stream.ready.extend(watch.changes(self, stream.machine)),
                    Kind::Events { next } => stream.ready.extend(self.events_since(stream.machine, next)),
                    Kind::Log(log) => stream.ready.extend(log.more(self, stream.machine)),
                    Kind::Script { .. } | Kind::Health(_) | Kind::Joined(_) => {}
                }
            }
            self.streams.insert(id, stream);
        }
    }

    /// Every watch of a machine's resources ends.
    pub(crate) fn end_watches(&mut self, machine: MachineId, status: &Status) {
        for stream in self.streams.values_mut().filter(|stream| stream.machine == machine) {
            if matches!(stream.kind, Kind::Watch(_)) {
                stream.end.get_or_insert_with(|| status.clone());
            }
        }
    }

    /// Every stream of a machine ends.
    pub(crate) fn end_streams(&mut self, machine: MachineId, status: &Status) {
        let now = self.clock;
        for stream in self.streams.values_mut().filter(|stream| stream.machine == machine) {
            if stream.end.is_none() {
                collect(stream, now);
                stream.end.get_or_insert_with(|| status.clone());
            }
        }
    }
}

/// Moves what has come since to what is ready.
fn collect(stream: &mut Stream, now: u64) {
    if stream.end.is_some() {
        return;
    }
    match &mut stream.kind {
        Kind::Script { messages, end } => {
            let due = messages.iter().take_while(|(at, _)| *at <= now).count();
            stream.ready.extend(messages.drain(..due).map(|(_, message)| message));
            if messages.is_empty() && end.0 <= now {
                stream.end = Some(end.1.clone());
            }
        }
        Kind::Watch(_) | Kind::Events { .. } | Kind::Log(_) | Kind::Health(_) | Kind::Joined(_) => {}
    }
}

/// What several streams brought, each message with the name of its machine. They end together when the last of them does.
fn poll_joined(nodes: &mut Nodes, id: StreamId) {
    let Some(Kind::Joined(parts)) = nodes.streams.get(&id.0).map(|stream| stream.kind.clone()) else {
        return;
    };
    let (mut ready, mut left, mut end) = (Vec::new(), Vec::new(), None);
    for (part, name) in parts {
        let streamed = poll(nodes, part);
        let metadata = Metadata { hostname: name.clone(), ..Metadata::default() };
        ready.extend(streamed.messages.iter().map(|message| with_metadata(message, &metadata)));
        match streamed.end {
            Some(status) => end = Some(status),
            None => left.push((part, name)),
        }
    }
    if let Some(stream) = nodes.streams.get_mut(&id.0) {
        stream.ready.extend(ready);
        stream.end = if left.is_empty() { end } else { None };
        stream.kind = Kind::Joined(left);
    }
}

/// A check of the cluster looks again.
fn poll_health(nodes: &mut Nodes, id: StreamId) {
    let open = nodes.streams.get_mut(&id.0).filter(|stream| stream.end.is_none());
    let Some(Kind::Health(check)) = open.map(|stream| &mut stream.kind) else { return };
    let mut check = check.clone();
    let (said, end) = check.go_on(nodes);
    if let Some(stream) = nodes.streams.get_mut(&id.0) {
        stream.ready.extend(said);
        stream.end = end;
        stream.kind = Kind::Health(check);
    }
}

pub(crate) fn poll(nodes: &mut Nodes, id: StreamId) -> Streamed {
    let now = nodes.clock;
    poll_joined(nodes, id);
    poll_health(nodes, id);
    nodes.tell(id.0);
    let Some(stream) = nodes.streams.get_mut(&id.0) else {
        return Streamed { messages: Vec::new(), end: Some(Status::ok()) };
    };
    collect(stream, now);
    let streamed = Streamed { messages: std::mem::take(&mut stream.ready), end: stream.end.clone() };
    if streamed.end.is_some() {
        nodes.streams.remove(&id.0);
    }
    streamed
}
