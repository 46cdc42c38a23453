//! The Talos API: who is let in, and which code answers a call.
//!
//! A call passes the listener, then the table of handlers below, one list for each file. A handler reads its request out of
//! the call, looks at the machine or changes it, and gives the reply.

mod apply;
mod authorize;
mod clients;
pub(crate) mod cosi;
mod etcd;
mod events;
mod files;
mod health;
mod image;
mod life;
mod machine;
mod proxy;
pub(crate) mod reply;
mod services;
mod storage;
pub(crate) mod stream;
mod time;

use talmox_proto::Message;

use crate::faults::CallFault;
use crate::hardware::MachineId;
use crate::machine::Port;
use crate::machine::certificates::pem_to_der;
use crate::nodes::Nodes;
use crate::wire::{ApiCall, ApiReply, Code, KubeCall, KubeReply, Peer, Status};

/// A call that reached a machine.
pub(crate) struct Asked<'a> {
    pub(crate) machine: MachineId,
    pub(crate) call: &'a ApiCall,
}

impl Asked<'_> {
    /// The request; nothing at all is an empty one.
    pub(crate) fn request<Request: Message + Default>(&self) -> Result<Request, Status> {
        let bytes = self.call.messages.first().cloned().unwrap_or_default();
        Request::decode(bytes).map_err(|error| {
            Status::new(Code::Internal, format!("grpc: error unmarshalling request: {error}"))
        })
    }
}

/// What answers a call. An error is the end of it, with its code and words.
pub(crate) type Handler = fn(&mut Nodes, &Asked<'_>) -> Result<ApiReply, Status>;

/// Calls by path, and who answers them.
pub(crate) type Handlers = &'static [(&'static str, Handler)];

const TABLE: &[Handlers] = &[
    machine::HANDLERS,
    apply::HANDLERS,
    clients::HANDLERS,
    cosi::HANDLERS,
    etcd::HANDLERS,
    events::HANDLERS,
    files::HANDLERS,
    health::HANDLERS,
    image::HANDLERS,
    life::HANDLERS,
    services::HANDLERS,
    storage::HANDLERS,
    time::HANDLERS,
];

fn find(path: &str) -> Option<Handler> {
    TABLE.iter().copied().flatten().find(|(known, _)| *known == path).map(|(_, handler)| *handler)
}

pub(crate) fn answer(nodes: &mut Nodes, call: &ApiCall, fault: Option<CallFault>) -> ApiReply {
    let Some(machine) = nodes.at(call.to) else { return ApiReply::Refused };
    if nodes.faults.is_flapping(nodes.clock, call.to) {
        return ApiReply::Refused;
    }
    if let Some(refusal) = turned_away(nodes, machine, &call.peer) {
        // TLS 1.3: the client has finished its handshake, and the alert races with the end of the connection.
        let hangs_up = matches!(refusal, ApiReply::NotTrusted { .. }) && nodes.random.below(2) == 0;
        return if hangs_up { ApiReply::HungUp } else { refusal };
    }
    let planned = nodes.faults.due(call.to, &call.path);
    match fault.or(planned) {
        None => proxy::route(nodes, machine, call),
        Some(fault) => go_wrong(nodes, machine, call, fault),
    }
}

/// What the caller sees of a call that goes wrong, and whether it is carried out all the same.
fn go_wrong(nodes: &mut Nodes, machine: MachineId, call: &ApiCall, fault: CallFault) -> ApiReply {
    let after = nodes.timing.call;
    match fault {
        CallFault::Refuse => ApiReply::Refused,
        CallFault::Break => ApiReply::Lost { after },
        CallFault::Hang => ApiReply::Silence,
        CallFault::HangAfter => {
            proxy::route(nodes, machine, call);
            ApiReply::Silence
        }
        CallFault::LoseReply => {
            proxy::route(nodes, machine, call);
            ApiReply::Lost { after }
        }
        CallFault::Slow { by } => match proxy::route(nodes, machine, call) {
            ApiReply::Done { after, messages, end } => ApiReply::Done { after: after + by, messages, end },
            other @ (ApiReply::Refused
            | ApiReply::NotTrusted { .. }
            | ApiReply::HungUp
            | ApiReply::Stream(_)
            | ApiReply::Silence
            | ApiReply::Lost { .. }) => other,
        },
        CallFault::Answer { code, message, happens } => {
            if happens {
                proxy::route(nodes, machine, call);
            }
            let code = u8::try_from(code).map_or(Code::Unknown, Code::from_number);
            let end = Status::new(code, message);
            ApiReply::Done { after, messages: Vec::new(), end }
        }
    }
}

/// The same for Kubernetes.
pub(crate) fn go_wrong_with_kubernetes(nodes: &mut Nodes, call: &KubeCall, fault: CallFault) -> KubeReply {
    let after = nodes.timing.call;
    match fault {
        CallFault::Refuse => KubeReply::Refused,
        CallFault::Break => KubeReply::Lost { after },
        CallFault::Hang => KubeReply::Silence,
        CallFault::HangAfter => {
            nodes.kube_served(call);
            KubeReply::Silence
        }
        CallFault::LoseReply => {
            nodes.kube_served(call);
            KubeReply::Lost { after }
        }
        CallFault::Slow { by } => match nodes.kube_served(call) {
            KubeReply::Answer { after, status, body } => {
                KubeReply::Answer { after: after + by, status, body }
            }
            other @ (KubeReply::Refused
            | KubeReply::NotTrusted { .. }
            | KubeReply::Watch(_)
            | KubeReply::Silence
            | KubeReply::Lost { .. }) => other,
        },
        CallFault::Answer { code, message, happens } => {
            if happens {
                nodes.kube_served(call);
            }
            // What is no status of HTTP was meant for Talos.
            let status = if (400..600).contains(&code) { code } else { 500 };
            KubeReply::Answer { after, status, body: crate::kube::refusal(status, &message) }
        }
    }
}

/// What TLS makes of the caller.
fn turned_away(nodes: &Nodes, machine: MachineId, peer: &Peer) -> Option<ApiReply> {
    let run = nodes.run(machine)?;
    let refused = |reason: &str| Some(ApiReply::NotTrusted { reason: reason.to_owned() });
    match (&run.port, peer) {
        (Port::Closed, _) => Some(ApiReply::Refused),
        (Port::Maintenance(_), _) => None,
        (Port::Secure(_), Peer::Nobody) => refused("remote error: tls: certificate required"),
        (Port::Secure(_), Peer::Certificate { authority, .. }) => {
            let settings = run.settings()?;
            let mut known = std::iter::once(&settings.authority).chain(&settings.accepted);
            if known.any(|pem| pem_to_der(pem).as_ref() == Some(authority)) {
                None
            } else {
                refused("remote error: tls: unknown certificate authority")
            }
        }
    }
}

/// Answers as the machine itself.
pub(crate) fn serve(nodes: &mut Nodes, asked: &Asked<'_>) -> ApiReply {
    let result = authorize::check(nodes, asked).and_then(|()| match find(&asked.call.path) {
        Some(handler) => handler(nodes, asked),
        None => Err(unknown(&asked.call.path)),
    });
    result.unwrap_or_else(|end| ApiReply::Done { after: nodes.timing.call, messages: Vec::new(), end })
}

fn unknown(path: &str) -> Status {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (service, method) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    Status::new(Code::Unimplemented, format!("unknown method {method} for service {service}"))
}
