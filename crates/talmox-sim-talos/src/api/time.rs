//! The clock.

use talmox_proto::time::{Time, TimeRequest, TimeResponse};

use super::{Asked, Handlers};
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers =
    &[("/time.TimeService/Time", time), ("/time.TimeService/TimeCheck", check)];

/// The server nodes ask unless they are told otherwise.
const SERVER: &str = "time.cloudflare.com";

fn time(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    answer(nodes, asked, SERVER.to_owned())
}

fn check(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let TimeRequest { server } = asked.request()?;
    answer(nodes, asked, server)
}

fn answer(nodes: &mut Nodes, asked: &Asked<'_>, server: String) -> Result<ApiReply, Status> {
    if nodes.faults.clock_is_off(asked.machine) {
        let words = format!("error querying NTP server \"{server}\": i/o timeout");
        return Err(Status::new(Code::Unknown, words));
    }
    let now = Some(nodes.timestamp(nodes.clock));
    let message = Time { metadata: None, server, localtime: now, remotetime: now };
    Ok(nodes.reply(&TimeResponse { messages: vec![message] }))
}
