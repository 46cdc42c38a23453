//! Starting, stopping and restarting services, where that is allowed.

use talmox_proto::machine::{
    ServiceRestart, ServiceRestartRequest, ServiceRestartResponse, ServiceStart, ServiceStartRequest,
    ServiceStartResponse, ServiceStop, ServiceStopRequest, ServiceStopResponse,
};

use super::machine::run;
use super::reply::reply_after;
use super::{Asked, Handlers};
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[
    ("/machine.MachineService/ServiceStart", start),
    ("/machine.MachineService/ServiceStop", stop),
    ("/machine.MachineService/ServiceRestart", restart),
];

type Reply = Result<ApiReply, Status>;

fn defined(nodes: &Nodes, asked: &Asked<'_>, id: &str) -> Result<(), Status> {
    if run(nodes, asked)?.services.contains_key(id) {
        return Ok(());
    }
    Err(Status::new(Code::Unknown, format!("service \"{id}\" not defined")))
}

/// Only what can be missed for a while may be stopped.
fn supports(id: &str, what: &str) -> Result<(), Status> {
    if matches!(id, "kubelet" | "cri" | "trustd" | "apid" | "dashboard")
        && (what == "restart" || id == "kubelet")
        || id.starts_with("ext-")
    {
        return Ok(());
    }
    Err(Status::new(Code::Unknown, format!("service \"{id}\" doesn't support {what} operation via API")))
}

fn start(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let ServiceStartRequest { id } = asked.request()?;
    defined(nodes, asked, &id)?;
    // One that is on its way already is left alone.
    if run(nodes, asked)?.services.get(&id).is_some_and(crate::services::Service::is_stopped) {
        nodes.start_service(asked.machine, &id);
        nodes.settle(asked.machine);
    }
    let resp = format!("Service \"{id}\" started");
    Ok(nodes.reply(&ServiceStartResponse { messages: vec![ServiceStart { metadata: None, resp }] }))
}

fn stop(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let ServiceStopRequest { id } = asked.request()?;
    defined(nodes, asked, &id)?;
    supports(&id, "stop")?;
    nodes.stop_service(asked.machine, &id);
    nodes.settle(asked.machine);
    let resp = format!("Service \"{id}\" stopped");
    Ok(nodes.reply(&ServiceStopResponse { messages: vec![ServiceStop { metadata: None, resp }] }))
}

fn restart(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let ServiceRestartRequest { id } = asked.request()?;
    defined(nodes, asked, &id)?;
    supports(&id, "restart")?;
    nodes.stop_service(asked.machine, &id);
    nodes.start_service(asked.machine, &id);
    nodes.settle(asked.machine);
    let resp = format!("Service \"{id}\" restarted");
    let message = ServiceRestartResponse { messages: vec![ServiceRestart { metadata: None, resp }] };
    Ok(reply_after(nodes.timing.service, &message))
}
