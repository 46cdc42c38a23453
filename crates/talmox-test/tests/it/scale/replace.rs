//! Nodes that are built anew, sick or dead ones among them.

use std::time::Duration;

use talmox_plan::HostsRequest;
use talmox_sim::Reach;
use talmox_sim_talos::{MachineId, Trouble};
use talmox_test::Lab;

use crate::scale::bed::{Bed, described, healthy};
use crate::scale::support::*;

/// Pulls a VM out from under its node.
async fn delete(bed: &Bed, vmid: u32) {
    let (client, host, vmid) = (bed.lab.root(), talmox_test::host(1), talmox_test::vmid(vmid));
    let task = client.stop_vm(&host, vmid, false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    let task = client.delete_vm(&host, vmid, true).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_control_planes_but_one_at_a_time() {
    let bed = living(71, 3, 1).await;
    let request = replacing(&["cp-1", "cp-2", "cp-3"]);
    let plan = bed.plan(&request).await;
    // Who leads goes last.
    let leader = bed.etcd().await.leader().unwrap().to_string();
    let drains = plan.steps.iter().filter(|step| step.id.as_str().ends_with("/drain"));
    let order: Vec<String> = drains.filter_map(|step| Some(step.node.as_ref()?.to_string())).collect();
    assert_eq!((order.len(), order.last()), (3, Some(&leader)));
    for pair in order.windows(2) {
        let next = plan.steps.iter().find(|step| step.id.as_str() == format!("{}/drain", pair[1])).unwrap();
        let before = format!("{}/return", pair[0]);
        assert!(next.needs.iter().any(|need| need.as_str() == before), "{next:?}");
    }
    carried_out(&bed, &request, 2).await;
    bed.is_healthy().await;
    assert_eq!((bed.accepted("EtcdLeaveCluster"), bed.accepted("Bootstrap")), (3, 1));
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_its_name_and_address() {
    let bed = living(72, 1, 1).await;
    carried_out(&bed, &replacing(&["worker-1"]), 2).await;
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_whose_vm_somebody_deleted_is_forgotten_first() {
    let bed = living(73, 3, 0).await;
    delete(&bed, 2002).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let plan = bed.plan(&healthy()).await;
    let steps = steps(&plan);
    assert_eq!(steps[..2], ["snapshot-etcd", "cp-3/forget"], "{steps:?}");
    let clone = plan.steps.iter().find(|step| step.id.as_str() == "cp-3/clone").unwrap();
    assert!(clone.needs.iter().any(|need| need.as_str() == "cp-3/forget"));
    carried_out(&bed, &healthy(), 2).await;
    bed.is_healthy().await;
    assert_eq!((bed.accepted("EtcdRemoveMemberByID"), bed.accepted("Bootstrap")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_sick_one_that_does_not_answer() {
    let bed = living(74, 3, 0).await;
    bed.lab.nodes(|nodes| {
        nodes.faults.trouble(MachineId(2001), Trouble::NeverBoots);
    });
    let client = bed.lab.root();
    let (host, vmid) = (talmox_test::host(1), talmox_test::vmid(2001));
    let task = client.reset_vm(&host, vmid).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    let request = replacing(&["cp-2"]);
    let plan = bed.plan(&request).await;
    assert_eq!(steps(&plan)[..4], ["snapshot-etcd", "cp-2/stop", "cp-2/remove", "cp-2/forget"], "{plan:#?}");
    bed.lab.nodes(|nodes| nodes.faults.mend(MachineId(2001)));
    carried_out(&bed, &request, 2).await;
    bed.is_healthy().await;
}

/// Three of five are a quorum, and the dead need not wait for each other.
#[tokio::test(start_paused = true)]
async fn two_dead_ones_of_five() {
    let bed = living(78, 5, 0).await;
    for vmid in [2001, 2003] {
        let client = bed.lab.root();
        let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(vmid), false).await.unwrap();
        bed.lab.done(&client, &task).await.unwrap();
    }
    tokio::time::sleep(Duration::from_mins(2)).await;
    carried_out(&bed, &replacing(&["cp-2", "cp-4"]), 2).await;
    bed.is_healthy().await;
    assert_eq!(known(&bed).await.0, set(&["cp-1", "cp-2", "cp-3", "cp-4", "cp-5"]));
    assert_eq!((bed.accepted("EtcdRemoveMemberByID"), bed.accepted("Bootstrap")), (2, 1));
}

/// A run that ends before a node could join again would leave etcd with one member less for each.
#[tokio::test(start_paused = true)]
async fn none_that_would_not_join_again() {
    let bed = living(79, 3, 0).await;
    let request =
        talmox_plan::Request { until: talmox_plan::Until::Reachable, ..replacing(&["cp-1", "cp-2"]) };
    let plan = bed.plan(&request).await;
    assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
    assert_eq!(problems(&plan), ["it would leave etcd, and with --until reachable not join again"; 2]);
}

#[tokio::test(start_paused = true)]
async fn one_whose_host_is_gone_for_good() {
    let bed = Bed::in_lab(Lab::three_hosts(75).with_nodes(), described(3, 0, ""));
    let bed = of(bed).await;
    let observed = bed.look(&healthy()).await;
    let guest = observed.guests.values().find(|guest| guest.name.as_deref() == Some("cp-3")).unwrap();
    let (lost, vmid) = (guest.host.clone(), guest.vmid.get());
    down(&bed, lost.as_str(), vmid);
    tokio::time::sleep(Duration::from_mins(2)).await;
    // Without a word for it the host may come back, and a plain run waits for it.
    let plan = bed.plan(&replacing(&["cp-3"])).await;
    assert!(plan.steps.is_empty(), "{plan:#?}");
    assert!(problems(&plan)[0].contains("it would come back with it"), "{plan:#?}");
    let plan = bed.plan(&healthy()).await;
    assert!(plan.refusals.is_empty() && !plan.waiting.is_empty(), "{plan:#?}");
    let gone = HostsRequest { gone: [lost.clone()].into(), ..HostsRequest::default() };
    let request = talmox_plan::Request { hosts: gone, ..replacing(&["cp-3"]) };
    let plan = bed.plan(&request).await;
    assert_eq!(steps(&plan)[..2], ["snapshot-etcd", "cp-3/forget"], "{plan:#?}");
    carried_out(&bed, &request, 2).await;
    let observed = bed.look(&request).await;
    let places: Vec<String> = observed
        .guests
        .values()
        .filter(|guest| guest.name.as_deref() == Some("cp-3") && guest.host != lost)
        .map(|guest| guest.host.to_string())
        .collect();
    assert_eq!(places.len(), 1, "{places:?}");
    assert_eq!(known(&bed).await.0, set(&["cp-1", "cp-2", "cp-3"]));
    // The host is back all the same, and with it the VM that was given up: the one that lives stays, though its id is the higher.
    bed.lab.world(|world| {
        world.nodes.get_mut(lost.as_str()).unwrap().reach = Reach::Up;
        world.root_call("POST", &format!("/nodes/{lost}/qemu/{vmid}/status/stop"), &[]).unwrap();
    });
    tokio::time::sleep(Duration::from_mins(2)).await;
    let plan = bed.plan(&healthy()).await;
    let (stays, goes) =
        (format!("({}, runs) stays", places[0]), format!("{vmid} ({lost}, stopped) should not be"));
    assert!(problems(&plan)[0].contains(&stays) && problems(&plan)[0].contains(&goes), "{plan:#?}");
    let view = talmox_plan::view(&bed.desired, &bed.look(&healthy()).await);
    let shown = view.nodes.iter().find(|node| node.node.as_str() == "cp-3").unwrap();
    assert_eq!(
        (shown.host.as_ref().unwrap().as_str(), shown.power),
        (places[0].as_str(), Some(talmox_plan::Power::Running))
    );
}

/// A host goes down with a machine on it.
fn down(bed: &Bed, host: &str, vmid: u32) {
    bed.lab.world(|world| world.nodes.get_mut(host).unwrap().reach = Reach::Unreachable);
    bed.lab.nodes(|nodes| nodes.power_off(MachineId(vmid)));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_answers_is_not_gone() {
    let bed = living(76, 1, 1).await;
    let gone = HostsRequest { gone: [talmox_test::host(1)].into(), ..HostsRequest::default() };
    let plan = bed.plan(&talmox_plan::Request { hosts: gone, ..replacing(&["worker-1"]) }).await;
    assert_eq!(problems(&plan), ["--host-gone pve1: Proxmox says that it is online"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_rolled_back_is_not_simply_started_again() {
    let bed = living(77, 3, 0).await;
    let root = |path: &str, parameters: &[(&str, &str)]| {
        let path = format!("/nodes/pve1/qemu/2001/{path}");
        bed.lab.world(|world| world.root_call("POST", &path, parameters).unwrap());
    };
    root("snapshot", &[("snapname", "before")]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    root("status/stop", &[]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    // A snapshot alone says nothing: the machine is where it was.
    let plan = bed.plan(&healthy()).await;
    assert!(steps(&plan).contains(&"cp-2/start"), "{plan:#?}");
    root("snapshot/before/rollback", &[]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let plan = bed.plan(&healthy()).await;
    assert!(problems(&plan)[0].contains("was rolled back to a snapshot and has not run since"), "{plan:#?}");
    assert!(plan.refusals[0].choices[0].contains("talmox apply --replace cp-2"), "{plan:#?}");
    // Somebody else starts it: it runs, and fails for ever.
    root("status/start", &[]);
    tokio::time::sleep(Duration::from_mins(3)).await;
    let plan = bed.plan(&healthy()).await;
    let told = plan.notes.iter().find(|note| note.text.contains("was rolled back to a snapshot and runs"));
    assert!(told.is_some_and(|note| note.text.contains("talmox apply --replace cp-2")), "{plan:#?}");
    carried_out(&bed, &replacing(&["cp-2"]), 2).await;
    bed.is_healthy().await;
    // The VM that took its place has the id of the old one, and nothing of its past.
    let plan = bed.plan(&healthy()).await;
    let past = plan.notes.iter().any(|note| note.text.contains("rolled back"));
    assert!(plan.is_empty() && !past, "{plan:#?}");
}

/// What somebody does to a VM in Proxmox, until it is done.
async fn by_hand(bed: &Bed, vmid: u32, what: &str, parameters: &[(&str, &str)]) {
    let path = format!("/nodes/pve1/qemu/{vmid}/{what}");
    bed.lab.world(|world| world.root_call("POST", &path, parameters).unwrap());
    tokio::time::sleep(Duration::from_mins(1)).await;
}

/// Nobody answers, and yet two others remember what was agreed on.
#[tokio::test(start_paused = true)]
async fn one_that_was_rolled_back_while_all_are_off_is_not_started_either() {
    let bed = living(81, 3, 0).await;
    by_hand(&bed, 2001, "snapshot", &[("snapname", "before")]).await;
    for vmid in [2000, 2001, 2002] {
        by_hand(&bed, vmid, "status/stop", &[]).await;
    }
    by_hand(&bed, 2001, "snapshot/before/rollback", &[]).await;
    let vms = talmox_plan::Request { until: talmox_plan::Until::Vms, ..healthy() };
    for request in [healthy(), vms] {
        let plan = bed.plan(&request).await;
        assert!(
            problems(&plan)[0].contains("was rolled back to a snapshot and has not run since"),
            "{plan:#?}"
        );
        assert!(steps(&plan).contains(&"cp-1/start") && !steps(&plan).contains(&"cp-2/start"), "{plan:#?}");
    }
    let plan = bed.plan(&replacing(&["cp-2"])).await;
    assert!(problems(&plan)[0].contains("it would not have left etcd"), "{plan:#?}");
    // The way the plan names.
    let others = talmox_plan::Request { targets: names(&["cp-1", "cp-3"]), ..healthy() };
    carried_out(&bed, &others, 2).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    carried_out(&bed, &replacing(&["cp-2"]), 3).await;
    bed.is_healthy().await;
    assert_eq!((bed.accepted("EtcdRemoveMemberByID"), bed.accepted("Bootstrap")), (1, 1));
}

/// A cluster that was put back as a whole is of one moment, and goes on from there.
#[tokio::test(start_paused = true)]
async fn all_that_were_rolled_back_are_started_together() {
    let bed = living(82, 3, 0).await;
    for vmid in [2000, 2001, 2002] {
        by_hand(&bed, vmid, "status/stop", &[]).await;
        by_hand(&bed, vmid, "snapshot", &[("snapname", "before")]).await;
    }
    for vmid in [2000, 2001, 2002] {
        by_hand(&bed, vmid, "snapshot/before/rollback", &[]).await;
    }
    let plan = bed.plan(&healthy()).await;
    assert!(problems(&plan).is_empty(), "{plan:#?}");
    let told = plan.notes.iter().filter(|note| note.text.contains("they are started together"));
    assert_eq!(told.count(), 1, "{plan:#?}");
    carried_out(&bed, &healthy(), 2).await;
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn that_the_cluster_was_bootstrapped_is_not_forgotten_with_the_vm_that_says_so() {
    let bed = living(79, 3, 0).await;
    let said = async |bed: &Bed| -> Vec<String> {
        let observed = bed.look(&healthy()).await;
        let identities = talmox_plan::identify(&bed.desired, &observed);
        let done =
            identities.ours().filter(|owned| owned.mark.bootstrap.as_ref().is_some_and(|word| word.done));
        done.map(|owned| owned.mark.node.to_string()).collect()
    };
    assert_eq!(said(&bed).await, ["cp-1"]);
    carried_out(&bed, &replacing(&["cp-1"]), 2).await;
    bed.is_healthy().await;
    assert!(said(&bed).await.len() >= 2);
    // All of them at once: it goes from hand to hand.
    carried_out(&bed, &replacing(&["cp-1", "cp-2", "cp-3"]), 3).await;
    bed.is_healthy().await;
    assert!(!said(&bed).await.is_empty());
    // So a cluster whose data is lost is not taken for a new one.
    for address in ["10.0.7.11", "10.0.7.12", "10.0.7.13"] {
        let machine = bed.machine(address);
        bed.lab.nodes(|nodes| nodes.lose_etcd(machine));
    }
    let plan = bed.plan(&healthy()).await;
    assert!(problems(&plan).iter().any(|problem| problem.contains("was bootstrapped before")), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_does_not_vanish_from_under_its_cluster() {
    let bed = living(80, 3, 1).await;
    let destroy = |nodes: &[&str]| talmox_plan::Request {
        goal: talmox_plan::Goal::Destroy,
        targets: names(nodes),
        ..talmox_plan::Request::default()
    };
    let plan = bed.plan(&destroy(&["cp-2"])).await;
    assert!(plan.steps.is_empty(), "{plan:#?}");
    let choices = plan.refusals[0].choices.join("\n");
    assert!(choices.contains("talmox apply --remove cp-2"), "{choices}");
    assert!(bed.plan(&destroy(&["worker-1"])).await.refusals.is_empty());
    assert!(bed.plan(&destroy(&[])).await.refusals.is_empty());
    assert!(bed.plan(&destroy(&["cp-1", "cp-2", "cp-3"])).await.refusals.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_somebody_stops_on_its_way_back_is_not_waited_for() {
    let bed = living(90, 1, 2).await;
    let begun = tokio::time::Instant::now();
    let request = replacing(&["worker-2"]);
    let stops = async {
        // As soon as it is there again, somebody switches it off for good.
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Once it was configured when the cluster came up, and once now.
            if bed.told.lines().iter().filter(|line| *line == "worker-2/configure-node done").count() == 2 {
                break;
            }
        }
        let (client, host, vmid) = (bed.lab.root(), talmox_test::host(1), talmox_test::vmid(2002));
        let task = client.stop_vm(&host, vmid, false).await.unwrap();
        bed.lab.done(&client, &task).await.unwrap();
    };
    let (end, ()) = futures_util::future::join(bed.converge(&request, 2), stops).await;
    let error = end.unwrap_err();
    assert!(error.contains("VM 2002 on pve1 is stopped, and nobody starts it"), "{error}");
    assert!(begun.elapsed() < Duration::from_mins(14), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_template_of_the_past_are_built_anew_only_when_asked() {
    let mut bed = living(78, 1, 2).await;
    let extensions = "schematic: {extensions: [siderolabs/qemu-guest-agent, siderolabs/iscsi-tools]}";
    bed.desired = described(1, 2, extensions);
    // Nothing but the workers: the only control plane cannot be.
    let workers = names(&["worker-1", "worker-2"]);
    let vms = talmox_plan::Request { targets: workers, until: talmox_plan::Until::Vms, ..healthy() };
    let plan = bed.plan(&vms).await;
    let told = plan.notes.iter().find(|note| note.text.contains("--roll template")).unwrap();
    assert!(told.text.contains(": worker-1, worker-2 ("), "{told:?}");
    assert!(plan.is_empty(), "{plan:#?}");
    let rolled = talmox_plan::Request { roll_templates: true, ..vms.clone() };
    carried_out(&bed, &rolled, 2).await;
    let plan = bed.plan(&rolled).await;
    assert!(plan.is_empty(), "they are not built anew again: {plan:#?}");
    let everybody = talmox_plan::Request { targets: names(&[]), ..vms };
    let plan = bed.plan(&everybody).await;
    let told = plan.notes.iter().find(|note| note.text.contains("--roll template")).unwrap();
    assert!(told.text.contains(": cp-1 ("), "{told:?}");
}
