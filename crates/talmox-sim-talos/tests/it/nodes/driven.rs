//! What genuine nodes did when talmox drove them: a worker gets its certificate from a control plane it can reach, programs cannot
//! start, images are missing, a refused client finds its connection closed.

use std::net::IpAddr;

use talmox_machine::Role;
use talmox_proto::machine::apply_configuration_request::Mode;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    ApplyConfigurationRequest, ApplyConfigurationResponse, BootstrapRequest, ListRequest, ServiceInfo,
};
use talmox_sim_talos::{ApiReply, MachineId, Peer, Trouble};

use crate::nodes::cluster::{apply, is_maintenance, is_ready, is_secure};
use crate::nodes::lab::{Lab, done};

const SHARED: &str = "10.5.0.100";

/// One control plane and one worker in maintenance, of a cluster whose endpoint is a virtual address.
fn waiting(discovery: bool) -> Lab {
    let mut lab = Lab::new("1.13.9");
    lab.options.discovery = discovery;
    for id in [1, 2] {
        let hardware = lab.hardware(id);
        lab.nodes.power_on(hardware);
    }
    lab.until("maintenance", |lab| is_maintenance(lab, 1) && is_maintenance(lab, 2));
    lab
}

/// Gives a machine a configuration with the virtual address as the cluster's endpoint.
fn apply_shared(lab: &mut Lab, id: u32, role: Role) {
    let text = String::from_utf8(lab.config(role)).unwrap();
    let mut text = text.replace("https://10.5.0.1:6443", &format!("https://{SHARED}:6443"));
    if role == Role::ControlPlane {
        let document =
            format!("---\napiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: {SHARED}\nlink: eth0\n");
        text.push_str(&document);
    }
    let request = ApplyConfigurationRequest {
        data: text.into_bytes(),
        mode: Mode::Auto.into(),
        ..ApplyConfigurationRequest::default()
    };
    let reply = lab.raw(id, Peer::Nobody, calls::APPLY_CONFIGURATION, &request);
    done::<ApplyConfigurationResponse>(reply).unwrap();
}

fn bootstrap(lab: &mut Lab) {
    lab.until("the bootstrap", |lab| lab.ask(1, calls::BOOTSTRAP, &BootstrapRequest::default()).is_ok());
}

fn holder(lab: &Lab) -> Option<MachineId> {
    let shared: IpAddr = SHARED.parse().unwrap();
    lab.nodes.addresses().into_iter().find(|(address, _)| *address == shared).map(|(_, id)| id)
}

#[test]
fn a_worker_without_discovery_has_its_certificate_once_the_virtual_address_is_held() {
    for (discovery, reachable) in [(false, true), (true, false)] {
        let mut lab = waiting(discovery);
        lab.nodes.reach_discovery(reachable);
        apply_shared(&mut lab, 1, Role::ControlPlane);
        apply_shared(&mut lab, 2, Role::Worker);
        lab.until("mutual TLS", |lab| is_secure(lab, 1));
        lab.wait(60_000);
        assert!(!is_secure(&lab, 2), "discovery {discovery}, reachable {reachable}");
        assert_eq!(holder(&lab), None);
        bootstrap(&mut lab);
        lab.until("the worker", |lab| is_secure(lab, 2));
        assert_eq!(holder(&lab), Some(MachineId(1)));
        lab.until("a healthy cluster", |lab| is_ready(lab, 1) && is_ready(lab, 2));
    }
}

#[test]
fn a_worker_that_discovers_a_control_plane_has_its_certificate_before_the_bootstrap() {
    let mut lab = waiting(true);
    lab.nodes.reach_discovery(false);
    apply_shared(&mut lab, 2, Role::Worker);
    apply_shared(&mut lab, 1, Role::ControlPlane);
    lab.wait(60_000);
    assert!(!is_secure(&lab, 2));
    lab.nodes.reach_discovery(true);
    lab.until("the worker", |lab| is_secure(lab, 2));
    assert_eq!(holder(&lab), None);
}

#[test]
fn the_virtual_address_is_gone_while_etcd_has_no_leader() {
    let mut lab = waiting(true);
    for id in [3, 4] {
        let hardware = lab.hardware(id);
        lab.nodes.power_on(hardware);
    }
    lab.until("maintenance", |lab| is_maintenance(lab, 3) && is_maintenance(lab, 4));
    for id in [1, 3, 4] {
        apply_shared(&mut lab, id, Role::ControlPlane);
    }
    lab.until("mutual TLS", |lab| is_secure(lab, 1) && is_secure(lab, 3) && is_secure(lab, 4));
    bootstrap(&mut lab);
    lab.until("a healthy cluster", |lab| [1, 3, 4].into_iter().all(|id| is_ready(lab, id)));
    assert_eq!(holder(&lab), Some(MachineId(1)));
    lab.nodes.power_off(MachineId(1));
    assert_eq!(holder(&lab), Some(MachineId(3)));
    lab.nodes.power_off(MachineId(3));
    assert_eq!(holder(&lab), None);
}

fn service(lab: &mut Lab, name: &str) -> ServiceInfo {
    let services = lab.ask(1, calls::SERVICE_LIST, &()).unwrap();
    services.messages[0].services.iter().find(|one| one.id == name).unwrap().clone()
}

/// One control plane that may be bootstrapped.
fn configured(trouble: impl Fn(&mut Lab)) -> Lab {
    let mut lab = Lab::new("1.13.9");
    trouble(&mut lab);
    let hardware = lab.hardware(1);
    lab.nodes.power_on(hardware);
    lab.until("maintenance", |lab| is_maintenance(lab, 1));
    apply(&mut lab, 1, Role::ControlPlane);
    lab.until("etcd to wait", |lab| is_secure(lab, 1) && service(lab, "etcd").state == "Preparing");
    lab
}

fn last_said(service: &ServiceInfo) -> String {
    service.events.as_ref().unwrap().events.last().unwrap().msg.clone()
}

#[test]
fn an_etcd_that_cannot_start_comes_and_goes_and_never_has_data() {
    let crashes = |lab: &mut Lab| lab.nodes.faults.trouble(MachineId(1), Trouble::Crashes("etcd".to_owned()));
    let mut lab = configured(crashes);
    bootstrap(&mut lab);
    let (mut ran, mut waited) = (0, 0);
    for _ in 0..300 {
        lab.wait(100);
        let etcd = service(&mut lab, "etcd");
        match etcd.state.as_str() {
            "Running" => ran += 1,
            "Waiting" if last_said(&etcd).starts_with("Error running Containerd(etcd)") => waited += 1,
            _ => {}
        }
    }
    assert!(ran > 5 && waited > 5 * ran, "ran {ran}, waited {waited}");
    let folder = ListRequest { root: "/var/lib/etcd/member".to_owned(), ..ListRequest::default() };
    let reply = lab.raw(1, lab.admin(), calls::LIST, &folder);
    let ApiReply::Done { messages, .. } = reply else { panic!("{reply:?}") };
    assert!(!messages.iter().any(|message| message.windows(4).any(|bytes| bytes == b"snap")));
    assert_eq!(lab.nodes.standing(MachineId(1)).unwrap().stage, "running");
    // It is not forgotten: once the program is well, what was asked for happens.
    lab.nodes.faults.mend(MachineId(1));
    lab.until("a healthy node", |lab| is_ready(lab, 1));
}

#[test]
fn without_its_images_a_node_waits_and_goes_on_by_itself() {
    for (image, stage) in [("ghcr.io/siderolabs/kubelet", "booting"), ("registry.k8s.io/etcd", "running")] {
        let missing = |lab: &mut Lab| {
            lab.nodes.missing_images.insert(image.to_owned());
        };
        let mut lab = configured(missing);
        bootstrap(&mut lab);
        lab.wait(60_000);
        assert_eq!(lab.nodes.standing(MachineId(1)).unwrap().stage, stage, "{image}");
        let name = image.rsplit('/').next().unwrap();
        let one = service(&mut lab, name);
        assert_eq!((one.state.as_str(), last_said(&one).as_str()), ("Preparing", "Running pre state"));
        lab.nodes.missing_images.clear();
        lab.until("a healthy node", |lab| is_ready(lab, 1));
    }
}

#[test]
fn a_refused_client_reads_an_alert_or_finds_the_connection_closed() {
    let mut lab = configured(|_| {});
    let (mut told, mut hung_up) = (0, 0);
    for _ in 0..40 {
        match lab.raw(1, Peer::Nobody, calls::VERSION, &()) {
            ApiReply::NotTrusted { .. } => told += 1,
            ApiReply::HungUp => hung_up += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(told > 10 && hung_up > 10, "{told} {hung_up}");
}
