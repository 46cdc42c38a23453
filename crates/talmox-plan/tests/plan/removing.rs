//! VMs that shall go.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{Goal, NoteKind, Observed, Request, Rule, SeenJobs, Step, check};
use talmox_types::desired::{Desired, ExtraDisk};
use talmox_types::{BootstrapWord, ClusterName, Mark, NodeName};

use crate::support::*;

fn names(list: &[&str]) -> BTreeSet<NodeName> {
    list.iter().map(|text| name(text)).collect()
}

/// A description without its last node.
fn without_last(desired: &Desired) -> Desired {
    let mut fewer = desired.clone();
    fewer.nodes.pop();
    fewer
}

#[test]
fn what_is_not_described_is_shown_and_left_alone() {
    let desired = desired(1, 1);
    let observed = converged(&desired);
    let fewer = without_last(&desired);
    let plan = planned(&fewer, &observed, &Request::default());
    assert!(plan.steps.is_empty());
    assert_eq!(plan.notes[0].kind, NoteKind::Undeclared);
    assert_eq!(plan.notes[0].text, "2001 on pve2 is not in the description: left alone (--remove w-1)");
    for request in [
        Request { remove: names(&["w-1"]), ..Request::default() },
        Request { prune: true, ..Request::default() },
    ] {
        let plan = planned(&fewer, &observed, &request);
        assert_eq!(steps(&plan), ["w-1/stop stop", "w-1/remove destroy after w-1/stop"]);
        let gone: Vec<String> =
            plan.steps[1].destroys.iter().map(|volume| volume.volume.to_string()).collect();
        assert_eq!(
            gone,
            ["local-zfs:vm-2001-cloudinit", "local-zfs:vm-2001-disk-1", "local-zfs:vm-2001-disk-0"]
        );
    }
}

#[test]
fn a_pool_that_cannot_be_seen_is_not_said_to_be_gone() {
    let desired = desired(1, 1);
    let destroy = Request { goal: Goal::Destroy, ..Request::default() };
    let mut observed = converged(&desired);
    observed.pool = None;
    let notes = |observed: &Observed| -> Vec<String> {
        let notes = planned(&desired, observed, &destroy).notes;
        notes.into_iter().filter(|note| note.kind == NoteKind::LeftOut).map(|note| note.text).collect()
    };
    assert_eq!(notes(&observed), Vec::<String>::new(), "it is not there");
    observed.rights = observed.rights.clone().without("Pool.Audit");
    let pool = desired.proxmox.pool.as_ref().unwrap();
    let said =
        format!("the pool {pool} stays if it is there: Pool.Audit is missing on /pool/{pool}, to see it");
    assert_eq!(notes(&observed), [said]);
}

/// A description that lost most of its nodes, by a merge gone wrong, is no reason to lose the machines.
#[test]
fn most_of_a_cluster_goes_by_name_alone() {
    let desired = desired(3, 3);
    let observed = converged(&desired);
    let mut fewer = desired.clone();
    fewer.nodes.truncate(2);
    let prune = Request { prune: true, ..Request::default() };
    let plan = planned(&fewer, &observed, &prune);
    assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
    assert_eq!(
        problems(&plan),
        ["--prune would remove 4 of the 6 VMs of this cluster, which is more than half: cp-3, w-1, w-2, w-3"]
    );
    assert!(plan.refusals[0].choices[1].contains("--remove cp-3,w-1,w-2,w-3"), "{:?}", plan.refusals);
    // Half of them may go, and so may what was named.
    let named = Request { remove: names(&["w-3"]), ..prune.clone() };
    assert!(planned(&fewer, &observed, &named).refusals.is_empty());
    fewer.nodes.push(desired.nodes[2].clone());
    assert!(planned(&fewer, &observed, &prune).refusals.is_empty());
}

#[test]
fn a_plan_that_prunes_most_of_a_cluster_is_not_carried_out() {
    let desired = desired(3, 3);
    let observed = converged(&desired);
    let mut fewer = desired.clone();
    fewer.nodes.truncate(2);
    let all = names(&["cp-3", "w-1", "w-2", "w-3"]);
    let plan = planned(&fewer, &observed, &Request { remove: all, ..Request::default() });
    let prune = Request { prune: true, ..Request::default() };
    let caught = check(&plan, &fewer, &observed, &prune);
    assert!(caught.iter().any(|found| found.rule == Rule::AskedFor), "{caught:#?}");
}

/// Nobody knows of a node that is not described whether it votes, and it need not be described to do so.
#[test]
fn a_part_of_what_lives_is_not_destroyed_because_it_is_not_described() {
    let desired = desired(3, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        let mut mark = Mark::of_description(config.description().unwrap()).unwrap();
        let incarnation = mark.incarnation.clone();
        mark.bootstrap = Some(BootstrapWord { incarnation, done: true, snapshot: None });
        config.set("description", &mark);
    });
    let fewer = without_last(&desired);
    for target in ["cp-3", "cp-1"] {
        let request = Request { goal: Goal::Destroy, targets: names(&[target]), ..Request::default() };
        let plan = planned(&fewer, &observed, &request);
        assert!(plan.steps.is_empty(), "{target}: {:?}", steps(&plan));
        assert!(problems(&plan)[0].contains("take its leave from etcd first"), "{:?}", problems(&plan));
    }
    // All that is described, while one that is not goes on.
    let request = Request { goal: Goal::Destroy, targets: names(&["cp-1", "cp-2"]), ..Request::default() };
    assert_eq!(problems(&planned(&fewer, &observed, &request)).len(), 2);
}

/// The uid was copied with the rest of the description: what it was copied from is not this cluster's to destroy.
#[test]
fn a_copied_description_does_not_end_what_it_was_copied_from() {
    let original = desired(3, 1);
    let mut observed = converged(&original);
    observed.depth = talmox_plan::Depth::Everything;
    let mut copy = original.clone();
    copy.name = ClusterName::parse("lab2").unwrap();
    for node in &mut copy.nodes {
        node.name = name(&format!("{}-b", node.name));
    }
    let destroy = Request { goal: Goal::Destroy, ..Request::default() };
    let prune = Request { prune: true, ..Request::default() };
    for request in [destroy.clone(), prune, Request::default()] {
        let plan = planned(&copy, &observed, &request);
        assert!(
            !plan.steps.iter().any(|step| matches!(step.step, Step::RemoveVm { .. })),
            "{:?}",
            steps(&plan)
        );
        assert!(problems(&plan)[0].contains("say that they are of the cluster lab"), "{:?}", problems(&plan));
    }
    // With the same names for its nodes it may be the same cluster under another name, which is said before and known after.
    let mut renamed = original.clone();
    renamed.name = copy.name;
    let plan = planned(&renamed, &observed, &Request::default());
    assert!(plan.refusals.is_empty() && steps(&plan)[0].starts_with("cp-1/configure"), "{plan:#?}");
    assert!(plan.notes.iter().any(|note| note.text.contains("it is renamed")), "{:?}", plan.notes);
    assert_eq!(problems(&planned(&renamed, &observed, &destroy)).len(), 1);
}

#[test]
fn what_is_asked_for_outside_the_targets_is_refused() {
    let desired = desired(1, 2);
    let observed = converged(&desired);
    let fewer = without_last(&desired);
    let targets = names(&["w-1"]);
    let request =
        Request { targets, remove: names(&["w-2"]), replace: names(&["cp-1"]), ..Request::default() };
    let plan = planned(&fewer, &observed, &request);
    assert_eq!(
        problems(&plan),
        ["--replace cp-1: it is not among the targets", "--remove w-2: it is not among the targets"]
    );
    assert!(plan.steps.is_empty());
}

#[test]
fn removal_goes_by_names_that_mean_something() {
    let desired = desired(1, 1);
    let observed = converged(&desired);
    let request = Request { remove: names(&["w-1", "w-9"]), replace: names(&["w-8"]), ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert_eq!(
        problems(&plan),
        [
            "--replace w-8: the description has no such node",
            "--remove w-1: the description still has this node",
        ]
    );
    assert!(plan.steps.is_empty());
    assert_eq!(
        plan.notes[0].text,
        "--remove w-9: no VM of this cluster is called that, so there is nothing to remove"
    );
}

#[test]
fn what_this_run_has_replaced_is_not_replaced_again() {
    let desired = desired(1, 1);
    let mut observed = converged(&desired);
    edit(&mut observed, 2001, |config| {
        let text = config.description().unwrap().replace("aaaa0001", nonce().as_str());
        config.set("description", &text);
        config.remove("smbios1");
    });
    let request = Request { replace: names(&["w-1"]), ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert!(!steps(&plan).iter().any(|step| step.contains("/remove")), "{:?}", steps(&plan));
}

#[test]
fn replacing_keeps_id_and_host() {
    let desired = desired(1, 1);
    let observed = converged(&desired);
    let request = Request { replace: names(&["w-1"]), ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert_eq!(
        steps(&plan),
        [
            "w-1/stop stop",
            "w-1/remove replace after w-1/stop",
            "w-1/clone create after w-1/remove",
            "w-1/configure create after w-1/clone",
            "w-1/grow-disk-scsi0 create after w-1/configure",
            "w-1/start create after w-1/grow-disk-scsi0",
        ]
    );
    let Step::CloneVm { host: on, mark, .. } = &plan.steps[2].step else { panic!() };
    assert_eq!((on, mark.vmid, mark.incarnation.as_str()), (&host("pve2"), id(2001), nonce().as_str()));
}

#[test]
fn control_planes_are_replaced_one_after_the_other() {
    let desired = desired(3, 0);
    let observed = converged(&desired);
    let request = Request { replace: names(&["cp-1", "cp-2"]), ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    let second = steps(&plan).into_iter().find(|step| step.starts_with("cp-2/stop")).unwrap();
    assert_eq!(second, "cp-2/stop stop after cp-1/start");
}

#[test]
fn data_that_shall_stay_stops_a_removal() {
    let mut desired = desired(1, 1);
    let size = 50;
    desired.nodes[1].vm.extra_disks = vec![
        ExtraDisk { slot: 1, size, storage: storage("local-zfs"), keep: true, mount: None },
        ExtraDisk { slot: 2, size, storage: storage("local-zfs"), keep: false, mount: None },
    ];
    let mut observed = converged(&desired);
    edit(&mut observed, 2001, |config| {
        config.set("unused0", "local-zfs:vm-2001-disk-7");
        config.set("scsi9", "local-zfs:vm-9999-pvc-1,size=8G");
    });
    let request = Request { goal: Goal::Destroy, ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert_eq!(
        problems(&plan),
        [
            "scsi1 (local-zfs:vm-2001-disk-2) is to be kept (keep: true) and would go with VM 2001",
            "unused0 (local-zfs:vm-2001-disk-7) is not in the description and would go with VM 2001",
        ]
    );
    let ways: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.choices[1].as_str()).collect();
    assert!(ways[0].contains("take keep: true of this disk out of the description"), "{ways:?}");
    assert!(ways[1].contains("qm disk unlink 2001 --idlist unused0"), "{ways:?}");
    assert_eq!(steps(&plan), ["cp-1/stop stop", "cp-1/remove destroy after cp-1/stop"]);
    edit(&mut observed, 2001, |config| {
        config.remove("unused0");
        config.remove("scsi1");
    });
    let plan = planned(&desired, &observed, &request);
    let Some(Step::RemoveVm { detach, .. }) = plan.steps.iter().rev().map(|step| &step.step).nth(1) else {
        panic!("{plan:?}")
    };
    assert_eq!(detach.iter().map(ToString::to_string).collect::<Vec<_>>(), ["scsi9"]);
}

#[test]
fn what_else_forgets_a_vm_is_named() {
    let desired = desired(1, 1);
    let mut observed = converged(&desired);
    observed.guests.get_mut(&id(2001)).unwrap().ha = Some("started".to_owned());
    let request = Request { goal: Goal::Destroy, targets: names(&["w-1"]), ..Request::default() };
    let purges = |observed: &Observed| {
        let plan = planned(&desired, observed, &request);
        let removal = plan.steps.iter().find_map(|step| match &step.step {
            Step::RemoveVm { purges, .. } => Some(purges.clone()),
            _ => None,
        });
        (removal.unwrap(), plan.notes.iter().any(|note| note.text.starts_with("backup jobs that name")))
    };
    assert_eq!(purges(&observed), (vec!["HA resource vm:2001".to_owned()], false));
    let replications = BTreeMap::from([("2000-0".to_owned(), id(2000)), ("2001-3".to_owned(), id(2001))]);
    observed.jobs = Some(SeenJobs { backups: None, replications: replications.clone() });
    let found = vec!["HA resource vm:2001".to_owned(), "replication job 2001-3".to_owned()];
    assert_eq!(purges(&observed), (found, true));
    let backups = BTreeMap::from([
        ("nightly".to_owned(), BTreeSet::from([id(2000), id(2001)])),
        ("weekly".to_owned(), BTreeSet::from([id(2000)])),
    ]);
    observed.jobs = Some(SeenJobs { backups: Some(backups), replications: BTreeMap::new() });
    let found = vec!["HA resource vm:2001".to_owned(), "backup job nightly".to_owned()];
    assert_eq!(purges(&observed), (found, false));
}

#[test]
fn a_whole_cluster_goes_with_its_pool_and_in_parallel() {
    let desired = desired(3, 0);
    let mut observed = converged(&desired);
    let all = Request { goal: Goal::Destroy, ..Request::default() };
    let plan = planned(&desired, &observed, &all);
    assert_eq!(
        steps(&plan),
        [
            "cp-1/stop stop",
            "cp-1/remove destroy after cp-1/stop",
            "cp-2/stop stop",
            "cp-2/remove destroy after cp-2/stop",
            "cp-3/stop stop",
            "cp-3/remove destroy after cp-3/stop",
            "delete-pool destroy after cp-1/remove cp-2/remove cp-3/remove",
        ]
    );
    let some = Request { targets: names(&["cp-2"]), ..all.clone() };
    assert_eq!(steps(&planned(&desired, &observed, &some)).len(), 2);
    observed.pool.as_mut().unwrap().members.insert("qemu/100".to_owned());
    assert!(!steps(&planned(&desired, &observed, &all)).iter().any(|step| step.starts_with("delete-pool")));
}

#[test]
fn what_is_protected_stays() {
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.protection = true;
    let observed = converged(&desired);
    let plan = planned(&desired, &observed, &Request { goal: Goal::Destroy, ..Request::default() });
    assert_eq!(problems(&plan), ["VM 2000 is protected"]);
    assert!(plan.steps.is_empty());
}

/// The host of a VM does not answer: its name is known, and nothing else.
fn unreadable(observed: &mut talmox_plan::Observed, vmid: u32) {
    let guest = observed.guests.get_mut(&id(vmid)).unwrap();
    guest.config = talmox_plan::Seen::Unreadable("host pve2 is offline".to_owned());
}

#[test]
fn what_is_out_of_reach_is_not_called_gone() {
    let desired = desired(1, 1);
    let mut observed = converged(&desired);
    unreadable(&mut observed, 2001);
    let all = Request { goal: Goal::Destroy, ..Request::default() };
    let one = Request { targets: names(&["w-1"]), ..all.clone() };
    let remove = Request { remove: names(&["w-1"]), ..Request::default() };
    for (desired, request) in [
        (&desired, &all),
        (&desired, &one),
        (&without_last(&desired), &all),
        (&without_last(&desired), &remove),
    ] {
        let plan = planned(desired, &observed, request);
        let waits: Vec<&NodeName> = plan
            .waiting
            .iter()
            .flat_map(|waiting| match waiting {
                talmox_plan::Waiting::HostDown { nodes, .. } => nodes.as_slice(),
                _ => &[],
            })
            .collect();
        assert_eq!(waits, [&name("w-1")], "{request:?}");
        assert!(!plan.steps.iter().any(|step| matches!(step.step, Step::DeletePool { .. })));
        assert!(plan.notes.iter().all(|note| !note.text.contains("nothing to remove")), "{:?}", plan.notes);
    }
}

/// A worker with a disk that is kept, and what was seen of it.
fn with_a_kept_disk() -> (Desired, Observed) {
    let mut desired = desired(1, 1);
    let disk = ExtraDisk { slot: 1, size: 50, storage: storage("local-zfs"), keep: true, mount: None };
    desired.nodes[1].vm.extra_disks = vec![disk];
    let observed = converged(&desired);
    (desired, observed)
}

/// A shelf of `w-1` with so much on it.
fn shelf(vmid: u32, on: &str, more: &[(&'static str, &'static str)]) -> talmox_plan::Guest {
    let mark = talmox_types::Mark { shelf: true, ..mark("w-1", vmid) }.to_string();
    let mut config: talmox_pve::property::VmConfig =
        [("name", "w-1-kept"), ("memory", "64")].into_iter().chain(more.iter().copied()).collect();
    config.set("description", &mark);
    talmox_plan::Guest { power: talmox_plan::Power::Stopped, ..stranger(vmid, on, "w-1-kept", config) }
}

fn replace() -> Request {
    Request { replace: names(&["w-1"]), ..Request::default() }
}

#[test]
fn a_disk_that_is_kept_waits_on_a_shelf() {
    let (desired, observed) = with_a_kept_disk();
    let plan = planned(&desired, &observed, &replace());
    assert_eq!(
        steps(&plan),
        [
            "w-1/stop stop",
            "w-1/make-shelf create after w-1/stop",
            "w-1/move-disk-scsi1-to-shelf change_live after w-1/stop w-1/make-shelf",
            "w-1/remove replace after w-1/move-disk-scsi1-to-shelf",
            "w-1/clone create after w-1/remove",
            "w-1/configure create after w-1/clone",
            "w-1/grow-disk-scsi0 create after w-1/configure",
            "w-1/move-disk-scsi1 change_live after w-1/grow-disk-scsi0 w-1/move-disk-scsi1-to-shelf",
            "w-1/remove-shelf change_live after w-1/move-disk-scsi1",
            "w-1/start create after w-1/remove-shelf",
        ]
    );
}

#[test]
fn what_a_run_left_on_a_shelf_goes_into_the_vm_there_is() {
    let (desired, mut observed) = with_a_kept_disk();
    let held = [("scsi1", "local-zfs:vm-2007-disk-0,size=50G")];
    let there = shelf(2007, "pve2", &held);
    observed.guests.insert(there.vmid, there);
    // Its VM has another disk at the slot already: nobody decides which of them is the right one.
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(problems(&plan), ["VM 2007 keeps a disk for scsi1, where VM 2001 has another one by now"]);
    edit(&mut observed, 2001, |config| {
        config.remove("scsi1");
    });
    let back = ["w-1/move-disk-scsi1 change_live", "w-1/remove-shelf change_live after w-1/move-disk-scsi1"];
    assert_eq!(steps(&planned(&desired, &observed, &Request::default())), back);
    // Nor has it to be there yet.
    let mut gone = observed.clone();
    gone.guests.remove(&id(2001));
    gone.depth = talmox_plan::Depth::Everything;
    let made = steps(&planned(&desired, &gone, &Request::default()));
    assert!(made.iter().any(|step| step.starts_with("w-1/move-disk-scsi1 ")), "{made:?}");
    assert!(!made.iter().any(|step| step.starts_with("w-1/add-disk")), "{made:?}");
    // An empty one goes.
    let empty = shelf(2007, "pve2", &[]);
    let (desired, mut observed) = with_a_kept_disk();
    observed.guests.insert(empty.vmid, empty);
    assert_eq!(steps(&planned(&desired, &observed, &Request::default())), ["w-1/remove-shelf change_live"]);
}

#[test]
fn a_shelf_that_holds_something_does_not_go_with_the_cluster() {
    let (desired, mut observed) = with_a_kept_disk();
    let there = shelf(2007, "pve2", &[("scsi1", "local-zfs:vm-2007-disk-0,size=50G")]);
    observed.guests.insert(there.vmid, there);
    edit(&mut observed, 2001, |config| {
        config.remove("scsi1");
    });
    let request = Request { goal: Goal::Destroy, ..Request::default() };
    let plan = planned(&desired, &observed, &request);
    assert_eq!(problems(&plan), ["VM 2007 holds scsi1, which is to be kept (keep: true)"]);
    let fewer = without_last(&desired);
    let plan = planned(&fewer, &observed, &Request::default());
    let told = "2007 on pve2 holds disks that were kept for w-1, which is not in the description: left alone";
    assert!(plan.notes.iter().any(|note| note.text == told), "{plan:#?}");
    let plan = planned(&fewer, &observed, &Request { prune: true, ..Request::default() });
    assert_eq!(problems(&plan), ["VM 2007 holds scsi1, which is to be kept (keep: true)"]);
}

#[test]
fn plans_that_would_lose_a_kept_disk() {
    use talmox_plan::{Rule, Upkeep, check};
    let (desired, observed) = with_a_kept_disk();
    let good = planned(&desired, &observed, &replace());
    let broken = |plan: &talmox_plan::Plan| -> BTreeSet<Rule> {
        check(plan, &desired, &observed, &replace()).into_iter().map(|violation| violation.rule).collect()
    };
    let is = |word: &str, step: &talmox_plan::Planned| step.id.as_str() == word;
    // The VM goes before its disk was taken off.
    let mut early = good.clone();
    let removal = early.steps.iter_mut().find(|step| is("w-1/remove", step)).unwrap();
    removal.needs = vec![talmox_plan::StepId::new(Some(&name("w-1")), "stop")];
    assert!(broken(&early).contains(&Rule::Volumes));
    // The shelf goes with the disk on it.
    let mut shelf = good.clone();
    let removal = shelf.steps.iter_mut().find(|step| is("w-1/remove-shelf", step)).unwrap();
    removal.needs = vec![talmox_plan::StepId::new(Some(&name("w-1")), "move-disk-scsi1-to-shelf")];
    assert!(broken(&shelf).contains(&Rule::Volumes));
    // The disk is taken from a machine that runs.
    let mut running = good.clone();
    for step in &mut running.steps {
        step.needs.retain(|need| need.as_str() != "w-1/stop");
    }
    assert!(broken(&running).contains(&Rule::Volumes));
    // Another VM than the shelf of the node gets it.
    let mut given = good.clone();
    let moved = given.steps.iter_mut().find(|step| is("w-1/move-disk-scsi1-to-shelf", step)).unwrap();
    let Step::Upkeep(Upkeep::MoveDisk { to, .. }) = &mut moved.step else { panic!() };
    to.mark = mark("cp-1", 2000);
    assert!(broken(&given).contains(&Rule::OursOnly));
    // Nobody asked.
    let asked = check(&good, &desired, &observed, &Request::default());
    assert!(asked.iter().any(|violation| violation.rule == Rule::AskedFor));
}
