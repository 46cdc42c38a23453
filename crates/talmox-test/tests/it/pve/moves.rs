//! Copies, disks and VMs that move.

use serde_json::Value;
use talmox_pve::client::{CloneKind, CloneVm, Migration, MoveDisk, Params, VmPower};
use talmox_pve::property::Slot;
use talmox_test::{Lab, host, storage, vmid};

use crate::pve::support::{make, make_running, told, told_task};

fn copy(newid: u32, kind: CloneKind) -> CloneVm {
    CloneVm {
        newid: vmid(newid),
        name: Some(format!("node-{newid}")),
        description: None,
        pool: None,
        target: None,
        kind,
    }
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_template() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    let template = client.vm_config(&host(1), vmid(9000)).await.unwrap();
    assert!(template.is_template());
    assert_eq!(template.get("scsi0"), Some("local-zfs:base-9000-disk-1,discard=on,size=8G,ssd=1"));
    assert!(client.vm_feature(&host(1), vmid(9000), "clone").await.unwrap().has_feature);
    let full = CloneKind::Full { storage: Some(storage("local")), format: Some("qcow2".to_owned()) };
    for clone in [copy(100, CloneKind::Linked), copy(101, full)] {
        let task = client.clone_vm(&host(1), vmid(9000), &clone).await.unwrap();
        assert_eq!((task.kind(), task.id()), ("qmclone", "9000"), "a clone's task has the source's id");
        lab.done(&client, &task).await.unwrap();
    }
    let (linked, full) = (
        client.vm_config(&host(1), vmid(100)).await.unwrap(),
        client.vm_config(&host(1), vmid(101)).await.unwrap(),
    );
    assert_eq!(
        linked.get("scsi0"),
        Some("local-zfs:base-9000-disk-1/vm-100-disk-1,discard=on,size=8G,ssd=1")
    );
    assert!(full.get("scsi0").unwrap().starts_with("local:101/vm-101-disk-"), "{full:?}");
    assert_eq!((linked.name(), linked.is_template()), (Some("node-100"), false));
    let macs =
        [&template, &linked, &full].map(|vm| vm.net_devices().unwrap().values().next().unwrap().mac.unwrap());
    assert!(macs[0] != macs[1] && macs[1] != macs[2], "every copy has its own address");
    assert_ne!(template.smbios().unwrap(), linked.smbios().unwrap());
    // The template cannot go while a linked clone stands on it.
    let task = client.delete_vm(&host(1), vmid(9000), false).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(InUse)]
    error: qmdestroy of 9000 failed: base volume 'local-zfs:base-9000-disk-0' is still in use by linked cloned (task UPID:pve1:…:qmdestroy:9000:)
    log: TASK ERROR: base volume 'local-zfs:base-9000-disk-0' is still in use by linked cloned
    hint: the whole log: `pvenode task log UPID:pve1:…:qmdestroy:9000:` on pve1
    ");
    for id in [100, 9000] {
        let task = client.delete_vm(&host(1), vmid(id), false).await.unwrap();
        lab.done(&client, &task).await.unwrap();
    }
    let error = client.clone_vm(&host(1), vmid(101), &copy(102, CloneKind::Linked)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Other, Refused]
    error: POST /nodes/pve1/qemu/101/clone on https://pve1:8006: Linked clone feature is not supported for 'local:101/vm-101-disk-0.qcow2' (efidisk0)
    hint: if these words do not say enough: `journalctl -u pvedaemon -u pveproxy` on pve1
    ");
}

#[tokio::test(start_paused = true)]
async fn a_disk_moves_and_leaves_nothing_or_an_unused_disk() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    make(&lab, &client, 100, &[("scsi0", "local-zfs:8,ssd=1")]).await;
    let scsi0 = Slot::parse("scsi0").unwrap();
    let go = |id: &str, delete| MoveDisk::ToStorage { storage: storage(id), format: None, delete };
    let task = client.move_disk(&host(1), vmid(100), scsi0, &go("local", true), None).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let there = client.vm_config(&host(1), vmid(100)).await.unwrap();
    assert_eq!(there.get("scsi0"), Some("local:100/vm-100-disk-0.raw,size=8G,ssd=1"));
    assert!(there.unused_disks().unwrap().is_empty());
    let task = client.move_disk(&host(1), vmid(100), scsi0, &go("local-zfs", false), None).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let back = client.vm_config(&host(1), vmid(100)).await.unwrap();
    assert_eq!(back.get("unused0"), Some("local:100/vm-100-disk-0.raw"));
    let error = client.move_disk(&host(1), vmid(100), scsi0, &go("local-zfs", true), None).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Other, Refused]
    error: POST /nodes/pve1/qemu/100/move_disk on https://pve1:8006: you can't move to the same storage with same format
    hint: if these words do not say enough: `journalctl -u pvedaemon -u pveproxy` on pve1
    ");
}

#[tokio::test(start_paused = true)]
async fn migration_refused_and_allowed() {
    let lab = Lab::three_hosts(1);
    let client = lab.root();
    make_running(&lab, &client, 100, &[("scsi0", "shared:8"), ("memory", "512")]).await;
    let to = |number, online| Migration {
        target: host(number),
        online,
        with_local_disks: false,
        target_storage: None,
    };
    let preconditions = client.migrate_preconditions(&host(1), vmid(100)).await.unwrap();
    assert_eq!((preconditions.running, preconditions.allowed_nodes), (true, vec![host(2), host(3)]));
    let error = client.migrate_vm(&host(1), vmid(100), &to(2, false)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [WrongState, Refused]
    error: POST /nodes/pve1/qemu/100/migrate on https://pve1:8006: can't migrate running VM without --online
    ");
    let error = client.migrate_vm(&host(1), vmid(100), &to(1, true)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Invalid({"target": "target is local node."}), Refused]
    error: POST /nodes/pve1/qemu/100/migrate on https://pve1:8006: Parameter verification failed.
      target: target is local node.
    "#);
    let error = lab.client().migrate_vm(&host(1), vmid(100), &to(2, true)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Denied(Denial { path: Some("/vms/100"), privileges: ["VM.Migrate"], root_only: false }), Refused]
    error: POST /nodes/pve1/qemu/100/migrate on https://pve1:8006: Permission check failed (/vms/100, VM.Migrate)
    hint: the credentials need VM.Migrate on /vms/100
    hint: Proxmox checks rights first, so the VM may also not exist
    hint: a token with privilege separation needs it granted twice: to its user and to itself
    "#);
    let task = client.migrate_vm(&host(1), vmid(100), &to(2, true)).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let status = client.vm_status(&host(2), vmid(100)).await.unwrap();
    assert_eq!(status.status, VmPower::Running);
    assert!(client.vm_status(&host(1), vmid(100)).await.unwrap_err().is_not_found());
    // A disk on the host's own storage holds a running VM where it is.
    let change = Params::new().with("scsi1", "local:1").with("cores", 1);
    client.put::<Value>(&format!("/nodes/{}/qemu/100/config", host(2)), change).await.unwrap();
    let task = client.migrate_vm(&host(2), vmid(100), &to(3, true)).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(Other)]
    error: qmigrate of 100 failed: migration aborted (task UPID:pve2:…:qmigrate:100:)
    log: 2026-01-01 00:00:02 conntrack state migration not supported or disabled, active connections might get dropped
    log: 2026-01-01 00:00:02 starting migration of VM 100 to node 'pve3' (192.0.2.13)
    log: 2026-01-01 00:00:02 found local disk 'local:100/vm-100-disk-0.raw' (attached)
    log: 2026-01-01 00:00:02 can't migrate local disk 'local:100/vm-100-disk-0.raw': can't live migrate attached local disks without with-local-disks option
    log: 2026-01-01 00:00:02 ERROR: Problem found while scanning volumes - can't migrate VM - check log
    log: 2026-01-01 00:00:02 aborting phase 1 - cleanup resources
    log: 2026-01-01 00:00:02 ERROR: migration aborted (duration 00:00:00): Problem found while scanning volumes - can't migrate VM - check log
    log: TASK ERROR: migration aborted
    hint: the whole log: `pvenode task log UPID:pve2:…:qmigrate:100:` on pve2
    ");
}
