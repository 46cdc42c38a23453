//! Another authority in the place of the one there was, step by step.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret as _;
use talmox_machine::pki::KeyKind;
use talmox_machine::secrets::Authority;
use talmox_machine::{Map, Role, Source, SystemRandom, Time, Value, print, read_values};
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    ApplyConfigurationRequest, ApplyConfigurationResponse, apply_configuration_request::Mode,
};
use talmox_sim_talos::{ApiReply, KubeReply, Listener, Peer};

use crate::nodes::cluster::{healthy, is_ready};
use crate::nodes::kube::{get, is_ready as is_ready_object, master, send};
use crate::nodes::lab::{EPOCH, Lab, address, der, done};
use crate::nodes::upkeep::{config, resource};

struct New {
    authority: Authority,
    section: &'static str,
}

impl New {
    fn draw(section: &'static str) -> Self {
        let now = i64::try_from(EPOCH / 1000).unwrap();
        let times = (Time::from_unix(now - 1000), Time::from_unix(now + 1_000_000));
        let kind = if section == "machine" { KeyKind::Ed25519 } else { KeyKind::EcdsaP256 };
        Self { authority: Authority::generate("new", kind, times, &mut SystemRandom).unwrap(), section }
    }

    fn peer(&self, organisation: &str) -> Peer {
        let authority = der(self.authority.certificate.pem());
        Peer::Certificate { authority, organisations: vec![organisation.to_owned()] }
    }

    /// A node's configuration in a step: accepted, signing, alone.
    fn step(&self, text: &str, step: usize, role: Role) -> String {
        let mut documents = read_values(Source { name: "config", text }).unwrap();
        let section = documents[0].as_map_mut().unwrap().get_mut(self.section).unwrap().as_map_mut().unwrap();
        let encoded = |text: &str| Value::text(STANDARD.encode(text));
        let new = encoded(self.authority.certificate.pem());
        let entry = |certificate: Value| Value::List(vec![Map::new().with("crt", certificate).into()]);
        let old = section.get("ca").unwrap().at(&["crt"]).unwrap().clone();
        if step == 0 {
            section.set("acceptedCAs", entry(new));
        } else {
            let key = if role == Role::Worker { "" } else { self.authority.key.pem().expose_secret() };
            section.set("ca", Map::new().with("crt", new).with("key", encoded(key)));
            if step == 1 {
                section.set("acceptedCAs", entry(old));
            }
        }
        documents.iter().map(print).collect::<Vec<_>>().join("---\n")
    }
}

fn role(id: u32) -> Role {
    if id == 4 { Role::Worker } else { Role::ControlPlane }
}

/// One step on all nodes, by whoever is let in.
fn step(lab: &mut Lab, new: &New, number: usize, peer: &Peer) {
    for id in 1..=4 {
        let data = new.step(&config(lab, role(id)), number, role(id)).into_bytes();
        let request = ApplyConfigurationRequest {
            data,
            mode: Mode::NoReboot.into(),
            ..ApplyConfigurationRequest::default()
        };
        lab.wait(100);
        let reply = lab.raw(id, peer.clone(), calls::APPLY_CONFIGURATION, &request);
        done::<ApplyConfigurationResponse>(reply).unwrap();
    }
}

fn is_let_in(lab: &mut Lab, peer: &Peer) -> Vec<bool> {
    (1..=4)
        .map(|id| matches!(lab.raw(id, peer.clone(), calls::VERSION, &()), ApiReply::Done { .. }))
        .collect()
}

fn shown(lab: &Lab, id: u32) -> String {
    match lab.nodes.listener(address(id)) {
        Listener::Secure { certificate, .. } => certificate,
        _ => String::new(),
    }
}

#[test]
fn clients_of_the_old_authority_of_talos_are_let_in_until_the_last_step() {
    let mut lab = healthy("1.13.9");
    lab.wait(20_000);
    let new = New::draw("machine");
    let (old_client, new_client) = (lab.admin(), new.peer("os:admin"));
    assert_eq!(is_let_in(&mut lab, &new_client), [false; 4]);
    step(&mut lab, &new, 0, &old_client);
    assert_eq!(
        (is_let_in(&mut lab, &old_client), is_let_in(&mut lab, &new_client)),
        (vec![true; 4], vec![true; 4])
    );
    let before: Vec<String> = (1..=4).map(|id| shown(&lab, id)).collect();
    step(&mut lab, &new, 1, &new_client);
    assert!((1..=4).all(|id| shown(&lab, id) != before[id as usize - 1]), "all show another certificate");
    assert_eq!(is_let_in(&mut lab, &old_client), [true; 4]);
    step(&mut lab, &new, 2, &new_client);
    assert_eq!(
        (is_let_in(&mut lab, &old_client), is_let_in(&mut lab, &new_client)),
        (vec![false; 4], vec![true; 4])
    );
    // Nothing was started anew.
    assert!((1..=4).all(|id| is_ready(&lab, id)));
    assert_eq!(lab.nodes.next_event(), None);
}

#[test]
fn another_authority_of_kubernetes_restarts_kubelets_and_pods_at_every_step() {
    let mut lab = healthy("1.13.9");
    lab.wait(20_000);
    let new = New::draw("cluster");
    let admin = lab.admin();
    let (old_client, new_client) = (master(&lab), new.peer("system:masters"));
    let status = |lab: &mut Lab, peer: &Peer| match send(
        lab,
        1,
        peer.clone(),
        "GET",
        "/api/v1/nodes",
        &serde_json::Value::Null,
    ) {
        KubeReply::Answer { status, .. } => status,
        _ => 0,
    };
    let secrets = |lab: &mut Lab, peer: &Peer| {
        let path = "/api/v1/namespaces/kube-system/pods/kube-scheduler-node-2";
        let KubeReply::Answer { status: 200, body, .. } =
            send(lab, 1, peer.clone(), "GET", path, &serde_json::Value::Null)
        else {
            return None;
        };
        let pod: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let version =
            pod["metadata"]["annotations"]["talos.dev/secrets-version"].as_str().unwrap().to_owned();
        is_ready_object(&pod).then_some(version)
    };
    assert_eq!((status(&mut lab, &old_client), status(&mut lab, &new_client)), (200, 401));
    for number in 0..3 {
        step(&mut lab, &new, number, &admin);
        let kubelet = resource(&mut lab, 4, "runtime", "Services.v1alpha1.talos.dev", "kubelet");
        assert!(kubelet.is_none_or(|(_, text)| !text.contains("healthy: true")), "the kubelet starts anew");
        let wanted = (number + 2).to_string();
        lab.until("pods of the new secrets", |lab| secrets(lab, &new_client).as_ref() == Some(&wanted));
        lab.until("nodes that are well", |lab| (1..=4).all(|id| is_ready(lab, id)));
        lab.wait(10_000);
    }
    assert_eq!((status(&mut lab, &old_client), status(&mut lab, &new_client)), (401, 200));
    assert!(get(&mut lab, 1, "/api/v1/nodes").is_none());
    assert!((1..=4).all(|id| is_ready(&lab, id)));
}
