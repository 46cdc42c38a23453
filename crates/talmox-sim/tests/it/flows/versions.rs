//! What differs between 8.4, 9.0 and 9.2, seen from outside.

use serde_json::json;
use talmox_sim::{AclEntry, Body, Request, Token, User};

use super::common::{Lab, body};

const RELEASES: [&str; 3] = ["8.4", "9.0", "9.2"];
const UNKNOWN: &str = "property is not defined in schema and the schema does not allow additional properties";

fn lab(release: &str) -> Lab {
    let mut lab = Lab::with_every_storage(&["a"]);
    lab.world.set_release(release).expect("a release");
    lab
}

/// A user whose token holds one role everywhere.
fn with_role(lab: &mut Lab, privileges: &[&str]) {
    let token = Token { secret: "s".into(), ..Token::default() };
    let user = User { tokens: [("t".to_owned(), token)].into(), ..User::default() };
    lab.world.access.users.insert("u@pve".into(), user);
    let privileges = privileges.iter().map(|name| (*name).to_owned()).collect();
    lab.world.access.roles.insert("R".into(), privileges);
    let entry = AclEntry {
        path: "/".into(),
        kind: "user".into(),
        subject: "u@pve".into(),
        role: "R".into(),
        propagate: true,
    };
    lab.world.access.acl.push(entry);
}

fn ask(lab: &mut Lab, token: &str, method: &str, path: &str, form: &str) -> (u16, String) {
    let mut request = Request {
        method: method.into(),
        path: format!("/api2/json{path}"),
        authorization: Some(format!("PVEAPIToken={token}")),
        ..Request::default()
    };
    if method != "GET" {
        request.body = Body::Bytes { content_type: None, bytes: form.as_bytes().to_vec() };
    }
    let now = lab.world.clock();
    let reply = lab.world.handle(&request, now);
    (reply.status, reply.reason)
}

#[test]
fn each_says_what_it_is() {
    for (release, version, qemu, newest) in [
        ("8.4", "8.4.21", "9.2.0", "9.2"),
        ("9.0", "9.0.11", "10.0.2", "10.0"),
        ("9.2", "9.2.11", "10.0.2", "10.0"),
    ] {
        let mut lab = lab(release);
        let said = lab.get("/version");
        assert_eq!((&said["release"], &said["version"]), (&json!(release), &json!(version)));
        let pve = lab.get("/nodes/a/status")["pveversion"].clone();
        assert!(
            pve.as_str().is_some_and(|text| text.starts_with(&format!("pve-manager/{version}/"))),
            "{pve}"
        );
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &[("vmid", "100")]), "OK");
        let meta = lab.get("/nodes/a/qemu/100/config")["meta"].clone();
        assert!(
            meta.as_str().is_some_and(|text| text.starts_with(&format!("creation-qemu={qemu},"))),
            "{meta}"
        );
        let machines = lab.get("/nodes/a/capabilities/qemu/machines");
        let first = machines[0]["version"].as_str().unwrap_or_default();
        assert!(first.starts_with(newest), "{release}: {first}");
    }
}

#[test]
fn the_guest_agent_has_privileges_of_its_own_since_nine() {
    for release in RELEASES {
        let mut lab = lab(release);
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &[("vmid", "100"), ("agent", "1")]), "OK");
        let (own, other) = if release == "8.4" {
            ("VM.Monitor", "VM.GuestAgent.Audit")
        } else {
            ("VM.GuestAgent.Audit", "VM.Monitor")
        };
        let roles = lab.get("/access/roles/PVEVMAdmin");
        assert_eq!((&roles[own], roles.get(other)), (&json!(1), None), "{release}");
        with_role(&mut lab, &[own]);
        let path = "/nodes/a/qemu/100/agent/info";
        let reply = ask(&mut lab, "u@pve!t=s", "GET", path, "");
        assert_eq!(reply, (500, "VM 100 is not running".into()), "{release}");
        with_role(&mut lab, &[other]);
        let (status, reason) = ask(&mut lab, "u@pve!t=s", "GET", path, "");
        let named =
            if release == "8.4" { own.to_owned() } else { format!("{own}|VM.GuestAgent.Unrestricted") };
        assert_eq!((status, reason), (403, format!("Permission check failed (/vms/100, {named})")));
        // A role can only have privileges there are.
        let reply = lab.send("POST", "/access/roles", &[("roleid", "x"), ("privs", other)]);
        let text = format!("invalid format - invalid privilege '{other}'\n");
        assert_eq!((reply.status, &body(&reply)["errors"]["privs"]), (400, &json!(text)), "{release}");
        lab.call("POST", "/access/roles", &[("roleid", "x"), ("privs", &format!("VM.Audit,{own}"))]);
        assert_eq!(lab.get("/access/roles/x")[own], 1);
    }
}

#[test]
fn tags_of_a_new_vm_are_kept_as_sent_until_nine_two() {
    for release in RELEASES {
        let mut lab = lab(release);
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &[("vmid", "100"), ("tags", "B;a;B")]), "OK");
        let expected = if release == "9.2" { "a;b" } else { "B;a;B" };
        assert_eq!(lab.get("/nodes/a/qemu/100/config")["tags"], expected, "{release}");
        lab.call("PUT", "/nodes/a/qemu/100/config", &[("tags", "B;a;B")]);
        assert_eq!(lab.get("/nodes/a/qemu/100/config")["tags"], "a;b", "an update is no matter of version");
        // And nobody asks whether the caller may set them.
        with_role(&mut lab, &["VM.Allocate"]);
        let (status, _) = ask(&mut lab, "u@pve!t=s", "POST", "/nodes/a/qemu", "vmid=101&tags=x");
        assert_eq!(status, 200);
        lab.world.advance_to(lab.world.clock() + 5_000);
        assert_eq!(lab.world.has_vm(101), release != "9.2", "{release}");
    }
}

#[test]
fn starting_a_new_vm_asks_for_the_right_since_nine_two() {
    for release in RELEASES {
        let mut lab = lab(release);
        with_role(&mut lab, &["VM.Allocate"]);
        let reply = ask(&mut lab, "u@pve!t=s", "POST", "/nodes/a/qemu", "vmid=101&start=1");
        let text = "Permission check failed (/vms/101, VM.PowerMgmt)";
        let expected = if release == "9.2" { (403, text.to_owned()) } else { (200, "OK".to_owned()) };
        assert_eq!(reply, expected, "{release}");
    }
}

#[test]
fn who_waits_for_the_lock_of_a_vm_changed() {
    for release in RELEASES {
        let mut lab = lab(release);
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &[("vmid", "100"), ("scsi0", "lvm:1")]), "OK");
        lab.world.timing.small = 60_000;
        let slow = [("disk", "scsi0"), ("size", "+1G")];
        let busy = lab.call("PUT", "/nodes/a/qemu/100/resize", &slow);
        lab.world.advance_to(lab.world.clock() + 100);
        let reply = lab.send("POST", "/nodes/a/qemu/100/config", &[("cores", "2")]);
        let text = "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout";
        if release == "9.2" {
            assert_eq!(reply.status, 200);
            assert_eq!(lab.wait(&body(&reply)["data"]), text);
        } else {
            assert_eq!((reply.status, reply.reason.as_str()), (500, text), "{release}");
        }
        assert_eq!(lab.wait(&busy), "OK");
    }
}

#[test]
fn refusals_to_authenticate_say_why_in_nine_zero() {
    for release in RELEASES {
        let mut lab = lab(release);
        with_role(&mut lab, &["Sys.Audit"]);
        let expired = Token { secret: "s".into(), expire: 1, ..Token::default() };
        if let Some(user) = lab.world.access.users.get_mut("u@pve") {
            user.tokens.insert("old".into(), expired);
        }
        for (token, words) in [
            ("u@pve!t=wrong", "invalid token value!"),
            ("u@pve!old=s", "token 'old' access expired"),
            ("u@pve!none=s", "no such token 'none' for user 'u@pve'"),
        ] {
            let words = if release == "9.0" { words } else { "Authentication failed!" };
            assert_eq!(ask(&mut lab, token, "GET", "/nodes", ""), (401, words.to_owned()), "{release}");
        }
        assert_eq!(ask(&mut lab, "u@pve!t=s", "GET", "/nodes", "").0, 200);
    }
}

#[test]
fn options_come_and_go() {
    let new: [(&str, &str, Option<&str>, &[&str]); 9] = [
        ("allow-ksm", "0", None, &["9.0", "9.2"]),
        ("ha-managed", "0", None, &["9.0", "9.2"]),
        ("agent", "1,freeze-fs=0", Some("freeze-fs"), &["9.0", "9.2"]),
        ("agent", "1,freeze-fs-on-backup=0", None, &["8.4", "9.0", "9.2"]),
        ("machine", "q35,viommu=intel,aw-bits=39", Some("aw-bits"), &["9.0", "9.2"]),
        ("cpu", "host,guest-phys-bits=40", Some("guest-phys-bits"), &["9.0", "9.2"]),
        ("cpu", "host,level=30", Some("level"), &["9.2"]),
        ("net0", "virtio,bridge=vmbr0,host-tunnel=1", Some("host-tunnel"), &["9.2"]),
        ("scsi0", "zfspool:1,ssd=1,cyls=16383", Some("cyls"), &["8.4"]),
    ];
    for release in RELEASES {
        for (option, value, key, releases) in new {
            let mut lab = lab(release);
            let reply = lab.send("POST", "/nodes/a/qemu", &[("vmid", "100"), (option, value)]);
            if releases.contains(&release) {
                assert_eq!(reply.status, 200, "{release} {option}={value}: {}", reply.reason);
                assert_eq!(lab.wait(&body(&reply)["data"]), "OK", "{release} {option}={value}");
                continue;
            }
            let text = key.map_or_else(
                || UNKNOWN.to_owned(),
                |key| format!("invalid format - format error\n{option}.{key}: {UNKNOWN}\n"),
            );
            assert_eq!(reply.status, 400, "{release} {option}={value}");
            assert_eq!(body(&reply)["errors"][option], text.as_str(), "{release} {option}={value}");
        }
    }
    let mut lab = lab("8.4");
    let pairs = [("vmid", "100"), ("scsi0", "zfspool:1,ssd=1,cyls=16383")];
    assert_eq!(lab.run("POST", "/nodes/a/qemu", &pairs), "OK");
    let stored = "zfspool:vm-100-disk-0,cyls=16383,size=1G,ssd=1";
    assert_eq!(lab.get("/nodes/a/qemu/100/config")["scsi0"], stored, "what was taken is kept");
}

#[test]
fn formats_of_blocks_and_states_of_a_tpm_are_of_nine() {
    for release in RELEASES {
        let mut lab = lab(release);
        let pairs = [("vmid", "100"), ("scsi0", "lvm:1,format=qcow2")];
        let refused = "unable to create VM 100 - unsupported format 'qcow2'";
        let expected = if release == "8.4" { refused } else { "OK" };
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &pairs), expected, "{release}");
        if let Some(local) = lab.world.storages.iter_mut().find(|storage| storage.id == "local") {
            local.options.insert("format".into(), "qcow2".into());
        }
        let pairs = [("vmid", "101"), ("tpmstate0", "local:1,version=v2.0"), ("scsi0", "local:1")];
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &pairs), "OK");
        let config = lab.get("/nodes/a/qemu/101/config");
        let state = config["tpmstate0"].as_str().unwrap_or_default();
        assert_eq!(state.contains(".raw,"), release == "8.4", "{release}: {state}");
        assert!(config["scsi0"].as_str().is_some_and(|disk| disk.contains(".qcow2,")), "{config}");
        let enrolled =
            [("vmid", "102"), ("bios", "ovmf"), ("efidisk0", "local:1,efitype=4m,pre-enrolled-keys=1")];
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &enrolled), "OK");
        let efi = lab.get("/nodes/a/qemu/102/config")["efidisk0"].clone();
        let marked = efi.as_str().is_some_and(|text| text.contains("ms-cert=2023k"));
        assert_eq!(marked, release != "9.0", "{release}: {efi}");
    }
}

#[test]
fn resources_are_listed_as_the_version_knows_them() {
    for release in RELEASES {
        let mut lab = lab(release);
        assert_eq!(lab.run("POST", "/nodes/a/qemu", &[("vmid", "100")]), "OK");
        lab.world.advance_to(lab.world.clock() + 11_000);
        let all = lab.get("/cluster/resources");
        let of = |id: &str| all.as_array().into_iter().flatten().find(|entry| entry["id"] == id).cloned();
        let old = release == "8.4";
        assert_eq!(of("sdn/a/localnetwork").is_some_and(|entry| entry["type"] == "sdn"), old, "{release}");
        assert_eq!(of("network/a/zone/localnetwork").is_some_and(|entry| entry["type"] == "network"), !old);
        let vm = of("qemu/100").unwrap_or_default();
        assert_eq!(vm.get("memhost").is_some(), !old, "{release}");
        assert_eq!(lab.get("/nodes/a/qemu/100/status/current").get("memhost").is_some(), !old);
    }
}

#[test]
fn groups_of_hosts_became_rules_in_nine() {
    let group = [("group", "main"), ("nodes", "a:2"), ("restricted", "1")];
    for release in ["9.0", "9.2"] {
        let mut lab = lab(release);
        let text = "cannot create group: ha groups have been migrated to rules";
        assert_eq!(lab.fail("POST", "/cluster/ha/groups", &group), text);
        assert_eq!(lab.get("/cluster/ha/rules"), json!([]));
    }
    let mut lab = lab("8.4");
    let reply = lab.send("GET", "/cluster/ha/rules", &[]);
    assert_eq!(
        (reply.status, reply.reason.as_str()),
        (501, "Method 'GET /cluster/ha/rules' not implemented")
    );
    lab.call("POST", "/cluster/ha/groups", &group);
    let shown = lab.get("/cluster/ha/groups/main");
    assert_eq!(
        (&shown["nodes"], &shown["restricted"], &shown["type"]),
        (&json!("a:2"), &json!(1), &json!("group"))
    );
    assert_eq!(lab.run("POST", "/nodes/a/qemu", &[("vmid", "100")]), "OK");
    assert_eq!(
        lab.fail("POST", "/cluster/ha/resources", &[("sid", "vm:100"), ("group", "other")]),
        "ha group 'other' does not exist"
    );
    lab.call("POST", "/cluster/ha/resources", &[("sid", "vm:100"), ("group", "main")]);
    assert_eq!(lab.get("/cluster/ha/resources/vm:100")["group"], "main");
    assert!(lab.fail("DELETE", "/cluster/ha/groups/main", &[]).ends_with("is used by service 'vm:100'"));
    lab.call("PUT", "/cluster/ha/groups/main", &[("nodes", "a"), ("delete", "restricted")]);
    assert_eq!(lab.get("/cluster/ha/groups")[0]["nodes"], "a");
    lab.call("DELETE", "/cluster/ha/resources/vm:100", &[]);
    lab.call("DELETE", "/cluster/ha/groups/main", &[]);
    assert_eq!(lab.get("/cluster/ha/groups"), json!([]));
}

#[test]
fn every_version_gives_its_words_in_the_body() {
    for release in RELEASES {
        let mut lab = lab(release);
        let reply = lab.send("GET", "/nodes/a/qemu/100/config", &[]);
        let text = "Configuration file 'nodes/a/qemu-server/100.conf' does not exist";
        assert_eq!((reply.status, reply.reason.as_str()), (500, text));
        assert_eq!(body(&reply)["message"], format!("{text}\n"), "{release}");
    }
}
