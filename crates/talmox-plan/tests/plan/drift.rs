//! Differences that are explained, left alone, or made while the VM runs.

use std::collections::BTreeSet;

use talmox_plan::{NoteKind, Plan, Request, Step};
use talmox_types::desired::{DiskBus, DriftPolicy};

use crate::support::*;

/// The options that differ, as they are told.
fn subs(plan: &Plan) -> Vec<String> {
    let changes = plan.steps.iter().flat_map(|planned| &planned.changes);
    changes.flat_map(|change| change.sub.iter().map(|sub| format!("{} {sub}", change.key))).collect()
}

fn sent(plan: &Plan, key: &str) -> Option<String> {
    plan.steps.iter().find_map(|planned| match &planned.step {
        Step::ConfigureVm { set, .. } => set.get(key).cloned(),
        _ => None,
    })
}

#[test]
fn a_difference_is_told_down_to_the_option() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    desired.nodes[0].vm.nics[0].queues = 8;
    edit(&mut observed, 2000, |config| {
        let disk = config.get("scsi0").unwrap().replace(",ssd=1", "");
        config.set("scsi0", &disk);
        config.set("startup", "order=4,up=30,down=60");
    });
    let plan = planned(&desired, &observed, &Request { allow_reboot: true, ..Request::default() });
    assert_eq!(subs(&plan), ["startup up 30 → 15", "net0 queues 4 → 8", "scsi0 ssd off → on"]);
    let fields: Vec<&str> =
        plan.steps[0].changes.iter().filter_map(|change| change.field.as_deref()).collect();
    assert_eq!(fields, ["vm_startup_delay", "net_queues", "disk_ssd"]);
}

#[test]
fn one_option_is_left_alone_and_the_others_are_not() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    let have = observed.guests[&id(2000)].seen().unwrap().next.get("net0").unwrap().to_owned();
    edit(&mut observed, 2000, |config| {
        config.set("net0", &have.replace("queues=4", "queues=2").replace("vmbr0", "vmbr9"));
    });
    desired.nodes[0].vm.drift.insert("net_queues".to_owned(), DriftPolicy::Show);
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(subs(&plan), ["net0 bridge vmbr9 → vmbr0"]);
    assert_eq!(sent(&plan, "net0").unwrap(), have.replace("queues=4", "queues=2"));
    assert_eq!(plan.notes[0].text, "left alone though different: net0 queues 2, described 4");
    // Nothing else differs: then nothing is sent at all, and what is ignored is not worth a word.
    edit(&mut observed, 2000, |config| {
        config.set("net0", &have.replace("queues=4", "queues=2"));
    });
    desired.nodes[0].vm.drift.insert("net_queues".to_owned(), DriftPolicy::Ignore);
    let plan = planned(&desired, &observed, &Request { allow_reboot: true, ..Request::default() });
    assert!(plan.is_empty() && plan.notes.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
}

#[test]
fn the_nearest_policy_wins_and_a_request_before_all() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        config.set("onboot", "1");
        config.set("protection", "1");
    });
    desired.proxmox.ignore_drift = vec!["protection".to_owned()];
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.is_empty());
    assert_eq!(plan.notes[0].kind, NoteKind::Ignored);
    desired.nodes[0].vm.drift.insert("protection".to_owned(), DriftPolicy::Correct);
    assert_eq!(changes(&planned(&desired, &observed, &Request::default())), ["protection 1 -> 0 now"]);
    let request = Request { ignore_drift: BTreeSet::from(["protection".to_owned()]), ..Request::default() };
    assert!(planned(&desired, &observed, &request).is_empty());
}

#[test]
fn what_cannot_be_changed_can_be_left_alone_but_not_a_disk_of_anothers() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        let disk = config.get("scsi0").unwrap().replace("size=100G", "size=120G");
        config.set("scsi0", &disk);
    });
    assert_eq!(planned(&desired, &observed, &Request::default()).refusals.len(), 1);
    desired.nodes[0].vm.drift.insert("vm_disk_size".to_owned(), DriftPolicy::Ignore);
    assert!(planned(&desired, &observed, &Request::default()).refusals.is_empty());
    edit(&mut observed, 2000, |config| {
        let disk = config.get("scsi0").unwrap().replace("vm-2000-", "vm-150-");
        config.set("scsi0", &disk);
    });
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.refusals[0].problem.contains("belongs to 150"), "{plan:#?}");
}

#[test]
fn memory_is_plugged_where_it_can_be() {
    for (hotplug, numa, wanted, applies) in [
        ("network,disk,memory", "1", 16384, "now"),
        ("network,disk,memory", "1", 4096, "after_reboot"),
        ("network,disk", "1", 16384, "after_reboot"),
        ("0", "1", 16384, "after_reboot"),
        ("1", "1", 16384, "after_reboot"),
    ] {
        let mut desired = desired(1, 0);
        let mut observed = converged(&desired);
        edit(&mut observed, 2000, |config| {
            config.set("hotplug", hotplug);
            config.set("numa", numa);
        });
        desired.nodes[0].vm.memory = wanted;
        let told = format!("memory 8192 -> {wanted} {applies}");
        assert_eq!(changes(&planned(&desired, &observed, &Request::default())), [told], "{hotplug}");
    }
}

#[test]
fn a_balloon_moves_and_the_device_does_not_come_or_go() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        config.set("balloon", "2048");
    });
    desired.nodes[0].vm.balloon = 4096;
    assert_eq!(changes(&planned(&desired, &observed, &Request::default())), ["balloon 2048 -> 4096 now"]);
    desired.nodes[0].vm.balloon = 0;
    assert_eq!(
        changes(&planned(&desired, &observed, &Request::default())),
        ["balloon 2048 -> 0 after_reboot"]
    );
    // A VM that says nothing has the device, and all of its memory.
    edit(&mut observed, 2000, |config| {
        config.remove("balloon");
    });
    desired.nodes[0].vm.balloon = 8192;
    assert!(planned(&desired, &observed, &Request::default()).is_empty());
    desired.nodes[0].vm.balloon = 4096;
    assert_eq!(changes(&planned(&desired, &observed, &Request::default())), ["balloon - -> 4096 now"]);
    // All of the memory it has is not all it will have.
    edit(&mut observed, 2000, |config| {
        config.set("memory", "4096");
    });
    let found = changes(&planned(&desired, &observed, &Request::default()));
    assert!(found.contains(&"balloon - -> 4096 now".to_owned()) && found.len() == 2, "{found:?}");
}

#[test]
fn the_system_disk_may_hang_on_another_bus() {
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.disk_bus = DiskBus::Virtio;
    let mut observed = converged(&desired);
    assert!(planned(&desired, &observed, &Request::default()).is_empty());
    let disk = observed.guests[&id(2000)].seen().unwrap().next.get("virtio0").unwrap().to_owned();
    assert!(!disk.contains("ssd"), "a virtio disk has no such option: {disk}");
    edit(&mut observed, 2000, |config| {
        config.set("virtio0", &disk.replace("size=100G", "size=90G"));
    });
    assert_eq!(
        steps(&planned(&desired, &observed, &Request::default())),
        ["cp-1/grow-disk-virtio0 change_live"]
    );
}
