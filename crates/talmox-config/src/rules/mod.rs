//! What must hold across a description once every value of it is valid by itself.
//!
//! A rule sees everything and reports everything it finds; no rule relies on another having passed.

mod addresses;
mod backup;
mod control_plane;
mod delivery;
mod files;
mod hardware;
mod identity;
mod networks;
mod plugin;
mod pools;
mod proxmox;
mod rank;
mod routes;
mod secrets;
mod versions;

use crate::description::Description;
use crate::layers::Member;
use crate::problem::{Code, Problem};

/// Everything a rule looks at.
pub(crate) struct Subject<'d> {
    pub description: &'d Description,
    pub members: Vec<Member<'d>>,
}

/// More nodes than any Kubernetes cluster has. A slip in a pool's count must not eat the memory.
const MAX_NODES: usize = 20_000;

/// Applies every rule.
pub(crate) fn check(description: &Description, problems: &mut Vec<Problem>) {
    if let Some(problem) = too_many(description) {
        problems.push(problem);
        return;
    }
    let subject = Subject { description, members: description.members() };
    for rule in [
        identity::check,
        addresses::check,
        networks::check,
        pools::check,
        control_plane::check,
        versions::check,
        hardware::check,
        delivery::check,
        routes::check,
        files::check,
        plugin::check,
        backup::check,
        proxmox::check,
        rank::check,
        secrets::check,
    ] {
        rule(&subject, problems);
    }
    // A value that came by several aliases is wrong in one place.
    let mut seen = std::collections::HashSet::new();
    problems.retain(|problem| {
        let Some(location) = problem.location() else { return true };
        seen.insert((location, problem.code, problem.message.clone()))
    });
}

fn too_many(description: &Description) -> Option<Problem> {
    let counts = description.pools.iter().filter_map(|pool| pool.count.as_ref());
    let total =
        counts.fold(description.nodes.len(), |sum, count| sum.saturating_add(count.value.to::<usize>()));
    let place = description.pools.first().map(|pool| pool.location).or(description.top)?;
    (total > MAX_NODES).then(|| {
        Problem::error(
            Code::OutOfRange,
            format!("{total} nodes are more than the {MAX_NODES} a description may have"),
        )
        .at(place, "nothing further was checked")
    })
}
