//! Moving VMs between hosts, with what they have and what they hang on.

use serde_json::{Value, json};
use talmox_sim::Storage;

use super::common::{Lab, body};

/// Hosts `a`, `b` and `c`; `thin` is on `a` and `b`, `other` on `b` alone.
fn lab() -> Lab {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let storage = |id: &str, kind: &str, nodes: &[&str], content: &str, option: (&str, &str)| Storage {
        id: id.into(),
        kind: kind.into(),
        place: format!("/mnt/{id}"),
        content: content.split(' ').map(str::to_owned).collect(),
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        options: [(option.0.to_owned(), option.1.to_owned())].into(),
        ..Storage::default()
    };
    lab.world.storages.push(storage("thin", "lvmthin", &["a", "b"], "images", ("vgname", "pve")));
    lab.world.storages.push(storage("other", "dir", &["b"], "images", ("path", "/mnt/other")));
    lab.world.storages.push(storage("isos", "dir", &[], "iso", ("path", "/mnt/isos")));
    lab
}

fn create(lab: &mut Lab, vmid: &str, more: &[(&str, &str)], running: bool) {
    let pairs = [&[("vmid", vmid), ("memory", "512")][..], more].concat();
    assert_eq!(lab.run("POST", "/nodes/a/qemu", &pairs), "OK");
    if running {
        assert_eq!(lab.run("POST", &format!("/nodes/a/qemu/{vmid}/status/start"), &[]), "OK");
    }
}

/// Moves a VM away from `a`; the end of the task, and its log without the times.
fn move_to(lab: &mut Lab, vmid: &str, target: &str, more: &[(&str, &str)]) -> (String, Vec<String>) {
    let pairs = [&[("target", target)][..], more].concat();
    let upid = lab.call("POST", &format!("/nodes/a/qemu/{vmid}/migrate"), &pairs);
    let status = lab.wait(&upid);
    let log = lab.get(&format!("/nodes/a/tasks/{}/log", upid.as_str().expect("a UPID")));
    let line = |entry: &Value| {
        let text = entry["t"].as_str().unwrap_or_default();
        if text.starts_with("20") { text.split_at(20).1.to_owned() } else { text.to_owned() }
    };
    (status, log.as_array().into_iter().flatten().map(line).collect())
}

fn volumes(lab: &mut Lab, node: &str, storage: &str) -> Vec<String> {
    let all = lab.get(&format!("/nodes/{node}/storage/{storage}/content"));
    let names = all.as_array().into_iter().flatten().filter_map(|entry| entry["volid"].as_str());
    names.map(str::to_owned).collect()
}

const ONLINE: (&str, &str) = ("online", "1");
const WITH_DISKS: (&str, &str) = ("with-local-disks", "1");

#[test]
fn a_stopped_vm_takes_its_local_disks_along() {
    let mut lab = lab();
    create(
        &mut lab,
        "100",
        &[("scsi0", "thin:4"), ("scsi1", "local:1,format=qcow2"), ("ide2", "local:cloudinit")],
        false,
    );
    let (status, log) = move_to(&mut lab, "100", "b", &[]);
    assert_eq!(status, "OK", "{log:?}");
    assert_eq!(
        log[..7],
        [
            "starting migration of VM 100 to node 'b' (192.0.2.2)",
            "found generated disk 'local:100/vm-100-cloudinit.qcow2' (in current VM config)",
            "found local disk 'local:100/vm-100-disk-0.qcow2' (attached)",
            "found local disk 'thin:vm-100-disk-0' (attached)",
            "copying local disk images",
            "volume 'local:100/vm-100-cloudinit.qcow2' is 'local:100/vm-100-cloudinit.qcow2' on the target",
            "volume 'local:100/vm-100-disk-0.qcow2' is 'local:100/vm-100-disk-0.qcow2' on the target",
        ]
    );
    assert!(log.iter().any(|line| line.starts_with("migration finished successfully (duration 00:00:0")));
    assert_eq!((volumes(&mut lab, "a", "thin"), volumes(&mut lab, "a", "local")), (vec![], vec![]));
    assert_eq!(volumes(&mut lab, "b", "thin"), ["thin:vm-100-disk-0"]);
    let config = lab.get("/nodes/b/qemu/100/config");
    assert_eq!((&config["scsi0"], &config["lock"]), (&json!("thin:vm-100-disk-0,size=4G"), &Value::Null));
}

#[test]
fn disks_go_where_the_map_says() {
    let mut lab = lab();
    create(&mut lab, "100", &[("scsi0", "thin:1"), ("scsi1", "zfs:2"), ("scsi2", "shared:1")], false);
    let (status, log) = move_to(&mut lab, "100", "b", &[("targetstorage", "thin:other,zfs")]);
    assert_eq!(status, "OK", "{log:?}");
    let config = lab.get("/nodes/b/qemu/100/config");
    assert_eq!(config["scsi0"], "other:100/vm-100-disk-0.raw,size=1G");
    assert_eq!(config["scsi1"], "zfs:vm-100-disk-0,size=2G");
    assert_eq!(config["scsi2"], "shared:100/vm-100-disk-0.raw,size=1G", "shared disks stay");
    assert!(
        log.contains(
            &"volume 'thin:vm-100-disk-0' is 'other:100/vm-100-disk-0.raw' on the target".to_owned()
        )
    );
    // A name that is taken there is another one's: two disks of one storage never meet in another one.
    create(&mut lab, "101", &[("scsi0", "thin:1"), ("scsi1", "zfs:1")], false);
    let (status, _) = move_to(&mut lab, "101", "b", &[("targetstorage", "other")]);
    assert_eq!(status, "OK");
    assert_eq!(
        volumes(&mut lab, "b", "other"),
        ["other:100/vm-100-disk-0.raw", "other:101/vm-101-disk-0.raw", "other:101/vm-101-disk-1.raw"]
    );
}

#[test]
fn a_running_vm_takes_them_only_if_asked_to() {
    let mut lab = lab();
    create(&mut lab, "100", &[("scsi0", "thin:1"), ("ide2", "thin:cloudinit")], true);
    let (status, log) = move_to(&mut lab, "100", "b", &[ONLINE]);
    assert_eq!(status, "migration aborted");
    let fault = "can't migrate local disk 'thin:vm-100-disk-0': can't live migrate attached local disks without \
                 with-local-disks option";
    let cause = "Problem found while scanning volumes - can't migrate VM - check log";
    assert_eq!(
        log[log.len() - 5..],
        [
            fault.to_owned(),
            format!("ERROR: {cause}"),
            "aborting phase 1 - cleanup resources".to_owned(),
            format!("ERROR: migration aborted (duration 00:00:00): {cause}"),
            "TASK ERROR: migration aborted".to_owned(),
        ]
    );
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["lock"], Value::Null);
    let (status, log) = move_to(&mut lab, "100", "b", &[ONLINE, WITH_DISKS, ("targetstorage", "thin:other")]);
    assert_eq!(status, "OK", "{log:?}");
    let socket = "scsi0: start migration to nbd:unix:/run/qemu-server/100_nbd.migrate:exportname=drive-scsi0";
    for line in ["starting VM 100 on remote node 'b'", "starting storage migration", socket] {
        assert!(log.iter().any(|one| one == line), "{line}: {log:?}");
    }
    assert_eq!(lab.get("/nodes/b/qemu/100/status/current")["status"], "running");
    let config = lab.get("/nodes/b/qemu/100/config");
    assert_eq!(config["scsi0"], "other:100/vm-100-disk-0.raw,size=1G");
    assert_eq!(volumes(&mut lab, "a", "thin"), Vec::<String>::new());
}

#[test]
fn a_map_asks_for_rights_and_for_storages_that_are_there() {
    let mut lab = lab();
    create(&mut lab, "100", &[("scsi0", "thin:1")], false);
    let path = "/nodes/a/qemu/100/migrate";
    let mut fail =
        |target: &str, map: &str| lab.fail("POST", path, &[("target", target), ("targetstorage", map)]);
    assert_eq!(fail("c", "other"), "storage 'other' is not available on node 'c'");
    assert_eq!(fail("b", "nothing"), "storage 'nothing' does not exist");
    assert_eq!(fail("b", "thin:isos"), "storage 'isos' does not support vm images");
    assert_eq!(fail("c", "1"), "storage 'thin' is not available on node 'c'");
    assert_eq!(lab.fail("POST", path, &[("target", "c")]), "storage 'thin' is not available on node 'c'");
    let reply = lab.send("POST", path, &[("target", "b"), ("targetstorage", "thin:other,thin:zfs")]);
    let text = "failed to parse storage map: duplicate mapping for source 'thin'\n";
    assert_eq!(body(&reply)["errors"], json!({"targetstorage": text}));
}

#[test]
fn what_a_storage_cannot_send_stays() {
    let mut lab = lab();
    create(&mut lab, "100", &[("scsi0", "local:1,format=qcow2")], false);
    let (status, log) = move_to(&mut lab, "100", "b", &[("targetstorage", "zfs")]);
    assert_eq!(status, "migration aborted");
    let cause = "storage migration for 'local:100/vm-100-disk-0.qcow2' to storage 'zfs' failed - cannot migrate from \
                 storage type 'dir' to 'zfspool'";
    assert!(log.contains(&format!("ERROR: {cause}")), "{log:?}");
    // A linked clone is nothing without its base.
    create(&mut lab, "101", &[("scsi0", "zfs:1")], false);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/101/template", &[]), "OK");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/101/clone", &[("newid", "102")]), "OK");
    let (status, log) = move_to(&mut lab, "102", "b", &[]);
    assert_eq!(status, "migration aborted");
    let said = "can't migrate 'zfs:base-101-disk-0/vm-102-disk-0' as it's a clone of 'base-101-disk-0'";
    assert!(log.iter().any(|line| line.ends_with(said)), "{log:?}");
    let (status, log) = move_to(&mut lab, "101", "b", &[]);
    assert_eq!(status, "migration aborted");
    let said = "can't migrate local disk 'zfs:base-101-disk-0': referenced by linked clone(s)";
    assert!(log.iter().any(|line| line == said), "{log:?}");
    // A CD is on its host.
    lab.world.add_file("a", "isos:iso/x.iso", talmox_sim::FileFacts { size: 1024, ..Default::default() });
    create(&mut lab, "103", &[("ide2", "isos:iso/x.iso,media=cdrom")], false);
    let (status, log) = move_to(&mut lab, "103", "b", &[]);
    assert_eq!(status, "migration aborted");
    assert!(
        log.contains(&"can't migrate local disk 'isos:iso/x.iso': local cdrom image".to_owned()),
        "{log:?}"
    );
}

#[test]
fn a_full_storage_aborts_and_leaves_nothing_behind() {
    let mut lab = lab();
    create(&mut lab, "100", &[("scsi0", "thin:1"), ("scsi1", "thin:1")], false);
    let other = lab.world.storages.iter_mut().find(|storage| storage.id == "zfs").expect("a storage");
    other.total = Some(3 << 29);
    let (status, log) = move_to(&mut lab, "100", "b", &[("targetstorage", "zfs")]);
    assert_eq!(status, "migration aborted");
    assert!(
        log.iter().any(|line| line.contains("to storage 'zfs' failed - zfs error: cannot create")),
        "{log:?}"
    );
    assert_eq!(volumes(&mut lab, "b", "zfs"), Vec::<String>::new());
    assert_eq!(volumes(&mut lab, "a", "thin").len(), 2);
}

#[test]
fn an_interrupted_migration_takes_its_copies_back() {
    let mut lab = lab();
    create(&mut lab, "100", &[("scsi0", "thin:8")], false);
    let upid = lab.call("POST", "/nodes/a/qemu/100/migrate", &[("target", "b")]);
    lab.world.advance_to(lab.world.clock() + 100);
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["lock"], "migrate");
    assert_eq!(volumes(&mut lab, "b", "thin").len(), 1);
    lab.call("DELETE", &format!("/nodes/a/tasks/{}", upid.as_str().expect("a UPID")), &[]);
    assert_eq!(lab.wait(&upid), "received interrupt");
    assert_eq!(volumes(&mut lab, "b", "thin"), Vec::<String>::new());
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["lock"], Value::Null);
}

#[test]
fn devices_hold_a_vm_back() {
    let mut lab = lab();
    let cards = [lab.add_card("a", "0000:01:00.0", 12), lab.add_card("b", "0000:01:00.0", 12)];
    lab.call("POST", "/cluster/mapping/pci", &[("id", "gpu"), ("map", &cards[0]), ("map", &cards[1])]);
    let config = [("hostpci0", "mapping=gpu")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    lab.world.add_vm("a", 100, config.into(), false);
    let preconditions = lab.get("/nodes/a/qemu/100/migrate");
    assert_eq!(preconditions["mapped-resources"], json!(["hostpci0"]));
    assert_eq!(preconditions["mapped-resource-info"], json!({"hostpci0": {"name": "gpu"}}));
    assert_eq!(preconditions["not_allowed_nodes"]["c"], json!({"unavailable-resources": ["hostpci0"]}));
    assert_eq!(
        (&preconditions["allowed_nodes"], &preconditions["local_resources"]),
        (&json!(["b"]), &json!([]))
    );
    let aborted = |log: &[String]| log.iter().rev().nth(1).cloned().unwrap_or_default();
    let (_, log) = move_to(&mut lab, "100", "c", &[]);
    assert!(aborted(&log).ends_with("can't migrate to 'c': missing mapped devices hostpci0"), "{log:?}");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/start", &[]), "OK");
    let (_, log) = move_to(&mut lab, "100", "b", &[ONLINE]);
    let said = "can't live migrate running VM which uses following mapped devices: hostpci0:gpu";
    assert!(aborted(&log).ends_with(said), "{log:?}");
    lab.call("PUT", "/cluster/mapping/pci/gpu", &[("live-migration-capable", "1")]);
    let (status, log) = move_to(&mut lab, "100", "b", &[ONLINE]);
    assert_eq!(status, "OK", "{log:?}");
    let raw = [("hostpci0", "0000:01:00.0"), ("usb0", "1234:5678")];
    lab.world.add_vm("a", 101, raw.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), false);
    let (_, log) = move_to(&mut lab, "101", "b", &[]);
    assert!(aborted(&log).ends_with("can't migrate VM which uses local devices: hostpci0, usb0"), "{log:?}");
}

#[test]
fn a_running_vm_moves_to_no_older_qemu() {
    let mut lab = lab();
    lab.world.set_release("9.2,b=8.4").expect("versions");
    create(&mut lab, "100", &[("scsi0", "thin:1"), ("machine", "q35")], true);
    let (status, log) = move_to(&mut lab, "100", "b", &[ONLINE, WITH_DISKS]);
    assert_eq!(status, "migration problems");
    let said = "[b] Installed QEMU version '9.2.0' is too old to run machine type 'pc-q35-10.0+pve1', please upgrade \
                node 'b'";
    assert!(log.contains(&said.to_owned()), "{log:?}");
    assert!(
        log.contains(&"ERROR: online migrate failure - remote command failed with exit code 255".to_owned())
    );
    assert_eq!(lab.get("/nodes/a/qemu/100/status/current")["status"], "running");
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["lock"], Value::Null);
    assert_eq!(volumes(&mut lab, "b", "thin"), Vec::<String>::new());
    lab.run("POST", "/nodes/a/qemu/100/status/stop", &[]);
    let (status, log) = move_to(&mut lab, "100", "b", &[]);
    assert_eq!(status, "OK", "stopped it can: {log:?}");
}

#[test]
fn a_host_out_of_reach_is_no_target() {
    let mut lab = lab();
    create(&mut lab, "100", &[("scsi0", "shared:1")], false);
    lab.world.lose_host("b");
    let (status, log) = move_to(&mut lab, "100", "b", &[]);
    assert_eq!(status, "migration aborted");
    assert_eq!(
        log[..3],
        [
            "# /usr/bin/ssh -e none -o 'BatchMode=yes' -o 'HostKeyAlias=b' root@192.0.2.2 /bin/true",
            "ssh: connect to host 192.0.2.2 port 22: No route to host",
            "ERROR: migration aborted (duration 00:00:00): Can't connect to destination address using public key",
        ]
    );
}
