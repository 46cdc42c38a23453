//! Giving a machine that lives another configuration.

use std::net::IpAddr;

use talmox_plan::{ChangeMode, Expected};

use crate::StepError;
use crate::work::{Result, Work};

pub(super) async fn run(work: &Work<'_>, vm: &Expected, address: IpAddr, mode: ChangeMode) -> Result {
    let _ = (work, vm, address, mode);
    Err(StepError::NoReach { lacks: "this is not built yet" })
}
