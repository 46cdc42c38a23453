//! The parts of Kubernetes whose images machine configurations name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use talmox_types::Version;

use crate::Change;

/// A part of Kubernetes, in the order upgrades take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    ApiServer,
    ControllerManager,
    Scheduler,
    Proxy,
    Kubelet,
}

impl Component {
    pub const ALL: [Self; 5] =
        [Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Proxy, Self::Kubelet];
    /// Those a control plane runs as pods of its own.
    pub const PODS: [Self; 3] = [Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// What it is called everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Proxy => "kube-proxy",
            Self::Kubelet => "kubelet",
        }
    }

    /// Where the document with `machine` and `cluster` names its image.
    pub fn place(self) -> &'static str {
        match self {
            Self::ApiServer => "cluster.apiServer.image",
            Self::ControllerManager => "cluster.controllerManager.image",
            Self::Scheduler => "cluster.scheduler.image",
            Self::Proxy => "cluster.proxy.image",
            Self::Kubelet => "machine.kubelet.image",
        }
    }

    /// The document that names it instead, under `image`, in the layout of Talos 1.14.
    pub fn document(self) -> &'static str {
        match self {
            Self::ApiServer => "KubeAPIServerConfig",
            Self::ControllerManager => "KubeControllerManagerConfig",
            Self::Scheduler => "KubeSchedulerConfig",
            Self::Proxy => "KubeProxyConfig",
            Self::Kubelet => "KubeletConfig",
        }
    }

    /// Both places, as the keys of [`SeenNode::images`](crate::SeenNode::images) and of changes name them.
    pub fn keys(self) -> [String; 2] {
        [self.place().to_owned(), format!("{} image", self.document())]
    }

    /// Whose image a change of configuration is about, if it is about one.
    pub fn of_change(change: &Change) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.keys().contains(&change.key))
    }

    /// Its image among those a configuration names.
    pub fn image_in(self, images: &BTreeMap<String, String>) -> Option<&str> {
        self.keys().iter().find_map(|key| images.get(key)).map(String::as_str)
    }
}

/// The version an image's tag says; `-fat` and `-slim` are kinds of image, not of version.
pub fn image_version(image: &str) -> Option<Version> {
    let (_, tag) = image.split('@').next()?.rsplit_once(':')?;
    let kinds = ["-fat", "-slim"];
    let bare = kinds.iter().find_map(|kind| tag.strip_suffix(kind)).unwrap_or(tag);
    Version::parse(bare).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Applies;

    #[test]
    fn images_say_their_version() {
        let version = |image: &str| image_version(image).map(|version| version.to_string());
        assert_eq!(version("registry.k8s.io/kube-apiserver:v1.36.3").as_deref(), Some("1.36.3"));
        assert_eq!(version("localhost:5000/kubelet:v1.36.3-slim@sha256:00").as_deref(), Some("1.36.3"));
        assert_eq!(version("ghcr.io/siderolabs/kubelet:v1.37.0-rc.1-fat").as_deref(), Some("1.37.0-rc.1"));
        assert_eq!(version("localhost:5000/kubelet"), None);
    }

    #[test]
    fn both_layouts_name_the_same_components() {
        let change = |key: &str| Change {
            key: key.to_owned(),
            old: None,
            new: None,
            applies: Applies::Now,
            field: None,
            sub: Vec::new(),
        };
        for component in Component::ALL {
            for key in component.keys() {
                assert_eq!(Component::of_change(&change(&key)), Some(component));
            }
        }
        assert_eq!(Component::of_change(&change("machine.install.image")), None);
    }
}
