//! A living cluster, and what may be asked about it.

use std::collections::BTreeSet;

use talmox_plan::{Plan, Request, SeenEtcd, SeenKubernetes};
use talmox_types::NodeName;
use talmox_types::desired::Desired;

use crate::scale::bed::{Bed, described, healthy};

/// A cluster that has come up and is well.
pub(crate) async fn living(seed: u64, controllers: usize, workers: usize) -> Bed {
    of(Bed::new(seed, described(controllers, workers, ""))).await
}

pub(crate) async fn of(bed: Bed) -> Bed {
    let up = bed.converge(&healthy(), 1).await;
    up.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    bed.is_healthy().await;
    bed
}

pub(crate) fn names(names: &[&str]) -> BTreeSet<NodeName> {
    names.iter().map(|name| NodeName::parse(name).unwrap()).collect()
}

pub(crate) fn removing(nodes: &[&str]) -> Request {
    Request { remove: names(nodes), ..healthy() }
}

pub(crate) fn replacing(nodes: &[&str]) -> Request {
    Request { replace: names(nodes), ..healthy() }
}

/// A description without these nodes.
pub(crate) fn without(desired: &Desired, nodes: &[&str]) -> Desired {
    let mut fewer = desired.clone();
    fewer.nodes.retain(|node| !nodes.contains(&node.name.as_str()));
    fewer
}

/// The steps of a plan, in order: `cp-3/retire`.
pub(crate) fn steps(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.id.as_str()).collect()
}

pub(crate) fn problems(plan: &Plan) -> Vec<&str> {
    plan.refusals.iter().map(|refusal| refusal.problem.as_str()).collect()
}

/// A run that must succeed.
pub(crate) async fn carried_out(bed: &Bed, request: &Request, number: u32) {
    let end = bed.converge(request, number).await;
    end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
}

/// Names etcd and Kubernetes know, as the first control plane tells.
pub(crate) async fn known(bed: &Bed) -> (BTreeSet<String>, BTreeSet<String>) {
    let observed = bed.look(&healthy()).await;
    let members = observed.talos.values().find_map(|machine| match &machine.configured()?.etcd {
        Some(SeenEtcd::Member { members: Some(members), .. }) => Some(members.iter().cloned().collect()),
        _ => None,
    });
    let SeenKubernetes::Answers(cluster) = &observed.kubernetes else { panic!("{:?}", observed.kubernetes) };
    (members.unwrap_or_default(), cluster.nodes.keys().cloned().collect())
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
