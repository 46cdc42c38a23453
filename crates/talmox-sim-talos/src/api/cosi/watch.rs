//! Watching resources.
//!
//! Whenever something has happened to a machine, its watches compare what is there with what they told last, so that none of
//! the states in between is lost on a watcher who fetches late.

use bytes::Bytes;
use talmox_proto::Message;
use talmox_proto::resource::{Event, EventType, LabelQuery, Resource as Sent, WatchRequest, WatchResponse};

use super::resource::{Resource, tombstone};
use super::{allowed, contents, has_labels};
use crate::api::Asked;
use crate::api::stream::Kind;
use crate::hardware::MachineId;
use crate::machine::Run;
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};

/// What somebody watches, and what they know.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    namespace: String,
    kind: String,
    /// One resource, or all of a type.
    id: Option<String>,
    labels: Vec<LabelQuery>,
    known: Vec<Resource>,
}

pub(super) fn watch(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let request: WatchRequest = asked.request()?;
    let minor = nodes.run(asked.machine).map_or(0, Run::minor);
    if request.id.is_some() && request.options.is_none() && minor < 13 {
        let words = "runtime error: invalid memory address or nil pointer dereference";
        return Err(Status::new(Code::Internal, words));
    }
    allowed(nodes, asked, &request.namespace, &request.r#type)?;
    let options = request.options.unwrap_or_default();
    let unimplemented = |words: &str| Err(Status::new(Code::Unimplemented, words));
    if request.id.is_some() && options.bootstrap_contents {
        return unimplemented("bootstrap contents is not implemented for resource watch");
    }
    if request.id.is_some() && !options.label_query.is_empty() {
        return unimplemented("label query is not implemented for resource watch");
    }
    // Nothing is kept for those who were away.
    if options.start_from_bookmark.is_some() {
        return Err(Status::new(Code::FailedPrecondition, "invalid watch bookmark"));
    }
    let mut watch = Watch {
        namespace: request.namespace,
        kind: request.r#type,
        id: request.id,
        labels: options.label_query,
        known: Vec::new(),
    };
    watch.known = watch.look(nodes, asked.machine);
    let events = watch.first_events(nodes, options.bootstrap_contents, request.api_version > 0);
    let mut ready = vec![WatchResponse::default()];
    if options.aggregated && !events.is_empty() {
        ready.push(WatchResponse { event: events });
    } else {
        ready.extend(events.into_iter().map(|event| WatchResponse { event: vec![event] }));
    }
    let ready = ready.iter().map(|message| Bytes::from(message.encode_to_vec())).collect();
    Ok(nodes.open_stream_with(asked.machine, Kind::Watch(Box::new(watch)), ready))
}

impl Watch {
    fn look(&self, nodes: &Nodes, machine: MachineId) -> Vec<Resource> {
        let mut found = contents(nodes, machine, &self.namespace, &self.kind);
        found.retain(|one| self.id.as_ref().is_none_or(|id| *id == one.id) && has_labels(one, &self.labels));
        found
    }

    fn first_events(&self, nodes: &Nodes, contents: bool, speaks_of_bootstrap: bool) -> Vec<Event> {
        let created = |one: &Resource| event(EventType::Created, one.sent(nodes), None);
        let gone = |id: &str, kind| {
            let now = nodes.timestamp(nodes.clock());
            event(kind, tombstone(&self.namespace, &self.kind, id, now), None)
        };
        match &self.id {
            Some(id) if self.known.is_empty() => vec![gone(id, EventType::Destroyed)],
            Some(_) => self.known.iter().map(created).collect(),
            None if contents => {
                let all = self.known.iter().map(created);
                all.chain(speaks_of_bootstrap.then(|| gone("", EventType::Bootstrapped))).collect()
            }
            None => Vec::new(),
        }
    }

    /// What is different from what was told last.
    pub(crate) fn changes(&mut self, nodes: &Nodes, machine: MachineId) -> Vec<Bytes> {
        let now = self.look(nodes, machine);
        if now == self.known {
            return Vec::new();
        }
        let before = std::mem::take(&mut self.known);
        let mut events = Vec::new();
        for one in &now {
            match before.iter().find(|other| other.id == one.id) {
                None => events.push(event(EventType::Created, one.sent(nodes), None)),
                Some(other) if !other.says_the_same(one) => {
                    events.push(event(EventType::Updated, one.sent(nodes), Some(other.sent(nodes))));
                }
                Some(_) => {}
            }
        }
        for one in before.iter().filter(|one| !now.iter().any(|other| other.id == one.id)) {
            events.push(event(EventType::Destroyed, one.sent(nodes), None));
        }
        self.known = now;
        let messages =
            events.into_iter().map(|event| WatchResponse { event: vec![event] }.encode_to_vec().into());
        messages.collect()
    }
}

fn event(kind: EventType, resource: Sent, old: Option<Sent>) -> Event {
    Event { resource: Some(resource), event_type: kind.into(), old, error: None, bookmark: None }
}
