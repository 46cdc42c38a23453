//! Other people's VMs, and VMs that only look like ours: nothing that is not proven ours is touched, and no node gets a
//! second VM.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use talmox_exec::ApplyError;
use talmox_plan::{NoteKind, Plan, Request};
use talmox_pve::client::Method;
use talmox_sim::{Dump, World};
use talmox_test::{Fault, When};
use talmox_types::Mark;
use talmox_types::desired::Desired;

use crate::chance::Chance;
use crate::line::bed::{Bed, destroy, foreign, ours, reboots};
use crate::line::spec::{Spec, UID};
use crate::line::worlds::fitting;

const POOL: Option<&str> = Some("talmox-lab");

/// A cluster of one control plane and one worker on two hosts, which has been built.
async fn built() -> (Bed, Spec) {
    let spec = Spec::lab(2, 1, 1);
    let bed = Bed::new(fitting(&spec, 5), 5);
    bed.converge(&spec.desired(), &reboots(), 1).await.unwrap();
    tell().await;
    (bed, spec)
}

/// Until the hosts have told each other what they have.
async fn tell() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

/// A VM of somebody else's, with a disk.
fn add_foreign(world: &mut World, host: &str, id: u32, more: &[(&str, &str)]) {
    let disk = format!("local-zfs:vm-{id}-disk-0,size=8G");
    let mut config = BTreeMap::from([("name".to_owned(), "web".to_owned()), ("scsi0".to_owned(), disk)]);
    config.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    world.add_vm(host, id, config, false);
}

fn others(bed: &Bed) -> Dump {
    foreign(&bed.dump(), UID, POOL)
}

/// The VMs of each node by the marks they carry; a mark that is on another VM than its own does not count.
fn vms_of(dump: &Dump) -> BTreeMap<String, Vec<u32>> {
    let mut vms: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for vmid in ours(dump, UID) {
        let mark = Mark::of_description(&dump.vms[&vmid].config["description"]).unwrap();
        if mark.vmid.get() == vmid {
            vms.entry(mark.node.to_string()).or_default().push(vmid);
        }
    }
    vms
}

fn one_each(dump: &Dump, spec: &Spec) {
    let vms = vms_of(dump);
    let names: BTreeSet<&str> = spec.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(vms.keys().map(String::as_str).collect::<BTreeSet<_>>(), names);
    assert!(vms.values().all(|vms| vms.len() == 1), "{vms:?}");
}

fn vm_of(dump: &Dump, node: &str) -> u32 {
    vms_of(dump)[node][0]
}

fn problems(plan: &Plan) -> String {
    plan.refusals.iter().map(|refusal| refusal.problem.clone()).collect::<Vec<_>>().join("; ")
}

/// Neither an apply nor the destruction of the cluster changes these VMs.
async fn stay_untouched(bed: &Bed, desired: &Desired, vms: &[u32]) {
    let look = |bed: &Bed| {
        let dump = bed.dump();
        let volumes =
            dump.volumes.into_iter().filter(|(_, volume)| volume.owner.is_some_and(|id| vms.contains(&id)));
        let kept: BTreeMap<u32, _> = dump.vms.into_iter().filter(|(id, _)| vms.contains(id)).collect();
        (kept, volumes.collect::<BTreeMap<_, _>>())
    };
    let before = look(bed);
    assert_eq!(before.0.len(), vms.len());
    let _ = bed.converge(desired, &reboots(), 0x51).await;
    assert_eq!(look(bed), before, "changed by an apply");
    let _ = bed.converge(desired, &Request { prune: true, ..reboots() }, 0x52).await;
    assert_eq!(look(bed), before, "changed by --prune");
    let _ = bed.converge(desired, &destroy(), 0x53).await;
    assert_eq!(look(bed), before, "changed by destroy");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_somebody_takes_between_plan_and_apply() {
    let spec = Spec::lab(2, 1, 1);
    let desired = spec.desired();
    let bed = Bed::new(fitting(&spec, 5), 5);
    let plan = bed.plan(&desired, &reboots(), 1).await;
    bed.lab.world(|world| add_foreign(world, "pve1", 2000, &[]));
    let before = others(&bed);
    bed.apply(&desired, &reboots(), 1, &plan).await.unwrap();
    assert_eq!(others(&bed), before);
    one_each(&bed.dump(), &spec);
    assert!(bed.plan(&desired, &reboots(), 2).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_vm_of_ours_that_gives_way_to_somebody_elses_between_plan_and_apply() {
    for request in
        [destroy(), reboots(), Request { replace: BTreeSet::from(["cp-1".parse().unwrap()]), ..reboots() }]
    {
        let (bed, mut spec) = built().await;
        spec.nodes[0].memory = 6144;
        let desired = spec.desired();
        let vmid = vm_of(&bed.dump(), "cp-1");
        let plan = bed.plan(&desired, &request, 2).await;
        assert!(plan.refusals.is_empty() && !plan.is_empty());
        let host = bed.dump().vms[&vmid].node.clone();
        bed.lab.world(|world| {
            world.remove_vm(vmid);
            add_foreign(world, &host, vmid, &[("name", "cp-1"), ("tags", "talos")]);
        });
        let before = bed.dump().vms[&vmid].clone();
        let volumes = |bed: &Bed| -> Vec<String> {
            bed.dump()
                .volumes
                .iter()
                .filter(|(_, volume)| volume.owner == Some(vmid))
                .map(|(key, _)| key.clone())
                .collect()
        };
        let held = volumes(&bed);
        let result = bed.apply(&desired, &request, 2, &plan).await;
        assert_eq!(bed.dump().vms[&vmid], before, "{request:?}: {result:?}");
        assert_eq!(volumes(&bed), held, "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn our_tags_and_name_on_a_foreign_vm() {
    let (bed, spec) = built().await;
    bed.lab.world(|world| {
        add_foreign(world, "pve1", 2050, &[("name", "worker-1"), ("tags", "talos"), ("memory", "512")]);
    });
    tell().await;
    let desired = spec.desired();
    assert!(bed.plan(&desired, &reboots(), 2).await.is_empty());
    stay_untouched(&bed, &desired, &[2050]).await;
}

/// Whoever copies a VM of ours in Proxmox's interface copies its mark too.
#[tokio::test(start_paused = true)]
async fn a_clone_made_in_the_interface() {
    let (bed, spec) = built().await;
    let desired = spec.desired();
    let vmid = vm_of(&bed.dump(), "worker-1");
    let host = bed.dump().vms[&vmid].node.clone();
    bed.lab.world(|world| {
        world
            .root_call(
                "POST",
                &format!("/nodes/{host}/qemu/{vmid}/clone"),
                &[("newid", "3000"), ("full", "1")],
            )
            .unwrap();
    });
    tell().await;
    let plan = bed.plan(&desired, &reboots(), 2).await;
    assert!(
        plan.notes.iter().any(|note| note.kind == NoteKind::Copy && note.text.contains("3000")),
        "{:#?}",
        plan.notes
    );
    assert!(problems(&plan).contains("VM 3000"), "it has the node's address: {}", problems(&plan));
    stay_untouched(&bed, &desired, &[3000]).await;
}

/// A restore to a new id keeps everything, the MAC address too.
#[tokio::test(start_paused = true)]
async fn a_backup_restored_to_another_id() {
    let (bed, spec) = built().await;
    let desired = spec.desired();
    let vmid = vm_of(&bed.dump(), "worker-1");
    let saved = bed.dump().vms[&vmid].clone();
    let restored: BTreeMap<String, String> = saved
        .config
        .iter()
        .map(|(key, value)| {
            (
                key.clone(),
                value
                    .replace(&format!("vm-{vmid}-"), "vm-3001-")
                    .replace("base-9000-disk-0/", "")
                    .replace("base-9000-disk-1/", ""),
            )
        })
        .collect();
    bed.lab.world(|world| world.add_vm(&saved.node, 3001, restored, false));
    tell().await;
    let plan = bed.plan(&desired, &reboots(), 2).await;
    assert!(problems(&plan).contains("VM 3001"), "it has the node's MAC address: {}", problems(&plan));
    stay_untouched(&bed, &desired, &[3001]).await;
}

/// Restored over itself it is what it was, as of the day of the backup.
#[tokio::test(start_paused = true)]
async fn a_backup_restored_over_itself() {
    let (bed, mut spec) = built().await;
    let vmid = vm_of(&bed.dump(), "worker-1");
    let saved = bed.dump().vms[&vmid].clone();
    spec.nodes[1].memory = 6144;
    let desired = spec.desired();
    bed.converge(&desired, &reboots(), 2).await.unwrap();
    bed.lab.world(|world| {
        world.remove_vm(vmid);
        let generation = [("vmgenid".to_owned(), "00000000-0000-4000-8000-000000000000".to_owned())];
        world.add_vm(
            &saved.node,
            vmid,
            saved.config.iter().map(|(k, v)| (k.clone(), v.clone())).chain(generation).collect(),
            false,
        );
    });
    let before = others(&bed);
    bed.converge(&desired, &reboots(), 3).await.unwrap();
    one_each(&bed.dump(), &spec);
    let now = bed.dump().vms[&vmid].clone();
    assert_eq!((now.config["memory"].as_str(), now.running), ("6144", true));
    assert_eq!(others(&bed), before);
}

#[tokio::test(start_paused = true)]
async fn notes_that_were_overwritten() {
    let (bed, spec) = built().await;
    let desired = spec.desired();
    let vmid = vm_of(&bed.dump(), "worker-1");
    let host = bed.dump().vms[&vmid].node.clone();
    let path = format!("/nodes/{host}/qemu/{vmid}/config");
    bed.lab.world(|world| world.root_call("PUT", &path, &[("description", "my own notes")]).unwrap());
    let writes = bed.lab.calls().writes().count();
    let plan = bed.plan(&desired, &reboots(), 2).await;
    assert!(problems(&plan).contains("may be this node"), "{}", problems(&plan));
    let remedy = format!("talmox adopt worker-1 --vmid {vmid}");
    assert!(plan.refusals[0].choices[0].ends_with(&remedy), "{plan:#?}");
    assert!(matches!(bed.apply(&desired, &reboots(), 2, &plan).await, Err(ApplyError::Refused { .. })));
    assert_eq!(bed.lab.calls().writes().count(), writes, "nothing is made beside what may be the node");
    stay_untouched(&bed, &desired, &[vmid]).await;
}

/// Whatever somebody writes into the VM after the plan was made: words above the mark stay, another mark keeps us off.
#[tokio::test(start_paused = true)]
async fn notes_that_change_between_plan_and_apply() {
    let (bed, mut spec) = built().await;
    spec.nodes[1].memory = 6144;
    let desired = spec.desired();
    let vmid = vm_of(&bed.dump(), "worker-1");
    let vm = bed.dump().vms[&vmid].clone();
    let path = format!("/nodes/{}/qemu/{vmid}/config", vm.node);
    let plan = bed.plan(&desired, &reboots(), 2).await;
    let mark = vm.config["description"].clone();
    bed.lab.world(|world| {
        world.root_call("PUT", &path, &[("description", &format!("keep an eye on it\n{mark}"))]).unwrap()
    });
    bed.apply(&desired, &reboots(), 2, &plan).await.unwrap();
    let now = bed.dump().vms[&vmid].clone();
    assert_eq!(
        (now.config["memory"].as_str(), now.config["description"].as_str()),
        ("6144", format!("keep an eye on it\n{mark}").as_str())
    );

    spec.nodes[1].memory = 8192;
    let desired = spec.desired();
    let plan = bed.plan(&desired, &reboots(), 3).await;
    let other = mark.replace(UID, "00000000deadbeef");
    bed.lab.world(|world| world.root_call("PUT", &path, &[("description", &other)]).unwrap());
    let before = bed.dump().vms[&vmid].clone();
    let result = bed.apply(&desired, &reboots(), 3, &plan).await;
    assert!(result.is_err(), "{result:?}");
    assert_eq!(bed.dump().vms[&vmid], before);
}

/// What was approved is what one has seen: a description that grew since gets no more than that.
#[tokio::test(start_paused = true)]
async fn a_description_edited_between_plan_and_apply() {
    let (bed, mut spec) = built().await;
    spec.nodes[1].memory = 6144;
    let plan = bed.plan(&spec.desired(), &reboots(), 2).await;
    let grown = Spec::lab(2, 1, 3);
    spec.nodes.extend(grown.nodes[2..].iter().cloned());
    spec.nodes[0].cores = 7;
    let result = bed.apply(&spec.desired(), &reboots(), 2, &plan).await;
    assert!(matches!(result, Err(ApplyError::OutsideApproval { .. })), "{result:?}");
    let dump = bed.dump();
    one_each(&dump, &Spec::lab(2, 1, 1));
    assert_eq!(dump.vms[&vm_of(&dump, "cp-1")].config["cores"], "2");
}

#[tokio::test(start_paused = true)]
async fn two_clusters_of_one_name() {
    let (bed, first) = built().await;
    let mut second = Spec { uid: "1111222233334444".to_owned(), ..first.clone() };
    for node in &mut second.nodes {
        node.address += 50;
    }
    let before = bed.dump();
    bed.converge(&second.desired(), &reboots(), 2).await.unwrap();
    tell().await;
    let mine = |dump: &Dump, uid: &str| -> BTreeMap<u32, talmox_sim::VmDump> {
        let ids = ours(dump, uid);
        dump.vms.iter().filter(|(id, _)| ids.contains(id)).map(|(id, vm)| (*id, vm.clone())).collect()
    };
    assert_eq!(mine(&bed.dump(), UID), mine(&before, UID));
    assert_eq!(ours(&bed.dump(), &second.uid).len(), 2);
    assert!(bed.plan(&first.desired(), &reboots(), 3).await.is_empty());
    assert!(bed.plan(&second.desired(), &reboots(), 4).await.is_empty());
    bed.converge(&first.desired(), &Request { prune: true, ..reboots() }, 5).await.unwrap();
    let before = bed.dump();
    bed.converge(&first.desired(), &destroy(), 6).await.unwrap();
    assert_eq!(mine(&bed.dump(), &second.uid), mine(&before, &second.uid));
    assert!(ours(&bed.dump(), UID).is_empty());
    assert!(bed.plan(&second.desired(), &reboots(), 7).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_migrated_by_hand_stays_where_it_is() {
    let spec = Spec { storage: "ceph-vm", second: "ceph-vm", ..Spec::lab(2, 1, 1) };
    let desired = spec.desired();
    let bed = Bed::new(fitting(&spec, 5), 5);
    bed.converge(&desired, &reboots(), 1).await.unwrap();
    let vmid = vm_of(&bed.dump(), "worker-1");
    let (from, to) = (bed.dump().vms[&vmid].node.clone(), "pve2");
    let to = if from == to { "pve1" } else { to };
    let path = format!("/nodes/{from}/qemu/{vmid}/migrate");
    bed.lab.world(|world| world.root_call("POST", &path, &[("target", to), ("online", "1")]).unwrap());
    tell().await;
    assert_eq!(bed.dump().vms[&vmid].node, to);
    let plan = bed.plan(&desired, &reboots(), 2).await;
    assert!(plan.is_empty() && plan.refusals.is_empty(), "{plan:#?}");
    assert!(plan.notes.iter().any(|note| note.kind == NoteKind::Placement), "{:#?}", plan.notes);
}

/// Between plan and apply it moves: the change finds it, or says that it is gone, and no second one is made.
#[tokio::test(start_paused = true)]
async fn a_vm_that_is_migrated_between_plan_and_apply() {
    let mut spec = Spec { storage: "ceph-vm", second: "ceph-vm", ..Spec::lab(2, 1, 1) };
    let bed = Bed::new(fitting(&spec, 5), 5);
    bed.converge(&spec.desired(), &reboots(), 1).await.unwrap();
    spec.nodes[1].memory = 6144;
    let desired = spec.desired();
    let plan = bed.plan(&desired, &reboots(), 2).await;
    let vmid = vm_of(&bed.dump(), "worker-1");
    let from = bed.dump().vms[&vmid].node.clone();
    let to = if from == "pve1" { "pve2" } else { "pve1" };
    let path = format!("/nodes/{from}/qemu/{vmid}/migrate");
    bed.lab.world(|world| world.root_call("POST", &path, &[("target", to), ("online", "1")]).unwrap());
    tell().await;
    let result = bed.apply(&desired, &reboots(), 2, &plan).await;
    one_each(&bed.dump(), &spec);
    if result.is_err() {
        bed.converge(&desired, &reboots(), 3).await.unwrap();
    }
    assert_eq!(bed.dump().vms[&vmid].config["memory"], "6144");
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_renamed_by_hand() {
    let (bed, spec) = built().await;
    let desired = spec.desired();
    let vmid = vm_of(&bed.dump(), "worker-1");
    let path = format!("/nodes/{}/qemu/{vmid}/config", bed.dump().vms[&vmid].node);
    bed.lab.world(|world| world.root_call("PUT", &path, &[("name", "something-else")]).unwrap());
    tell().await;
    bed.converge(&desired, &reboots(), 2).await.unwrap();
    one_each(&bed.dump(), &spec);
    assert_eq!(bed.dump().vms[&vmid].config["name"], "worker-1");
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_deleted_by_hand() {
    let (bed, spec) = built().await;
    let desired = spec.desired();
    let vmid = vm_of(&bed.dump(), "worker-1");
    bed.lab.world(|world| world.remove_vm(vmid));
    let before = others(&bed);
    bed.converge(&desired, &reboots(), 2).await.unwrap();
    one_each(&bed.dump(), &spec);
    assert_eq!(others(&bed), before);
    // Gone after the plan was made: what it was to get is no longer needed.
    let plan = bed.plan(&desired, &destroy(), 3).await;
    let vmid = vm_of(&bed.dump(), "cp-1");
    bed.lab.world(|world| world.remove_vm(vmid));
    bed.apply(&desired, &destroy(), 3, &plan).await.unwrap();
    assert!(ours(&bed.dump(), UID).is_empty());
    assert_eq!(others(&bed), before);
}

/// Runs at once that know nothing of each other, on a Proxmox that loses replies.
#[tokio::test(start_paused = true)]
async fn two_runs_at_once_on_an_empty_proxmox_with_lost_replies() {
    const RUNS: u64 = 60;
    for seed in 0..RUNS {
        let chance = Chance::new(seed);
        let spec = Spec::lab(2, 1, 3);
        let desired = spec.desired();
        let bed = Bed::new(fitting(&spec, seed), seed);
        for _ in 0..chance.small(0, 6) {
            bed.lab.plan(When::call(chance.number(5, 150)), Fault::ReplyLost);
        }
        let before = others(&bed);
        let (late, request) = (chance.number(0, 2000), reboots());
        let second = async {
            tokio::time::sleep(Duration::from_millis(late)).await;
            bed.converge(&desired, &request, 0xb).await
        };
        let (first, second) = tokio::join!(bed.converge(&desired, &request, 0xa), second);
        let told = format!("seed {seed}: {first:?} {second:?}");
        // Either may have to give way to the other, or be refused for a double that is still there; then it is run again.
        if first.is_err() || second.is_err() {
            bed.converge(&desired, &reboots(), 0xc)
                .await
                .unwrap_or_else(|error| panic!("{told}, then {error}\n{}", bed.lab.calls()));
        }
        one_each(&bed.dump(), &spec);
        assert_eq!(others(&bed), before, "{told}");
        let dump = bed.dump();
        let orphans: Vec<&String> = dump
            .volumes
            .iter()
            .filter(|(_, volume)| volume.owner.is_some_and(|owner| !dump.vms.contains_key(&owner)))
            .map(|(key, _)| key)
            .collect();
        assert!(orphans.is_empty(), "{told}: {orphans:?}");
        assert!(bed.plan(&desired, &reboots(), 0xd).await.is_empty(), "{told}");
    }
}

/// A worker that dies leaves a locked VM without a mark, which only the administrator can remove: that is said, and
/// nothing is made in its place until it is gone.
#[tokio::test(start_paused = true)]
async fn a_worker_killed_while_it_makes_a_vm() {
    let spec = Spec::lab(2, 1, 1);
    let desired = spec.desired();
    let bed = Bed::new(fitting(&spec, 5), 5);
    bed.lab.plan(When::first(Method::Post, "/clone"), Fault::KillWorker { after: Duration::from_millis(20) });
    let error = bed.converge(&desired, &reboots(), 1).await.unwrap_err();
    assert!(error.contains("locked (clone)"), "{error}");
    let left: Vec<u32> =
        bed.dump().vms.iter().filter(|(_, vm)| vm.config.contains_key("lock")).map(|(id, _)| *id).collect();
    assert_eq!(left.len(), 1);
    let remnant = bed.dump().vms[&left[0]].clone();
    let again = bed.converge(&desired, &reboots(), 2).await;
    assert_eq!(bed.dump().vms[&left[0]], remnant, "{again:?}");
    assert!(vms_of(&bed.dump()).values().all(|vms| vms.len() == 1));
    // What its administrator does about it. The remnant's configuration does not name the volumes it has already.
    bed.lab.world(|world| {
        world.set_lock(left[0], None);
        let path = format!("/nodes/{}/qemu/{}", remnant.node, left[0]);
        world.root_call("DELETE", &path, &[("destroy-unreferenced-disks", "1")]).unwrap();
    });
    tell().await;
    bed.converge(&desired, &reboots(), 3).await.unwrap();
    one_each(&bed.dump(), &spec);
    let dump = bed.dump();
    assert!(
        dump.volumes.values().all(|volume| volume.owner.is_none_or(|owner| dump.vms.contains_key(&owner)))
    );
}

/// Somebody else's VM is being made on an id of our range, and never ends.
#[tokio::test(start_paused = true)]
async fn a_stranger_locked_on_an_id_we_want() {
    let spec = Spec::lab(2, 1, 1);
    let desired = spec.desired();
    let bed = Bed::new(fitting(&spec, 5), 5);
    bed.lab.world(|world| {
        add_foreign(world, "pve1", 2000, &[]);
        world.set_lock(2000, Some("create"));
    });
    let before = bed.dump().vms[&2000].clone();
    let result = bed.converge(&desired, &reboots(), 1).await;
    assert_eq!(bed.dump().vms[&2000], before);
    assert!(vms_of(&bed.dump()).values().all(|vms| vms.len() == 1), "{result:?}");
    if let Err(error) = &result {
        assert!(error.contains("2000"), "{error}");
    }
}
