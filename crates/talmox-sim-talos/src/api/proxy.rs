//! Calls that name other nodes: `node` passes a reply through, `nodes` gathers those of many.
//!
//! Source: facts §1.4, observed §2 "Proxy"; transcript groups `proxy`, `worker-forwarding`, `maintenance-metadata`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut as _, Bytes, BytesMut};
use talmox_proto::common::Metadata;
use talmox_proto::{Message, Status as Embedded};

use super::authorize::in_maintenance;
use super::stream::Kind;
use super::{Asked, serve, turned_away};
use crate::hardware::MachineId;
use crate::nodes::Nodes;
use crate::wire::{ApiCall, ApiReply, Code, Status};

/// Services whose replies have room for the name of a node.
const MANY: [&str; 5] = [
    "machine.MachineService",
    "cluster.ClusterService",
    "inspect.InspectService",
    "storage.StorageService",
    "time.TimeService",
];

/// How long the network takes to say that there is nobody.
const NO_ROUTE: u64 = 3100;

/// Calls whose replies come one by one; the others wrap theirs in a list.
const STREAMS: [&str; 9] =
    ["Copy", "Dmesg", "EtcdSnapshot", "Events", "HealthCheck", "Kubeconfig", "List", "Logs", "Read"];

/// Answers a call that reached a machine, as that machine or for others.
pub(super) fn route(nodes: &mut Nodes, machine: MachineId, call: &ApiCall) -> ApiReply {
    let values = |wanted: &str| -> Vec<&str> {
        call.metadata.iter().filter(|(key, _)| key == wanted).map(|(_, value)| value.as_str()).collect()
    };
    let (many, one) = (values("nodes"), values("node"));
    let here = Asked { machine, call };
    let routes = nodes.run(machine).is_some_and(|run| !in_maintenance(run));
    if !routes || many.is_empty() && one.is_empty() {
        return serve(nodes, &here);
    }
    let refused = |nodes: &Nodes, code, words: String| ApiReply::Done {
        after: nodes.timing.call,
        messages: Vec::new(),
        end: Status::new(code, words),
    };
    let (service, method) = call.path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let targets = if many.is_empty() { &one } else { &many };
    if many.is_empty() && one.len() > 1 {
        return refused(nodes, Code::InvalidArgument, "node metadata must be single-valued".to_owned());
    }
    if !many.is_empty() && !MANY.contains(&service) {
        let words = format!("one-2-many proxying is not supported for method {}", call.path);
        return refused(nodes, Code::InvalidArgument, words);
    }
    if let Some(wrong) = targets.iter().find(|target| target.is_empty() || has_port(target)) {
        return refused(nodes, Code::Internal, format!("invalid target {wrong:?}"));
    }
    if !nodes.run(machine).is_some_and(crate::machine::Run::is_control_plane) {
        // A worker has nothing to show to others.
        return if targets.iter().all(|target| is_self(nodes, machine, target)) {
            serve(nodes, &here)
        } else {
            refused(nodes, Code::PermissionDenied, "no request forwarding".to_owned())
        };
    }
    match one.first() {
        Some(target) if many.is_empty() => forward(nodes, &here, target),
        _ => gather(nodes, &here, &many, STREAMS.contains(&method)),
    }
}

fn has_port(target: &str) -> bool {
    target.parse::<IpAddr>().is_err() && target.contains(':')
}

fn is_self(nodes: &Nodes, machine: MachineId, target: &str) -> bool {
    let ips = nodes.run(machine).map(|run| run.network.ips()).unwrap_or_default();
    // Simulated nodes may have addresses within 127.0.0.0/8; only the first of them is everybody's own.
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    target.parse().is_ok_and(|ip: IpAddr| ips.contains(&ip) || loopback.contains(&ip))
}

/// The reply of another node. What keeps it from coming is said by the node that was asked.
fn forward(nodes: &mut Nodes, here: &Asked<'_>, target: &str) -> ApiReply {
    if is_self(nodes, here.machine, target) {
        return serve(nodes, here);
    }
    let failed = |after, words: String| ApiReply::Done {
        after,
        messages: Vec::new(),
        end: Status::new(Code::Unavailable, words),
    };
    let call = nodes.timing.call;
    let Ok(address) = target.parse::<IpAddr>() else {
        return failed(call, unresolved(nodes, here.machine, target));
    };
    let dialing = |what: &str| {
        format!(
            "connection error: desc = \"transport: Error while dialing: dial tcp {address}:50000: connect: {what}\""
        )
    };
    let Some(machine) = nodes.at(address) else { return failed(NO_ROUTE, dialing("no route to host")) };
    match turned_away(nodes, machine, &here.call.peer) {
        Some(ApiReply::Refused) => failed(call, dialing("connection refused")),
        Some(_) => failed(call, format!("connection error: desc = \"{address} is of another cluster\"")),
        None if nodes.run(machine).is_some_and(in_maintenance) => {
            failed(call, "connection error: desc = \"transport: authentication handshake failed\"".to_owned())
        }
        None => {
            let reply = serve(nodes, &Asked { machine, call: here.call });
            // Whoever watches that node hears of it too, before anything else happens there.
            nodes.tell_watchers(machine);
            reply
        }
    }
}

/// Nobody resolves names in the simulated network: its first address, which nodes ask, does not answer.
fn unresolved(nodes: &Nodes, machine: MachineId, name: &str) -> String {
    let own = nodes.run(machine).and_then(|run| run.network.main());
    let server = match own {
        Some(IpAddr::V4(ip)) => IpAddr::from([ip.octets()[0], ip.octets()[1], ip.octets()[2], 1]),
        Some(ip) => ip,
        None => return format!("dns: A record lookup error: lookup {name}: no such host"),
    };
    let own = own.unwrap_or(server);
    format!(
        "dns: A record lookup error: lookup {name} on {server}:53: read udp {own}:40000->{server}:53: \
         read: connection refused"
    )
}

/// The replies of all, each with the name it was asked by. A failure is an entry like any other.
fn gather(nodes: &mut Nodes, here: &Asked<'_>, targets: &[&str], streams: bool) -> ApiReply {
    let (mut after, mut gathered, mut parts) = (0, Vec::new(), Vec::new());
    for target in targets {
        let named = Metadata { hostname: (*target).to_owned(), ..Metadata::default() };
        match forward(nodes, here, target) {
            ApiReply::Done { after: took, messages, end } => {
                after = after.max(if end == Status::ok() { took } else { 0 });
                let name = |message: &Bytes| {
                    if streams { with_metadata(message, &named) } else { each(message, &named) }
                };
                gathered.extend(messages.iter().map(name));
                if end != Status::ok() {
                    let entry = with_metadata(&Bytes::new(), &failure(target, &end));
                    gathered.push(if streams { entry } else { field(1, &entry) });
                }
            }
            ApiReply::Stream(id) => parts.push((id, (*target).to_owned())),
            // One that never answers keeps the others waiting.
            other @ (ApiReply::Refused
            | ApiReply::NotTrusted { .. }
            | ApiReply::HungUp
            | ApiReply::Silence
            | ApiReply::Lost { .. }) => return other,
        }
    }
    if !parts.is_empty() {
        return nodes.open_stream_with(here.machine, Kind::Joined(parts), gathered);
    }
    let messages = if streams { gathered } else { vec![Bytes::from(gathered.concat())] };
    ApiReply::Done { after, messages, end: Status::ok() }
}

fn failure(target: &str, end: &Status) -> Metadata {
    Metadata {
        hostname: target.to_owned(),
        error: format!("rpc error: code = {:?} desc = {}", end.code, end.message),
        status: Some(Embedded {
            code: i32::from(end.code as u8),
            message: end.message.clone(),
            details: Vec::new(),
        }),
    }
}

/// A message with metadata in its first field. What is said twice in a message counts as one.
pub(super) fn with_metadata(message: &Bytes, metadata: &Metadata) -> Bytes {
    let metadata = field(1, &metadata.encode_to_vec());
    Bytes::from([message.as_ref(), metadata.as_ref()].concat())
}

fn field(number: u8, bytes: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(number << 3 | 2);
    let mut rest = bytes.len();
    while rest >= 0x80 {
        out.put_u8(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    out.put_u8(u8::try_from(rest).unwrap_or_default());
    out.put_slice(bytes);
    out.freeze()
}

/// The same for each message of a reply that is a list of them: its field 1, over and over.
fn each(reply: &Bytes, metadata: &Metadata) -> Bytes {
    let mut out = BytesMut::new();
    let mut rest = reply.as_ref();
    while let Some((tag, after)) = rest.split_first() {
        let Some((length, after)) = length(after) else { break };
        if *tag != 0x0a || after.len() < length {
            break;
        }
        let (message, after) = after.split_at(length);
        out.put(field(1, &with_metadata(&Bytes::copy_from_slice(message), metadata)));
        rest = after;
    }
    out.freeze()
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_usize;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}
