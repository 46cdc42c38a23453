use talmox_machine::Role;
use talmox_proto::Message as _;
use talmox_proto::common::Data;
use talmox_proto::machine::apply_configuration_request::Mode;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    ApplyConfigurationRequest, ApplyConfigurationResponse, BootstrapRequest, BootstrapResponse, DmesgRequest,
    EtcdLeaveClusterRequest, EtcdMemberListRequest, LogsRequest, ServiceRestartRequest, VersionResponse,
};
use talmox_sim_talos::{ApiReply, Code, Content, Disk, DiskId, Drive, Listener, MachineId, Peer, Status};

use crate::nodes::lab::{Lab, address, done};

pub(crate) fn is_maintenance(lab: &Lab, id: u32) -> bool {
    matches!(lab.nodes.listener(address(id)), Listener::Maintenance { .. })
}

pub(crate) fn is_secure(lab: &Lab, id: u32) -> bool {
    matches!(lab.nodes.listener(address(id)), Listener::Secure { .. })
}

pub(crate) fn apply(lab: &mut Lab, id: u32, role: Role) -> ApplyConfigurationResponse {
    let request = ApplyConfigurationRequest {
        data: lab.config(role),
        mode: Mode::Auto.into(),
        ..ApplyConfigurationRequest::default()
    };
    done(lab.raw(id, Peer::Nobody, calls::APPLY_CONFIGURATION, &request)).unwrap()
}

#[test]
fn a_disk_image_waits_in_maintenance_and_takes_a_configuration() {
    for version in ["1.12.11", "1.13.9", "1.14.0"] {
        let mut lab = Lab::new(version);
        let hardware = lab.hardware(1);
        lab.nodes.power_on(hardware);
        assert!(matches!(lab.raw(1, Peer::Nobody, calls::VERSION, &()), ApiReply::Refused));
        lab.until("maintenance", |lab| is_maintenance(lab, 1));
        apply(&mut lab, 1, Role::ControlPlane);
        assert!(matches!(lab.nodes.listener(address(1)), Listener::Closed));
        lab.until("mutual TLS", |lab| is_secure(lab, 1));
        let stranger = done::<VersionResponse>(lab.raw(1, Peer::Nobody, calls::VERSION, &()));
        assert_eq!(stranger.unwrap_err().code, Code::Unavailable);
        let version_reply: VersionResponse = lab.ask(1, calls::VERSION, &()).unwrap();
        let tag = version_reply.messages[0].version.as_ref().unwrap().tag.clone();
        assert_eq!(tag, format!("v{version}"));
        let hostname = lab.ask(1, calls::HOSTNAME, &()).unwrap();
        assert_eq!(hostname.messages[0].hostname, "node-1");
    }
}

#[test]
fn a_worker_listens_once_a_control_plane_signs_for_it() {
    let mut lab = Lab::new("1.13.9");
    for id in [1, 2] {
        let hardware = lab.hardware(id);
        lab.nodes.power_on(hardware);
    }
    lab.until("maintenance", |lab| is_maintenance(lab, 1) && is_maintenance(lab, 2));
    apply(&mut lab, 2, Role::Worker);
    lab.wait(20_000);
    assert!(!is_secure(&lab, 2));
    apply(&mut lab, 1, Role::ControlPlane);
    lab.until("the worker", |lab| is_secure(lab, 2));
}

#[test]
fn an_iso_installs_and_restarts_from_the_disk() {
    let mut lab = Lab::new("1.13.9");
    let hardware = lab.hardware_with_iso(1);
    lab.nodes.power_on(hardware);
    lab.until("maintenance", |lab| is_maintenance(lab, 1));
    apply(&mut lab, 1, Role::ControlPlane);
    lab.until("a restart", |lab| {
        lab.nodes.take_news().contains(&talmox_sim_talos::News::Rebooted(talmox_sim_talos::MachineId(1)))
    });
    lab.until("mutual TLS", |lab| is_secure(lab, 1));
}

/// Installs from an ISO with a second disk beside the first; gives which of them Talos is on.
fn installed_to(version: &str, selector: &str) -> String {
    let mut lab = Lab::new(version);
    let mut hardware = lab.hardware_with_iso(1);
    hardware.drives.insert(
        1,
        Drive::Disk(Disk {
            id: DiskId(77),
            copy_of: None,
            name: "sdb".to_owned(),
            serial: "second".to_owned(),
            size: 40 << 30,
            content: Content::Empty,
        }),
    );
    lab.nodes.power_on(hardware);
    lab.until("maintenance", |lab| is_maintenance(lab, 1));
    let config = String::from_utf8(lab.config(Role::ControlPlane)).unwrap();
    let named = ["disk: /dev/sda", "match: disk.dev_path == \"/dev/sda\""];
    let named = named.into_iter().find(|line| config.contains(line)).unwrap();
    let data = config.replace(named, selector).into_bytes();
    let request =
        ApplyConfigurationRequest { data, mode: Mode::Auto.into(), ..ApplyConfigurationRequest::default() };
    let reply: Result<ApplyConfigurationResponse, Status> =
        done(lab.raw(1, Peer::Nobody, calls::APPLY_CONFIGURATION, &request));
    reply.unwrap();
    let restarted = talmox_sim_talos::News::Rebooted(MachineId(1));
    lab.until("a restart", |lab| lab.nodes.take_news().contains(&restarted));
    let nodes = serde_json::to_value(&lab.nodes).unwrap();
    let has_talos = |id: &str| !nodes["disks"][id]["loader"].is_null();
    match (has_talos("1"), has_talos("77")) {
        (true, false) => "sda".to_owned(),
        (false, true) => "sdb".to_owned(),
        both => format!("{both:?}"),
    }
}

#[test]
fn an_installation_goes_to_the_disk_that_is_asked_for() {
    let selector = |line: &str| format!("diskSelector:\n            {line}");
    assert_eq!(installed_to("1.13.9", &selector("serial: second")), "sdb");
    assert_eq!(installed_to("1.13.9", &selector("size: '<= 30GB'")), "sda");
    assert_eq!(installed_to("1.13.9", "disk: /dev/sdb"), "sdb");
    assert_eq!(installed_to("1.14.0", "match: disk.serial == \"second\""), "sdb");
}

#[test]
fn logs_are_followed_while_they_grow() {
    let mut lab = Lab::new("1.13.9");
    let hardware = lab.hardware(1);
    lab.nodes.power_on(hardware);
    lab.until("maintenance", |lab| is_maintenance(lab, 1));
    apply(&mut lab, 1, Role::ControlPlane);
    lab.until("mutual TLS", |lab| is_secure(lab, 1));
    lab.until("a log of the kubelet", |lab| {
        let request = LogsRequest { id: "kubelet".to_owned(), tail_lines: -1, ..LogsRequest::default() };
        lab.ask::<_, Data>(1, calls::LOGS, &request).is_ok()
    });
    let admin = lab.admin();
    let request =
        LogsRequest { id: "kubelet".to_owned(), follow: true, tail_lines: 0, ..LogsRequest::default() };
    let ApiReply::Stream(log) = lab.raw(1, admin.clone(), calls::LOGS, &request) else {
        panic!("it is followed")
    };
    let request = DmesgRequest { follow: true, tail: true };
    let ApiReply::Stream(console) = lab.raw(1, admin, calls::DMESG, &request) else {
        panic!("it is followed")
    };
    assert!(lab.nodes.poll(log, lab.now).messages.is_empty(), "nothing of what was");
    let restart = ServiceRestartRequest { id: "kubelet".to_owned() };
    lab.ask(1, calls::SERVICE_RESTART, &restart).unwrap();
    let mut lines = String::new();
    lab.until("new lines", |lab| {
        for message in lab.nodes.poll(log, lab.now).messages {
            lines.push_str(&String::from_utf8(Data::decode(message).unwrap().bytes).unwrap());
        }
        lines.matches("Started task kubelet").count() == 1
    });
    // With the machine the streams end.
    lab.nodes.power_off(MachineId(1));
    assert!(lab.nodes.poll(log, lab.now).end.is_some() && lab.nodes.poll(console, lab.now).end.is_some());
}

/// Three control planes and a worker, configured and not bootstrapped.
fn configured(lab: &mut Lab) {
    for id in 1..=4 {
        let hardware = lab.hardware(id);
        lab.nodes.power_on(hardware);
    }
    lab.until("maintenance", |lab| (1..=4).all(|id| is_maintenance(lab, id)));
    for id in 1..=4 {
        apply(lab, id, if id == 4 { Role::Worker } else { Role::ControlPlane });
    }
    lab.until("mutual TLS", |lab| (1..=4).all(|id| is_secure(lab, id)));
}

pub(crate) fn bootstrap(lab: &mut Lab, id: u32) -> Result<BootstrapResponse, Status> {
    lab.until("a bootstrap that is heard", |lab| {
        let reply = lab.ask(id, calls::BOOTSTRAP, &BootstrapRequest::default());
        !matches!(&reply, Err(status) if status.code == Code::FailedPrecondition)
    });
    lab.ask(id, calls::BOOTSTRAP, &BootstrapRequest::default())
}

pub(crate) fn is_ready(lab: &Lab, id: u32) -> bool {
    lab.nodes.standing(MachineId(id)).is_some_and(|standing| standing.is_ready())
}

pub(crate) fn members(lab: &mut Lab, id: u32) -> Vec<(String, bool)> {
    let reply = lab.ask(id, calls::ETCD_MEMBER_LIST, &EtcdMemberListRequest::default()).unwrap();
    reply.messages[0].members.iter().map(|member| (member.hostname.clone(), member.is_learner)).collect()
}

pub(crate) fn healthy(version: &str) -> Lab {
    let mut lab = Lab::new(version);
    configured(&mut lab);
    let _ = bootstrap(&mut lab, 1);
    lab.until("a healthy cluster", |lab| (1..=4).all(|id| is_ready(lab, id)));
    lab
}

#[test]
fn three_control_planes_and_a_worker_come_up() {
    for version in ["1.12.11", "1.13.9", "1.14.0"] {
        let mut lab = healthy(version);
        assert!(lab.now < 60_000, "it took {} ms", lab.now);
        let mut names = members(&mut lab, 2);
        names.sort();
        let expected = ["node-1", "node-2", "node-3"].map(|name| (name.to_owned(), false));
        assert_eq!(names, expected);
        // Readiness may come and go once more; then nothing is left to happen.
        lab.wait(30_000);
        assert_eq!(lab.nodes.next_event(), None);
        assert!((1..=4).all(|id| is_ready(&lab, id)));
        let again = bootstrap(&mut lab, 2).unwrap_err();
        assert_eq!(
            (again.code, again.message.as_str()),
            (Code::AlreadyExists, "etcd data directory is not empty")
        );
    }
}

#[test]
fn two_bootstraps_make_two_clusters() {
    let mut lab = Lab::new("1.13.9");
    configured(&mut lab);
    bootstrap(&mut lab, 1).ok();
    bootstrap(&mut lab, 2).ok();
    lab.wait(60_000);
    let (one, two) = (members(&mut lab, 1), members(&mut lab, 2));
    assert_ne!(one, two);
    assert!(two.iter().any(|(name, _)| name == "node-2") && !one.iter().any(|(name, _)| name == "node-2"));
}

#[test]
fn etcd_calls_hang_before_the_bootstrap() {
    let mut lab = Lab::new("1.13.9");
    configured(&mut lab);
    let peer = lab.admin();
    assert!(matches!(lab.raw(1, peer.clone(), calls::ETCD_STATUS, &()), ApiReply::Silence));
    let request = EtcdMemberListRequest { query_local: true };
    assert!(matches!(lab.raw(1, peer, calls::ETCD_MEMBER_LIST, &request), ApiReply::Silence));
    let worker = lab.ask(4, calls::ETCD_STATUS, &()).unwrap_err();
    assert_eq!(worker.message, "etcd status is only available on control plane nodes");
}

#[test]
fn without_quorum_only_the_local_member_answers() {
    let mut lab = healthy("1.13.9");
    for id in [2, 3] {
        lab.nodes.power_off(MachineId(id));
    }
    lab.wait(1000);
    let status = lab.ask(1, calls::ETCD_STATUS, &()).unwrap();
    let status = status.messages[0].member_status.clone().unwrap();
    assert_eq!((status.leader, status.errors), (0, vec!["etcdserver: no leader".to_owned()]));
    let list = lab.ask(1, calls::ETCD_MEMBER_LIST, &EtcdMemberListRequest::default()).unwrap_err();
    assert_eq!(list.message, "etcdserver: no leader");
    let hardware = lab.hardware(2);
    lab.nodes.power_on(hardware);
    lab.until("quorum", |lab| lab.ask(1, calls::ETCD_MEMBER_LIST, &EtcdMemberListRequest::default()).is_ok());
}

#[test]
fn a_node_that_comes_back_without_its_data_replaces_its_old_member() {
    let mut lab = healthy("1.13.9");
    lab.nodes.power_off(MachineId(3));
    lab.nodes.remove_disk(DiskId(3));
    let hardware = lab.hardware(3);
    lab.nodes.power_on(hardware);
    lab.until("maintenance", |lab| is_maintenance(lab, 3));
    apply(&mut lab, 3, Role::ControlPlane);
    lab.until("three members", |lab| {
        is_ready(lab, 3)
            && members(lab, 1).iter().filter(|(name, learner)| name == "node-3" && !learner).count() == 1
    });
    assert_eq!(members(&mut lab, 1).len(), 3);
}

#[test]
fn a_node_that_left_bootstraps_a_cluster_of_its_own() {
    let mut lab = healthy("1.13.9");
    lab.ask(2, calls::ETCD_LEAVE_CLUSTER, &EtcdLeaveClusterRequest {}).unwrap();
    assert_eq!(members(&mut lab, 1).len(), 2);
    // It still asks the others.
    assert_eq!(members(&mut lab, 2).len(), 2);
    bootstrap(&mut lab, 2).ok();
    lab.wait(10_000);
    assert_eq!(members(&mut lab, 2), [("node-2".to_owned(), false)]);
    assert_eq!(members(&mut lab, 1).len(), 2);
}

#[test]
fn a_world_can_be_put_away_and_taken_out_again() {
    let mut lab = healthy("1.13.9");
    let text = serde_json::to_string(&lab.nodes).unwrap();
    lab.nodes = serde_json::from_str(&text).unwrap();
    assert_eq!(members(&mut lab, 3).len(), 3);
    assert!((1..=4).all(|id| is_ready(&lab, id)));
}

#[test]
fn a_large_cluster_comes_up_no_slower() {
    const NODES: u32 = 40;
    let mut lab = Lab::new("1.13.9");
    for id in 1..=NODES {
        let hardware = lab.hardware(id);
        lab.nodes.power_on(hardware);
    }
    lab.until("maintenance", |lab| (1..=NODES).all(|id| is_maintenance(lab, id)));
    for id in 1..=NODES {
        apply(&mut lab, id, if id > 3 { Role::Worker } else { Role::ControlPlane });
    }
    lab.until("mutual TLS", |lab| (1..=NODES).all(|id| is_secure(lab, id)));
    bootstrap(&mut lab, 1).ok();
    lab.until("a healthy cluster", |lab| (1..=NODES).all(|id| is_ready(lab, id)));
    assert!(lab.now < 30_000, "it took {} ms", lab.now);
}
