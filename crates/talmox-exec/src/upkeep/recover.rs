//! Making the first member of etcd from a snapshot: the bootstrap, with data.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_plan::{Expected, Snapshot};
use talmox_types::NodeName;

use crate::steps::bootstrap::{self, Begin};
use crate::work::{Result, Work};

pub(super) async fn run(
    work: &Work<'_>,
    vm: &Expected,
    address: IpAddr,
    control_planes: &BTreeMap<NodeName, IpAddr>,
    snapshot: &Snapshot,
) -> Result {
    Box::pin(bootstrap::run(work, vm, address, control_planes, Begin::With(snapshot))).await
}
