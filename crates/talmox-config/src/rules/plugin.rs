//! Who brings the network of pods.

use talmox_types::desired::Cni;

use super::Subject;
use crate::problem::{Code, Problem};

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let description = subject.description;
    let file = &description.cluster.file;
    let brings_one = file.bootstrap_manifests.is_some() || file.post_bootstrap.is_some();
    match &file.cni {
        // Talos would bring flannel, and Cilium could not be put in its place without rebuilding nodes.
        None if !file.broken.contains(&"cni") => {
            if let Some(place) = description.cilium {
                problems.push(
                    Problem::error(Code::NetworkPlugin, "there are settings of Cilium, and no cni: pods would get flannel")
                        .at(place, "not read by talmox")
                        .hint("cni: none, and Cilium's manifest in bootstrap_manifests or a program in post_bootstrap; or cni: flannel"),
                );
            }
        }
        Some(cni) if cni.value == Cni::None && !brings_one => problems.push(
            Problem::warning(Code::NetworkPlugin, "nothing described here brings a network for pods")
                .at(cni.location, "nodes stay NotReady until one is installed")
                .hint("its manifest in bootstrap_manifests, or a program in post_bootstrap that installs it"),
        ),
        Some(_) | None => {}
    }
}
