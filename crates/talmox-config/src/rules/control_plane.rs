//! Control planes: an odd number, and one address to reach them by.

use talmox_types::desired::{Role, Spread};

use super::Subject;
use crate::layers::Member;
use crate::problem::{Code, Problem};
use crate::source::Location;

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let description = subject.description;
    if description.nodes.is_empty() && description.pools.is_empty() {
        let broken = ["nodes", "node_pools"].iter().any(|key| description.cluster.file.broken.contains(key));
        if let Some(top) = description.top
            && !broken
            && !description.nodes_unreadable
        {
            problems.push(
                Problem::error(Code::MissingKey, "the description has no nodes")
                    .at(top, "neither nodes: nor node_pools:")
                    .hint("list them under nodes:, here or in nodes.yaml beside this file"),
            );
        }
        return;
    }
    let controllers: Vec<&Member<'_>> =
        subject.members.iter().filter(|member| member.role == Role::Controller).collect();
    let count = controllers.len();
    let unclear = description.nodes.iter().any(|node| node.broken.contains(&"controller"))
        || description.pools.iter().any(|pool| pool.broken.contains(&"controller"));
    if unclear {
        return;
    }
    if count == 0 {
        none(subject, problems);
    } else if count.is_multiple_of(2) {
        even(&controllers, problems);
    }
    endpoint(subject, &controllers, problems);
    spread(subject, &controllers, problems);
}

/// What makes a member a control plane: its `controller: true`, or itself.
fn place(member: &Member<'_>) -> Option<Location> {
    let node = member.node.map(|node| node.controller.as_ref().map_or(node.location, |at| at.location));
    let pool = member.pool.map(|pool| pool.count.as_ref().map_or(pool.location, |at| at.location));
    node.or(pool)
}

fn none(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let (place, label) = match subject.members.first().and_then(place) {
        Some(first) => (Some(first), "a worker, like all others"),
        None => (subject.description.pools.first().map(|pool| pool.location), "no nodes at all"),
    };
    let Some(place) = place else { return };
    problems.push(
        Problem::error(Code::ControlPlanes, "no node is a control plane")
            .at(place, label)
            .hint("write controller: true on 1, 3 or 5 nodes"),
    );
}

fn even(controllers: &[&Member<'_>], problems: &mut Vec<Problem>) {
    let count = controllers.len();
    let places: Vec<(Location, &Member<'_>)> =
        controllers.iter().filter_map(|member| Some((place(member)?, *member))).collect();
    let Some((last, _)) = places.last() else { return };
    let survives = (count - 1) / 2;
    let mut problem =
        Problem::error(Code::ControlPlanes, format!("control planes come in odd numbers, found {count}")).at(
            *last,
            match survives {
                0 => "two members cannot lose one".to_owned(),
                failures => {
                    format!("{count} members survive the loss of {failures}, no more than {} do", count - 1)
                }
            },
        );
    for (location, member) in places.iter().filter(|(location, _)| location != last) {
        problem = problem.related(*location, member.name.to_string());
    }
    problems.push(problem.hint("use 1, 3 or 5"));
}

fn endpoint(subject: &Subject<'_>, controllers: &[&Member<'_>], problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let settled = ["cluster_api_addr", "cluster_endpoint"].iter().any(|key| file.broken.contains(key))
        || file.cluster_api_addr.is_some()
        || file.cluster_endpoint.is_some();
    let message = match controllers {
        _ if settled => return,
        [] => return,
        [only] if only.node.is_some() => return,
        [_] => "a control plane from a pool has no address yet that could be written down".to_owned(),
        several => format!("{} control planes need an address they share", several.len()),
    };
    let Some(top) = subject.description.top else { return };
    problems.push(
        Problem::error(Code::Endpoint, message).at(top, "a line cluster_api_addr: is missing").hint(
            "cluster_api_addr: a free address of node_cidr, or cluster_endpoint: the URL of a load balancer",
        ),
    );
}

/// Control planes that must be apart and are all tied to hosts, some of them to the same one.
fn spread(subject: &Subject<'_>, controllers: &[&Member<'_>], problems: &mut Vec<Problem>) {
    let Some(spread) = &subject.description.cluster.file.control_plane_spread else { return };
    if spread.value != Spread::Required {
        return;
    }
    for (index, member) in controllers.iter().enumerate() {
        let Some(host) = member.pick(|s| s.host.as_ref()) else { continue };
        let other = controllers[..index]
            .iter()
            .find(|other| other.pick(|s| s.host.as_ref()).is_some_and(|theirs| theirs.value == host.value));
        if let Some(other) = other {
            problems.push(
                Problem::error(
                    Code::ControlPlanes,
                    format!("{} and {} are both tied to {}", other.name, member.name, host.value),
                )
                .at(host.location, "this host for both")
                .related(spread.location, "control planes on distinct hosts")
                .hint("give each a vm_host of its own, leave the host out, or use control_plane_spread: preferred"),
            );
            return;
        }
    }
}
