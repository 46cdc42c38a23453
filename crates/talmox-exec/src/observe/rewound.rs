//! Whether a stopped VM was rolled back or restored since it last ran. Its configuration does not tell: Proxmox names the last
//! snapshot there whether it was gone back to or not. The tasks of its host do, as far as the credentials may see them.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use talmox_plan::{Observed, Power, Rewound, identify};
use talmox_pve::client::{Client, TaskInfo, TaskQuery, TaskSource};
use talmox_types::desired::{Desired, Role};
use talmox_types::{HostName, VmId};

/// How many tasks of a VM are looked through.
const TASKS: u32 = 50;
const KINDS: [&str; 3] = ["qmstart", "qmrollback", "qmrestore"];

/// Looks at stopped VMs of control planes: few, and none in a cluster that is well.
pub(crate) async fn look(client: &Client, desired: &Desired, observed: &Observed) -> BTreeMap<VmId, Rewound> {
    let identities = identify(desired, observed);
    let controllers = desired.nodes.iter().filter(|node| node.role == Role::Controller);
    let stopped = controllers.flat_map(|node| identities.of_node(&node.name)).filter_map(|owned| {
        let guest = observed.guests.get(&owned.mark.vmid)?;
        (guest.power == Power::Stopped && owned.finished).then(|| (guest.vmid, guest.host.clone()))
    });
    let asked = stopped.map(|(vmid, host)| async move { Some((vmid, of_vm(client, &host, vmid).await?)) });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn of_vm(client: &Client, host: &HostName, vmid: VmId) -> Option<Rewound> {
    let query = TaskQuery { vmid: Some(vmid), kind: None, source: TaskSource::All, limit: Some(TASKS) };
    let mut tasks = client.tasks(host, &query).await.ok()?;
    tasks.sort_by_key(|task| std::cmp::Reverse(task.upid.start_time()));
    // Of those that matter, the newest: it ran since, or it has disks of the past.
    let newest = tasks.iter().find(|task| is_done(task) && KINDS.contains(&task.kind.as_str()))?;
    match newest.kind.as_str() {
        "qmrollback" => Some(Rewound::RolledBack),
        "qmrestore" => Some(Rewound::Restored),
        _ => None,
    }
}

fn is_done(task: &TaskInfo) -> bool {
    task.status.as_deref().is_some_and(|status| status == "OK" || status.starts_with("WARNINGS"))
}
