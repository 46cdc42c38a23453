//! Making the first member of etcd from a snapshot.

use talmox_plan::Upkeep;

use crate::StepError;
use crate::work::{Result, Work};

pub(super) async fn run(work: &Work<'_>, upkeep: &Upkeep) -> Result {
    let _ = (work, upkeep);
    Err(StepError::NoReach { lacks: "this is not built yet" })
}
