//! Storages of every usual type: names, sizes, clones, capacity, locks.

use super::common::Lab;
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

fn create(lab: &mut Lab, host: &str, vmid: u32, disks: &[(&str, &str)]) -> String {
    let vmid = vmid.to_string();
    let mut pairs = vec![("vmid", vmid.as_str())];
    pairs.extend_from_slice(disks);
    lab.run("POST", &format!("/nodes/{host}/qemu"), &pairs)
}

/// What a drive's value says of its volume: the part before the first comma.
fn volume(config: &Value, key: &str) -> String {
    config[key].as_str().unwrap_or_default().split(',').next().unwrap_or_default().to_owned()
}

fn size(config: &Value, key: &str) -> String {
    let text = config[key].as_str().unwrap_or_default();
    text.split(',').find_map(|part| part.strip_prefix("size=")).unwrap_or_default().to_owned()
}

fn used(lab: &mut Lab, storage: &str) -> u64 {
    let status = lab.get(&format!("/nodes/a/storage/{storage}/status"));
    let number = |key: &str| status[key].as_u64().expect("a number");
    let (total, used) = (number("total"), number("used"));
    assert_eq!(status["avail"].as_u64(), Some(total - used));
    used
}

#[test]
fn every_type_names_and_measures_its_volumes_in_its_own_way() {
    let files = ["100/vm-100-disk-1.raw", "100/base-100-disk-1.raw", "100/vm-100-cloudinit.qcow2"];
    let blocks = ["vm-100-disk-1", "base-100-disk-1", "vm-100-cloudinit"];
    let overlay = "100/base-100-disk-1.raw/101/vm-101-disk-1.qcow2";
    for (storage, [image, base, seed], linked, efi) in [
        ("local", files, overlay, "528K"),
        ("nfs", files, overlay, "528K"),
        ("cifs", files, overlay, "528K"),
        ("btrfs", files, "101/vm-101-disk-1.raw", "528K"),
        ("zfspool", blocks, "base-100-disk-1/vm-101-disk-1", "1M"),
        ("rbd", blocks, "base-100-disk-1/vm-101-disk-1", "1M"),
        ("lvmthin", blocks, "vm-101-disk-1", "4M"),
    ] {
        let mut lab = Lab::with_every_storage(&["a"]);
        let (efidisk, disk) = (format!("{storage}:1,efitype=4m"), format!("{storage}:2"));
        let cloudinit = format!("{storage}:cloudinit");
        let drives = [("efidisk0", efidisk.as_str()), ("scsi0", &disk), ("ide2", &cloudinit)];
        assert_eq!(create(&mut lab, "a", 100, &drives), "OK", "{storage}");
        let config = lab.get("/nodes/a/qemu/100/config");
        assert_eq!(volume(&config, "scsi0"), format!("{storage}:{image}"));
        assert_eq!(volume(&config, "ide2"), format!("{storage}:{seed}"));
        assert_eq!(
            (size(&config, "scsi0"), size(&config, "efidisk0")),
            ("2G".into(), efi.into()),
            "{storage}"
        );
        assert_eq!(lab.run("POST", "/nodes/a/qemu/100/template", &[]), "OK");
        assert_eq!(volume(&lab.get("/nodes/a/qemu/100/config"), "scsi0"), format!("{storage}:{base}"));
        assert_eq!(lab.run("POST", "/nodes/a/qemu/100/clone", &[("newid", "101")]), "OK");
        let clone = lab.get("/nodes/a/qemu/101/config");
        assert_eq!(volume(&clone, "scsi0"), format!("{storage}:{linked}"));
        // A copy has a format its storage is known to have, which for btrfs is raw alone.
        let seed = if storage == "btrfs" { seed.replace("qcow2", "raw") } else { seed.to_owned() };
        assert_eq!(volume(&clone, "ide2"), format!("{storage}:{}", seed.replace("100", "101")));
        let expected = if linked.contains("base-") {
            format!(
                "base volume '{storage}:{}' is still in use by linked cloned",
                base.replace("disk-1", "disk-0")
            )
        } else {
            "OK".to_owned()
        };
        assert_eq!(lab.run("DELETE", "/nodes/a/qemu/100", &[]), expected, "{storage}");
    }
}

#[test]
fn thick_lvm_keeps_the_disks_of_a_template_and_links_nothing() {
    let mut lab = Lab::with_every_storage(&["a"]);
    assert_eq!(create(&mut lab, "a", 100, &[("scsi0", "lvm:1"), ("scsi1", "lvm:1,format=qcow2")]), "OK");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/template", &[]), "OK");
    let config = lab.get("/nodes/a/qemu/100/config");
    assert_eq!((&config["template"], volume(&config, "scsi0")), (&json!(1), "lvm:vm-100-disk-0".into()));
    assert_eq!(volume(&config, "scsi1"), "lvm:vm-100-disk-1.qcow2");
    let text = lab.fail("POST", "/nodes/a/qemu/100/clone", &[("newid", "101")]);
    assert_eq!(text, "Linked clone feature is not supported for 'lvm:vm-100-disk-0' (scsi0)");
    let pairs = [("newid", "101"), ("full", "1"), ("storage", "rbd")];
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/clone", &pairs), "OK");
    assert_eq!(volume(&lab.get("/nodes/a/qemu/101/config"), "scsi1"), "rbd:vm-101-disk-1");
}

#[test]
fn what_can_be_cloned_from_a_snapshot_differs() {
    let mut lab = Lab::with_every_storage(&["a"]);
    for (vmid, storage) in [(100, "zfspool"), (101, "lvmthin"), (102, "rbd")] {
        assert_eq!(create(&mut lab, "a", vmid, &[("scsi0", &format!("{storage}:1"))]), "OK");
        let path = format!("/nodes/a/qemu/{vmid}");
        assert_eq!(lab.run("POST", &format!("{path}/snapshot"), &[("snapname", "snap")]), "OK", "{storage}");
        let target = (vmid + 100).to_string();
        let linked = [("newid", target.as_str()), ("snapname", "snap"), ("full", "0")];
        let full = [("newid", target.as_str()), ("snapname", "snap")];
        if storage == "zfspool" {
            let text = "clone feature is not supported for 'zfspool:vm-100-disk-0' (scsi0)";
            assert_eq!(lab.fail("POST", &format!("{path}/clone"), &linked), format!("Linked {text}"));
            assert_eq!(lab.fail("POST", &format!("{path}/clone"), &full), format!("Full {text}"));
        } else {
            assert_eq!(lab.run("POST", &format!("{path}/clone"), &linked), "OK");
            let name = format!("{storage}:vm-{target}-disk-0");
            assert_eq!(volume(&lab.get(&format!("/nodes/a/qemu/{target}/config")), "scsi0"), name);
        }
    }
    assert_eq!(create(&mut lab, "a", 103, &[("scsi0", "local:1")]), "OK");
    let text = "snapshot feature is not available";
    assert_eq!(lab.run("POST", "/nodes/a/qemu/103/snapshot", &[("snapname", "snap")]), text);
}

#[test]
fn sizes_are_rounded_up_to_what_the_type_can_make() {
    for (storage, after) in [("local", "1025M"), ("zfspool", "1025M"), ("rbd", "1025M"), ("lvm", "1028M")] {
        let mut lab = Lab::with_every_storage(&["a"]);
        assert_eq!(create(&mut lab, "a", 100, &[("scsi0", &format!("{storage}:1"))]), "OK");
        let pairs = [("disk", "scsi0"), ("size", "+1M")];
        assert_eq!(lab.run("PUT", "/nodes/a/qemu/100/resize", &pairs), "OK");
        assert_eq!(size(&lab.get("/nodes/a/qemu/100/config"), "scsi0"), after, "{storage}");
    }
}

#[test]
fn a_new_disk_is_noted_down_as_it_was_asked_for() {
    let mut lab = Lab::with_every_storage(&["a"]);
    assert_eq!(create(&mut lab, "a", 100, &[("scsi0", "lvm:0.001"), ("scsi1", "zfspool:0.001")]), "OK");
    let config = lab.get("/nodes/a/qemu/100/config");
    assert_eq!((size(&config, "scsi0"), size(&config, "scsi1")), ("1049K".into(), "1049K".into()));
    let listed = |lab: &mut Lab, storage: &str| {
        lab.get(&format!("/nodes/a/storage/{storage}/content"))[0]["size"].clone()
    };
    assert_eq!((listed(&mut lab, "lvm"), listed(&mut lab, "zfspool")), (json!(4 << 20), json!(2 << 20)));
}

#[test]
fn blocks_have_one_format_unless_asked_otherwise() {
    let mut lab = Lab::with_every_storage(&["a"]);
    for storage in ["zfspool", "lvmthin"] {
        let status = create(&mut lab, "a", 100, &[("scsi0", &format!("{storage}:1,format=qcow2"))]);
        assert!(status.starts_with("unable to create VM 100 - unsupported format 'qcow2'"), "{status}");
    }
    assert_eq!(create(&mut lab, "a", 100, &[("scsi0", "rbd:1,format=qcow2")]), "OK");
    assert_eq!(volume(&lab.get("/nodes/a/qemu/100/config"), "scsi0"), "rbd:vm-100-disk-0");
    assert_eq!(create(&mut lab, "a", 101, &[("scsi0", "nfs:1,format=qcow2")]), "OK");
    let pairs = [("disk", "scsi0"), ("storage", "btrfs"), ("delete", "1")];
    assert_eq!(lab.run("POST", "/nodes/a/qemu/101/move_disk", &pairs), "OK");
    assert_eq!(volume(&lab.get("/nodes/a/qemu/101/config"), "scsi0"), "btrfs:101/vm-101-disk-0.raw");
}

#[test]
fn thick_storages_fill_with_sizes_and_thin_ones_with_data() {
    let mut lab = Lab::with_every_storage(&["a"]);
    for (vmid, storage) in [(100, "lvm"), (101, "zfspool"), (102, "lvmthin"), (103, "rbd"), (104, "nfs")] {
        assert_eq!(used(&mut lab, storage), 0);
        assert_eq!(create(&mut lab, "a", vmid, &[("scsi0", &format!("{storage}:10"))]), "OK");
        let thick = vmid < 102;
        assert_eq!(used(&mut lab, storage), if thick { 10 * GIB } else { 0 }, "{storage}");
        let volid = volume(&lab.get(&format!("/nodes/a/qemu/{vmid}/config")), "scsi0");
        assert!(lab.world.write_to("a", &volid, 3 * GIB));
        assert_eq!(used(&mut lab, storage), if thick { 10 * GIB } else { 3 * GIB }, "{storage}");
        let entries = lab.call("GET", "/cluster/resources", &[("type", "storage")]);
        let entry = entries.as_array().unwrap().iter().find(|entry| entry["storage"] == storage).unwrap();
        assert_eq!(entry["disk"].as_u64(), Some(if thick { 10 * GIB } else { 3 * GIB }), "{storage}");
        assert_eq!(lab.run("DELETE", &format!("/nodes/a/qemu/{vmid}"), &[]), "OK");
        assert_eq!(used(&mut lab, storage), 0, "{storage}");
    }
}

#[test]
fn a_full_storage_speaks_with_the_words_of_its_tools() {
    let mut lab = Lab::with_every_storage(&["a"]);
    let full = |lab: &mut Lab, storage: &str| {
        let text = create(lab, "a", 100, &[("scsi0", &format!("{storage}:200"))]);
        text.strip_prefix("unable to create VM 100 - ").unwrap_or(&text).to_owned()
    };
    assert_eq!(full(&mut lab, "zfspool"), "zfs error: cannot create 'tank/vms/vm-100-disk-0': out of space");
    let text = "lvcreate 'thick/vm-100-disk-0' error:   Volume group \"thick\" has insufficient free space (25600 \
                extents): 51200 required.";
    assert_eq!(full(&mut lab, "lvm"), text);
    // Thin storages promise more than they have, until what they have is gone.
    for storage in ["lvmthin", "rbd", "nfs"] {
        assert_eq!(full(&mut lab, storage), "OK");
        let volid = volume(&lab.get("/nodes/a/qemu/100/config"), "scsi0");
        assert!(lab.world.write_to("a", &volid, 100 * GIB));
        let format = if storage == "nfs" { ",format=qcow2" } else { "" };
        let text = create(&mut lab, "a", 101, &[("scsi0", &format!("{storage}:1{format}"))]);
        let expected = match storage {
            "lvmthin" => "free space in thin pool pve/data reached threshold.",
            _ => "No space left on device",
        };
        assert!(text.starts_with("unable to create VM 101 - ") && text.ends_with(expected), "{text}");
        assert!(!lab.world.has_vm(101));
        assert_eq!(lab.run("DELETE", "/nodes/a/qemu/100", &[]), "OK");
    }
    assert_eq!(create(&mut lab, "a", 100, &[("scsi0", "lvm:90")]), "OK");
    let grown = lab.run("PUT", "/nodes/a/qemu/100/resize", &[("disk", "scsi0"), ("size", "+20G")]);
    let text = "error resizing volume '/dev/thick/vm-100-disk-0':   Insufficient free space: 5120 extents needed, but \
                only 2560 available";
    assert_eq!(grown, text);
    let pairs = [("newid", "101"), ("storage", "zfspool")];
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/clone", &pairs), "OK");
    let pairs = [("newid", "102"), ("storage", "zfspool")];
    let text = "clone failed: zfs error: cannot create 'tank/vms/vm-102-disk-0': out of space";
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/clone", &pairs), text);
}

/// Starts creates at the same time and gives their ends.
fn race(lab: &mut Lab, storage: &str, hosts: [&str; 2]) -> [String; 2] {
    let disk = format!("{storage}:1");
    let tasks = [("200", hosts[0]), ("201", hosts[1])].map(|(vmid, host)| {
        let pairs = [("vmid", vmid), ("scsi0", disk.as_str()), ("scsi1", &disk)];
        lab.call("POST", &format!("/nodes/{host}/qemu"), &pairs)
    });
    tasks.map(|upid| lab.wait(&upid))
}

#[test]
fn those_who_allocate_on_one_storage_queue_for_ten_seconds() {
    let mut lab = Lab::with_every_storage(&["a", "b"]);
    lab.world.timing.per_disk = 4_000;
    assert_eq!(race(&mut lab, "lvmthin", ["a", "a"]), ["OK", "OK"], "eight seconds are bearable");
    let mut lab = Lab::with_every_storage(&["a", "b"]);
    lab.world.timing.per_disk = 6_000;
    let text =
        "unable to create VM 201 - can't lock file '/var/lock/pve-manager/pve-storage-lvmthin' - got timeout";
    assert_eq!(race(&mut lab, "lvmthin", ["a", "a"]), ["OK", text]);
    assert!(!lab.world.has_vm(201));
    let mut lab = Lab::with_every_storage(&["a", "b"]);
    lab.world.timing.per_disk = 6_000;
    assert_eq!(race(&mut lab, "lvmthin", ["a", "b"]), ["OK", "OK"], "each host has its own");
    let mut lab = Lab::with_every_storage(&["a", "b"]);
    lab.world.timing.per_disk = 6_000;
    let text = "unable to create VM 201 - cfs-lock 'storage-rbd' error: got lock request timeout";
    assert_eq!(race(&mut lab, "rbd", ["a", "b"]), ["OK", text], "shared storages have one for all");
}

#[test]
fn a_clone_that_waits_has_its_id_and_gives_it_back_when_stopped() {
    let mut lab = Lab::with_every_storage(&["a"]);
    assert_eq!(create(&mut lab, "a", 100, &[("scsi0", "rbd:1")]), "OK");
    assert_eq!(lab.run("POST", "/nodes/a/qemu/100/template", &[]), "OK");
    lab.world.timing.per_disk = 5_000;
    let first = lab.call("POST", "/nodes/a/qemu/100/clone", &[("newid", "101")]);
    let second = lab.call("POST", "/nodes/a/qemu/100/clone", &[("newid", "102")]);
    lab.world.advance_to(lab.world.clock() + 1_000);
    assert_eq!(lab.world.lock_of_vm(102), Some("clone"));
    lab.call("DELETE", &format!("/nodes/a/tasks/{}", second.as_str().unwrap()), &[]);
    assert_eq!(lab.wait(&second), "clone failed: received interrupt");
    assert!(!lab.world.has_vm(102));
    assert_eq!(lab.wait(&first), "OK");
}

#[test]
fn a_call_that_makes_a_disk_itself_waits_too() {
    let mut lab = Lab::with_every_storage(&["a"]);
    assert_eq!(create(&mut lab, "a", 100, &[]), "OK");
    lab.world.timing.per_disk = 3_000;
    let other = lab.call("POST", "/nodes/a/qemu", &[("vmid", "101"), ("scsi0", "lvm:1")]);
    lab.world.advance_to(lab.world.clock() + 100);
    let reply = lab.send("PUT", "/nodes/a/qemu/100/config", &[("scsi0", "lvm:1")]);
    assert_eq!(reply.status, 200, "{}", reply.reason);
    assert!(reply.delay > 2_000, "{}", reply.delay);
    assert_eq!(lab.wait(&other), "OK");
}

#[test]
fn definitions_hold_what_their_type_can() {
    let mut lab = Lab::with_every_storage(&["a"]);
    let cephfs = [("storage", "cfs"), ("type", "cephfs"), ("content", "images,iso,backup")];
    lab.call("POST", "/storage", &cephfs);
    let shown = lab.get("/storage/cfs");
    assert_eq!((&shown["content"], &shown["path"]), (&json!("backup,iso"), &json!("/mnt/pve/cfs")));
    assert_eq!(shown["shared"], 1);
    let text = lab.fail("POST", "/storage", &[("storage", "x1"), ("type", "lvmthin"), ("vgname", "pve")]);
    assert_eq!(text, "missing value for required option 'thinpool'");
    let iso = [("storage", "x1"), ("type", "zfspool"), ("pool", "tank"), ("content", "iso")];
    assert_eq!(lab.fail("POST", "/storage", &iso), "storage does not support content type 'none'");
    let thin = [("storage", "x1"), ("type", "lvmthin"), ("vgname", "pve"), ("thinpool", "data")];
    lab.call("POST", "/storage", &thin);
    let shown = lab.get("/storage/x1");
    assert_eq!((&shown["vgname"], &shown["thinpool"]), (&json!("pve"), &json!("data")));
    assert_eq!((&shown["content"], &shown["pool"]), (&json!("images,rootdir"), &Value::Null));
    let text = lab.fail("POST", "/nodes/a/qemu", &[("vmid", "100"), ("scsi0", "cfs:1")]);
    assert_eq!(text, "Parameter verification failed.");
}

#[test]
fn content_is_listed_as_the_tools_of_the_type_list_it() {
    let mut lab = Lab::with_every_storage(&["a"]);
    for (vmid, storage, shown, hidden) in [
        (100, "nfs", "used", "name"),
        (101, "zfspool", "name", "ctime"),
        (102, "rbd", "name", "ctime"),
        (103, "lvmthin", "ctime", "parent"),
    ] {
        assert_eq!(create(&mut lab, "a", vmid, &[("scsi0", &format!("{storage}:1"))]), "OK");
        let list = lab.get(&format!("/nodes/a/storage/{storage}/content"));
        let entry = list[0].as_object().unwrap();
        assert_eq!((list.as_array().unwrap().len(), &list[0]["size"]), (1, &json!(GIB)));
        assert!(entry.contains_key(shown) && !entry.contains_key(hidden), "{storage}: {entry:?}");
        assert_eq!(entry["vmid"], vmid);
    }
    for (storage, path) in
        [("zfspool", "/dev/zvol/tank/vms/vm-101-disk-0"), ("lvmthin", "/dev/pve/vm-103-disk-0")]
    {
        let list = lab.get(&format!("/nodes/a/storage/{storage}/content"));
        let volid = list[0]["volid"].as_str().unwrap();
        assert_eq!(lab.get(&format!("/nodes/a/storage/{storage}/content/{volid}"))["path"], path);
    }
}
