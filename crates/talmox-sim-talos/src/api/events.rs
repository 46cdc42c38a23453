//! What happens on a node, as it happens: the events API.
//!
//! Source: facts §2.2 "Events payloads", observed §4.

use bytes::Bytes;
use talmox_proto::common::{Error, error::Code as Failed};
use talmox_proto::machine::{
    AddressEvent, ConfigLoadErrorEvent, ConfigValidationErrorEvent, Event, EventsRequest, MachineStatusEvent,
    PhaseEvent, SequenceEvent, ServiceHealth, ServiceStateEvent, TaskEvent, machine_status_event,
    phase_event, sequence_event, service_state_event, task_event,
};
use talmox_proto::{Any, Message};

use super::reply::never;
use super::stream::Kind;
use super::{Asked, Handlers};
use crate::hardware::MachineId;
use crate::machine::journal::{Action, Entry, Failure, Happened};
use crate::machine::status::Status as Readiness;
use crate::machine::{Run, Stage};
use crate::nodes::Nodes;
use crate::services::{Health, State};
use crate::wire::{ApiReply, Status};

pub(super) const HANDLERS: Handlers = &[(talmox_proto::machine::machine_service::EVENTS.path, events)];

fn events(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let request: EventsRequest = asked.request()?;
    let run = super::machine::run(nodes, asked)?;
    let from = first(run, &request, nodes.clock());
    let hello = Event { data: Some(Any::default()), id: id_of(run, u64::MAX), ..Event::default() };
    let mut ready = vec![Bytes::from(hello.encode_to_vec())];
    let mut next = from;
    ready.extend(nodes.events_since(asked.machine, &mut next));
    Ok(nodes.open_stream_with(asked.machine, Kind::Events { next }, ready))
}

/// The entry a listener begins with.
fn first(run: &Run, request: &EventsRequest, now: u64) -> u64 {
    let journal = &run.journal;
    let end = journal.last().map_or(0, |entry| entry.number + 1);
    if !request.tail_id.is_empty() {
        let known = journal.iter().find(|entry| id_of(run, entry.number) == request.tail_id);
        return known.map_or(end, |entry| entry.number + 1);
    }
    if request.tail_seconds > 0 {
        let since = now.saturating_sub(u64::try_from(request.tail_seconds).unwrap_or_default() * 1000);
        return journal.iter().find(|entry| entry.at >= since).map_or(end, |entry| entry.number);
    }
    match u64::try_from(request.tail_events) {
        Ok(count) => end.saturating_sub(count),
        Err(_) => 0,
    }
}

/// Twenty letters that sort in the order of events.
fn id_of(run: &Run, number: u64) -> String {
    let boot: String = run.boot_id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    format!("{:012}{boot}", number % 1_000_000_000_000)
}

impl Nodes {
    /// What happened since, encoded; `next` moves on.
    pub(crate) fn events_since(&self, machine: MachineId, next: &mut u64) -> Vec<Bytes> {
        let Some(run) = self.run(machine) else { return Vec::new() };
        let new = run.journal.iter().filter(|entry| entry.number >= *next);
        let messages: Vec<Bytes> =
            new.map(|entry| Bytes::from(self.event(run, entry).encode_to_vec())).collect();
        *next = run.journal.last().map_or(*next, |entry| entry.number + 1);
        messages
    }

    fn event(&self, run: &Run, entry: &Entry) -> Event {
        let (name, value) = self.payload(&entry.what);
        Event {
            metadata: None,
            data: Some(Any { type_url: format!("talos/runtime/machine.{name}"), value }),
            id: id_of(run, entry.number),
            actor_id: entry.actor.clone(),
        }
    }

    fn payload(&self, what: &Happened) -> (&'static str, Vec<u8>) {
        match what {
            Happened::Sequence { name, action, error } => {
                let action = match action {
                    Action::Noop => sequence_event::Action::Noop,
                    Action::Start => sequence_event::Action::Start,
                    Action::Stop => sequence_event::Action::Stop,
                };
                let error = error.as_ref().map(|(failure, message)| failed(*failure, message));
                let event = SequenceEvent { sequence: name.clone(), action: action.into(), error };
                ("SequenceEvent", event.encode_to_vec())
            }
            Happened::Phase { name, begins } => {
                let action = if *begins { phase_event::Action::Start } else { phase_event::Action::Stop };
                ("PhaseEvent", PhaseEvent { phase: name.clone(), action: action.into() }.encode_to_vec())
            }
            Happened::Task { name, begins } => {
                let action = if *begins { task_event::Action::Start } else { task_event::Action::Stop };
                ("TaskEvent", TaskEvent { task: name.clone(), action: action.into() }.encode_to_vec())
            }
            Happened::Service { id, state, message, health, health_changed } => {
                let health = ServiceHealth {
                    unknown: *health == Health::Unknown,
                    healthy: *health == Health::Healthy,
                    last_message: String::new(),
                    last_change: Some(health_changed.map_or_else(never, |at| self.timestamp(at))),
                };
                let event = ServiceStateEvent {
                    service: id.clone(),
                    action: state_action(*state).into(),
                    message: message.clone(),
                    health: Some(health),
                };
                ("ServiceStateEvent", event.encode_to_vec())
            }
            Happened::Status { status, unknown } => ("MachineStatusEvent", status_event(status, *unknown)),
            Happened::Address { hostname, addresses } => {
                let event = AddressEvent { hostname: hostname.clone(), addresses: addresses.clone() };
                ("AddressEvent", event.encode_to_vec())
            }
            Happened::ConfigLoadError(error) => {
                ("ConfigLoadErrorEvent", ConfigLoadErrorEvent { error: error.clone() }.encode_to_vec())
            }
            Happened::ConfigValidationError(error) => (
                "ConfigValidationErrorEvent",
                ConfigValidationErrorEvent { error: error.clone() }.encode_to_vec(),
            ),
        }
    }
}

fn failed(failure: Failure, message: &str) -> Error {
    let code = match failure {
        Failure::Fatal => Failed::Fatal,
        Failure::Locked => Failed::Locked,
        Failure::Canceled => Failed::Canceled,
    };
    Error { code: code.into(), message: message.to_owned(), details: Vec::new() }
}

fn state_action(state: State) -> service_state_event::Action {
    match state {
        State::Starting => service_state_event::Action::Starting,
        State::Waiting => service_state_event::Action::Waiting,
        State::Preparing => service_state_event::Action::Preparing,
        State::Running => service_state_event::Action::Running,
        State::Stopping => service_state_event::Action::Stopping,
        State::Finished => service_state_event::Action::Finished,
        State::Failed => service_state_event::Action::Failed,
    }
}

fn status_event(status: &Readiness, unknown: bool) -> Vec<u8> {
    use machine_status_event::UnmetCondition;
    use machine_status_event::{MachineStage, MachineStatus};
    let stage = match status.stage {
        _ if unknown => MachineStage::Unknown,
        Stage::Booting => MachineStage::Booting,
        Stage::Installing => MachineStage::Installing,
        Stage::Maintenance => MachineStage::Maintenance,
        Stage::Running => MachineStage::Running,
        Stage::Rebooting => MachineStage::Rebooting,
        Stage::ShuttingDown => MachineStage::ShuttingDown,
        Stage::Resetting => MachineStage::Resetting,
        Stage::Upgrading => MachineStage::Upgrading,
    };
    let unmet =
        status.unmet.iter().map(|one| UnmetCondition { name: one.name.clone(), reason: one.reason.clone() });
    let event = MachineStatusEvent {
        stage: stage.into(),
        status: Some(MachineStatus { ready: status.ready, unmet_conditions: unmet.collect() }),
    };
    event.encode_to_vec()
}
