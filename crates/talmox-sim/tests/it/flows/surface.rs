//! High availability, migration, agents, lost quorum, busy daemons and slow storages, call by call.

use std::collections::BTreeMap;

use serde_json::json;
use talmox_sim::Reach;

use crate::flows::common::{Lab, body};

const HOSTS: &[&str] = &["pve1", "pve2", "pve3"];

fn create(lab: &mut Lab, vmid: &str, disk: &str) {
    let config = [("vmid", vmid), ("memory", "512"), ("scsi0", disk)];
    assert_eq!(lab.run("POST", "/nodes/pve1/qemu", &config), "OK");
}

fn power(lab: &mut Lab, node: &str, vmid: &str) -> String {
    let current = lab.get(&format!("/nodes/{node}/qemu/{vmid}/status/current"));
    current["status"].as_str().unwrap_or_default().to_owned()
}

fn pass(lab: &mut Lab, seconds: u64) {
    let now = lab.world.clock();
    lab.world.advance_to(now + seconds * 1000);
}

/// Where a VM is, and whether it runs there.
fn place(lab: &mut Lab, vmid: u32) -> (String, String) {
    let all = lab.get("/cluster/resources");
    let mut entries = all.as_array().into_iter().flatten();
    let found = entries.find(|entry| entry["vmid"] == json!(vmid)).expect("the VM is listed");
    let node = found["node"].as_str().unwrap_or_default().to_owned();
    let power = power(lab, &node, &vmid.to_string());
    (node, power)
}

#[test]
fn a_wish_is_accepted_first_and_granted_later() {
    let mut lab = Lab::new(HOSTS);
    create(&mut lab, "100", "shared:1");
    lab.call("POST", "/cluster/ha/resources", &[("sid", "vm:100"), ("state", "stopped")]);
    pass(&mut lab, 30);
    let upid = lab.call("POST", "/nodes/pve1/qemu/100/status/start", &[]);
    assert!(upid.as_str().unwrap().contains(":hastart:100:"));
    assert_eq!(lab.wait(&upid), "OK");
    assert_eq!(power(&mut lab, "pve1", "100"), "stopped", "the task ends when the manager knows");
    pass(&mut lab, 20);
    assert_eq!(power(&mut lab, "pve1", "100"), "running");
    let entry = lab.get("/cluster/ha/resources/vm:100");
    assert_eq!(entry["state"], "started");
}

#[test]
fn a_changed_state_is_seen_to() {
    let mut lab = Lab::new(HOSTS);
    create(&mut lab, "100", "shared:1");
    lab.call("POST", "/cluster/ha/resources", &[("sid", "vm:100")]);
    assert_eq!(power(&mut lab, "pve1", "100"), "stopped");
    pass(&mut lab, 30);
    assert_eq!(power(&mut lab, "pve1", "100"), "running", "started is the default");
    for (state, expected) in
        [("stopped", "stopped"), ("started", "running"), ("disabled", "stopped"), ("ignored", "stopped")]
    {
        lab.call("PUT", "/cluster/ha/resources/vm:100", &[("state", state)]);
        pass(&mut lab, 60);
        assert_eq!(power(&mut lab, "pve1", "100"), expected, "{state}");
    }
    let upid = lab.call("POST", "/nodes/pve1/qemu/100/status/start", &[]);
    assert!(upid.as_str().unwrap().contains(":qmstart:"), "an ignored VM is started like any other");
}

#[test]
fn a_vm_of_a_lost_host_is_taken_over_where_its_disks_are_shared() {
    let mut lab = Lab::new(HOSTS);
    create(&mut lab, "100", "shared:1");
    create(&mut lab, "101", "zfs:1");
    create(&mut lab, "102", "shared:1");
    for sid in ["vm:100", "vm:101"] {
        lab.call("POST", "/cluster/ha/resources", &[("sid", sid)]);
    }
    let rule = [
        ("rule", "keep"),
        ("type", "node-affinity"),
        ("resources", "vm:100"),
        ("nodes", "pve1,pve3"),
        ("strict", "1"),
    ];
    lab.call("POST", "/cluster/ha/rules", &rule);
    pass(&mut lab, 60);
    assert_eq!(place(&mut lab, 100), ("pve1".into(), "running".into()));
    lab.world.lose_host("pve1");
    lab.via = Some("pve2".into());
    pass(&mut lab, 60);
    let reply = lab.send("GET", "/nodes/pve1/qemu/100/status/current", &[]);
    assert_eq!((reply.status, reply.reason.as_str()), (595, "No route to host"), "not fenced yet");
    pass(&mut lab, 120);
    assert_eq!(place(&mut lab, 100), ("pve3".into(), "running".into()), "where the rule allows it");
    let (node, state) = place(&mut lab, 101);
    assert_ne!(node, "pve1", "its configuration came along");
    assert_eq!(state, "stopped", "its disk did not");
    pass(&mut lab, 60);
    let current = lab.get(&format!("/nodes/{node}/qemu/101/status/current"));
    assert_eq!(current["ha"], json!({"managed": 1, "state": "error"}), "it was tried twice");
    let all = lab.get("/cluster/resources");
    let left = all.as_array().unwrap().iter().find(|entry| entry["vmid"] == json!(102)).unwrap();
    assert_eq!(left["node"], "pve1", "nobody manages it");
    lab.world.boot_host("pve1");
    pass(&mut lab, 60);
    assert_eq!(place(&mut lab, 102), ("pve1".into(), "stopped".into()));
}

#[test]
fn a_managed_vm_moves_when_the_manager_gets_to_it() {
    let mut lab = Lab::new(HOSTS);
    create(&mut lab, "100", "shared:1");
    lab.call("POST", "/cluster/ha/resources", &[("sid", "vm:100")]);
    pass(&mut lab, 60);
    let upid = lab.call("POST", "/nodes/pve1/qemu/100/migrate", &[("target", "pve2"), ("online", "1")]);
    assert!(upid.as_str().unwrap().contains(":hamigrate:100:"));
    assert_eq!(lab.wait(&upid), "OK");
    pass(&mut lab, 60);
    assert_eq!(place(&mut lab, 100), ("pve2".into(), "running".into()));
    lab.call("POST", "/cluster/ha/resources/vm:100/migrate", &[("node", "pve3")]);
    pass(&mut lab, 60);
    assert_eq!(place(&mut lab, 100), ("pve3".into(), "running".into()));
}

#[test]
fn what_cannot_move_stays() {
    let mut lab = Lab::new(HOSTS);
    create(&mut lab, "100", "zfs:1");
    create(&mut lab, "101", "shared:1");
    lab.run("POST", "/nodes/pve1/qemu/100/status/start", &[]);
    assert_eq!(
        lab.fail("POST", "/nodes/pve1/qemu/100/migrate", &[("target", "pve2")]),
        "can't migrate running VM without --online"
    );
    let online = [("target", "pve2"), ("online", "1")];
    assert_eq!(lab.run("POST", "/nodes/pve1/qemu/100/migrate", &online), "migration aborted");
    let with_disks = [("target", "pve2"), ("online", "1"), ("with-local-disks", "1")];
    assert_eq!(lab.run("POST", "/nodes/pve1/qemu/100/migrate", &with_disks), "OK");
    assert_eq!(place(&mut lab, 100), ("pve2".into(), "running".into()));
    let content = lab.get("/nodes/pve2/storage/zfs/content");
    assert_eq!(content[0]["volid"], "zfs:vm-100-disk-0", "its disk came along");
    lab.world.lose_host("pve2");
    assert_eq!(lab.run("POST", "/nodes/pve1/qemu/101/migrate", &[("target", "pve2")]), "migration aborted");
    lab.world.add_vm("pve1", 102, BTreeMap::from([("hostpci0".into(), "0000:01:00.0".into())]), false);
    assert_eq!(lab.run("POST", "/nodes/pve1/qemu/102/migrate", &[("target", "pve3")]), "migration aborted");
}

#[test]
fn agents_are_absent_slow_refusing_or_there() {
    let mut lab = Lab::new(&["pve1"]);
    let config = [("vmid", "100"), ("agent", "1"), ("name", "web")];
    lab.run("POST", "/nodes/pve1/qemu", &config);
    lab.run("POST", "/nodes/pve1/qemu/100/status/start", &[]);
    let path = "/nodes/pve1/qemu/100/agent/get-host-name";
    assert_eq!(lab.get(path)["result"]["host-name"], "web");

    lab.world.set_agent_late(100, true);
    let reply = lab.send("GET", path, &[]);
    assert_eq!(reply.reason, "VM 100 qga command 'guest-get-host-name' failed - got timeout");
    assert!(reply.delay >= 10_000, "{}", reply.delay);
    lab.world.set_agent_late(100, false);

    let refusal = json!({"error": {"class": "GenericError", "desc": "no"}});
    lab.world.set_guest(100, true, BTreeMap::from([("get-host-name".into(), refusal.clone())]));
    pass(&mut lab, 30);
    assert_eq!(lab.get(path)["result"], refusal);

    lab.world.set_guest(100, false, BTreeMap::new());
    let reply = lab.send("GET", path, &[]);
    assert_eq!(reply.reason, "QEMU guest agent is not running");
    assert!(reply.delay >= 3_000, "{}", reply.delay);
}

#[test]
fn agents_nobody_answers_for_keep_the_daemon_from_everything_else() {
    let mut lab = Lab::new(&["pve1"]);
    lab.run("POST", "/nodes/pve1/qemu", &[("vmid", "100"), ("agent", "1")]);
    lab.run("POST", "/nodes/pve1/qemu/100/status/start", &[]);
    lab.world.set_agent_late(100, true);
    pass(&mut lab, 10);
    let now = lab.world.clock();
    let path = "/nodes/pve1/qemu/100/agent/get-osinfo";
    for _ in 0..3 {
        lab.send("GET", path, &[]);
    }
    assert_eq!(lab.world.clock(), now, "three find a worker");
    lab.send("GET", "/nodes/pve1/qemu/100/config", &[]);
    assert!(
        lab.send("PUT", "/nodes/pve1/qemu/100/config", &[("name", "x")]).delay >= 9_000,
        "the next one waits"
    );
}

#[test]
fn what_takes_half_a_minute_is_given_up_by_the_front_daemon_alone() {
    let mut lab = Lab::new(&["pve1"]);
    lab.world.slow_storages.insert("shared".into(), 45_000);
    let reply = lab.send("GET", "/nodes/pve1/storage/shared/content", &[]);
    assert_eq!((reply.status, reply.reason.as_str(), reply.delay), (596, "Connection timed out", 30_000));
    assert!(reply.body.is_empty());
    let reply = lab.send("GET", "/nodes/pve1/storage/local/content", &[]);
    assert_eq!(reply.status, 200, "another storage answers");
    lab.world.slow_storages.clear();
    lab.world.occupy_workers("pve1", 40_000);
    let reply = lab.send("POST", "/nodes/pve1/qemu", &[("vmid", "100")]);
    assert_eq!(reply.status, 596);
    pass(&mut lab, 10);
    assert!(lab.world.has_vm(100), "it happened all the same");
}

#[test]
fn without_quorum_reads_answer_and_changes_do_not() {
    let mut lab = Lab::new(HOSTS);
    create(&mut lab, "100", "shared:1");
    lab.world.lose_host("pve2");
    lab.world.lose_host("pve3");
    assert_eq!(lab.get("/cluster/status")[0]["quorate"], 0);
    lab.get("/nodes/pve1/qemu/100/config");
    lab.get("/cluster/resources");
    assert_eq!(lab.fail("POST", "/nodes/pve1/qemu", &[("vmid", "101")]), "cluster not ready - no quorum?");
    assert_eq!(lab.fail("POST", "/nodes/pve1/qemu/100/status/start", &[]), "cluster not ready - no quorum?");
    let refused = lab.fail("PUT", "/nodes/pve1/qemu/100/config", &[("name", "x")]);
    assert!(refused.contains("Permission denied"), "{refused}");
    lab.world.boot_host("pve3");
    assert_eq!(lab.world.nodes["pve3"].reach, Reach::Up);
    assert_eq!(lab.run("POST", "/nodes/pve1/qemu/100/status/start", &[]), "OK");
}

#[test]
fn snapshots_stand_in_the_way_of_a_template_and_go_with_the_vm() {
    let mut lab = Lab::new(&["pve1"]);
    create(&mut lab, "100", "zfs:1");
    assert_eq!(lab.run("POST", "/nodes/pve1/qemu/100/snapshot", &[("snapname", "before")]), "OK");
    let listed = lab.get("/nodes/pve1/qemu/100/snapshot");
    assert_eq!((&listed[0]["name"], &listed[1]["parent"]), (&json!("before"), &json!("before")));
    assert_eq!(lab.get("/nodes/pve1/qemu/100/config")["parent"], "before");
    assert_eq!(
        lab.fail("POST", "/nodes/pve1/qemu/100/template", &[]),
        "unable to create template, because VM contains snapshots"
    );
    assert_eq!(lab.run("DELETE", "/nodes/pve1/qemu/100", &[]), "OK");
    assert_eq!(lab.get("/nodes/pve1/storage/zfs/content"), json!([]));
    let reply = lab.send("GET", "/nodes/pve1/qemu/100/snapshot", &[]);
    assert_eq!(body(&reply)["data"], json!(null));
}
