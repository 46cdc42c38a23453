//! What people are told when something goes wrong: class, words, what to do next.

use std::time::Duration;

use talmox_pve::client::{
    CloneKind, CloneVm, ConfigChange, ErrorKind, Method, Outcome, RetryPolicy, Settings,
};
use talmox_sim::Reach;
use talmox_test::{Fault, Lab, TOKEN, When, host, token, vmid};

use crate::pve::support::{ask_for, make, make_running, told, told_task};

fn once() -> Settings {
    Settings { retry: RetryPolicy::ONCE, ..Settings::default() }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token() {
    let lab = Lab::one_host(1);
    let client = lab.client_as(&token("talmox@pve!unknown"), Settings::default());
    let error = client.version().await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Unauthenticated, Refused]
    error: https://pve1:8006 does not accept the credentials: Authentication failed!
    hint: a token is USER@REALM!NAME=SECRET; `pveum user token list USER@REALM` shows the names and when each expires, the secret is shown only when the token is made
    ");
    // Asking again does not help, and Proxmox takes three seconds for every refusal.
    assert_eq!(lab.calls().len(), 1);
    assert!(lab.transport().now() >= 3000);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token() {
    let lab = Lab::one_host(1);
    let client = lab.client_as(&token("talmox@pve!old"), Settings::default());
    let error = client.resources().await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Unauthenticated, Refused]
    error: https://pve1:8006 does not accept the credentials: Authentication failed!
    hint: a token is USER@REALM!NAME=SECRET; `pveum user token list USER@REALM` shows the names and when each expires, the secret is shown only when the token is made
    ");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_lacks_a_privilege() {
    let lab = Lab::one_host(1);
    make(&lab, &lab.client(), 100, &[("memory", "512")]).await;
    let looker = lab.client_as(&token("talmox@pve!looker"), Settings::default());
    let error = looker.start_vm(&host(1), vmid(100)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Denied(Denial { path: Some("/vms/100"), privileges: ["VM.PowerMgmt"], root_only: false }), Refused]
    error: POST /nodes/pve1/qemu/100/status/start on https://pve1:8006: Permission check failed (/vms/100, VM.PowerMgmt)
    hint: the credentials need VM.PowerMgmt on /vms/100
    hint: Proxmox checks rights first, so the VM may also not exist
    hint: a token with privilege separation needs it granted twice: to its user and to itself
    "#);
    let change = ConfigChange::new().set("startup", "order=3").unwrap();
    let error = lab.client().change_config(&host(1), vmid(100), &change).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Denied(Denial { path: Some("/"), privileges: ["Sys.Modify"], root_only: false }), Refused]
    error: PUT /nodes/pve1/qemu/100/config on https://pve1:8006: Permission check failed (/, Sys.Modify)
    hint: the credentials need Sys.Modify on /
    hint: a token with privilege separation needs it granted twice: to its user and to itself
    "#);
    let change = ConfigChange::new().set("args", "-no-reboot").unwrap();
    let error = lab.client().change_config(&host(1), vmid(100), &change).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Denied(Denial { path: None, privileges: [], root_only: true }), Refused]
    error: PUT /nodes/pve1/qemu/100/config on https://pve1:8006: only root can set 'args' config
    hint: only root@pam, logged in by password, may do this; no token can
    ");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_down() {
    let lab = Lab::one_host(1);
    lab.plan(When::call(1), Fault::HostDown { host: "pve1".to_owned(), reach: Reach::Unreachable });
    let error = lab.client().version().await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Unreachable, NeverSent]
    error: no connection to https://pve1:8006: No route to host
    hint: is pve1 up, and does a firewall let port 8006 through?
    ");
    assert_eq!(lab.calls().len(), 3, "a host that cannot be reached is tried three times");
}

#[tokio::test(start_paused = true)]
async fn another_endpoint_answers_for_one_that_is_down() {
    let lab = Lab::three_hosts(1);
    let client = lab.client();
    client.version().await.unwrap();
    lab.plan(When::call(1), Fault::HostDown { host: "pve1".to_owned(), reach: Reach::ProxyDown });
    client.version().await.unwrap();
    client.version().await.unwrap();
    let asked: Vec<String> = lab.calls().iter().map(|call| call.host.clone()).collect();
    assert_eq!(asked, ["pve1", "pve1", "pve2", "pve2"], "who answered last is asked first");
}

#[tokio::test(start_paused = true)]
async fn a_host_behind_another_that_is_down() {
    let lab = Lab::three_hosts(1);
    lab.plan(When::call(1), Fault::HostDown { host: "pve3".to_owned(), reach: Reach::Unreachable });
    let error = lab.client_through(1).node_status(&host(3)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [NodeDown, NeverSent]
    error: GET /nodes/pve3/status on https://pve1:8006: No route to host (status 595)
    hint: the host that should act cannot be reached from the one that was asked: is it up?
    ");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_quorum() {
    let lab = Lab::three_hosts(1);
    lab.world(|world| {
        for name in ["pve2", "pve3"] {
            world.nodes.get_mut(name).unwrap().reach = Reach::Unreachable;
        }
    });
    let error = ask_for(&lab.client(), 100, &[]).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [QuorumLost, Refused]
    error: POST /nodes/pve1/qemu on https://pve1:8006: cluster not ready - no quorum?
    hint: the cluster is read-only until a majority of its hosts is back: `pvecm status` on any of them
    ");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_lost_after_success() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    lab.plan(When::first(Method::Post, "/qemu"), Fault::ReplyLost);
    let error = ask_for(&client, 100, &[("memory", "512")]).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Lost, MayHaveHappened]
    error: POST /nodes/pve1/qemu on https://pve1:8006: the connection was closed before a reply came (it was sent and may have happened)
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    hint: look at what is there before asking again: the request was sent
    ");
    assert_eq!(lab.calls().asking("POST", "/qemu").count(), 1, "a create is never sent twice");
    assert!(lab.world(|world| world.has_vm(100)), "it happened");
    // What a caller does then: look. The lock tells that the work goes on.
    let config =
        client.wait_unlocked(&host(1), vmid(100), Duration::from_mins(1), &talmox_pve::client::Silent).await;
    assert_eq!(config.unwrap().get("memory"), Some("512"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_read_is_asked_for_again() {
    let lab = Lab::one_host(1);
    lab.plan(When::call(1), Fault::ReplyLost);
    lab.plan(When::call(2), Fault::BodyCut);
    assert_eq!(lab.client().version().await.unwrap().release.as_str(), "9.2");
    assert_eq!(lab.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_cut_off() {
    let lab = Lab::one_host(1);
    let client = lab.client_as(&token(TOKEN), once());
    lab.plan(When::every(Method::Get, "/version"), Fault::BodyCut);
    let error = client.version().await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Lost, MayHaveHappened]
    error: GET /version on https://pve1:8006: the reply was cut off
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    ");
    lab.plan(When::first(Method::Post, "/qemu"), Fault::ReplyShortened);
    let error = ask_for(&client, 100, &[]).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Unreadable, MayHaveHappened]
    error: POST /nodes/pve1/qemu on https://pve1:8006: the reply is not what was expected: EOF while parsing a string at line 1 column 37 (it was sent and may have happened)
    hint: is pve1 a Proxmox server, and does nothing between here and there change what it says?
    hint: look at what is there before asking again: the request was sent
    ");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stays_silent_until_the_deadline() {
    let lab = Lab::one_host(1);
    lab.plan(When::always(), Fault::Hang { reached: true });
    let error = ask_for(&lab.client(), 100, &[]).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Timeout, MayHaveHappened]
    error: POST /nodes/pve1/qemu on https://pve1:8006: no answer within 40 s (it was sent and may have happened)
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    hint: look at what is there before asking again: the request was sent
    ");
    assert_eq!(lab.transport().now(), 40_000, "the deadline is the one that was set");
    assert!(lab.world(|world| world.has_vm(100)));
    let error = lab.client().version().await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Timeout, MayHaveHappened]
    error: GET /version on https://pve1:8006: no answer within 40 s
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    ");
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_never_sent() {
    let lab = Lab::one_host(1);
    lab.plan(When::call(1), Fault::Refused);
    lab.plan(When::call(2), Fault::Refused);
    let task = ask_for(&lab.client(), 100, &[]).await.unwrap();
    assert_eq!((task.kind(), task.id()), ("qmcreate", "100"));
    assert_eq!(lab.calls().len(), 3, "nothing was sent, so even a create may be tried again");
}

#[tokio::test(start_paused = true)]
async fn a_hop_that_gives_up() {
    let lab = Lab::one_host(1);
    lab.plan(When::first(Method::Post, "/qemu"), Fault::reply(596, "Connection timed out"));
    let error = ask_for(&lab.client(), 100, &[]).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [Timeout, MayHaveHappened]
    error: POST /nodes/pve1/qemu on https://pve1:8006: Connection timed out (status 596) (it was sent and may have happened)
    hint: the tasks of the host (`pvenode task list`) tell whether it still works on it
    hint: look at what is there before asking again: the request was sent
    ");
    assert_eq!(error.outcome(), Outcome::MayHaveHappened);
}

#[tokio::test(start_paused = true)]
async fn a_locked_vm() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    make(&lab, &client, 100, &[("memory", "512")]).await;
    lab.world(|world| world.set_lock(100, Some("backup")));
    let change = ConfigChange::new().set("cores", "2").unwrap();
    let error = client.change_config(&host(1), vmid(100), &change).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Locked { by: "backup" }, Refused]
    error: PUT /nodes/pve1/qemu/100/config on https://pve1:8006: VM is locked (backup)
    hint: wait until the backup is done; if no task of that VM runs any more, `qm unlock 100` on its host
    "#);
    let task = client.start_vm(&host(1), vmid(100)).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @r#"
    [Some(Locked { by: "backup" })]
    error: qmstart of 100 failed: VM is locked (backup) (task UPID:pve1:…:qmstart:100:)
    log: TASK ERROR: VM is locked (backup)
    hint: wait until the backup is done; if no task of that VM runs any more, `qm unlock 100` on pve1
    hint: the whole log: `pvenode task log UPID:pve1:…:qmstart:100:` on pve1
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let words = "unable to create VM 100 - zfs error: cannot create 'rpool/data/vm-100-disk-0': out of space";
    lab.plan(
        When::first(Method::Post, "/qemu"),
        Fault::FailWorker { after: Duration::from_millis(20), words: words.to_owned() },
    );
    let task = ask_for(&client, 100, &[("scsi0", "local-zfs:8")]).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(StorageFull)]
    error: qmcreate of 100 failed: unable to create VM 100 - zfs error: cannot create 'rpool/data/vm-100-disk-0': out of space (task UPID:pve1:…:qmcreate:100:)
    log: scsi0: successfully created disk 'local-zfs:vm-100-disk-0,size=8G'
    log: TASK ERROR: unable to create VM 100 - zfs error: cannot create 'rpool/data/vm-100-disk-0': out of space
    hint: `pvesm status` on pve1 shows what is left
    hint: the whole log: `pvenode task log UPID:pve1:…:qmcreate:100:` on pve1
    ");
    assert!(!lab.world(|world| world.has_vm(100)), "a worker that fails cleans up");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_killed() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    lab.plan(When::first(Method::Post, "/qemu"), Fault::KillWorker { after: Duration::from_millis(20) });
    let task = ask_for(&client, 100, &[("scsi0", "local-zfs:8")]).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(Other)]
    error: qmcreate of 100 failed: unexpected status (task UPID:pve1:…:qmcreate:100:)
    log: scsi0: successfully created disk 'local-zfs:vm-100-disk-0,size=8G'
    hint: its worker died without a word and left everything as it was: look for a VM with a lock, and for volumes without a VM, before trying again
    hint: the whole log: `pvenode task log UPID:pve1:…:qmcreate:100:` on pve1
    ");
    let left = client.vm_config(&host(1), vmid(100)).await.unwrap();
    assert_eq!(left.lock(), Some("create"), "the VM keeps its lock");
    let delete = client.delete_vm(&host(1), vmid(100), false).await.unwrap();
    let error = lab.done(&client, &delete).await.unwrap_err();
    assert_eq!(error.kind(), Some(&ErrorKind::Locked { by: "create".to_owned() }));
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_is_killed_leaves_its_target_locked() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    lab.plan(When::first(Method::Post, "/clone"), Fault::KillWorker { after: Duration::from_millis(20) });
    let clone = CloneVm {
        newid: vmid(100),
        name: Some("cp-1".to_owned()),
        description: None,
        pool: None,
        target: None,
        kind: CloneKind::Full { storage: None, format: None },
    };
    let task = client.clone_vm(&host(1), vmid(9000), &clone).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    insta::assert_snapshot!(told_task(&error), @"
    [Some(Other)]
    error: qmclone of 9000 failed: unexpected status (task UPID:pve1:…:qmclone:9000:)
    log: creating a clone of VM 9000 with ID 100
    log: create full clone of drive efidisk0 (local-zfs:base-9000-disk-0)
    log: allocated target volume 'local-zfs:vm-100-disk-0'
    log: transferred 0.0 B of 1.0 MiB (0.00%)
    log: transferred 1.0 MiB of 1.0 MiB (100.00%)
    log: create full clone of drive ide2 (local-zfs:vm-9000-cloudinit)
    log: allocated target volume 'local-zfs:vm-100-cloudinit'
    log: create full clone of drive scsi0 (local-zfs:base-9000-disk-1)
    log: allocated target volume 'local-zfs:vm-100-disk-1'
    log: transferred 0.0 B of 8.0 GiB (0.00%)
    hint: its worker died without a word and left everything as it was: look for a VM with a lock, and for volumes without a VM, before trying again
    hint: the whole log: `pvenode task log UPID:pve1:…:qmclone:9000:` on pve1
    ");
    let left = client.vm_config(&host(1), vmid(100)).await.unwrap();
    assert_eq!((left.lock(), left.name()), (Some("clone"), Some("cp-1")));
}

#[tokio::test(start_paused = true)]
async fn faulty_parameters_are_named() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    let error = ask_for(&client, 100, &[("cores", "0"), ("net0", "virtio,tag=5000")]).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @r#"
    [Invalid({"cores": "value must have a minimum value of 1", "net0": "invalid format - format error net0.tag: value must have a maximum value of 4094"}), Refused]
    error: POST /nodes/pve1/qemu on https://pve1:8006: Parameter verification failed.
      cores: value must have a minimum value of 1
      net0: invalid format - format error net0.tag: value must have a maximum value of 4094
    "#);
    make_running(&lab, &client, 100, &[("memory", "512")]).await;
    let error = client.delete_vm(&host(1), vmid(100), false).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [WrongState, Refused]
    error: DELETE /nodes/pve1/qemu/100 on https://pve1:8006: VM 100 is running - destroy failed
    ");
    let error = client.vm_config(&host(1), vmid(101)).await.unwrap_err();
    insta::assert_snapshot!(told(&error), @"
    [NotFound, Refused]
    error: GET /nodes/pve1/qemu/101/config on https://pve1:8006: Configuration file 'nodes/pve1/qemu-server/101.conf' does not exist
    ");
}
