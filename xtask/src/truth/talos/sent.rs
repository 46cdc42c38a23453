//! Configurations whose bytes were not kept: what was changed by them, from what else the recording tells.
//!
//! `talosctl` reads a node's configuration, changes one thing and sends it back. Which thing, the calls around it say: what it
//! watches at the node, which images it had pulled, whose secrets it read before. Others wrote it into the note.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value as Json;

use super::file::Call;

/// What a configuration changed in the one that was in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The image at a path.
    Image(Vec<&'static str>, String),
    /// An argument of the program at a path.
    Argument(Vec<&'static str>, String),
    /// The next step of a change of authorities, counted from 0: accepted, signing, alone.
    Authority { section: &'static str, step: usize },
    /// Back to what was there before the last one.
    Back,
}

/// Where the images of components are.
const COMPONENTS: [(&str, &str, [&str; 3]); 3] = [
    ("APIServerConfigs", "kube-apiserver", ["cluster", "apiServer", "image"]),
    ("ControllerManagerConfigs", "kube-controller-manager", ["cluster", "controllerManager", "image"]),
    ("SchedulerConfigs", "kube-scheduler", ["cluster", "scheduler", "image"]),
];

/// Whom a call is about.
pub(super) fn target(call: &Call) -> Option<IpAddr> {
    let named = call.values("node").next().and_then(|text| text.parse().ok());
    named.or_else(|| call.address())
}

/// Whether a call is one of `talosctl`'s own.
pub(super) fn by_talosctl(call: &Call) -> bool {
    call.note() == "sent by talosctl"
}

/// Whether the recordings of a file stand in the order in which calls began; others are in the order in which they ended.
pub(super) fn in_order_of_beginning(calls: &[Call]) -> bool {
    calls.iter().any(by_talosctl)
}

/// The changes of a file, by the numbers of the calls.
pub(super) fn changes(calls: &[Call]) -> BTreeMap<usize, Change> {
    let mut found = BTreeMap::new();
    for (number, call) in
        calls.iter().enumerate().filter(|(_, call)| call.method.ends_with("/ApplyConfiguration"))
    {
        let earlier: Vec<&Call> = calls[..number].iter().filter(|other| other.group == call.group).collect();
        let change = if by_talosctl(call) { of_talosctl(call, &earlier) } else { of_note(call.note()) };
        if let Some(change) = change {
            found.insert(number, change);
        }
    }
    found
}

fn kind_of(call: &Call) -> &str {
    call.request["type"].as_str().unwrap_or_default()
}

fn of_talosctl(call: &Call, earlier: &[&Call]) -> Option<Change> {
    let own: Vec<&Call> = earlier.iter().copied().filter(|one| by_talosctl(one)).collect();
    for (kind, section) in [("OSRootSecrets", "machine"), ("KubernetesRootSecrets", "cluster")] {
        if own.iter().any(|one| kind_of(one).starts_with(kind)) {
            let applied =
                |one: &&&Call| one.method.ends_with("/ApplyConfiguration") && target(one) == target(call);
            return Some(Change::Authority { section, step: own.iter().filter(applied).count() });
        }
    }
    // The configuration was read just before; what was looked at before that is what changes.
    let before = own.len().checked_sub(2).map(|at| own[at]).filter(|one| target(one) == target(call));
    let kind = before.map(kind_of).unwrap_or_default();
    let component = COMPONENTS.iter().find(|(watched, ..)| kind.starts_with(watched));
    let (name, path) = match component {
        Some((_, name, path)) => (*name, path.to_vec()),
        None if kind.starts_with("KubeletSpecs") => ("kubelet", vec!["machine", "kubelet", "image"]),
        None => ("kube-proxy", vec!["cluster", "proxy", "image"]),
    };
    let image = pulled(&own, if name == "kube-proxy" { "kube-apiserver" } else { name })?;
    Some(Change::Image(
        path,
        image.replace("kube-apiserver", if name == "kube-proxy" { name } else { "kube-apiserver" }),
    ))
}

/// What was asked for, by the name an image got when it was there.
pub(super) fn pulled_names(calls: &[Call]) -> BTreeMap<String, String> {
    let pulls = calls.iter().filter(|call| call.method.ends_with("ImageService/Pull"));
    let names = pulls.filter_map(|call| {
        let name = call.stream()?.last()?.pointer("/msg/name")?.as_str()?;
        Some((name.to_owned(), call.request["image_ref"].as_str()?.to_owned()))
    });
    names.collect()
}

/// Groups in which a machine says that it boots, and never that it runs.
pub(super) fn only_booting(calls: &[Call]) -> BTreeSet<String> {
    let says = |words: &str| -> BTreeSet<String> {
        let said = calls.iter().filter(|call| call.reply.to_string().contains(words));
        said.map(|call| call.group.clone()).collect()
    };
    says("stage: booting").difference(&says("stage: running")).cloned().collect()
}

/// The image of that name that was pulled before.
fn pulled(calls: &[&Call], name: &str) -> Option<String> {
    let references = calls.iter().filter_map(|call| call.request["reference"].as_str());
    let mut named = references.filter(|reference| reference.contains(&format!("/{name}:")));
    named.next_back().map(str::to_owned)
}

fn of_note(note: &str) -> Option<Change> {
    if note == "back to the former configuration" {
        return Some(Change::Back);
    }
    let (program, argument) = note.split_once(".extraArgs ")?;
    let path = match program {
        "kubelet" => vec!["machine", "kubelet", "extraArgs"],
        "apiServer" => vec!["cluster", "apiServer", "extraArgs"],
        _ => return None,
    };
    Some(Change::Argument(path, argument.to_owned()))
}

/// Addresses of workers that were called control planes: no etcd was among the services of a node that ran.
pub(super) fn workers(calls: &[Call]) -> BTreeSet<IpAddr> {
    let services =
        calls.iter().filter(|call| kind_of(call) == "Services.v1alpha1.talos.dev" && call.metadata.is_none());
    let whole = services.filter(|call| call.state == "running" && call.request.get("id").is_none());
    let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
    for (address, reply) in whole.filter_map(|call| Some((call.address()?, &call.reply))) {
        let ids = ids(reply);
        let place = if ids.contains("etcd") { &mut with } else { &mut without };
        if ids.contains("kubelet") {
            place.insert(address);
        }
    }
    without.difference(&with).copied().collect()
}

fn ids(reply: &Json) -> BTreeSet<&str> {
    let messages = reply["stream"].as_array().into_iter().flatten();
    let events = messages.filter_map(|one| one["msg"]["event"].as_array()).flatten();
    events.filter_map(|event| event["resource"]["metadata"]["id"].as_str()).collect()
}
