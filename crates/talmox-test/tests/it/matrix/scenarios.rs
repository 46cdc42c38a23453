//! The work that is disturbed.

use std::time::Duration;

use talmox_plan::{Goal, Request};
use talmox_sim::World;
use talmox_test::product::{Asked, kinds};
use talmox_test::thorough::runtime;
use talmox_types::NodeName;
use talmox_types::desired::Desired;

use crate::matrix::bed::{Bed, described, world};
use crate::matrix::cases::kind;
use crate::matrix::norm::{Norm, norm};

/// A piece of work, how it goes undisturbed, and what is there in the end.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) before: World,
    pub(crate) wanted: Desired,
    pub(crate) request: Request,
    /// The kinds of calls it takes.
    pub(crate) asked: Vec<Asked<String>>,
    pub(crate) expected: Norm,
}

impl Scenario {
    /// What is asked for once the work is done: to build a node anew is asked for once.
    pub(crate) fn afterwards(&self) -> Request {
        Request { replace: std::collections::BTreeSet::new(), ..self.request.clone() }
    }
}

const CONTROLLER: &str = "  - {name: cp-1, address: 10.0.7.11, controller: true, vm_host: pve1";
const FIRST: &str = "  - {name: worker-1, address: 10.0.7.21, vm_host: pve2";
const SECOND: &str = "  - {name: worker-2, address: 10.0.7.22, vm_host: pve1";

/// Nodes of 4 GiB with a disk of 20 GiB, unless the end of their line says otherwise.
fn nodes(lines: &[(&str, &str)]) -> Desired {
    let line = |(line, more): &(&str, &str)| {
        let size = if more.contains("vm_memory") { "" } else { ", vm_memory: 4096" };
        let disk = if more.contains("vm_disk_size") { "" } else { ", vm_disk_size: 20" };
        format!("{line}{size}{disk}{more}}}\n")
    };
    described(&format!("nodes:\n{}", lines.iter().map(line).collect::<String>()))
}

fn two() -> Desired {
    nodes(&[(CONTROLLER, ""), (FIRST, "")])
}

fn reboots() -> Request {
    Request { allow_reboot: true, ..Request::default() }
}

/// A world in which a description has been carried out.
fn built(desired: &Desired) -> World {
    runtime().block_on(async {
        let bed = Bed::new(world(), desired);
        bed.apply(desired, &reboots(), 1).await.unwrap();
        // The hosts have told each other.
        tokio::time::sleep(Duration::from_secs(20)).await;
        bed.lab.world(|world| world.clone())
    })
}

fn scenario(name: &'static str, before: World, wanted: Desired, request: Request) -> Scenario {
    let (asked, expected) = runtime().block_on(async {
        let bed = Bed::new(before.clone(), &wanted);
        bed.apply(&wanted, &request, 0xa).await.unwrap_or_else(|stopped| panic!("{name}: {stopped:?}"));
        let asked = kinds(&bed.lab.calls(), |call| Some(kind(call)));
        tokio::time::sleep(Duration::from_secs(20)).await;
        (asked, norm(&bed.lab.world(|world| world.dump())))
    });
    Scenario { name, before, wanted, request, asked, expected }
}

pub(crate) fn all() -> Vec<Scenario> {
    let two_there = built(&two());
    let three_there = built(&nodes(&[(CONTROLLER, ""), (FIRST, ""), (SECOND, "")]));
    let live = ", startup_delay: 30, vm_disk_size: 25, vm_networks: [{slot: 1, bridge: vmbr0}], \
                vm_disks: [{slot: 1, size: 5}]";
    let rebooted = ", vm_memory: 6144, vm_cores: 3";
    let name = |text: &str| NodeName::parse(text).unwrap();
    vec![
        scenario("create", world(), two(), reboots()),
        scenario(
            "scale up",
            two_there.clone(),
            nodes(&[(CONTROLLER, ""), (FIRST, ""), (SECOND, "")]),
            reboots(),
        ),
        scenario("change live", two_there.clone(), nodes(&[(CONTROLLER, live), (FIRST, live)]), reboots()),
        scenario(
            "change and reboot",
            two_there.clone(),
            nodes(&[(CONTROLLER, rebooted), (FIRST, rebooted)]),
            reboots(),
        ),
        scenario(
            "replace",
            two_there.clone(),
            two(),
            Request { replace: [name("worker-1")].into(), ..reboots() },
        ),
        scenario("remove", three_there, two(), Request { prune: true, ..reboots() }),
        scenario("destroy", two_there, two(), Request { goal: Goal::Destroy, ..Request::default() }),
    ]
}
