//! Whether a VM was rolled back or restored since it last ran, or runs and is not well since. Its configuration does not tell: Proxmox names the last
//! snapshot there whether it was gone back to or not. The tasks of its host do, as far as the credentials may see them.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use talmox_plan::{Observed, Power, Rewound, SeenEtcd, SeenMachine, identify};
use talmox_pve::client::{Client, TaskInfo, TaskQuery, TaskSource};
use talmox_types::desired::{Desired, Role};
use talmox_types::{HostName, VmId};

/// How many tasks of a VM are looked through.
const TASKS: u32 = 50;
const KINDS: [&str; 4] = ["qmstart", "qmrollback", "qmrestore", "qmdestroy"];

/// Looks at VMs of control planes that are stopped, or whose member of etcd is not well: few, and none in a cluster that is.
pub(crate) async fn look(client: &Client, desired: &Desired, observed: &Observed) -> BTreeMap<VmId, Rewound> {
    let identities = identify(desired, observed);
    let controllers = desired.nodes.iter().filter(|node| node.role == Role::Controller);
    let of_interest = controllers.flat_map(|node| identities.of_node(&node.name)).filter_map(|owned| {
        let guest = observed.guests.get(&owned.mark.vmid)?;
        let stopped = guest.power == Power::Stopped;
        let matters = owned.finished && (stopped || is_sick(observed.talos.get(&owned.mark.node)));
        matters.then(|| (guest.vmid, guest.host.clone(), stopped))
    });
    let asked = of_interest
        .map(|(vmid, host, stopped)| async move { Some((vmid, of_vm(client, &host, vmid, stopped).await?)) });
    join_all(asked).await.into_iter().flatten().collect()
}

/// A member with disks of the past fails, and stays so: the others have moved on from what it knows.
fn is_sick(machine: Option<&SeenMachine>) -> bool {
    let etcd = machine.and_then(SeenMachine::configured).and_then(|seen| seen.etcd.as_ref());
    matches!(etcd, Some(SeenEtcd::Member { healthy: false, .. }))
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
