//! The bring-ups that are disturbed.

use talmox_test::product::{Asked, kinds};
use talmox_test::thorough::runtime;

use super::cases::kind;
use super::mishaps::Layer;
use crate::bringup::bed::{Bed, described, healthy};

const SEED: u64 = 71;

/// A bring-up, and how it goes undisturbed.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    bed: fn() -> Bed,
    /// The kinds of calls to nodes it takes.
    pub(crate) asked: Vec<Asked<(Layer, String)>>,
}

impl Scenario {
    fn of(name: &'static str, bed: fn() -> Bed) -> Self {
        let asked = runtime().block_on(async {
            let bed = bed();
            let end = bed.attempt(&healthy(), 0xa).await;
            end.unwrap_or_else(|stopped| panic!("{name}: {stopped:?}"));
            kinds(&bed.lab.calls(), kind)
        });
        Self { name, bed, asked }
    }

    pub(crate) fn bed(&self) -> Bed {
        (self.bed)()
    }
}

pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario::of("three and one", three_and_one),
        Scenario::of("handed over", handed_over),
        Scenario::of("by drive", by_drive),
    ]
}

/// Control planes that join, and a worker.
pub(crate) fn three_and_one() -> Bed {
    Bed::new(SEED, described(3, 1, ""))
}

/// With manifests and a program of the user's: what is written to Kubernetes.
fn handed_over() -> Bed {
    let more = "cni: none\nbootstrap_manifests: [cni.yaml]\npost_bootstrap: [flux, bootstrap]";
    let mut bed = Bed::new(SEED, described(1, 0, more));
    let plugin = "apiVersion: v1\nkind: Namespace\nmetadata: {name: cni}\n---\n\
        apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cni, namespace: kube-system, labels: {k8s-app: cni}}\n\
        spec:\n\x20 selector: {matchLabels: {k8s-app: cni}}\n\x20 template:\n\x20   metadata: {labels: {k8s-app: cni}}\n\
        \x20   spec:\n\x20     hostNetwork: true\n\x20     containers: [{name: agent, image: cni}]\n\
        \x20     volumes: [{name: cni, hostPath: {path: /etc/cni/net.d}}]\n";
    bed.handed.manifests.insert("cni.yaml".to_owned(), plugin.to_owned());
    bed
}

/// The configuration comes on a drive, which goes once the machine answers.
fn by_drive() -> Bed {
    Bed::new(SEED, described(1, 1, "config_delivery: cidata"))
}
