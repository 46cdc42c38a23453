//! Names people gave on the command line: each must mean something.

use std::collections::BTreeSet;

use talmox_types::desired::Role;
use talmox_types::{HostName, NodeName};

use super::Planner;
use crate::{Goal, Guest, HostsRequest, NoteKind, Seen};

pub(super) fn check_names(planner: &mut Planner<'_>) {
    let declared: BTreeSet<NodeName> = planner.desired.nodes.iter().map(|node| node.name.clone()).collect();
    let there: BTreeSet<NodeName> = planner.identities.ours().map(|owned| owned.mark.node.clone()).collect();
    let request = planner.request;
    for node in &request.targets {
        // What was to be removed is gone in the end; that is told below.
        if declared.contains(node) || there.contains(node) || request.remove.contains(node) {
            continue;
        }
        if request.goal == Goal::Destroy {
            nothing_to_remove(planner, "--target", node);
        } else {
            planner.refuse(None, format!("--target {node}: there is no such node"), known(&declared));
        }
    }
    if request.goal == Goal::Destroy {
        return;
    }
    for (flag, nodes) in [("--replace", &request.replace), ("--remove", &request.remove)] {
        for node in nodes.iter().filter(|node| !request.covers(node)) {
            let choices = vec![format!("--target {node} as well"), "no --target at all".to_owned()];
            planner.refuse(None, format!("{flag} {node}: it is not among the targets"), choices);
        }
    }
    for node in &request.replace {
        if !declared.contains(node) {
            planner.refuse(
                None,
                format!("--replace {node}: the description has no such node"),
                known(&declared),
            );
        }
    }
    for (node, host) in &request.moves {
        if !declared.contains(node) || !there.contains(node) {
            let problem = format!("--move {node}={host}: there is no VM of such a node");
            planner.refuse(None, problem, known(&there));
        }
    }
    for node in &request.remove {
        if declared.contains(node) {
            let mut choices = vec![
                format!("take {node} out of the description first"),
                format!("talmox apply --replace {node} builds it anew"),
            ];
            if planner.names.get(node.as_str()).is_some_and(|node| node.role == Role::Worker) {
                choices.push(format!(
                    "talmox destroy --target {node} removes its VM; the next apply makes another"
                ));
            }
            planner.refuse(None, format!("--remove {node}: the description still has this node"), choices);
        } else if !there.contains(node) && !planner.is_known(node) {
            nothing_to_remove(planner, "--remove", node);
        }
    }
    gone_hosts(planner);
    tended_hosts(planner);
}

/// A host that is drained or comes back is one Proxmox knows.
fn tended_hosts(planner: &mut Planner<'_>) {
    let observed = planner.observed;
    let HostsRequest { drain, back, .. } = &planner.request.hosts;
    for host in drain.iter().chain(back) {
        match observed.hosts.get(host) {
            Some(seen) if seen.online => {}
            Some(_) => {
                let choices = vec![
                    "wait until it is back".to_owned(),
                    format!("if it never will be: talmox apply --replace NODE --host-gone {host}"),
                ];
                planner.refuse(None, format!("{host} is down"), choices);
            }
            None => {
                let known: Vec<&str> = observed.hosts.keys().map(HostName::as_str).collect();
                let choices = vec![format!("its hosts are {}", known.join(", "))];
                planner.refuse(None, format!("Proxmox has no host {host}"), choices);
            }
        }
    }
}

/// A host that answers is not gone, and one nobody knows has nothing that could be.
fn gone_hosts(planner: &mut Planner<'_>) {
    let observed = planner.observed;
    for host in &planner.request.hosts.gone {
        match observed.hosts.get(host) {
            Some(seen) if seen.online => {
                let problem = format!("--host-gone {host}: Proxmox says that it is online");
                let choices = vec![format!("talmox host drain {host} takes nodes off a host that lives")];
                planner.refuse(None, problem, choices);
            }
            Some(_) => {}
            None => {
                let text = format!("--host-gone {host}: Proxmox has forgotten this host already");
                planner.note(None, NoteKind::Warning, text);
            }
        }
    }
}

/// What is not there is as good as removed: the same command can be run again.
fn nothing_to_remove(planner: &mut Planner<'_>, flag: &str, node: &NodeName) {
    if let Some((host, reason)) = out_of_reach(planner, node) {
        // A destruction says so of everything it cannot reach.
        if planner.request.goal == Goal::Converge {
            planner.wait_for_host(host, node, &reason);
        }
        return;
    }
    let text = format!("{flag} {node}: no VM of this cluster is called that, so there is nothing to remove");
    planner.note(None, NoteKind::Warning, text);
}

/// The host of a VM of this name that could not be read, and why not.
fn out_of_reach(planner: &Planner<'_>, node: &NodeName) -> Option<(HostName, String)> {
    let named = |guest: &&Guest| guest.name.as_deref() == Some(node.as_str()) && !guest.template;
    planner.observed.guests.values().filter(named).find_map(|guest| match &guest.config {
        Seen::Unreadable(reason) => Some((guest.host.clone(), reason.clone())),
        Seen::NotAsked | Seen::Read(_) => None,
    })
}

fn known(names: &BTreeSet<NodeName>) -> Vec<String> {
    if names.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
    vec![format!("one of {}", names.join(", "))]
}
