//! From a description without errors to [`Desired`].

pub(crate) mod cluster;
mod computed;
pub(crate) mod node;
pub(crate) mod vm;

use talmox_types::desired::Desired;

use crate::description::Description;

pub(crate) use computed::Computed;

/// The whole cluster. Only for descriptions in which no rule found an error.
pub(crate) fn resolve(description: &Description) -> Desired {
    let members = description.members();
    Desired {
        name: description.cluster_name(),
        uid: description.cluster.file.cluster_uid.as_ref().map(|at| at.value.clone()),
        proxmox: cluster::proxmox(description),
        network: cluster::network(description, &members),
        talos: cluster::talos(description),
        kubernetes: cluster::kubernetes(description, &members),
        nodes: members.iter().map(|member| node::node(description, member)).collect(),
        templates: Vec::new(),
    }
}
