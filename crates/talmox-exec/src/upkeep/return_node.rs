//! Waiting until a node is well again, and letting pods back.

use std::net::IpAddr;

use talmox_types::NodeName;

use crate::StepError;
use crate::work::{Result, Work};

pub(super) async fn run(work: &Work<'_>, node: &NodeName, address: IpAddr) -> Result {
    let _ = (work, node, address);
    Err(StepError::NoReach { lacks: "this is not built yet" })
}
