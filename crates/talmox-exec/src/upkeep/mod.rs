//! Steps that are done to a cluster that lives.

mod change_node;
mod drain;
mod forget;
mod kubernetes;
mod members;
mod note_away;
mod recover;
mod retire;
mod return_node;
mod rotate;
mod snapshot;
mod upgrade_kubernetes;
mod upgrade_node;
mod well;

use talmox_plan::Upkeep;

pub use upgrade_node::UpgradeFault;

use crate::steps::shelf;
use crate::work::{Result, Work};

pub(crate) async fn run(work: &Work<'_>, upkeep: &Upkeep) -> Result {
    match upkeep {
        Upkeep::SnapshotEtcd { control_planes } => snapshot::run(work, control_planes).await,
        Upkeep::DrainNode { node } => drain::run(work, node).await,
        Upkeep::ReturnNode { node, address } => return_node::run(work, node, *address).await,
        Upkeep::ChangeNode { vm, address, mode } => change_node::run(work, vm, *address, *mode).await,
        Upkeep::UpgradeNode { .. } => upgrade_node::run(work, upkeep).await,
        Upkeep::UpgradeKubernetes { .. } => upgrade_kubernetes::run(work, upkeep).await,
        Upkeep::RetireNode { vm, address, control_planes } => {
            retire::run(work, vm, *address, control_planes).await
        }
        Upkeep::ForgetNode { node, address, control_planes } => {
            forget::run(work, node, *address, control_planes).await
        }
        Upkeep::RotateAuthority { realm, phase, control_planes, workers } => {
            rotate::run(work, *realm, *phase, [control_planes, workers]).await
        }
        Upkeep::SettleAuthority { realm, control_planes, workers } => {
            rotate::settle(work, *realm, [control_planes, workers]).await
        }
        Upkeep::NoteAway { vm, away } => note_away::run(work, vm, away.as_ref()).await,
        Upkeep::MakeShelf { host, mark, pool } => shelf::make(work, host, mark, pool.as_ref()).await,
        Upkeep::MoveDisk { from, to, slot, storage, volume } => {
            let (slot, volume) = (*slot, volume.as_ref());
            shelf::hand_over(work, &shelf::Handover { from, to, slot, storage, volume }).await
        }
        Upkeep::MoveShelf { vm, to } => shelf::bring(work, vm, to).await,
        Upkeep::RemoveShelf { vm } => shelf::remove(work, vm).await,
        Upkeep::RecoverEtcd { vm, address, control_planes, snapshot } => {
            recover::run(work, vm, *address, control_planes, snapshot).await
        }
    }
}
