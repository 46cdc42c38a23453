//! A cluster that lives, what it should be afterwards, and an eye on etcd meanwhile.

use std::time::Duration;

use futures_util::future::{Either, select};
use talmox_plan::Request;
use talmox_sim_talos::MachineId;
use talmox_types::desired::{Desired, Role};

use crate::upgrade::bed::{Bed, described, healthy};
pub(crate) use crate::upgrade::bed::{unwell, versions};

pub(crate) const OLD: &str = "1.13.6";
pub(crate) const NEW: &str = "1.13.9";

/// What a snapshot of etcd takes is another matter.
pub(crate) fn request() -> Request {
    let mut request = healthy();
    request.upkeep.no_snapshot = true;
    request
}

/// Three and three, or less, with this Talos.
pub(crate) fn with_talos(version: &str, (controllers, workers): (usize, usize), more: &str) -> Desired {
    let lines =
        format!("talos_version: {version}\nkubernetes_version: 1.36.3\ntalos_contract: \"1.13\"\n{more}");
    described(controllers, workers, &lines)
}

/// A cluster that lives with the old Talos, and shall have the new one.
pub(crate) async fn behind(seed: u64, size: (usize, usize)) -> Bed {
    let mut bed = living(seed, size, "").await;
    bed.desired = with_talos(NEW, size, "");
    bed
}

/// A cluster that lives with the old Talos.
pub(crate) async fn living(seed: u64, size: (usize, usize), more: &str) -> Bed {
    let bed = Bed::new(seed, with_talos(OLD, size, more));
    bed.converge(&healthy(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed
}

/// The machine of a node: VMs are numbered in the order of the description.
pub(crate) fn machine(bed: &Bed, node: &str) -> MachineId {
    let position = bed.desired.nodes.iter().position(|one| one.name.as_str() == node).unwrap();
    MachineId(2000 + u32::try_from(position).unwrap())
}

/// Carries out while somebody watches that most control planes always answer for etcd.
pub(crate) async fn watched(bed: &Bed, request: &Request, number: u32) -> Result<(), String> {
    let work = std::pin::pin!(bed.converge_mortally(request, number));
    match select(work, std::pin::pin!(watch(bed))).await {
        Either::Left((end, _)) => end.map(drop),
        Either::Right((never, _)) => match never {},
    }
}

async fn watch(bed: &Bed) -> std::convert::Infallible {
    let controllers: Vec<MachineId> = bed
        .desired
        .nodes
        .iter()
        .filter(|node| node.role == Role::Controller)
        .map(|node| machine(bed, node.name.as_str()))
        .collect();
    // One alone goes down for its own upgrade.
    let needed = if controllers.len() < 3 { 0 } else { controllers.len() / 2 + 1 };
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let up = bed.lab.nodes(|nodes| {
            let runs =
                |id: &&MachineId| nodes.standing(**id).is_some_and(|standing| standing.stage == "running");
            controllers.iter().filter(runs).count()
        });
        assert!(up >= needed, "{up} of {} control planes run\n{}", controllers.len(), told(bed));
    }
}

pub(crate) fn told(bed: &Bed) -> String {
    bed.told.lines().join("\n")
}

/// Every node runs the new Talos from the described image, nobody is kept from pods, and nothing is left to do.
pub(crate) async fn is_upgraded(bed: &Bed) {
    bed.is_upgraded(&request()).await;
}
