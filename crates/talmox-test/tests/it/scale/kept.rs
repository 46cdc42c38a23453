//! Disks that outlive their VM.

use std::time::Duration;

use talmox_plan::{Goal, HostsRequest, Request};
use talmox_sim::Reach;
use talmox_sim_talos::MachineId;
use talmox_test::Lab;
use talmox_types::StorageId;
use talmox_types::desired::{Desired, ExtraDisk};

use crate::scale::bed::{Bed, described, healthy};
use crate::scale::support::*;

/// Every node has a disk that is kept and one that is not.
pub(crate) fn described_with_disks() -> Desired {
    on_storage("local-zfs")
}

fn on_storage(storage: &str) -> Desired {
    let mut desired = described(3, 1, "");
    for node in &mut desired.nodes {
        let storage = StorageId::parse(storage).unwrap();
        node.vm.extra_disks = vec![
            ExtraDisk { slot: 1, size: 10, storage: storage.clone(), keep: true, mount: None },
            ExtraDisk { slot: 2, size: 5, storage, keep: false, mount: None },
        ];
    }
    desired
}

fn world(bed: &Bed) -> serde_json::Value {
    bed.lab.world(|world| serde_json::from_str(&world.save()).unwrap())
}

/// What the simulator knows a disk by, whatever it is called by now.
pub(crate) fn disk_at(bed: &Bed, node: &str, slot: &str) -> Option<u64> {
    let world = world(bed);
    let (_, vm) = find(&world, "vms").find(|(_, vm)| vm["config"]["name"] == node)?;
    let volid = vm["config"][slot].as_str()?.split(',').next()?.to_owned();
    let (_, volume) = find(&world, "all").find(|(_, volume)| volume["volid"] == volid.as_str())?;
    volume["id"].as_u64()
}

/// Ids of VMs that hold disks of others.
pub(crate) fn shelves(bed: &Bed) -> Vec<u32> {
    let world = world(bed);
    let kept = find(&world, "vms")
        .filter(|(_, vm)| vm["config"]["name"].as_str().is_some_and(|name| name.ends_with("-kept")));
    kept.filter_map(|(id, _)| id.parse().ok()).collect()
}

/// The entries of the first table of this name, wherever it is.
fn find<'a>(
    value: &'a serde_json::Value,
    name: &str,
) -> Box<dyn Iterator<Item = (&'a String, &'a serde_json::Value)> + 'a> {
    let table = table(value, name);
    Box::new(table.into_iter().flatten())
}

fn table<'a>(
    value: &'a serde_json::Value,
    name: &str,
) -> Option<&'a serde_json::Map<String, serde_json::Value>> {
    let object = value.as_object()?;
    if let Some(found) = object.get(name).and_then(serde_json::Value::as_object) {
        return Some(found);
    }
    object.values().find_map(|inner| table(inner, name))
}

#[tokio::test(start_paused = true)]
async fn are_carried_over_to_the_vm_that_takes_its_place() {
    let bed = of(Bed::new(84, described_with_disks())).await;
    let (kept, other) = (disk_at(&bed, "worker-1", "scsi1"), disk_at(&bed, "worker-1", "scsi2"));
    assert!(kept.is_some() && other.is_some());
    let request = replacing(&["worker-1"]);
    let plan = bed.plan(&request).await;
    assert_eq!(
        steps(&plan),
        [
            "worker-1/drain",
            "worker-1/retire",
            "worker-1/stop",
            "worker-1/make-shelf",
            "worker-1/move-disk-scsi1-to-shelf",
            "worker-1/remove",
            "worker-1/forget",
            "worker-1/clone",
            "worker-1/configure",
            "worker-1/grow-disk-scsi0",
            "worker-1/add-disk-scsi2",
            "worker-1/move-disk-scsi1",
            "worker-1/remove-shelf",
            "worker-1/start",
            "worker-1/configure-node",
            "worker-1/return",
            "await-health",
        ]
    );
    let removal = plan.steps.iter().find(|step| step.id.as_str() == "worker-1/remove").unwrap();
    assert!(removal.destroys.iter().all(|volume| volume.slot.to_string() != "scsi1"), "{removal:?}");
    carried_out(&bed, &request, 2).await;
    bed.is_healthy().await;
    assert_eq!(disk_at(&bed, "worker-1", "scsi1"), kept);
    assert_ne!(disk_at(&bed, "worker-1", "scsi2"), other);
    assert!(shelves(&bed).is_empty());
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn go_along_to_another_host_if_it_sees_them() {
    let mut bed = of(Bed::in_lab(Lab::three_hosts(85).with_nodes(), on_storage("shared"))).await;
    bed.lab.world(crate::scale::hosts::may_move);
    let kept = disk_at(&bed, "worker-1", "scsi1");
    let there = host_of(&bed, "worker-1").await;
    let elsewhere = bed.look(&healthy()).await.hosts.into_keys().find(|host| *host != there).unwrap();
    bed.desired.nodes[3].vm.host = Some(elsewhere.clone());
    carried_out(&bed, &replacing(&["worker-1"]), 2).await;
    bed.is_healthy().await;
    assert_eq!((host_of(&bed, "worker-1").await, disk_at(&bed, "worker-1", "scsi1")), (elsewhere, kept));
    assert!(shelves(&bed).is_empty());
}

async fn host_of(bed: &Bed, node: &str) -> talmox_types::HostName {
    let observed = bed.look(&healthy()).await;
    let mut guests = observed.guests.into_values();
    guests.find(|guest| guest.name.as_deref() == Some(node)).unwrap().host
}

#[tokio::test(start_paused = true)]
async fn that_only_one_host_has_keep_the_vm_there() {
    let mut bed = of(Bed::in_lab(Lab::three_hosts(86).with_nodes(), described_with_disks())).await;
    let there = host_of(&bed, "worker-1").await;
    let elsewhere = bed.look(&healthy()).await.hosts.into_keys().find(|host| *host != there).unwrap();
    bed.desired.nodes[3].vm.host = Some(elsewhere.clone());
    let plan = bed.plan(&replacing(&["worker-1"])).await;
    let problem = problems(&plan)[0];
    assert!(
        problem.contains(&format!("which only {there} has: it cannot come along to {elsewhere}")),
        "{problem}"
    );
    assert!(steps(&plan).iter().all(|step| !step.starts_with("worker-1/")), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn of_a_host_that_is_gone_are_lost_with_it_unless_others_see_them() {
    for (seed, storage) in [(87, "local-zfs"), (88, "shared")] {
        let bed = of(Bed::in_lab(Lab::three_hosts(seed).with_nodes(), on_storage(storage))).await;
        let observed = bed.look(&healthy()).await;
        let guest = observed.guests.values().find(|guest| guest.name.as_deref() == Some("worker-1")).unwrap();
        let (lost, vmid) = (guest.host.clone(), guest.vmid.get());
        let others = observed.guests.values().filter(|guest| guest.host == lost && !guest.template);
        let off: Vec<u32> = others.map(|guest| guest.vmid.get()).collect();
        assert!(off.contains(&vmid));
        bed.lab.world(|world| world.nodes.get_mut(lost.as_str()).unwrap().reach = Reach::Unreachable);
        bed.lab.nodes(|nodes| off.iter().for_each(|id| nodes.power_off(MachineId(*id))));
        tokio::time::sleep(Duration::from_mins(2)).await;
        let hosts = HostsRequest { gone: [lost.clone()].into(), ..HostsRequest::default() };
        let plan = bed.plan(&Request { hosts, ..replacing(&["worker-1"]) }).await;
        let told = |text: &str| plan.notes.iter().any(|note| note.text.contains(text));
        let refused = problems(&plan).iter().any(|problem| problem.contains("would get an empty disk"));
        assert_eq!(refused, storage == "shared", "{plan:#?}");
        assert_eq!(told(&format!("is lost with {lost}, though it was to be kept")), !refused, "{plan:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn are_in_the_way_of_a_removal_and_of_snapshots() {
    let bed = of(Bed::new(89, described_with_disks())).await;
    let destroy = Request { goal: Goal::Destroy, ..Request::default() };
    let plan = bed.plan(&destroy).await;
    assert_eq!(plan.refusals.len(), 4, "{plan:#?}");
    assert!(problems(&plan)[0].contains("is to be kept (keep: true) and would go with VM 2000"), "{plan:#?}");
    bed.lab.world(|world| {
        world.root_call("POST", "/nodes/pve1/qemu/2003/snapshot", &[("snapname", "before")]).unwrap()
    });
    tokio::time::sleep(Duration::from_mins(1)).await;
    let plan = bed.plan(&replacing(&["worker-1"])).await;
    assert!(problems(&plan)[0].contains("VM 2003 has snapshots (the last is before)"), "{plan:#?}");
}
