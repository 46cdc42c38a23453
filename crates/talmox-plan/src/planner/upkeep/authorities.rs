//! Authorities that somebody else replaced.
//!
//! A machine that runs with another authority than the secrets have got it from somebody who rotated, as `talosctl rotate-ca`
//! does. To put the old one back machine by machine would cut them off from each other, so they are told of and left alone. A
//! rotation of our own is no exception: what is described for a machine has whichever of the two authorities it signs with, so
//! that any difference is a third one.

use talmox_types::NodeName;
use talmox_types::sabotage::{Defect, sabotaged};

use super::Living;
use crate::planner::Planner;
use crate::{Change, Step};

/// Where a machine configuration has who signs. That of etcd stands there too: nobody replaces it while etcd runs.
const SIGNERS: [&str; 4] = ["machine.ca", "cluster.ca", "cluster.etcd.ca", "KubeAPIServerCAConfig issuingCA"];
/// From 1.14 on a worker has the one it believes first in a list; those behind it are accepted beside it.
const BELIEVED_FIRST: &str = "KubeAPIServerCAConfig acceptedCAs[0]";

/// What to do where a machine may have other secrets than we.
pub(in crate::planner) const OTHER_SECRETS: &str = "if it was configured with other secrets, or its authority was replaced \
     (talosctl rotate-ca), use those: talmox secrets generate --from controlplane.yaml";

/// What to do where all of them have.
fn take_over_secrets() -> Vec<String> {
    vec![
        "take the new secrets over: talosctl -n ADDRESS get machineconfig v1alpha1 -o jsonpath='{.spec}' > controlplane.yaml \
         with the new talosconfig, move the old bundle away, then talmox secrets generate --from controlplane.yaml"
            .to_owned(),
        "if the bundle is an older copy, put the newer one in its place".to_owned(),
    ]
}

impl<'a> Planner<'a> {
    /// Nodes that run with another authority than the secrets have. Where only some nodes are asked for, those count, or all
    /// of them if a machine is to join: it would get the authority nobody believes any more.
    pub(super) fn refuse_other_authorities(&mut self, living: &[Living<'a>]) -> Vec<NodeName> {
        let joins = self.plan.steps.iter().any(|planned| matches!(planned.step, Step::ConfigureNode { .. }));
        let differs = |one: &&Living<'a>| {
            let changes = one.seen.config.as_deref().unwrap_or_default();
            // A worker has no signers: one that is described as another kind of node lacks or gains them all.
            let is_of_its_kind = !changes.iter().any(|change| change.key == "machine.type");
            let counts = joins || self.request.covers(&one.node.name);
            counts && is_of_its_kind && changes.iter().any(replaces_authority)
        };
        let mut names: Vec<NodeName> =
            living.iter().filter(differs).map(|one| one.node.name.clone()).collect();
        names.sort();
        if names.is_empty() || sabotaged(Defect::AuthorityPutBack) {
            return Vec::new();
        }
        let listed = names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", ");
        let problem = format!(
            "{listed}: the authority in the machine configuration is not the one in the secrets. Somebody replaced it, as talosctl \
             rotate-ca does. Nothing is changed: with the old one back, machines and clients would no longer trust each other"
        );
        let mut choices = take_over_secrets();
        if names.len() < living.len() {
            let replace: Vec<String> = names.iter().map(|name| format!("--replace {name}")).collect();
            choices.push(format!(
                "if the others are right, and {listed} came or was away while the authority was replaced: talmox apply {}",
                replace.join(" ")
            ));
        }
        self.refuse(None, problem, choices);
        names
    }
}

/// Whether another authority would take the place of the one a machine has.
fn replaces_authority(change: &Change) -> bool {
    let within = |key: &&str| {
        let rest = change.key.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // What a list loses or gains there is no replacement: a control plane has its signer elsewhere.
    let believes_another = change.key == BELIEVED_FIRST && change.old.is_some() && change.new.is_some();
    SIGNERS.iter().any(within) || believes_another
}
