//! Whether a VM was rolled back or restored since it last ran, or runs and is not well since. Its configuration does not tell: Proxmox names the last
//! snapshot there whether it was gone back to or not. The tasks of its host do, as far as the credentials may see them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use talmox_plan::{Observed, Power, Rewound, SeenEtcd, SeenMachine, identify};
use talmox_pve::client::{Client, TaskInfo, TaskQuery, TaskSource};
use talmox_types::desired::{Desired, Role};
use talmox_types::{HostName, NodeName, VmId};

/// How many tasks of a VM are looked through.
const TASKS: u32 = 50;
const KINDS: [&str; 4] = ["qmstart", "qmrollback", "qmrestore", "qmdestroy"];

/// A VM that may hold a member of etcd.
struct Holder {
    vmid: VmId,
    host: HostName,
    stopped: bool,
}

/// Looks at VMs that may hold a member of etcd and are stopped, or whose member is not well: few, and none in a cluster that is.
/// If one of them has disks of the past it matters who else has, so the rest that may be in the same boat is asked about too.
pub(crate) async fn look(client: &Client, desired: &Desired, observed: &Observed) -> BTreeMap<VmId, Rewound> {
    let identities = identify(desired, observed);
    let workers = desired.nodes.iter().filter(|node| node.role == Role::Worker);
    let workers: BTreeSet<&NodeName> = workers.map(|node| &node.name).collect();
    let (mut suspects, mut others) = (Vec::new(), Vec::new());
    for owned in identities.ours().filter(|owned| owned.finished && !workers.contains(&owned.mark.node)) {
        let Some(guest) = observed.guests.get(&owned.mark.vmid) else { continue };
        let node = &owned.mark.node;
        let machine = observed.talos.get(node).or_else(|| observed.leaving.get(node));
        let (host, stopped) = (guest.host.clone(), guest.power == Power::Stopped);
        let holder = Holder { vmid: guest.vmid, host, stopped };
        match is_well(machine) {
            Some(true) if !stopped => {}
            Some(false) => suspects.push(holder),
            _ if stopped => suspects.push(holder),
            _ => others.push(holder),
        }
    }
    let mut rewound = of_all(client, &suspects).await;
    if !rewound.is_empty() {
        rewound.extend(of_all(client, &others).await);
    }
    rewound
}

async fn of_all(client: &Client, holders: &[Holder]) -> BTreeMap<VmId, Rewound> {
    let asked = holders.iter().map(|Holder { vmid, host, stopped }| async move {
        Some((*vmid, of_vm(client, host, *vmid, *stopped).await?))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Whether a member is well, if it is known. One with disks of the past fails, and stays so: the others have moved on from what
/// it knows.
fn is_well(machine: Option<&SeenMachine>) -> Option<bool> {
    let etcd = machine.and_then(SeenMachine::configured).and_then(|seen| seen.etcd.as_ref());
    match etcd {
        Some(SeenEtcd::Member { healthy, .. }) => Some(*healthy),
        Some(SeenEtcd::Empty | SeenEtcd::Unknown { .. }) | None => None,
    }
}

/// How a VM came by disks of the past. One that runs was started since, which makes nothing better.
async fn of_vm(client: &Client, host: &HostName, vmid: VmId, stopped: bool) -> Option<Rewound> {
    let query = TaskQuery { vmid: Some(vmid), kind: None, source: TaskSource::All, limit: Some(TASKS) };
    let mut tasks = client.tasks(host, &query).await.ok()?;
    tasks.sort_by_key(|task| std::cmp::Reverse(task.upid.start_time()));
    // Of those that matter, the newest: it ran since, or it has disks of the past.
    let newest = tasks.iter().find(|task| {
        is_done(task) && KINDS.contains(&task.kind.as_str()) && (stopped || task.kind != "qmstart")
    })?;
    match newest.kind.as_str() {
        "qmrollback" => Some(Rewound::RolledBack),
        "qmrestore" => Some(Rewound::Restored),
        _ => None,
    }
}

fn is_done(task: &TaskInfo) -> bool {
    task.status.as_deref().is_some_and(|status| status == "OK" || status.starts_with("WARNINGS"))
}
