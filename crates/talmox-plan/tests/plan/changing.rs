//! VMs that are there and differ, or do not.

use talmox_plan::{NoteKind, Power, Request, Seen, Waiting};
use talmox_types::desired::{Bios, ExtraDisk, Power as WantedPower};

use crate::support::*;

fn reboots() -> Request {
    Request { allow_reboot: true, ..Request::default() }
}

#[test]
fn what_is_as_described_is_left_alone() {
    let desired = desired(3, 3);
    let plan = planned(&desired, &converged(&desired), &reboots());
    assert!(plan.is_empty() && plan.waiting.is_empty() && plan.notes.is_empty(), "{plan:#?}");
}

#[test]
fn spelling_and_what_others_add_are_no_difference() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        config.set("agent", "1,fstrim_cloned_disks=1");
        config.set("cpu", "cputype=host,flags=+aes");
        config.set("machine", "pc-q35-9.2+pve1");
        config.set("boot", "order=scsi0;ide2;net0");
        config.set("startup", "down=60,up=15,order=4");
        config.set("tags", "mine;talos");
        config.set("net0", "bridge=vmbr0,virtio=bc:24:11:00:07:00,queues=4,rate=5");
        config.set(
            "scsi0",
            "local-zfs:vm-2000-disk-1,ssd=1,discard=on,backup=no,replicate=0,size=100G,cache=writeback",
        );
        config.set("scsi5", "local-zfs:vm-9999-pvc-1,size=8G");
        config.set("vga", "serial0");
        config.set("description", &format!("a note of mine\n{}\n", mark("cp-1", 2000)));
    });
    let plan = planned(&desired, &observed, &reboots());
    assert_eq!(changes(&plan), Vec::<String>::new());
    let foreign: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(foreign, ["scsi5: local-zfs:vm-9999-pvc-1,size=8G is not from the description: left alone"]);
}

#[test]
fn memory_waits_for_a_restart_nobody_allowed() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.memory = 16384;
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan), ["cp-1/configure change_pending"]);
    assert_eq!(changes(&plan), ["memory 8192 -> 16384 after_reboot"]);
    assert!(matches!(&plan.waiting[0], Waiting::Reboot { keys, .. } if *keys == ["memory"]));
    let plan = planned(&desired, &observed, &reboots());
    assert_eq!(steps(&plan), ["cp-1/configure change_pending", "cp-1/reboot reboot after cp-1/configure"]);
}

#[test]
fn what_is_pending_shows_until_the_restart() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    desired.nodes[0].vm.memory = 16384;
    let guest = observed.guests.get_mut(&id(2000)).unwrap();
    let Seen::Read(seen) = &mut guest.config else { panic!() };
    seen.next.set("memory", "16384");
    seen.next.set("vga", "serial0");
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty());
    assert!(matches!(&plan.waiting[0], Waiting::Reboot { keys, .. } if *keys == ["memory"]));
    let plan = planned(&desired, &observed, &reboots());
    assert_eq!(steps(&plan), ["cp-1/reboot reboot"]);
    // What somebody staged against the description is taken back, and needs no restart.
    desired.nodes[0].vm.memory = 8192;
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(changes(&plan), ["memory 16384 -> 8192 now"]);
    assert!(plan.waiting.is_empty());
}

#[test]
fn a_stopped_vm_takes_everything_at_once_and_starts() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    desired.nodes[0].vm.memory = 16384;
    observed.guests.get_mut(&id(2000)).unwrap().power = Power::Stopped;
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan), ["cp-1/configure change_live", "cp-1/start start after cp-1/configure"]);
    desired.nodes[0].vm.power = WantedPower::Stopped;
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan), ["cp-1/configure change_live"]);
}

#[test]
fn what_shall_be_stopped_stops_first() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.power = WantedPower::Stopped;
    desired.nodes[0].vm.cores = 8;
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan), ["cp-1/stop stop", "cp-1/configure change_live after cp-1/stop"]);
}

#[test]
fn control_planes_restart_one_after_the_other() {
    let mut desired = desired(3, 2);
    let observed = converged(&desired);
    for node in &mut desired.nodes {
        node.vm.memory = 16384;
    }
    let plan = planned(&desired, &observed, &reboots());
    let reboots: Vec<String> = steps(&plan).into_iter().filter(|step| step.contains("/reboot")).collect();
    assert_eq!(
        reboots,
        [
            "cp-1/reboot reboot after cp-1/configure",
            "cp-2/reboot reboot after cp-2/configure cp-1/reboot",
            "cp-3/reboot reboot after cp-3/configure cp-2/reboot",
            "w-1/reboot reboot after w-1/configure",
            "w-2/reboot reboot after w-2/configure",
        ]
    );
}

#[test]
fn disks_grow_and_are_added_and_never_shrink() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.disk_size = 200;
    let (size, storage) = (50, storage("local-zfs"));
    desired.nodes[0].vm.extra_disks = vec![ExtraDisk { slot: 1, size, storage, keep: false, mount: None }];
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(
        steps(&plan),
        ["cp-1/grow-disk-scsi0 change_live", "cp-1/add-disk-scsi1 change_live after cp-1/grow-disk-scsi0"]
    );
    assert_eq!(changes(&plan), ["scsi0 100G -> 200G now", "scsi1 - -> 50G on local-zfs now"]);
    desired.nodes[0].vm.disk_size = 50;
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(problems(&plan), ["scsi0 is 100G and cannot shrink to 50G"]);
    assert!(plan.steps.is_empty());
}

#[test]
fn a_disk_somebody_else_hung_there_is_not_ours_to_change() {
    let mut desired = desired(1, 0);
    let mut observed = converged(&desired);
    edit(&mut observed, 2000, |config| {
        config.set("scsi1", "local-zfs:vm-9999-pvc-1,size=10G");
    });
    assert!(planned(&desired, &observed, &Request::default()).is_empty());
    let (size, storage) = (50, storage("local-zfs"));
    desired.nodes[0].vm.extra_disks = vec![ExtraDisk { slot: 1, size, storage, keep: false, mount: None }];
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(
        problems(&plan),
        ["scsi1 holds local-zfs:vm-9999-pvc-1, which belongs to 9999 and not to VM 2000"]
    );
    assert!(plan.steps.is_empty());
}

#[test]
fn firmware_and_storage_do_not_change() {
    let mut desired = desired(2, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.bios = Bios::SeaBios;
    desired.nodes[1].vm.storage = storage("fast");
    let plan = planned(&desired, &observed, &reboots());
    assert_eq!(
        problems(&plan),
        [
            "the firmware is ovmf and cannot become seabios: what is installed would not boot",
            "scsi0 is on local-zfs, the description wants fast",
        ]
    );
    assert!(plan.refusals.iter().all(|refusal| !refusal.choices.is_empty()));
}

#[test]
fn a_network_card_is_not_replugged_by_the_way() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.nics[0].queues = 8;
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
    assert!(matches!(&plan.waiting[0], Waiting::Reboot { keys, .. } if *keys == ["net0"]));
    let plan = planned(&desired, &observed, &reboots());
    assert_eq!(steps(&plan), ["cp-1/configure reboot", "cp-1/reboot reboot after cp-1/configure"]);
    desired.nodes[0].vm.nics[0].queues = 4;
    desired.nodes[0].vm.nics[0].vlan = Some(7);
    let plan = planned(&desired, &observed, &Request::default());
    assert_eq!(steps(&plan), ["cp-1/configure change_live"]);
}

#[test]
fn the_start_order_is_left_out_without_the_right() {
    let mut desired = desired(2, 0);
    let mut observed = converged(&desired);
    observed.rights = everything().without("Sys.Modify");
    desired.nodes[0].vm.startup.order = 9;
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty());
    assert_eq!(plan.notes.iter().filter(|note| note.kind == NoteKind::LeftOut).count(), 1);
}

#[test]
fn what_the_file_says_to_ignore_is_shown_and_left() {
    let mut desired = desired(1, 0);
    let observed = converged(&desired);
    desired.nodes[0].vm.memory = 16384;
    desired.proxmox.ignore_drift = vec!["vm_memory".to_owned()];
    let plan = planned(&desired, &observed, &reboots());
    assert!(plan.is_empty() && plan.waiting.is_empty());
    assert_eq!(plan.notes[0].text, "left alone though different: memory 8192, described 16384");
}

#[test]
fn a_locked_vm_and_a_moved_one() {
    let mut desired = desired(2, 0);
    let mut observed = converged(&desired);
    desired.nodes[0].vm.cores = 8;
    desired.nodes[1].vm.host = Some(host("pve1"));
    observed.guests.get_mut(&id(2000)).unwrap().lock = Some("backup".to_owned());
    let plan = planned(&desired, &observed, &Request::default());
    assert!(plan.steps.is_empty());
    assert!(matches!(&plan.waiting[0], Waiting::Locked { lock, .. } if lock == "backup"));
    assert!(plan.notes.iter().any(|note| note.text.contains("is on pve2, described for pve1")));
}

#[test]
fn a_vm_in_no_pool_joins_it() {
    let desired = desired(1, 0);
    let mut observed = converged(&desired);
    observed.guests.get_mut(&id(2000)).unwrap().pool = None;
    let nothing = planned(&desired, &observed, &Request::default());
    assert!(nothing.is_empty(), "the pool itself says that it is in it: {nothing:#?}");
    observed.pool.as_mut().unwrap().members.clear();
    assert_eq!(steps(&planned(&desired, &observed, &Request::default())), ["cp-1/join-pool change_live"]);
    observed.pool = None;
    assert_eq!(
        steps(&planned(&desired, &observed, &Request::default())),
        ["create-pool create", "cp-1/join-pool change_live after create-pool"]
    );
}

#[test]
fn a_protected_vm_keeps_its_cloud_init_drive() {
    let mut desired = desired(1, 0);
    desired.nodes[0].vm.protection = true;
    let observed = converged(&desired);
    desired.nodes[0].vm.cloud_init = false;
    let plan = planned(&desired, &observed, &reboots());
    assert!(plan.refusals[0].problem.contains("protected"), "{:#?}", plan.refusals);
    // A protection that goes with the same plan is no obstacle.
    desired.nodes[0].vm.protection = false;
    let plan = planned(&desired, &observed, &reboots());
    assert!(plan.refusals.is_empty() && !plan.steps.is_empty(), "{plan:#?}");
}
