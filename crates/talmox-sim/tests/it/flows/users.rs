//! Users and groups, and who may care for whom.

use serde_json::{Value, json};
use talmox_sim::{AclEntry, Body, Request, encode_form};

use super::common::{Lab, body};

fn grant(lab: &mut Lab, subject: &str, kind: &str, path: &str, role: &str) {
    lab.world.access.acl.push(AclEntry {
        path: path.into(),
        kind: kind.into(),
        subject: subject.into(),
        role: role.into(),
        propagate: true,
    });
}

/// A call with a token: status and reason.
fn ask(lab: &mut Lab, token: &str, method: &str, path: &str, pairs: &[(&str, &str)]) -> (u16, String, Value) {
    let mut request = Request {
        method: method.into(),
        path: format!("/api2/json{path}"),
        authorization: Some(format!("PVEAPIToken={token}")),
        ..Request::default()
    };
    let form = encode_form(pairs.iter().copied());
    if matches!(method, "POST" | "PUT") {
        request.body = Body::Bytes { content_type: None, bytes: form.into_bytes() };
    } else {
        request.query = form;
    }
    let now = lab.world.clock();
    let reply = lab.world.handle(&request, now);
    (reply.status, reply.reason.clone(), body(&reply)["data"].clone())
}

/// A token of a user's, as it goes on the wire.
fn token(lab: &mut Lab, user: &str) -> String {
    let made = lab.call("POST", &format!("/access/users/{user}/token/t1"), &[("privsep", "0")]);
    format!("{user}!t1={}", made["value"].as_str().expect("a secret"))
}

#[test]
fn users_come_and_go_with_all_they_have() {
    let mut lab = Lab::new(&["a"]);
    lab.call("POST", "/access/groups", &[("groupid", "admins"), ("comment", "all of us")]);
    let user =
        [("userid", "ann@pve"), ("groups", "admins"), ("email", "ann@example.org"), ("password", "12345678")];
    lab.call("POST", "/access/users", &user);
    assert_eq!(lab.fail("POST", "/access/users", &user), "create user failed: user 'ann@pve' already exists");
    assert_eq!(
        lab.fail("POST", "/access/users", &[("userid", "bob@pve"), ("groups", "none")]),
        "create user failed: no such group 'none'"
    );
    let shown = lab.get("/access/users/ann@pve");
    assert_eq!(
        shown,
        json!({"enable": 1, "expire": 0, "email": "ann@example.org", "groups": ["admins"], "tokens": {}})
    );
    assert_eq!(
        lab.get("/access/groups"),
        json!([{"groupid": "admins", "comment": "all of us", "users": "ann@pve"}])
    );
    assert_eq!(lab.get("/access/groups/admins"), json!({"members": ["ann@pve"], "comment": "all of us"}));
    let ann = token(&mut lab, "ann@pve");
    grant(&mut lab, "admins", "group", "/", "PVEAuditor");
    grant(&mut lab, "ann@pve!t1", "token", "/vms", "PVEAuditor");
    assert_eq!(
        ask(&mut lab, &ann, "GET", "/nodes/a/status", &[]).0,
        200,
        "what a group may, its members may"
    );
    lab.call("PUT", "/access/users/ann@pve", &[("enable", "0"), ("comment", "on leave")]);
    assert_eq!(ask(&mut lab, &ann, "GET", "/nodes/a/status", &[]).0, 401);
    assert_eq!(lab.call("GET", "/access/users", &[("enabled", "0")])[0]["comment"], "on leave");
    lab.call("PUT", "/access/users/ann@pve", &[("enable", "1"), ("expire", "1000000000")]);
    assert_eq!(ask(&mut lab, &ann, "GET", "/nodes/a/status", &[]).0, 401, "her time is over");
    lab.call("PUT", "/access/users/ann@pve", &[("expire", "0")]);
    lab.call("DELETE", "/access/groups/admins", &[]);
    assert_eq!(ask(&mut lab, &ann, "GET", "/nodes/a/status", &[]).0, 403);
    lab.call("DELETE", "/access/users/ann@pve", &[]);
    assert_eq!(lab.get("/access/acl"), json!([]));
    assert_eq!(ask(&mut lab, &ann, "GET", "/nodes", &[]).0, 401);
    assert_eq!(lab.fail("GET", "/access/users/ann@pve", &[]), "no such user ('ann@pve')");
    assert_eq!(
        lab.fail("DELETE", "/access/groups/admins", &[]),
        "delete group failed: group 'admins' does not exist"
    );
}

#[test]
fn who_cares_for_a_group_cares_for_its_members() {
    let mut lab = Lab::new(&["a"]);
    for group in ["red", "blue"] {
        lab.call("POST", "/access/groups", &[("groupid", group)]);
    }
    for (user, group) in [("head@pve", ""), ("ann@pve", "red"), ("bob@pve", "blue")] {
        lab.call("POST", "/access/users", &[("userid", user), ("groups", group)]);
    }
    let head = token(&mut lab, "head@pve");
    let head = head.as_str();
    grant(&mut lab, "head@pve", "user", "/access/groups/red", "PVEUserAdmin");
    let names = |list: &Value| -> Vec<String> {
        let all = list.as_array().into_iter().flatten();
        all.filter_map(|entry| Some(entry["userid"].as_str()?.to_owned())).collect()
    };
    let (_, _, list) = ask(&mut lab, head, "GET", "/access/users", &[]);
    assert_eq!(names(&list), ["ann@pve"]);
    let (_, _, list) = ask(&mut lab, head, "GET", "/access/groups", &[]);
    assert_eq!(list, json!([{"groupid": "red", "users": "ann@pve"}]));
    assert_eq!(ask(&mut lab, head, "GET", "/access/users/ann@pve", &[]).0, 200);
    let (status, reason, _) = ask(&mut lab, head, "GET", "/access/users/bob@pve", &[]);
    assert_eq!((status, reason.as_str()), (403, "Permission check failed"));
    let (status, reason, _) = ask(&mut lab, head, "GET", "/access/users/eve@pve", &[]);
    assert_eq!((status, reason.as_str()), (500, "no such user ('eve@pve')"));
    // A change names the groups the user shall be in.
    let change = |lab: &mut Lab, user: &str, groups: &str| {
        let pairs = [("comment", "x"), ("groups", groups)];
        let pairs = if groups.is_empty() { &pairs[..1] } else { &pairs[..] };
        ask(lab, head, "PUT", &format!("/access/users/{user}"), pairs).1
    };
    let refused = |path: &str| format!("Permission check failed ({path}, User.Modify)");
    assert_eq!(change(&mut lab, "ann@pve", ""), refused("/access/groups"));
    assert_eq!(change(&mut lab, "ann@pve", "blue"), refused("/access/groups/blue"));
    assert_eq!(change(&mut lab, "ann@pve", "red"), "OK");
    assert_eq!(change(&mut lab, "bob@pve", "red"), "Permission check failed");
    // A new user is also a matter of its realm.
    let new = [("userid", "cid@pve"), ("groups", "red")];
    assert_eq!(ask(&mut lab, head, "POST", "/access/users", &new).0, 403);
    grant(&mut lab, "head@pve", "user", "/access/realm/pve", "PVEUserAdmin");
    assert_eq!(ask(&mut lab, head, "POST", "/access/users", &new).0, 200);
    assert_eq!(ask(&mut lab, head, "DELETE", "/access/users/bob@pve", &[]).0, 403);
    assert_eq!(ask(&mut lab, head, "DELETE", "/access/users/cid@pve", &[]).0, 200);
}
