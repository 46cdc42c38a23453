//! What must hold across a description once every value of it is valid by itself.
//!
//! A rule sees everything and reports everything it finds; no rule relies on another having passed.

mod addresses;
mod control_plane;
mod delivery;
mod hardware;
mod identity;
mod networks;
mod pools;
mod proxmox;
mod rank;
mod secrets;
mod versions;

use crate::description::Description;
use crate::layers::Member;
use crate::problem::Problem;

/// Everything a rule looks at.
pub(crate) struct Subject<'d> {
    pub description: &'d Description,
    pub members: Vec<Member<'d>>,
}

/// Applies every rule.
pub(crate) fn check(description: &Description, problems: &mut Vec<Problem>) {
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
        proxmox::check,
        rank::check,
        secrets::check,
    ] {
        rule(&subject, problems);
    }
}
