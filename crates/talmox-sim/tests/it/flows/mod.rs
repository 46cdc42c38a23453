//! Rules of the simulator, seen from outside through requests alone.

mod common;
mod devices;
mod memory;
mod migrate;
mod mixed;
mod permissions;
mod robustness;
mod storages;
mod surface;
mod users;
mod versions;

use std::collections::BTreeMap;

use common::{Lab, body};
use serde_json::{Value, json};
use talmox_sim::{Body, Reach, Request, World};

fn create(lab: &mut Lab, vmid: &str, more: &[(&str, &str)]) {
    let mut pairs = vec![("vmid", vmid), ("memory", "512"), ("scsi0", "zfs:8,ssd=1")];
    pairs.extend_from_slice(more);
    assert_eq!(lab.run("POST", "/nodes/a/qemu", &pairs), "OK");
}

#[test]
fn a_vm_on_zvols_reads_back_in_normal_form() {
    let mut lab = Lab::new(&["a"]);
    create(
        &mut lab,
        "100",
        &[("net0", "bridge=vmbr0,model=virtio,tag=7"), ("efidisk0", "zfs:1,efitype=4m"), ("tags", "B;a")],
    );
    let config = lab.get("/nodes/a/qemu/100/config");
    assert_eq!(config["scsi0"], "zfs:vm-100-disk-1,size=8G,ssd=1");
    assert_eq!(config["efidisk0"], "zfs:vm-100-disk-0,efitype=4m,size=1M");
    assert_eq!(config["tags"], "a;b");
    assert_eq!(config["boot"], "order=scsi0;net0");
    let net = config["net0"].as_str().unwrap();
    assert!(net.starts_with("virtio=BC:24:11:") && net.ends_with(",bridge=vmbr0,tag=7"), "{net}");
}

#[test]
fn an_update_without_the_address_gives_a_nic_a_new_one() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[("net0", "virtio,bridge=vmbr0")]);
    let before = lab.get("/nodes/a/qemu/100/config")["net0"].clone();
    lab.call("PUT", "/nodes/a/qemu/100/config", &[("net0", "virtio,bridge=vmbr0")]);
    assert_ne!(lab.get("/nodes/a/qemu/100/config")["net0"], before);
}

#[test]
fn a_detached_disk_is_unused_until_it_is_attached_again() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[("scsi1", "zfs:1")]);
    lab.call("PUT", "/nodes/a/qemu/100/config", &[("delete", "scsi1")]);
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["unused0"], "zfs:vm-100-disk-1");
    lab.call("PUT", "/nodes/a/qemu/100/config", &[("scsi2", "zfs:vm-100-disk-1,backup=0")]);
    let config = lab.get("/nodes/a/qemu/100/config");
    assert_eq!(
        (&config["scsi2"], &config["unused0"]),
        (&json!("zfs:vm-100-disk-1,backup=0,size=1G"), &Value::Null)
    );
}

#[test]
fn a_disk_of_another_vm_is_let_go_and_stays() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[]);
    create(&mut lab, "200", &[]);
    let config = "/nodes/a/qemu/100/config";
    lab.call("PUT", config, &[("scsi1", "zfs:vm-200-disk-0")]);
    lab.call("PUT", config, &[("delete", "scsi1")]);
    assert_eq!(lab.get(config)["unused0"], Value::Null, "only disks of its own become unused");
    lab.call("PUT", config, &[("scsi1", "zfs:vm-200-disk-0")]);
    lab.call("PUT", config, &[("delete", "scsi1"), ("force", "1")]);
    assert_eq!(lab.world.volume_ids("a", "zfs").len(), 2, "not even by force");
    lab.call("PUT", config, &[("unused3", "zfs:vm-200-disk-0")]);
    lab.call("PUT", config, &[("delete", "unused3")]);
    lab.call("PUT", config, &[("scsi1", "zfs:vm-200-disk-0")]);
    assert_eq!(lab.run("DELETE", "/nodes/a/qemu/100", &[("destroy-unreferenced-disks", "1")]), "OK");
    assert_eq!(lab.world.volume_ids("a", "zfs"), [("zfs:vm-200-disk-0".to_owned(), Some(200))]);
}

#[test]
fn a_long_copy_shows_how_far_it_is() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[]);
    lab.world.timing.copy_rate = 1 << 20;
    let begun = lab.world.clock();
    let task = lab.call("POST", "/nodes/a/qemu/100/clone", &[("newid", "101"), ("full", "1")]);
    let log = format!("/nodes/a/tasks/{}/log", task.as_str().unwrap());
    lab.world.advance_to(begun + 4_200);
    let lines = lab.get(&log);
    let last = &lines.as_array().unwrap().last().unwrap()["t"];
    assert_eq!(last, "transferred 4.0 GiB of 8.0 GiB (50.00%)");
    assert_eq!(lab.wait(&task), "OK");
    let lines = lab.get(&log);
    let lines = lines.as_array().unwrap();
    assert_eq!(lines[lines.len() - 2]["t"], "transferred 8.0 GiB of 8.0 GiB (100.00%)");
}

#[test]
fn a_new_disk_in_a_used_slot_pushes_the_old_one_out() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[]);
    lab.call("PUT", "/nodes/a/qemu/100/config", &[("scsi0", "zfs:4")]);
    let config = lab.get("/nodes/a/qemu/100/config");
    assert_eq!(
        (&config["scsi0"], &config["unused0"]),
        (&json!("zfs:vm-100-disk-1,size=4G"), &json!("zfs:vm-100-disk-0"))
    );
}

#[test]
fn a_running_vm_keeps_what_cannot_be_plugged_until_it_stops() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[("cores", "1")]);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/start", &[]), "OK");
    lab.call("PUT", "/nodes/a/qemu/100/config", &[("cores", "2"), ("name", "x")]);
    let current = lab.call("GET", "/nodes/a/qemu/100/config", &[("current", "1")]);
    assert_eq!((&current["cores"], &current["name"]), (&json!(1), &json!("x")));
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["cores"], 2);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/stop", &[]), "OK");
    assert_eq!(lab.call("GET", "/nodes/a/qemu/100/config", &[("current", "1")])["cores"], 2);
}

#[test]
fn linked_clones_name_their_base_and_protect_it() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "9000", &[("ide2", "zfs:cloudinit"), ("name", "t"), ("net0", "virtio,bridge=vmbr0")]);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/9000/template", &[]), "OK");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/9000/clone", &[("newid", "100")]), "OK");
    let clone = lab.get("/nodes/a/qemu/100/config");
    let base = lab.get("/nodes/a/qemu/9000/config");
    assert_eq!(clone["scsi0"], "zfs:base-9000-disk-0/vm-100-disk-0,size=8G,ssd=1");
    assert_eq!(clone["ide2"], "zfs:vm-100-cloudinit,media=cdrom,size=4M");
    assert_eq!(clone["name"], "Copy-of-VM-t");
    assert_ne!(clone["net0"], base["net0"]);
    assert_ne!(clone["smbios1"], base["smbios1"]);
    let text = "base volume 'zfs:base-9000-disk-0' is still in use by linked cloned";
    assert_eq!(lab.run("DELETE", "/nodes/a/qemu/9000", &[]), text);
    assert_eq!(lab.run("DELETE", "/nodes/a/qemu/100", &[]), "OK");
    assert_eq!(lab.run("DELETE", "/nodes/a/qemu/9000", &[]), "OK");
}

#[test]
fn overlays_of_raw_bases_are_qcow2() {
    let mut lab = Lab::new(&["a"]);
    assert_eq!(
        lab.run("POST", "/nodes/a/qemu", &[("vmid", "9000"), ("scsi0", "local:1"), ("template", "1")]),
        "OK"
    );
    assert_eq!(lab.get("/nodes/a/qemu/9000/config")["scsi0"], "local:9000/base-9000-disk-0.raw,size=1G");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/9000/clone", &[("newid", "100")]), "OK");
    let disk = "local:9000/base-9000-disk-0.raw/100/vm-100-disk-0.qcow2,size=1G";
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["scsi0"], disk);
}

#[test]
fn one_of_many_creates_wins_the_id() {
    let mut lab = Lab::new(&["a"]);
    let replies: Vec<u16> =
        (0..8).map(|_| lab.send("POST", "/nodes/a/qemu", &[("vmid", "100")]).status).collect();
    assert_eq!(replies.iter().filter(|status| **status == 200).count(), 1);
}

#[test]
fn a_shutdown_that_waits_keeps_others_out() {
    let mut lab = Lab::new(&["a"]);
    lab.world.guests_react = false;
    create(&mut lab, "100", &[]);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/start", &[]), "OK");
    let waiting = lab.call("POST", "/nodes/a/qemu/100/status/shutdown", &[("timeout", "60")]);
    let text = "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout";
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/stop", &[]), text);
    assert_eq!(lab.fail("PUT", "/nodes/a/qemu/100/config", &[("name", "x")]), text);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/stop", &[("overrule-shutdown", "1")]), "OK");
    assert_eq!(lab.wait(&waiting), "received interrupt");
}

#[test]
fn a_killed_worker_leaves_the_lock_of_its_work() {
    let mut lab = Lab::new(&["a"]);
    let upid = lab.call("POST", "/nodes/a/qemu", &[("vmid", "100"), ("scsi0", "zfs:8")]);
    lab.world.kill_worker(upid.as_str().unwrap());
    assert_eq!(lab.wait(&upid), "unexpected status");
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["lock"], "create");
    assert_eq!(lab.run("DELETE", "/nodes/a/qemu/100", &[]), "VM is locked (create)");
}

#[test]
fn without_quorum_nothing_is_written() {
    let mut lab = Lab::new(&["a", "b"]);
    create(&mut lab, "100", &[]);
    lab.world.nodes.get_mut("b").unwrap().reach = Reach::Unreachable;
    assert_eq!(lab.send("GET", "/nodes/b/status", &[]).status, 595);
    assert_eq!(lab.fail("POST", "/nodes/a/qemu", &[("vmid", "101")]), "cluster not ready - no quorum?");
    assert!(lab.fail("PUT", "/nodes/a/qemu/100/config", &[("name", "x")]).ends_with("Permission denied"));
    assert!(lab.run("POST", "/nodes/a/qemu/100/config", &[("name", "x")]).ends_with("Permission denied"));
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["name"], Value::Null);
    lab.world.nodes.get_mut("b").unwrap().reach = Reach::Up;
    lab.call("PUT", "/nodes/a/qemu/100/config", &[("name", "x")]);
}

#[test]
fn a_vm_on_shared_storage_moves_and_is_found_there() {
    let mut lab = Lab::new(&["a", "b"]);
    assert_eq!(
        lab.run("POST", "/nodes/a/qemu", &[("vmid", "100"), ("scsi0", "shared:1,format=qcow2")]),
        "OK"
    );
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/migrate", &[("target", "b")]), "OK");
    assert!(lab.fail("GET", "/nodes/a/qemu/100/config", &[]).ends_with("does not exist"));
    assert_eq!(lab.get("/nodes/b/qemu/100/config")["lock"], Value::Null);
}

#[test]
fn others_learn_of_a_vm_with_the_next_broadcast() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[("name", "x"), ("tags", "t")]);
    let entry = |lab: &mut Lab| lab.call("GET", "/cluster/resources", &[("type", "vm")])[0].clone();
    assert_eq!(
        entry(&mut lab),
        json!({"id": "qemu/100", "type": "qemu", "vmid": 100, "node": "a", "status": "unknown", "tags": "t"})
    );
    let later = lab.world.clock() + 10_000;
    lab.world.advance_to(later);
    let known = entry(&mut lab);
    assert_eq!((&known["name"], &known["status"]), (&json!("x"), &json!("stopped")));
}

#[test]
fn high_availability_wakes_with_its_first_resource() {
    let mut lab = Lab::new(&["a", "b"]);
    create(&mut lab, "100", &[]);
    create(&mut lab, "101", &[]);
    for vmid in ["100", "101"] {
        lab.call("POST", "/cluster/ha/resources", &[("sid", &format!("vm:{vmid}")), ("state", "stopped")]);
    }
    let rule = [
        ("rule", "r1"),
        ("type", "resource-affinity"),
        ("affinity", "negative"),
        ("resources", "vm:100,vm:101"),
    ];
    assert_eq!(
        lab.fail("POST", "/cluster/ha/rules", &rule),
        "create ha rule failed: 400 Rule 'r1' is invalid."
    );
    let later = lab.world.clock() + 10_000;
    lab.world.advance_to(later);
    lab.call("POST", "/cluster/ha/rules", &rule);
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/start", &[]), "OK");
    let later = lab.world.clock() + 10_000;
    lab.world.advance_to(later);
    assert_eq!(lab.get("/nodes/a/qemu/100/status/current")["status"], "running");
}

#[test]
fn a_delayed_update_answers_by_what_became_of_it() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[]);
    let path = "/nodes/a/qemu/100/config";
    assert_eq!(lab.call("POST", path, &[("cores", "2"), ("background_delay", "5")]), Value::Null);
    let text = lab.fail("POST", path, &[("scsi1", "zfs:vm-100-disk-9"), ("background_delay", "5")]);
    assert_eq!(text, "failed to update VM 100: volume 'zfs:vm-100-disk-9' does not exist");
}

#[test]
fn a_refusal_is_late_and_errors_close_the_connection() {
    let mut lab = Lab::new(&["a"]);
    let request =
        talmox_sim::Request { method: "GET".into(), path: "/api2/json/version".into(), ..Default::default() };
    let reply = lab.world.handle(&request, 0);
    assert_eq!((reply.status, reply.delay, reply.closes_connection()), (401, 3000, true));
    assert!(!lab.send("GET", "/version", &[]).closes_connection());
}

#[test]
fn a_saved_world_goes_on_where_it_stopped() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[("net0", "virtio,bridge=vmbr0")]);
    let upid = lab.call("POST", "/nodes/a/qemu/100/clone", &[("newid", "101"), ("full", "1")]);
    let saved = serde_json::to_string(&lab.world).unwrap();
    let mut copy = Lab { world: serde_json::from_str::<World>(&saved).unwrap(), via: None };
    assert_eq!((lab.wait(&upid), copy.wait(&upid)), ("OK".into(), "OK".into()));
    assert_eq!(lab.get("/nodes/a/qemu/101/config"), copy.get("/nodes/a/qemu/101/config"));
}

#[test]
fn the_same_seed_makes_the_same_world() {
    let run = || {
        let mut lab = Lab::new(&["a"]);
        create(&mut lab, "100", &[("net0", "virtio,bridge=vmbr0")]);
        lab.get("/nodes/a/qemu/100/config")
    };
    assert_eq!(run(), run());
}

#[test]
fn agents_answer_from_the_vm_or_as_told() {
    let mut lab = Lab::new(&["a"]);
    create(
        &mut lab,
        "100",
        &[("agent", "1"), ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"), ("ipconfig0", "ip=10.0.0.5/24")],
    );
    let path = "/nodes/a/qemu/100/agent/network-get-interfaces";
    assert_eq!(lab.fail("GET", path, &[]), "VM 100 is not running");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/status/start", &[]), "OK");
    let found = lab.get(path);
    assert_eq!(found["result"][1]["ip-addresses"][0]["ip-address"], "10.0.0.5");
    lab.world.set_guest(100, true, BTreeMap::from([("get-host-name".into(), json!({"host-name": "h"}))]));
    assert_eq!(lab.get("/nodes/a/qemu/100/agent/get-host-name")["result"]["host-name"], "h");
    let refused = lab.get("/nodes/a/qemu/100/agent/get-fsinfo");
    assert_eq!(refused["result"]["error"]["class"], "CommandNotFound");
}

#[test]
fn next_ids_follow_the_range_of_the_cluster() {
    let mut lab = Lab::new(&["a"]);
    lab.call("PUT", "/cluster/options", &[("next-id", "lower=500,upper=502")]);
    assert_eq!(lab.get("/cluster/nextid"), "500");
    for vmid in ["500", "501"] {
        create(&mut lab, vmid, &[]);
    }
    assert_eq!(lab.fail("GET", "/cluster/nextid", &[]), "unable to get any free VMID in range [500, 502]");
    let reply = lab.send("GET", "/cluster/nextid", &[("vmid", "500")]);
    assert_eq!(body(&reply)["errors"]["vmid"], "VM 500 already exists");
}

#[test]
fn a_disk_can_be_handed_to_another_vm() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[("scsi1", "zfs:2")]);
    create(&mut lab, "101", &[]);
    let path = "/nodes/a/qemu/100/move_disk";
    let taken = lab.fail("POST", path, &[("disk", "scsi0"), ("target-vmid", "101")]);
    assert_eq!(taken, "Target disk key 'scsi0' is already in use for VM '101'");
    assert_eq!(lab.run("POST", path, &[("disk", "scsi1"), ("target-vmid", "101")]), "OK");
    assert_eq!(lab.get("/nodes/a/qemu/101/config")["scsi1"], "zfs:vm-101-disk-1,size=2G");
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["scsi1"], Value::Null);
    assert_eq!(lab.send("POST", path, &[("disk", "scsi0")]).status, 400);
}

#[test]
fn of_many_starts_one_does_it() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[]);
    let upids: Vec<Value> = (0..4).map(|_| lab.call("POST", "/nodes/a/qemu/100/status/start", &[])).collect();
    let mut ends: Vec<String> = upids.iter().map(|upid| lab.wait(upid)).collect();
    ends.sort();
    assert_eq!(ends, ["OK", "VM 100 already running", "VM 100 already running", "VM 100 already running"]);
}

#[test]
fn of_many_updates_with_one_digest_the_first_wins() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[]);
    let digest = lab.get("/nodes/a/qemu/100/config")["digest"].as_str().unwrap_or_default().to_owned();
    let path = "/nodes/a/qemu/100/config";
    lab.call("PUT", path, &[("name", "a1"), ("digest", &digest)]);
    let text = lab.fail("PUT", path, &[("name", "a2"), ("digest", &digest)]);
    assert_eq!(text, "checksum mismatch (file change by other user?)");
}

#[test]
fn an_upload_without_a_file_changes_nothing() {
    let mut lab = Lab::new(&["a"]);
    let kind = "multipart/form-data; boundary=B";
    let upload = "--B\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n\
        --B\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"x.iso\"\r\n\r\nbytes\r\n--B--\r\n";
    let request = Request {
        method: "POST".into(),
        path: "/api2/json/nodes/a/storage/local/upload".into(),
        authorization: Some("PVEAPIToken=root@pam!t=s".into()),
        body: Body::upload(kind, upload.as_bytes()).unwrap(),
        ..Request::default()
    };
    let now = lab.world.clock();
    let reply = lab.world.handle(&request, now);
    assert_eq!(lab.wait(&body(&reply)["data"]), "OK");
    let before = lab.get("/nodes/a/storage/local/content");
    assert_eq!(before[0]["size"], 5);
    let pairs = [("content", "iso"), ("filename", "x.iso")];
    let refused = lab.send("POST", "/nodes/a/storage/local/upload", &pairs);
    assert_eq!(refused.status, 500, "{}", refused.reason);
    let later = lab.world.clock() + 60_000;
    lab.world.advance_to(later);
    assert_eq!(lab.get("/nodes/a/storage/local/content"), before);
}

#[test]
fn sizes_beyond_every_disk_are_refused() {
    let mut lab = Lab::new(&["a"]);
    create(&mut lab, "100", &[]);
    let said = "disk size '99999999999999999' is too large";
    let made = lab.run("POST", "/nodes/a/qemu", &[("vmid", "101"), ("scsi0", "zfs:99999999999999999")]);
    assert!(made.contains(said), "{made}");
    let config = "/nodes/a/qemu/100/config";
    assert_eq!(lab.fail("PUT", config, &[("scsi1", "local:99999999999999999")]), said);
    let resize = "/nodes/a/qemu/100/resize";
    for size in ["+99999999999999999T", "99999999999999999T", "+8192T"] {
        let end = lab.run("PUT", resize, &[("disk", "scsi0"), ("size", size)]);
        assert_eq!(end, format!("disk size '{size}' is too large"));
    }
    assert_eq!(lab.get(config)["scsi0"], "zfs:vm-100-disk-0,size=8G,ssd=1");
    let content = "/nodes/a/storage/local/content";
    let pairs = [("vmid", "100"), ("filename", "vm-100-disk-5.raw"), ("size", "99999999999999999G")];
    assert_eq!(lab.fail("POST", content, &pairs), "disk size '99999999999999999G' is too large");
}
