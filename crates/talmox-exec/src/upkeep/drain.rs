//! Moving pods off a node.

use talmox_types::NodeName;

use crate::StepError;
use crate::work::{Result, Work};

pub(super) async fn run(work: &Work<'_>, node: &NodeName) -> Result {
    let _ = (work, node);
    Err(StepError::NoReach { lacks: "this is not built yet" })
}
