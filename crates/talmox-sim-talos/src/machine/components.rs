//! What a configuration makes the control plane's pods and the kubelet from, and which of them another one makes anew.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use talmox_machine::{Config, Document, Value};

/// The static pods of a control plane.
pub(crate) const PODS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// One of them, or the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Component {
    pub(crate) image: String,
    /// Stands for everything else it is made from.
    rest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Components {
    pub(crate) api_server: Component,
    pub(crate) controller_manager: Component,
    pub(crate) scheduler: Component,
    pub(crate) kubelet: Component,
    /// Stands for the authorities, keys and names the pods' certificates are made from.
    secrets: String,
    /// Stands for the authorities of Talos.
    machine_secrets: String,
    /// Stands for the authorities a kubelet believes.
    trust: String,
}

/// How often each of them became another since the machine booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions {
    api_server: u64,
    controller_manager: u64,
    scheduler: u64,
    pub(crate) kubelet: u64,
    pub(crate) secrets: u64,
    pub(crate) machine_secrets: u64,
}

/// What another configuration makes anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewal {
    pub(crate) pods: Vec<&'static str>,
    pub(crate) kubelet: bool,
}

impl Default for Versions {
    fn default() -> Self {
        Self {
            api_server: 1,
            controller_manager: 1,
            scheduler: 1,
            kubelet: 1,
            secrets: 1,
            machine_secrets: 1,
        }
    }
}

impl Versions {
    pub(crate) fn pod(&self, name: &str) -> u64 {
        match name {
            "kube-apiserver" => self.api_server,
            "kube-scheduler" => self.scheduler,
            _ => self.controller_manager,
        }
    }

    /// The versions after this, where these were before.
    pub(crate) fn after(self, before: &Components, now: &Components) -> Self {
        let count = |version: u64, same: bool| version + u64::from(!same);
        Self {
            api_server: count(self.api_server, before.api_server == now.api_server),
            controller_manager: count(
                self.controller_manager,
                before.controller_manager == now.controller_manager,
            ),
            scheduler: count(self.scheduler, before.scheduler == now.scheduler),
            kubelet: count(self.kubelet, before.kubelet == now.kubelet),
            secrets: count(self.secrets, before.secrets == now.secrets),
            machine_secrets: count(self.machine_secrets, before.machine_secrets == now.machine_secrets),
        }
    }
}

impl Components {
    pub(crate) fn read(config: &Config, first: &Document) -> Self {
        let version = super::settings::kubernetes_version(config, first);
        let component = |key: &str, kind: &str, name: &str| {
            let section = first.at(&["cluster", key]);
            let document = config.document(kind).map(Document::to_value);
            let image = [section, document.as_ref()].into_iter().flatten().find_map(image_of);
            Component {
                image: image.unwrap_or_else(|| format!("registry.k8s.io/{name}:{version}")),
                rest: digest([section, document.as_ref()], &["image", "certSANs", "disabled"]),
            }
        };
        let section = first.at(&["machine", "kubelet"]);
        let document = config.document("KubeletConfig").map(Document::to_value);
        let named = [section, document.as_ref()].into_iter().flatten().find_map(image_of);
        let kubelet = Component {
            image: named.unwrap_or_else(|| format!("ghcr.io/siderolabs/kubelet:{version}")),
            rest: digest([section, document.as_ref()], &["image"]),
        };
        let documents: Vec<Value> = ["KubeAPIServerCAConfig", "KubeAggregatorCAConfig"]
            .into_iter()
            .flat_map(|kind| config.of_kind(kind).map(Document::to_value))
            .collect();
        let cluster = |key| first.at(&["cluster", key]);
        let trusted = [cluster("ca"), cluster("acceptedCAs")];
        let rest =
            ["aggregatorCA", "serviceAccount", "secretboxEncryptionSecret", "controlPlane"].map(cluster);
        let sans = first.at(&["cluster", "apiServer", "certSANs"]);
        let all = trusted.into_iter().chain(rest).chain([sans]).chain(documents.iter().map(Some));
        let machine = |key| first.at(&["machine", key]);
        Self {
            api_server: component("apiServer", "KubeAPIServerConfig", PODS[0]),
            controller_manager: component("controllerManager", "KubeControllerManagerConfig", PODS[1]),
            scheduler: component("scheduler", "KubeSchedulerConfig", PODS[2]),
            kubelet,
            secrets: digest(all, &[]),
            machine_secrets: digest([machine("ca"), machine("acceptedCAs")], &[]),
            trust: digest(trusted.into_iter().chain(documents.iter().map(Some)), &["key"]),
        }
    }

    pub(crate) fn pod(&self, name: &str) -> &Component {
        match name {
            "kube-apiserver" => &self.api_server,
            "kube-scheduler" => &self.scheduler,
            _ => &self.controller_manager,
        }
    }

    /// What another configuration makes anew; other secrets are for all of them.
    pub(crate) fn renewed(&self, now: &Self) -> Renewal {
        let pods =
            PODS.into_iter().filter(|name| self.secrets != now.secrets || self.pod(name) != now.pod(name));
        Renewal { pods: pods.collect(), kubelet: self.kubelet != now.kubelet || self.trust != now.trust }
    }
}

impl Component {
    /// The version an image is of: its tag, without what kind of image it is.
    pub(crate) fn version_of(image: &str) -> &str {
        let bare = image.split('@').next().unwrap_or_default();
        let tag = bare.rsplit_once(':').map(|(_, tag)| tag).unwrap_or_default();
        tag.split('-').next().unwrap_or_default()
    }
}

fn image_of(section: &Value) -> Option<String> {
    let image = section.at(&["image"]).and_then(Value::as_text)?;
    (!image.is_empty()).then(|| image.to_owned())
}

/// Stands for parts of a configuration, in whatever order their keys were written. Keys of the first level may be left out.
fn digest<'a>(parts: impl IntoIterator<Item = Option<&'a Value>>, without: &[&str]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Some(Value::Map(map)) => {
                write_map(map.iter().filter(|(key, _)| !without.contains(key)), &mut text);
            }
            Some(other) => write(other, &mut text),
            None => {}
        }
        text.push('\n');
    }
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Map(map) => write_map(map.iter(), out),
        Value::List(items) => {
            out.push('[');
            for item in items {
                write(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Octal(_)
        | Value::Float(_)
        | Value::Text(_) => out.push_str(&talmox_machine::print(value)),
    }
}

fn write_map<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>, out: &mut String) {
    let mut entries: Vec<(&str, &Value)> = entries.collect();
    entries.sort_by_key(|(key, _)| *key);
    out.push('{');
    for (key, value) in entries {
        out.push_str(key);
        out.push(':');
        write(value, out);
        out.push(',');
    }
    out.push('}');
}
