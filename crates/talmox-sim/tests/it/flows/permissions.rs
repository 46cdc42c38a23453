//! What every call asks of its caller: with exactly that it gets through, without any part of it it does not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use talmox_sim::{AclEntry, Body, Endpoint, Reply, Request, Token, User, encode_form, endpoints};

use super::common::{Lab, body};

type Grant = (String, String);

const USER: &str = "u@pve";

fn grant(path: &str, privilege: &str) -> Grant {
    (path.to_owned(), privilege.to_owned())
}

/// Gives a subject exactly these privileges, each by a role of its own.
fn give(lab: &mut Lab, kind: &str, subject: &str, grants: &[Grant]) {
    lab.world.access.acl.retain(|entry| entry.subject != subject);
    for (path, privilege) in grants {
        let role = format!("only-{privilege}");
        lab.world.access.roles.insert(role.clone(), BTreeSet::from([privilege.clone()]));
        let entry = AclEntry {
            path: path.clone(),
            kind: kind.into(),
            subject: subject.into(),
            role,
            propagate: false,
        };
        lab.world.access.acl.push(entry);
    }
}

fn with_user(hosts: &[&str]) -> Lab {
    let mut lab = Lab::with_every_storage(hosts);
    let token = |privsep| Token { secret: "s".into(), privsep, ..Token::default() };
    let tokens = BTreeMap::from([("t".to_owned(), token(false)), ("sep".to_owned(), token(true))]);
    lab.world.access.users.insert(USER.into(), User { tokens, ..User::default() });
    lab
}

fn send_as(lab: &mut Lab, token: &str, method: &str, path: &str, pairs: &[(&str, &str)]) -> Reply {
    let form = encode_form(pairs.iter().copied());
    let mut request = Request {
        method: method.into(),
        path: format!("/api2/json{path}"),
        authorization: Some(format!("PVEAPIToken={USER}!{token}=s")),
        ..Request::default()
    };
    if matches!(method, "POST" | "PUT") {
        request.body = Body::Bytes { content_type: None, bytes: form.into_bytes() };
    } else {
        request.query = form;
    }
    let now = lab.world.clock();
    lab.world.handle(&request, now)
}

fn refusal(detail: &str) -> String {
    format!("Permission check failed ({detail})")
}

// ---- The gate of every endpoint ----

/// A check of the table, read by the test's own reader.
#[derive(Debug)]
enum Check {
    Perm { path: String, privileges: Vec<String>, any: bool },
    And(Vec<Check>),
    Or(Vec<Check>),
}

/// Reads `perm`, `and` and `or`; the checks of users have tests of their own.
fn read(text: &str) -> Option<Check> {
    let (head, inner) = text.strip_suffix(')')?.split_once('(')?;
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in inner.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ' ' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut()?.push(c);
        }
    }
    match head {
        "perm" => {
            let path = parts[0].split('@').next()?.to_owned();
            let any = parts[1].contains('|');
            Some(Check::Perm {
                path,
                privileges: parts[1].split(['|', '+']).map(str::to_owned).collect(),
                any,
            })
        }
        "and" => parts.iter().map(|part| read(part)).collect::<Option<_>>().map(Check::And),
        "or" => parts.iter().map(|part| read(part)).collect::<Option<_>>().map(Check::Or),
        _ => None,
    }
}

const VALUES: [(&str, &str); 14] = [
    ("node", "a"),
    ("vmid", "100"),
    ("newid", "101"),
    ("storage", "local"),
    ("volume", "local:iso/x.iso"),
    ("pool", "p"),
    ("poolid", "p"),
    ("sid", "vm:100"),
    ("rule", "r"),
    ("group", "g"),
    ("id", "m"),
    ("snapname", "snap"),
    ("iface", "vmbr0"),
    ("upid", "UPID:a:00000001:00000001:00000001:x:1:u@pve:"),
];

fn fill(text: &str) -> String {
    VALUES.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// Every smallest set of privileges that satisfies the check.
fn ways(check: &Check) -> Vec<Vec<Grant>> {
    match check {
        Check::Perm { path, privileges, any: true } => {
            privileges.iter().map(|name| vec![grant(&fill(path), name)]).collect()
        }
        Check::Perm { path, privileges, any: false } => {
            vec![privileges.iter().map(|name| grant(&fill(path), name)).collect()]
        }
        Check::Or(parts) => parts.iter().flat_map(ways).collect(),
        Check::And(parts) => parts.iter().fold(vec![Vec::new()], |sets, part| {
            let more = ways(part);
            sets.iter().flat_map(|set| more.iter().map(|way| [set.clone(), way.clone()].concat())).collect()
        }),
    }
}

/// The words of the refusal of somebody who holds these.
fn words(check: &Check, held: &[Grant]) -> Option<String> {
    let holds = |path: &str, name: &String| held.contains(&grant(&fill(path), name));
    match check {
        Check::Perm { path, privileges, any: true } => {
            let none = !privileges.iter().any(|name| holds(path, name));
            none.then(|| refusal(&format!("{}, {}", fill(path), privileges.join("|"))))
        }
        Check::Perm { path, privileges, any: false } => {
            let missing = privileges.iter().find(|name| !holds(path, name))?;
            Some(refusal(&format!("{}, {missing}", fill(path))))
        }
        Check::And(parts) => parts.iter().find_map(|part| words(part, held)),
        Check::Or(parts) => {
            let none = parts.iter().all(|part| words(part, held).is_some());
            none.then(|| "Permission check failed".to_owned())
        }
    }
}

/// What the caller is told who holds these; parameters the check names are sent along.
fn ask(lab: &mut Lab, endpoint: &Endpoint, held: &[Grant]) -> Reply {
    give(lab, "user", USER, held);
    let path = fill(&endpoint.path);
    let named = |name: &&(&str, &str)| {
        let variable = format!("{{{}}}", name.0);
        endpoint.permission.contains(&variable) && !endpoint.path.contains(&variable)
    };
    let pairs: Vec<(&str, &str)> = VALUES.iter().filter(named).copied().collect();
    send_as(lab, "t", &endpoint.method, &path, &pairs)
}

#[test]
fn the_gate_of_every_call_opens_for_exactly_its_privileges() {
    let mut lab = with_user(&["a"]);
    let mut checked = 0;
    let mut others = BTreeMap::new();
    for endpoint in endpoints() {
        let Some(check) = read(&endpoint.permission) else {
            *others.entry(endpoint.permission).or_insert(0) += 1;
            continue;
        };
        let name = format!("{} {}", endpoint.method, endpoint.path);
        let expected = words(&check, &[]).expect("nobody gets through with nothing");
        let reply = ask(&mut lab, &endpoint, &[]);
        assert_eq!((reply.status, reply.reason), (403, expected), "{name}");
        for way in ways(&check) {
            let reply = ask(&mut lab, &endpoint, &way);
            let gate = words(&check, &[]).unwrap_or_default();
            assert!(reply.status != 403 || reply.reason != gate, "{name} with {way:?}: {}", reply.reason);
            for left_out in 0..way.len() {
                let mut less = way.clone();
                less.remove(left_out);
                let expected = words(&check, &less).expect("the way was the smallest");
                let reply = ask(&mut lab, &endpoint, &less);
                assert_eq!((reply.status, reply.reason), (403, expected), "{name} with {less:?}");
                checked += 1;
            }
        }
    }
    println!("{checked} refusals, others: {others:?}");
    assert!(checked >= 150, "{checked}");
    let rest: BTreeSet<&str> = others.keys().map(String::as_str).collect();
    let users = "or(userparam(self) usergroup(User.Modify))";
    let password = "or(userparam(self) and(userparam(Realm.AllocateUser) usergroup(User.Modify)))";
    let known = [
        "all",
        "world",
        "root",
        users,
        password,
        "usergroup(User.Modify|Sys.Audit)",
        "usergroup(User.Modify@update)",
        "and(userparam(Realm.AllocateUser) usergroup(User.Modify@create))",
        "and(userparam(Realm.AllocateUser) usergroup(User.Modify))",
        "permmodify({path})",
    ];
    assert_eq!(rest, known.into(), "checks of a kind this test does not know");
}

// ---- What parameters ask for ----

struct Case {
    method: &'static str,
    path: &'static str,
    params: &'static [(&'static str, &'static str)],
    needs: &'static [(&'static str, &'static str)],
}

const fn case(
    method: &'static str,
    path: &'static str,
    params: &'static [(&'static str, &'static str)],
    needs: &'static [(&'static str, &'static str)],
) -> Case {
    Case { method, path, params, needs }
}

const VM: &str = "/vms/100";
const NEW: &str = "/vms/200";
const CONFIG: &str = "/nodes/a/qemu/100/config";
const CREATE: &str = "/nodes/a/qemu";
const CLONE: &str = "/nodes/a/qemu/100/clone";

/// Each must succeed with exactly these privileges.
#[rustfmt::skip]
const CASES: &[Case] = &[
    case("POST", CREATE, &[("vmid", "200")], &[(NEW, "VM.Allocate")]),
    case("POST", CREATE, &[("vmid", "200"), ("pool", "p")], &[("/pool/p", "VM.Allocate")]),
    case("POST", CREATE, &[("vmid", "200"), ("storage", "zfs")], &[(NEW, "VM.Allocate"), ("/storage/zfs", "Datastore.AllocateSpace")]),
    case("POST", CREATE, &[("vmid", "200"), ("start", "1")], &[(NEW, "VM.Allocate"), (NEW, "VM.PowerMgmt")]),
    case("POST", CREATE, &[("vmid", "200"), ("ha-managed", "1")], &[(NEW, "VM.Allocate"), ("/", "Sys.Console")]),
    case("POST", CREATE, &[("vmid", "200"), ("scsi0", "zfs:1")], &[(NEW, "VM.Allocate"), ("/storage/zfs", "Datastore.AllocateSpace")]),
    case("POST", CREATE, &[("vmid", "200"), ("ide2", "zfs:cloudinit")], &[(NEW, "VM.Allocate")]),
    case("POST", CREATE, &[("vmid", "200"), ("ide2", "local:iso/x.iso,media=cdrom")], &[(NEW, "VM.Allocate"), ("/storage/local", "Datastore.Audit")]),
    case("POST", CREATE, &[("vmid", "200"), ("scsi0", "zfs:0,import-from=local:import/x.qcow2")],
        &[(NEW, "VM.Allocate"), ("/storage/zfs", "Datastore.AllocateSpace"), ("/storage/local", "Datastore.Audit")]),
    case("POST", CREATE, &[("vmid", "200"), ("scsi0", "zfs:0,import-from=zfs:vm-100-disk-0")],
        &[(NEW, "VM.Allocate"), ("/storage/zfs", "Datastore.AllocateSpace"), (VM, "VM.Clone")]),
    case("POST", CREATE, &[("vmid", "200"), ("net0", "virtio,bridge=vmbr0")], &[(NEW, "VM.Allocate"), (NEW, "VM.Config.Network"), ("/sdn/zones/localnetwork/vmbr0", "SDN.Use")]),
    case("POST", CREATE, &[("vmid", "200"), ("net0", "virtio,bridge=vmbr0,tag=7")], &[(NEW, "VM.Allocate"), (NEW, "VM.Config.Network"), ("/sdn/zones/localnetwork/vmbr0/7", "SDN.Use")]),
    case("POST", CREATE, &[("vmid", "200"), ("hostpci0", "mapping=gpu")], &[(NEW, "VM.Allocate"), ("/mapping/pci/gpu", "Mapping.Use"), (NEW, "VM.Config.HWType")]),
    case("POST", CREATE, &[("vmid", "200"), ("usb0", "mapping=key")], &[(NEW, "VM.Allocate"), (NEW, "VM.Config.HWType"), ("/mapping/usb/key", "Mapping.Use")]),
    case("POST", CREATE, &[("vmid", "200"), ("rng0", "source=/dev/hwrng")], &[(NEW, "VM.Allocate"), (NEW, "VM.Config.HWType"), ("/mapping/hwrng", "Mapping.Use")]),
    case("POST", CREATE, &[("vmid", "200"), ("serial0", "socket")], &[(NEW, "VM.Allocate"), (NEW, "VM.Config.HWType")]),
    case("POST", CREATE, &[("vmid", "200"), ("vmstatestorage", "zfs")], &[(NEW, "VM.Allocate"), ("/storage/zfs", "Datastore.AllocateSpace"), (NEW, "VM.Config.Disk")]),
    case("PUT", CONFIG, &[("cores", "2")], &[(VM, "VM.Config.CPU")]),
    case("PUT", CONFIG, &[("numa", "1")], &[(VM, "VM.Config.CPU")]),
    case("PUT", CONFIG, &[("memory", "1024")], &[(VM, "VM.Config.Memory")]),
    case("PUT", CONFIG, &[("balloon", "0")], &[(VM, "VM.Config.Memory")]),
    case("PUT", CONFIG, &[("vga", "std")], &[(VM, "VM.Config.HWType")]),
    case("PUT", CONFIG, &[("machine", "q35")], &[(VM, "VM.Config.HWType")]),
    case("PUT", CONFIG, &[("scsihw", "virtio-scsi-pci")], &[(VM, "VM.Config.HWType")]),
    case("PUT", CONFIG, &[("name", "x")], &[(VM, "VM.Config.Options")]),
    case("PUT", CONFIG, &[("tags", "b")], &[(VM, "VM.Config.Options")]),
    case("PUT", CONFIG, &[("onboot", "1")], &[(VM, "VM.Config.Options")]),
    case("PUT", CONFIG, &[("startup", "order=1")], &[(VM, "VM.Config.Options"), ("/", "Sys.Modify")]),
    case("PUT", CONFIG, &[("ciuser", "x")], &[(VM, "VM.Config.Cloudinit")]),
    case("PUT", CONFIG, &[("ipconfig0", "ip=dhcp")], &[(VM, "VM.Config.Network")]),
    case("PUT", CONFIG, &[("boot", "order=scsi0")], &[(VM, "VM.Config.Disk")]),
    case("PUT", CONFIG, &[("scsi5", "zfs:1")], &[(VM, "VM.Config.Disk"), ("/storage/zfs", "Datastore.AllocateSpace")]),
    case("PUT", CONFIG, &[("ide0", "none,media=cdrom")], &[(VM, "VM.Config.CDROM")]),
    case("PUT", CONFIG, &[("ide0", "local:iso/x.iso,media=cdrom")], &[(VM, "VM.Config.CDROM"), ("/storage/local", "Datastore.AllocateSpace")]),
    case("PUT", CONFIG, &[("delete", "scsi0")], &[(VM, "VM.Config.Disk")]),
    case("PUT", CONFIG, &[("delete", "ide2")], &[(VM, "VM.Config.Cloudinit"), (VM, "VM.Config.CDROM")]),
    case("PUT", CONFIG, &[("net1", "virtio,bridge=vmbr0,tag=9")], &[(VM, "VM.Config.Network"), ("/sdn/zones/localnetwork/vmbr0/9", "SDN.Use")]),
    case("PUT", CONFIG, &[("net1", "virtio,bridge=vmbr0,tag=9,trunks=20-21")],
        &[(VM, "VM.Config.Network"), ("/sdn/zones/localnetwork/vmbr0/9", "SDN.Use"), ("/sdn/zones/localnetwork/vmbr0/20", "SDN.Use"), ("/sdn/zones/localnetwork/vmbr0/21", "SDN.Use")]),
    case("PUT", CONFIG, &[("net0", "virtio,bridge=vmbr0,tag=9")],
        &[(VM, "VM.Config.Network"), ("/sdn/zones/localnetwork/vmbr0/9", "SDN.Use"), ("/sdn/zones/localnetwork/vmbr0/7", "SDN.Use")]),
    case("PUT", CONFIG, &[("delete", "net0")], &[(VM, "VM.Config.Network"), ("/sdn/zones/localnetwork/vmbr0/7", "SDN.Use")]),
    case("PUT", CONFIG, &[("delete", "hostpci0")], &[("/mapping/pci/gpu", "Mapping.Use"), (VM, "VM.Config.HWType")]),
    case("PUT", "/nodes/a/qemu/100/unlink", &[("idlist", "scsi0")], &[(VM, "VM.Config.Disk")]),
    case("PUT", "/nodes/a/qemu/100/resize", &[("disk", "scsi0"), ("size", "+1G")], &[(VM, "VM.Config.Disk"), ("/storage/zfs", "Datastore.AllocateSpace")]),
    case("POST", "/nodes/a/qemu/100/move_disk", &[("disk", "scsi0"), ("storage", "rbd")], &[(VM, "VM.Config.Disk"), ("/storage/rbd", "Datastore.AllocateSpace")]),
    case("POST", "/nodes/a/qemu/100/move_disk", &[("disk", "scsi0"), ("target-vmid", "102")], &[(VM, "VM.Config.Disk"), ("/vms/102", "VM.Config.Disk")]),
    case("POST", CLONE, &[("newid", "200")],
        &[(VM, "VM.Clone"), (NEW, "VM.Allocate"), ("/storage/zfs", "Datastore.AllocateSpace"), ("/mapping/pci/gpu", "Mapping.Use"), ("/sdn/zones/localnetwork/vmbr0/7", "SDN.Use")]),
    case("POST", CLONE, &[("newid", "200"), ("pool", "p"), ("storage", "rbd")],
        &[(VM, "VM.Clone"), ("/pool/p", "VM.Allocate"), ("/storage/rbd", "Datastore.AllocateSpace"), ("/mapping/pci/gpu", "Mapping.Use"), ("/sdn/zones/localnetwork/vmbr0/7", "SDN.Use")]),
    case("POST", "/nodes/a/qemu/100/template", &[], &[(VM, "VM.Allocate")]),
    case("DELETE", "/nodes/a/qemu/100", &[], &[(VM, "VM.Allocate")]),
    case("POST", "/nodes/a/qemu/100/status/start", &[], &[(VM, "VM.PowerMgmt")]),
    case("POST", "/nodes/a/qemu/100/snapshot", &[("snapname", "snap")], &[(VM, "VM.Snapshot")]),
    case("GET", "/nodes/a/qemu/100/config", &[], &[(VM, "VM.Audit")]),
    case("PUT", "/nodes/a/qemu/100/cloudinit", &[], &[(VM, "VM.Config.Cloudinit")]),
    case("GET", "/nodes/a/storage/local/content/local:iso/x.iso", &[], &[("/storage/local", "Datastore.Audit")]),
    case("DELETE", "/nodes/a/storage/local/content/local:iso/x.iso", &[], &[("/storage/local", "Datastore.Allocate")]),
    case("POST", "/nodes/a/storage/zfs/content", &[("vmid", "100"), ("filename", "vm-100-disk-7"), ("size", "1G")], &[("/storage/zfs", "Datastore.AllocateSpace")]),
    case("POST", "/pools", &[("poolid", "q")], &[("/pool/q", "Pool.Allocate")]),
    case("POST", "/access/roles", &[("roleid", "r"), ("privs", "VM.Audit")], &[("/access", "Sys.Modify")]),
    case("GET", "/access/permissions", &[("userid", "root@pam")], &[("/access", "Sys.Audit")]),
];

fn furnished() -> Lab {
    let mut lab = with_user(&["a"]);
    let file = |size, format: Option<&str>| talmox_sim::FileFacts {
        size,
        format: format.map(str::to_owned),
        ..talmox_sim::FileFacts::default()
    };
    lab.world.add_file("a", "local:iso/x.iso", file(1 << 20, None));
    lab.world.add_file("a", "local:import/x.qcow2", file(1 << 20, Some("qcow2")));
    lab.call("POST", "/pools", &[("poolid", "p")]);
    let card = lab.add_card("a", "0000:01:00.0", 12);
    lab.call("POST", "/cluster/mapping/pci", &[("id", "gpu"), ("map", &card)]);
    let pairs = [
        ("vmid", "100"),
        ("scsi0", "zfs:1"),
        ("ide2", "zfs:cloudinit"),
        ("net0", "virtio,bridge=vmbr0,tag=7"),
    ];
    assert_eq!(lab.run("POST", CREATE, &[&pairs[..], &[("hostpci0", "mapping=gpu")]].concat()), "OK");
    assert_eq!(lab.run("POST", CREATE, &[("vmid", "102")]), "OK");
    lab
}

/// The end of a call: what it says at once, or what its worker says.
fn end(lab: &mut Lab, reply: &Reply) -> String {
    let data = body(reply)["data"].clone();
    match data.as_str().filter(|text| text.starts_with("UPID:")) {
        _ if reply.status != 200 => reply.reason.clone(),
        Some(_) => lab.wait(&data),
        None => "OK".to_owned(),
    }
}

fn name(case: &Case, held: &[Grant]) -> String {
    format!("{} {} {:?} with {held:?}", case.method, case.path, case.params)
}

#[test]
fn every_parameter_asks_for_its_own_privileges() {
    for case in CASES {
        let all: Vec<Grant> = case.needs.iter().map(|(path, name)| grant(path, name)).collect();
        let mut lab = furnished();
        give(&mut lab, "user", USER, &all);
        let reply = send_as(&mut lab, "t", case.method, case.path, case.params);
        assert_eq!(end(&mut lab, &reply), "OK", "{}", name(case, &all));
        for left_out in 0..all.len() {
            let mut less = all.clone();
            let (path, privilege) = less.remove(left_out);
            let mut lab = furnished();
            give(&mut lab, "user", USER, &less);
            let reply = send_as(&mut lab, "t", case.method, case.path, case.params);
            let text = end(&mut lab, &reply);
            assert!(text.contains("Permission check failed"), "{}: {text}", name(case, &less));
            // Where there is a choice, the words name all of it, or nothing.
            let choice = text.ends_with("failed") || text.contains('|');
            assert!(
                choice || text.ends_with(&refusal(&format!("{path}, {privilege}"))),
                "{}: {text}",
                name(case, &less)
            );
        }
    }
}

#[test]
fn a_separated_token_needs_everything_twice() {
    for case in CASES.iter().step_by(4) {
        let all: Vec<Grant> = case.needs.iter().map(|(path, name)| grant(path, name)).collect();
        let full_id = format!("{USER}!sep");
        let mut lab = furnished();
        give(&mut lab, "user", USER, &all);
        let reply = send_as(&mut lab, "sep", case.method, case.path, case.params);
        assert!(end(&mut lab, &reply).contains("Permission check failed"), "{}", name(case, &all));
        give(&mut lab, "token", &full_id, &all);
        give(&mut lab, "user", USER, &[]);
        let reply = send_as(&mut lab, "sep", case.method, case.path, case.params);
        assert!(end(&mut lab, &reply).contains("Permission check failed"), "{}", name(case, &all));
        give(&mut lab, "user", USER, &all);
        let reply = send_as(&mut lab, "sep", case.method, case.path, case.params);
        assert_eq!(end(&mut lab, &reply), "OK", "{}", name(case, &all));
    }
}

#[test]
fn only_the_real_root_may_do_some_things() {
    let everything: Vec<Grant> = {
        let admin =
            "VM.Allocate VM.Config.HWType VM.Config.Options VM.Config.CPU VM.Config.Disk VM.PowerMgmt";
        admin.split(' ').map(|name| grant("/vms/100", name)).collect()
    };
    let mut lab = furnished();
    give(&mut lab, "user", USER, &everything);
    for (params, text) in [
        (("args", "-x"), "only root can set 'args' config"),
        (("affinity", "0"), "only root can set 'affinity' config"),
        (("hookscript", "local:snippets/x"), "only root can set 'hookscript' config"),
        (("hostpci1", "0000:01:00.0"), "only root can set 'hostpci1' config for non-mapped devices"),
        (("usb0", "host=1-1"), "only root can set 'usb0' config for real devices"),
        (("serial0", "/dev/ttyS0"), "only root can modify 'serial0' config for real devices"),
        (("skiplock", "1"), "Parameter verification failed."),
    ] {
        let reply = send_as(&mut lab, "t", "PUT", CONFIG, &[params, ("cores", "1")]);
        assert_eq!(reply.reason, text, "{params:?}");
    }
    let copy = "/nodes/a/storage/local/content/local:iso/x.iso";
    let reply = send_as(&mut lab, "t", "POST", copy, &[("target", "local:iso/y.iso")]);
    assert_eq!((reply.status, reply.reason.as_str()), (403, "Permission check failed (user != root@pam)"));
}

#[test]
fn tags_belong_to_those_the_data_centre_names() {
    let mut lab = furnished();
    let options = |lab: &mut Lab, pairs: &[(&str, &str)]| drop(lab.call("PUT", "/cluster/options", pairs));
    let set = |lab: &mut Lab, tags: &str| send_as(lab, "t", "PUT", CONFIG, &[("tags", tags)]).reason;
    give(&mut lab, "user", USER, &[grant(VM, "VM.Config.Options"), grant(VM, "VM.Audit")]);
    options(&mut lab, &[("registered-tags", "prod")]);
    assert_eq!(set(&mut lab, "mine"), "OK");
    let refused = |tag: &str| refusal(&format!("/, Sys.Modify for modifying tag '{tag}'"));
    assert_eq!(set(&mut lab, "mine;prod"), refused("prod"));
    options(&mut lab, &[("user-tag-access", "user-allow=list,user-allow-list=a;b")]);
    assert_eq!(set(&mut lab, "mine;a"), "OK", "what is there may stay");
    assert_eq!(set(&mut lab, "mine;c"), refused("c"));
    assert_eq!(set(&mut lab, "a"), refused("mine"), "and not even go");
    options(&mut lab, &[("user-tag-access", "user-allow=none")]);
    assert_eq!(set(&mut lab, "mine;a;b"), refused("b"));
    let shown = send_as(&mut lab, "t", "GET", "/cluster/options", &[]);
    assert_eq!(body(&shown)["data"]["allowed-tags"], json!([]));
    // A new VM's tags are looked at by its worker, and pools do not count.
    let grants = [grant("/pool/p", "VM.Allocate"), grant("/pool/p", "VM.Config.Options")];
    give(&mut lab, "user", USER, &grants);
    let pairs = [("vmid", "200"), ("pool", "p"), ("tags", "a")];
    let reply = send_as(&mut lab, "t", "POST", CREATE, &pairs);
    let text = "unable to create VM 200 - 403 Permission check failed (/vms/200, VM.Config.Options)";
    assert_eq!(end(&mut lab, &reply), text);
}

#[test]
fn listings_show_what_may_be_seen() {
    let mut lab = furnished();
    let ids = |reply: &Reply, key: &str| -> Vec<String> {
        let data = body(reply)["data"].clone();
        let names =
            data.as_array().into_iter().flatten().filter_map(|entry| entry[key].as_str().map(str::to_owned));
        names.collect()
    };
    let see = |lab: &mut Lab, path: &str, key: &str| ids(&send_as(lab, "t", "GET", path, &[]), key);
    assert_eq!(see(&mut lab, "/cluster/resources", "id"), ["node/a"]);
    assert!(
        see(&mut lab, "/nodes/a/storage", "storage").is_empty()
            && see(&mut lab, "/pools", "poolid").is_empty()
    );
    let grants = [
        grant("/vms/102", "VM.Audit"),
        grant("/storage/zfs", "Datastore.Audit"),
        grant("/pool/p", "Pool.Audit"),
    ];
    give(&mut lab, "user", USER, &grants);
    let all = ["/pool/p", "qemu/102", "node/a", "storage/a/zfs"];
    assert_eq!(see(&mut lab, "/cluster/resources", "id"), all);
    assert_eq!(see(&mut lab, "/nodes/a/storage", "storage"), ["zfs"]);
    assert!(see(&mut lab, "/nodes/a/storage/zfs/content", "volid").is_empty(), "disks belong to VMs");
    let grants = [grant("/storage/zfs", "Datastore.Audit"), grant(VM, "VM.Config.Disk")];
    give(&mut lab, "user", USER, &grants);
    let disks = ["zfs:vm-100-cloudinit", "zfs:vm-100-disk-0"];
    assert_eq!(see(&mut lab, "/nodes/a/storage/zfs/content", "volid"), disks);
    // A right on one VLAN shows its bridge.
    give(&mut lab, "user", USER, &[grant("/sdn/zones/localnetwork/vmbr0/7", "SDN.Use")]);
    assert!(see(&mut lab, "/nodes/a/network", "iface").contains(&"vmbr0".to_owned()));
    give(&mut lab, "user", USER, &[]);
    assert!(!see(&mut lab, "/nodes/a/network", "iface").contains(&"vmbr0".to_owned()));
}

#[test]
fn a_pool_hands_its_rights_to_its_members() {
    let mut lab = furnished();
    give(
        &mut lab,
        "user",
        USER,
        &[grant("/pool/p", "VM.PowerMgmt"), grant("/pool/p", "Datastore.AllocateSpace")],
    );
    let start = |lab: &mut Lab| {
        let reply = send_as(lab, "t", "POST", "/nodes/a/qemu/102/status/start", &[]);
        end(lab, &reply)
    };
    assert_eq!(start(&mut lab), refusal("/vms/102, VM.PowerMgmt"));
    lab.call("PUT", "/pools", &[("poolid", "p"), ("vms", "102"), ("storage", "zfs")]);
    assert_eq!(start(&mut lab), "OK");
    let held = body(&send_as(&mut lab, "t", "GET", "/access/permissions", &[]))["data"].clone();
    assert_eq!(held["/vms/102"]["VM.PowerMgmt"], 0, "which reach no further");
    assert_eq!(held["/storage/zfs"]["Datastore.AllocateSpace"], 0);
    // Whoever is shut out of a VM stays out, whatever its pool says.
    let entry = |role: &str| AclEntry {
        path: "/vms/102".into(),
        kind: "user".into(),
        subject: USER.into(),
        role: role.into(),
        propagate: true,
    };
    lab.world.access.acl.push(entry("NoAccess"));
    assert_eq!(start(&mut lab), refusal("/vms/102, VM.PowerMgmt"));
}

/// A call by ticket: what a person does.
fn send_by_ticket(lab: &mut Lab, password: &str, method: &str, path: &str, pairs: &[(&str, &str)]) -> Reply {
    let login = Request {
        method: "POST".into(),
        path: "/api2/json/access/ticket".into(),
        body: Body::Bytes {
            content_type: None,
            bytes: encode_form([("username", USER), ("password", password)]).into_bytes(),
        },
        ..Request::default()
    };
    let now = lab.world.clock();
    let session = body(&lab.world.handle(&login, now))["data"].clone();
    let text = |key: &str| session[key].as_str().map(str::to_owned);
    let form = encode_form(pairs.iter().copied()).into_bytes();
    let request = Request {
        method: method.into(),
        path: format!("/api2/json{path}"),
        cookie: text("ticket"),
        csrf: text("CSRFPreventionToken"),
        body: if method == "POST" { Body::Bytes { content_type: None, bytes: form } } else { Body::Empty },
        ..Request::default()
    };
    lab.world.handle(&request, now)
}

#[test]
fn people_look_after_their_own_tokens_and_others_need_the_right() {
    let mut lab = furnished();
    if let Some(user) = lab.world.access.users.get_mut(USER) {
        user.password = Some("secret".into());
    }
    let own = format!("/access/users/{USER}/token/new");
    let others = "/access/users/root@pam/token/new";
    assert_eq!(send_by_ticket(&mut lab, "secret", "POST", &own, &[]).status, 200);
    let reply = send_by_ticket(&mut lab, "secret", "POST", others, &[]);
    assert_eq!((reply.status, reply.reason.as_str()), (403, "Permission check failed"));
    // A token is not the person it belongs to.
    assert_eq!(send_as(&mut lab, "t", "GET", &own, &[]).reason, "Permission check failed");
    give(&mut lab, "user", USER, &[grant("/access/groups", "User.Modify")]);
    assert_eq!(send_as(&mut lab, "t", "GET", &own, &[]).status, 200);
    assert_eq!(send_by_ticket(&mut lab, "secret", "POST", others, &[]).status, 200);
    assert_eq!(send_as(&mut lab, "t", "GET", &format!("/access/users/{USER}"), &[]).status, 200);
}

#[test]
fn entries_are_written_by_those_who_own_the_path() {
    let mut lab = furnished();
    let params = [("path", "/vms/100"), ("roles", "PVEAuditor"), ("users", USER)];
    let reply = send_as(&mut lab, "t", "PUT", "/access/acl", &params);
    assert_eq!(reply.reason, refusal("/vms/100, Permissions.Modify|VM.Allocate"));
    for privilege in ["Permissions.Modify", "VM.Allocate"] {
        give(&mut lab, "user", USER, &[grant("/vms/100", privilege)]);
        assert_eq!(send_as(&mut lab, "t", "PUT", "/access/acl", &params).status, 200, "{privilege}");
    }
    let reply =
        send_as(&mut lab, "t", "PUT", "/access/acl", &[("path", "/storage/zfs"), params[1], params[2]]);
    assert_eq!(reply.reason, refusal("/storage/zfs, Permissions.Modify|Datastore.Allocate"));
}

#[test]
fn tokens_end_when_they_expire() {
    let mut lab = furnished();
    give(&mut lab, "user", USER, &[grant("/", "Sys.Audit")]);
    let now = 1_790_000_000 + lab.world.clock() / 1000;
    if let Some(token) = lab.world.access.users.get_mut(USER).and_then(|user| user.tokens.get_mut("t")) {
        token.expire = now + 60;
    }
    assert_eq!(send_as(&mut lab, "t", "GET", "/cluster/status", &[]).status, 200);
    lab.world.advance_to(lab.world.clock() + 61_000);
    let reply = send_as(&mut lab, "t", "GET", "/cluster/status", &[]);
    assert_eq!((reply.status, reply.body.len(), reply.delay), (401, 0, 3000));
}
