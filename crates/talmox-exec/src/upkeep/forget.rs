//! Removing what is left of a node that is gone.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::NodeName;

use crate::StepError;
use crate::work::{Result, Work};

pub(super) async fn run(
    work: &Work<'_>,
    node: &NodeName,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result {
    let _ = (work, node, control_planes);
    Err(StepError::NoReach { lacks: "this is not built yet" })
}
