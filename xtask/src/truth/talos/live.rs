//! Changing the configuration of a machine that runs, as somebody did whose bytes were not kept.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use secrecy::ExposeSecret as _;
use talmox_machine::pki::KeyKind;
use talmox_machine::secrets::Authority;
use talmox_machine::{Map, Source, SystemRandom, Time, Value, print, read_values};

use talmox_proto::Message as _;
use talmox_proto::definitions::MachineConfig;
use talmox_proto::machine::{ApplyConfigurationRequest, apply_configuration_request::Mode};
use talmox_proto::resource::{GetRequest, GetResponse};
use talmox_sim_talos::{ApiReply, KubeCall, KubeReply, Listener, Peer};

use super::file::Call;
use super::lab::{EPOCH, Lab};
use super::sent::Change;

/// What stands for a network plugin of the hosts.
const NETWORK: &[u8] = br#"{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "host-network"},
"spec": {"selector": {"matchLabels": {"app": "host"}}, "template": {"metadata": {"labels": {"app": "host"}}, "spec": {
"nodeSelector": {"nobody": ""}, "containers": [{"name": "none", "image": "none"}],
"volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]}}}}"#;

/// An authority in the making: certificate and key in base64, and the certificate's bytes.
#[derive(Clone)]
pub(super) struct NewAuthority {
    certificate: String,
    key: String,
    pub(super) der: Vec<u8>,
}

impl NewAuthority {
    pub(super) fn draw(section: &str, now: i64) -> anyhow::Result<Self> {
        let (name, kind) = if section == "machine" {
            ("talos", KeyKind::Ed25519)
        } else {
            ("kubernetes", KeyKind::EcdsaP256)
        };
        let times = (Time::from_unix(now), Time::from_unix(now + 315_360_000));
        let authority = Authority::generate(name, kind, times, &mut SystemRandom)?;
        let pem = authority.certificate.pem();
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        Ok(Self {
            certificate: STANDARD.encode(pem),
            key: STANDARD.encode(authority.key.pem().expose_secret()),
            der: STANDARD.decode(body)?,
        })
    }
}

/// A configuration with one change in it.
pub(super) fn changed(
    text: &str,
    change: &Change,
    authority: Option<&NewAuthority>,
) -> anyhow::Result<String> {
    let mut documents = read_values(Source { name: "config", text })?;
    let first = documents.iter_mut().find(|one| one.at(&["machine"]).is_some());
    if let Some(first) = first.and_then(Value::as_map_mut) {
        match change {
            Change::Image(path, image) => set(first, path, Value::text(image.clone())),
            Change::Argument(path, argument) => {
                let (key, value) = argument.split_once('=').unwrap_or((argument, "0"));
                set(first, &[path.as_slice(), &[key]].concat(), Value::text(value));
            }
            Change::Authority { section, step } => {
                if let (Some(authority), Some(section)) = (authority, section_of(first, section)) {
                    rotate(section, *step, authority);
                }
            }
            Change::Back => {}
        }
    }
    let texts: Vec<String> = documents.iter().map(print).collect();
    Ok(texts.join("---\n"))
}

fn section_of<'a>(map: &'a mut Map, name: &str) -> Option<&'a mut Map> {
    map.get_mut(name)?.as_map_mut()
}

fn set(map: &mut Map, path: &[&str], value: Value) {
    match path {
        [] => {}
        [key] => map.set(*key, value),
        [key, rest @ ..] => {
            if map.get(key).and_then(Value::as_map).is_none() {
                map.set(*key, Value::Map(Map::new()));
            }
            if let Some(inner) = section_of(map, key) {
                set(inner, rest, value);
            }
        }
    }
}

/// The steps of `talosctl rotate-ca`. Whoever has no key of the old authority gets none of the new one.
fn rotate(section: &mut Map, step: usize, new: &NewAuthority) {
    let entry = |certificate: &str| Value::Map(Map::new().with("crt", certificate));
    let accepted = section.get("acceptedCAs").and_then(Value::as_list).unwrap_or_default();
    let mut accepted: Vec<Value> = accepted.to_vec();
    let own = |key: &str| section.get("ca").and_then(|ca| ca.at(&[key])).and_then(Value::as_text);
    let (old, has_key) =
        (own("crt").unwrap_or_default().to_owned(), own("key").is_some_and(|key| !key.is_empty()));
    let without = |accepted: &mut Vec<Value>, certificate: &str| {
        accepted.retain(|one| one.at(&["crt"]).and_then(Value::as_text) != Some(certificate));
    };
    match step {
        0 => accepted.push(entry(&new.certificate)),
        1 => {
            without(&mut accepted, &new.certificate);
            accepted.push(entry(&old));
            let key = if has_key { new.key.as_str() } else { "" };
            section.set("ca", Map::new().with("crt", new.certificate.as_str()).with("key", key));
        }
        // The old one is the last that was accepted.
        _ => drop(accepted.pop()),
    }
    if accepted.is_empty() {
        section.remove("acceptedCAs");
    } else {
        section.set("acceptedCAs", Value::List(accepted));
    }
}

impl Lab {
    /// The configuration that is in force.
    fn config(&mut self, address: IpAddr) -> Option<String> {
        let request = GetRequest {
            namespace: "config".to_owned(),
            r#type: "MachineConfigs.config.talos.dev".to_owned(),
            id: "v1alpha1".to_owned(),
            ..GetRequest::default()
        };
        let reply = self.ask(address, self.admin(), talmox_proto::resource::state::GET.path, &request);
        let ApiReply::Done { messages, .. } = reply else { return None };
        let reply = GetResponse::decode(messages.first()?.clone()).ok()?;
        let config = MachineConfig::decode(reply.resource?.spec?.proto_spec.as_slice()).ok()?;
        String::from_utf8(config.yaml_marshalled).ok()
    }

    /// Changes something in the configuration of a machine that runs.
    pub(super) fn change(&mut self, address: IpAddr, change: &Change, call: &Call) {
        let Some(live) = self.config(address) else { return };
        let authority = self.rotation(change, &call.group);
        let text = match change {
            Change::Back => self.former.get(&address).cloned(),
            Change::Image(..) | Change::Argument(..) | Change::Authority { .. } => {
                changed(&live, change, authority.as_ref()).ok()
            }
        };
        let Some(text) = text else { return };
        let dry_run = call.request["dry_run"] == true;
        let request = ApplyConfigurationRequest {
            data: text.into_bytes(),
            mode: Mode::NoReboot.into(),
            dry_run,
            ..ApplyConfigurationRequest::default()
        };
        let path = talmox_proto::machine::machine_service::APPLY_CONFIGURATION.path;
        self.ask(address, self.admin(), path, &request);
        if !dry_run {
            self.former.insert(address, live);
        }
        // From the last step on, nobody takes certificates of the old one.
        if let (Change::Authority { section: "machine", step: 1.. }, Some(new)) = (change, authority) {
            self.authority = new.der;
        }
    }

    fn rotation(&mut self, change: &Change, group: &str) -> Option<NewAuthority> {
        let Change::Authority { section, .. } = change else { return None };
        let key = (group.to_owned(), *section);
        if !self.rotated.contains_key(&key) {
            let now = i64::try_from((EPOCH + self.now()) / 1000).unwrap_or_default();
            self.rotated.insert(key.clone(), NewAuthority::draw(section, now).ok()?);
        }
        self.rotated.get(&key).cloned()
    }

    /// Where authorities changed, a new machine gets what one of its kind has.
    pub(super) fn live_config(&mut self, role: &str) -> Option<String> {
        if self.rotated.is_empty() {
            return None;
        }
        let all: Vec<IpAddr> = self.machines.keys().copied().collect();
        all.into_iter().find_map(|one| self.config(one).filter(|_| self.role(one).as_deref() == Some(role)))
    }

    /// The configurations bring no network plugin; the hosts had one.
    pub(super) fn give_network(&mut self, address: IpAddr) {
        let Some(machine) = self.machines.get(&address).map(|machine| machine.id) else { return };
        if self.networked.contains(&machine) || self.nodes.kube_listener(address) == Listener::Closed {
            return;
        }
        let name = "apps/v1/namespaces/kube-system/daemonsets/host-network";
        let call = KubeCall {
            to: address,
            peer: Peer::Certificate {
                authority: self.kubernetes_authority.clone(),
                organisations: vec!["system:masters".to_owned()],
            },
            method: "PATCH".to_owned(),
            path: format!("/apis/{name}"),
            query: vec![("fieldManager".to_owned(), "host".to_owned())],
            content_type: Some("application/apply-patch+yaml".to_owned()),
            body: Bytes::from_static(NETWORK),
        };
        let now = self.now();
        if matches!(self.nodes.kube(&call, now), KubeReply::Answer { status: 200 | 201, .. }) {
            self.networked.insert(machine);
        }
    }
}
