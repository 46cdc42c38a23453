use talmox_machine::Role;
use talmox_proto::machine::apply_configuration_request::Mode;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{ApplyConfigurationRequest, ApplyConfigurationResponse, VersionResponse};
use talmox_sim_talos::{ApiReply, Code, Listener, Peer};

use crate::lab::{Lab, address, done};

fn is_maintenance(lab: &Lab, id: u32) -> bool {
    matches!(lab.nodes.listener(address(id)), Listener::Maintenance { .. })
}

fn is_secure(lab: &Lab, id: u32) -> bool {
    matches!(lab.nodes.listener(address(id)), Listener::Secure { .. })
}

fn apply(lab: &mut Lab, id: u32, role: Role) -> ApplyConfigurationResponse {
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
