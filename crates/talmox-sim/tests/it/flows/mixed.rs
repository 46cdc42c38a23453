//! Clusters whose hosts are of several versions, as they are while they are upgraded one by one.

use serde_json::json;
use talmox_sim::{AclEntry, Body, Request, Token, User};

use super::common::{Lab, body};

/// Host `old` is 8.4, host `new` is 9.2, and `mid` is 9.0.
fn lab() -> Lab {
    let mut lab = Lab::new(&["mid", "new", "old"]);
    lab.world.set_release("old=8.4,mid=9.0,new=9.2").expect("releases");
    lab
}

fn via(lab: &mut Lab, host: &str) {
    lab.via = Some(host.to_owned());
}

fn group(lab: &mut Lab, host: &str) -> String {
    via(lab, host);
    let reply = lab.send("POST", "/cluster/ha/groups", &[("group", "main"), ("nodes", "old:2,new")]);
    reply.reason
}

#[test]
fn each_host_says_what_it_is_itself() {
    let mut lab = lab();
    for (host, version, qemu) in
        [("old", "8.4.21", "9.2.0"), ("mid", "9.0.11", "10.0.2"), ("new", "9.2.11", "10.0.2")]
    {
        via(&mut lab, host);
        assert_eq!(lab.get("/version")["version"], version);
        for contact in ["old", "new"] {
            via(&mut lab, contact);
            let said = lab.get(&format!("/nodes/{host}/status"))["pveversion"].clone();
            assert!(said.as_str().is_some_and(|text| text.contains(version)), "{host} by {contact}: {said}");
            assert_eq!(lab.get(&format!("/nodes/{host}/version"))["version"], version);
        }
        let vmid = lab.get("/cluster/nextid");
        let vmid = vmid.as_str().expect("an id");
        assert_eq!(lab.run("POST", &format!("/nodes/{host}/qemu"), &[("vmid", vmid)]), "OK");
        let meta = lab.get(&format!("/nodes/{host}/qemu/{vmid}/config"))["meta"].clone();
        assert!(meta.as_str().is_some_and(|text| text.contains(qemu)), "{host}: {meta}");
    }
}

#[test]
fn the_host_a_call_is_about_decides_over_its_parameters() {
    let mut lab = lab();
    for contact in ["old", "new"] {
        via(&mut lab, contact);
        let reply = lab.send("POST", "/nodes/old/qemu", &[("vmid", "100"), ("allow-ksm", "0")]);
        assert_eq!(reply.status, 400, "by {contact}");
        assert!(body(&reply)["errors"]["allow-ksm"].is_string());
        lab.run("POST", "/nodes/new/qemu", &[("vmid", "100"), ("allow-ksm", "0"), ("tags", "B;a")]);
        assert_eq!(lab.get("/nodes/new/qemu/100/config")["tags"], "a;b", "its worker is of that version too");
        assert_eq!(lab.run("DELETE", "/nodes/new/qemu/100", &[]), "OK");
        lab.run("POST", "/nodes/old/qemu", &[("vmid", "100"), ("tags", "B;a")]);
        assert_eq!(lab.get("/nodes/old/qemu/100/config")["tags"], "B;a");
        assert_eq!(lab.run("DELETE", "/nodes/old/qemu/100", &[]), "OK");
    }
}

#[test]
fn both_hosts_on_the_way_ask_for_what_they_know() {
    let mut lab = lab();
    let token = Token { secret: "s".into(), ..Token::default() };
    let user = User { tokens: [("t".to_owned(), token)].into(), ..User::default() };
    lab.world.access.users.insert("u@pve".into(), user);
    lab.world.access.acl.push(AclEntry {
        path: "/".into(),
        kind: "user".into(),
        subject: "u@pve".into(),
        role: "R".into(),
        propagate: true,
    });
    for (host, vmid) in [("old", "100"), ("new", "101")] {
        assert_eq!(lab.run("POST", &format!("/nodes/{host}/qemu"), &[("vmid", vmid), ("agent", "1")]), "OK");
    }
    let mut ask = |privileges: &[&str], contact: &str, host: &str, vmid: &str| {
        let privileges = privileges.iter().map(|name| (*name).to_owned()).collect();
        lab.world.access.roles.insert("R".into(), privileges);
        let request = Request {
            method: "GET".into(),
            path: format!("/api2/json/nodes/{host}/qemu/{vmid}/agent/info"),
            authorization: Some("PVEAPIToken=u@pve!t=s".into()),
            via: Some(contact.to_owned()),
            body: Body::Empty,
            ..Request::default()
        };
        let now = lab.world.clock();
        lab.world.handle(&request, now).status
    };
    let (old, new) = ("VM.Monitor", "VM.GuestAgent.Audit");
    assert_eq!(ask(&[old], "old", "old", "100"), 500, "not running: allowed");
    assert_eq!(ask(&[new], "old", "old", "100"), 403);
    assert_eq!(ask(&[new], "new", "new", "101"), 500);
    assert_eq!(ask(&[old], "new", "new", "101"), 403);
    assert_eq!(ask(&[old], "new", "old", "100"), 403, "the first one refuses");
    assert_eq!(ask(&[new], "new", "old", "100"), 403, "the second one refuses");
    assert_eq!(ask(&[old, new], "new", "old", "100"), 500);
    assert_eq!(ask(&[old, new], "old", "new", "101"), 500);
}

#[test]
fn a_role_shows_what_the_host_knows() {
    let mut lab = lab();
    let privileges = ["VM.Monitor", "VM.GuestAgent.Audit", "VM.Audit"].map(str::to_owned);
    lab.world.access.roles.insert("R".into(), privileges.into());
    via(&mut lab, "old");
    assert_eq!(lab.get("/access/roles/R"), json!({"VM.Audit": 1, "VM.Monitor": 1}));
    via(&mut lab, "new");
    assert_eq!(lab.get("/access/roles/R"), json!({"VM.Audit": 1, "VM.GuestAgent.Audit": 1}));
}

#[test]
fn groups_stay_groups_until_the_last_host_knows_rules() {
    let mut lab = lab();
    assert_eq!(group(&mut lab, "new"), "cannot create group: ha groups have been migrated to rules");
    assert_eq!(group(&mut lab, "old"), "OK");
    assert_eq!(lab.run("POST", "/nodes/old/qemu", &[("vmid", "100")]), "OK");
    lab.call("POST", "/cluster/ha/resources", &[("sid", "vm:100"), ("group", "main")]);
    via(&mut lab, "new");
    assert_eq!(lab.get("/cluster/ha/groups")[0]["group"], "main", "there are some");
    let rules = lab.get("/cluster/ha/rules");
    assert_eq!(
        (&rules[0]["rule"], &rules[0]["nodes"], &rules[0]["resources"]),
        (&json!("ha-group-main"), &json!("old:2,new"), &json!("vm:100"))
    );
    let rule = [
        ("rule", "r1"),
        ("type", "node-affinity"),
        ("resources", "vm:100"),
        ("nodes", "new"),
        ("strict", "1"),
    ];
    assert_eq!(
        lab.fail("POST", "/cluster/ha/rules", &rule),
        "cannot create ha rule: ha groups have not been migrated yet"
    );
    // The last host is upgraded.
    lab.world.set_release("9.2").expect("a release");
    lab.world.advance_to(lab.world.clock() + 60_000);
    assert!(lab.fail("GET", "/cluster/ha/groups", &[]).contains("have been migrated to rules"));
    assert_eq!(lab.get("/cluster/ha/rules")[0]["rule"], "ha-group-main");
    let resource = lab.get("/cluster/ha/resources/vm:100");
    assert_eq!((&resource["group"], &resource["failback"]), (&json!(null), &json!(1)));
    lab.call("POST", "/cluster/ha/rules", &rule);
    assert_eq!(
        lab.fail("PUT", "/cluster/ha/resources/vm:100", &[("group", "main")]),
        "invalid parameter 'group': ha groups have been migrated to rules"
    );
}

#[test]
fn a_machine_of_a_newer_qemu_starts_on_no_older_host() {
    let mut lab = lab();
    let new = [("vmid", "100"), ("machine", "pc-q35-10.0")];
    assert_eq!(lab.run("POST", "/nodes/old/qemu", &new), "OK", "nobody looks before it starts");
    let text = "Installed QEMU version '9.2.0' is too old to run machine type 'pc-q35-10.0+pve0', please upgrade node \
                'old'";
    assert_eq!(lab.run("POST", "/nodes/old/qemu/100/status/start", &[]), text);
    assert_eq!(lab.run("POST", "/nodes/old/qemu/100/migrate", &[("target", "new")]), "OK");
    assert_eq!(lab.run("POST", "/nodes/new/qemu/100/status/start", &[]), "OK");
}

#[test]
fn a_cluster_of_several_versions_is_kept_as_one() {
    let lab = lab();
    let saved = lab.world.save();
    let mut loaded = talmox_sim::World::load(&saved).expect("a world");
    assert!(loaded.is_of(&"old=8.4,mid=9.0,new=9.2".parse().expect("versions")));
    assert!(!loaded.is_of(&"9.2".parse().expect("a version")));
    assert_eq!(loaded.version_of("old"), "8.4.21");
    assert_eq!(loaded.root_call("GET", "/nodes/old/version", &[]).expect("a version")["release"], "8.4");
}
