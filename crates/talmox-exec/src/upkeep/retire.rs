//! Taking a node out of etcd and wiping it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_plan::Expected;
use talmox_types::NodeName;

use crate::StepError;
use crate::work::{Result, Work};

pub(super) async fn run(
    work: &Work<'_>,
    vm: &Expected,
    address: IpAddr,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result {
    let _ = (work, vm, address, control_planes);
    Err(StepError::NoReach { lacks: "this is not built yet" })
}
