//! A cluster of one version that is to have another, and what was done to it.

use std::collections::BTreeMap;

use talmox_plan::{Component, Request, SeenKubernetes, SeenMachine, UpkeepRequest};
use talmox_types::desired::{Desired, Role};

use crate::kube::bed::{Bed, described, healthy};

/// Everything, and no snapshot of etcd: what is tested here writes none.
pub(crate) fn wanted() -> Request {
    Request { upkeep: UpkeepRequest { no_snapshot: true, ..UpkeepRequest::default() }, ..healthy() }
}

/// The versions of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Versions {
    pub(crate) talos: &'static str,
    pub(crate) contract: &'static str,
    pub(crate) kubernetes: &'static str,
}

pub(crate) const PATCH: (&str, &str) = ("1.36.3", "1.36.4");

pub(crate) fn of(controllers: usize, workers: usize, versions: Versions, more: &str) -> Desired {
    let Versions { talos, contract, kubernetes } = versions;
    let lines = format!(
        "talos_version: {talos}\nkubernetes_version: {kubernetes}\ntalos_contract: \"{contract}\"\n{more}"
    );
    described(controllers, workers, &lines)
}

/// The usual Talos with that Kubernetes.
pub(crate) fn usual(controllers: usize, workers: usize, kubernetes: &'static str) -> Desired {
    of(controllers, workers, Versions { talos: "1.13.9", contract: "1.13", kubernetes }, "")
}

/// A cluster that was brought up as described, and is described anew.
pub(crate) async fn brought_up(seed: u64, before: Desired, after: Desired) -> Bed {
    let mut bed = Bed::new(seed, before);
    bed.converge(&wanted(), 1).await.unwrap_or_else(|error| panic!("{error}"));
    bed.desired = after;
    bed
}

/// Calls that tell a machine or Kubernetes to do something, other than to take a configuration, since the call of that number. Leases come and go.
pub(crate) fn writes(bed: &Bed, since: usize) -> Vec<String> {
    let log = bed.lab.calls();
    let telling = ["ImagePull", "Pull", "Reboot", "Upgrade", "Reset", "Bootstrap", "ServiceRestart"];
    let writes = log.iter().skip(since).filter(|call| match call.method {
        "CALL" => telling.iter().any(|name| call.path.ends_with(&format!("/{name}"))),
        "GET" => false,
        _ => !call.path.contains("/leases") && !call.path.contains("dryRun=All"),
    });
    writes.map(|call| format!("{} {} {}", call.host, call.method, call.path)).collect()
}

/// Which configuration each machine is at: what is only judged counts for nothing.
pub(crate) fn configurations(bed: &Bed) -> BTreeMap<String, u64> {
    let nodes = bed.lab.nodes(|nodes| serde_json::to_value(&*nodes).unwrap());
    let machines = nodes["machines"].as_object().unwrap();
    let version = |machine: &serde_json::Value| machine.pointer("/run/active/version")?.as_u64();
    machines.iter().filter_map(|(id, machine)| Some((id.clone(), version(machine)?))).collect()
}

/// How often each machine was given another configuration since then.
pub(crate) fn applied(bed: &Bed, since: &BTreeMap<String, u64>) -> Vec<u64> {
    let now = configurations(bed);
    since.iter().filter_map(|(id, before)| Some(now.get(id)? - before)).collect()
}

/// Every part of every node runs this version, and is told to.
pub(crate) async fn runs(bed: &Bed, version: &str) {
    let observed = bed.look(&wanted()).await;
    let SeenKubernetes::Answers(cluster) = &observed.kubernetes else { panic!("{:?}", observed.kubernetes) };
    let tag = format!(":v{version}");
    for node in &bed.desired.nodes {
        let Some(SeenMachine::Configured(seen)) = observed.talos.get(&node.name) else {
            panic!("{}", node.name)
        };
        assert_eq!(seen.config, Some(Vec::new()), "{}", node.name);
        assert_eq!(cluster.nodes[node.name.as_str()].version, format!("v{version}"));
        let kubelet = Component::Kubelet.image_in(&seen.images);
        assert!(kubelet.is_some_and(|image| image.ends_with(&tag)), "{}: {kubelet:?}", node.name);
        if node.role == Role::Controller {
            for component in Component::PODS {
                let image = &cluster.pods[&component][node.name.as_str()];
                assert!(image.ends_with(&tag), "{} of {}: {image}", component.name(), node.name);
            }
        }
    }
    if bed.desired.kubernetes.kube_proxy {
        assert!(cluster.proxy.as_ref().is_some_and(|image| image.ends_with(&tag)), "{:?}", cluster.proxy);
    }
}
