//! Replies that come bit by bit.

use bytes::Bytes;

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
}

impl Nodes {
    pub(crate) fn open_stream(&mut self, machine: MachineId, kind: Kind) -> ApiReply {
        let id = self.next_stream;
        self.next_stream += 1;
        self.streams.insert(id, Stream { machine, kind, ready: Vec::new(), end: None });
        ApiReply::Stream(StreamId(id))
    }

    /// When a stream brings its next message, if that is known already.
    pub fn next_message(&self, stream: StreamId) -> Option<u64> {
        let stream = self.streams.get(&stream.0)?;
        match &stream.kind {
            Kind::Script { messages, end } => Some(messages.first().map_or(end.0, |(at, _)| *at)),
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
    }
}

pub(crate) fn poll(nodes: &mut Nodes, id: StreamId) -> Streamed {
    let now = nodes.clock;
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
